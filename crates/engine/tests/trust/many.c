/* More threads and processes than there are places to count in, a few at a time: threads that return, threads
   that another one's exit ends, processes, programs, and children that are killed. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *once(void *sum) {
  for (int i = 0; i < 100; i++)
    __atomic_add_fetch((long *)sum, 1, __ATOMIC_RELAXED);
  return 0;
}

static void *for_ever(void *unused) {
  for (;;)
    pause();
  return unused;
}

int main(int argc, char **argv) {
  long sum = 0;
  int rounds = argc > 1 ? atoi(argv[1]) : 0, status;
  if (argc > 2)
    return 9;
  /* "+60": processes only, which makes the count the same every time. */
  int crew = rounds && argv[1][0] != '+' ? 4 : 0;
  for (int i = 0; i < rounds; i++) {
    pthread_t threads[4];
    for (int n = 0; n < crew; n++)
      if (pthread_create(&threads[n], 0, once, &sum))
        return 2;
    for (int n = 0; n < crew; n++)
      pthread_join(threads[n], 0);
    pid_t child = fork();
    if (child == 0) {
      if (i % 4 == 0)
        execl(argv[0], argv[0], "again", "and again", (char *)0);
      if (i % 4 == 1)
        kill(getpid(), SIGKILL);
      /* Most of these are ended before they have begun. */
      if (i % 4 == 2 && crew)
        for (int n = 0; n < 3; n++)
          pthread_create(&threads[n], 0, for_ever, 0);
      _exit(9);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
      return 3;
    if (i % 4 == 1 ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 9)
      return 4;
  }
  if (sum != 100L * crew * rounds)
    return 5;
  puts("good");
  return 0;
}
