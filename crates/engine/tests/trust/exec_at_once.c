/* 700 children wait for one pipe and then replace their program, all at once. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 700 };

int main(int argc, char **argv) {
  int ends[2], good = 0, status;
  char byte;
  if (argc > 1)
    return 7;
  if (pipe(ends))
    return 2;
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    if (child < 0)
      return 3;
    if (child == 0) {
      close(ends[1]);
      if (read(ends[0], &byte, 1) == 0)
        execl(argv[0], argv[0], "again", (char *)0);
      _exit(4);
    }
  }
  close(ends[0]);
  close(ends[1]);
  while (wait(&status) > 0)
    good += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  if (good != CHILDREN)
    return 5;
  puts("good");
  return 0;
}
