/* Limits that a program sets for itself hold for itself: of the address space, of private memory, of
   descriptors; the next program has them, too. And all its memory can be locked. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int check(int resource, rlim_t expected) {
  struct rlimit limit;
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur == expected &&
         limit.rlim_max == expected;
}

static int set(int resource, rlim_t value) {
  struct rlimit limit = {value, value};
  return setrlimit(resource, &limit) == 0 && check(resource, value);
}

static int allocates(size_t bytes) {
  void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return 0;
  munmap(at, bytes);
  return 1;
}

static long status(const char *key) {
  char line[256];
  long value = -1;
  FILE *file = fopen("/proc/self/status", "r");
  if (!file)
    return -1;
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, key, strlen(key)))
      value = atol(line + strlen(key));
  fclose(file);
  return value;
}

/* In a child, which executes this program again to look. */
static int child(int resource, rlim_t value, const char *name) {
  int state;
  char number[24];
  snprintf(number, sizeof number, "%lu", (unsigned long)value);
  pid_t pid = fork();
  if (pid == 0) {
    if (!set(resource, value))
      _exit(20);
    execl("/proc/self/exe", "limits", name, number, (char *)0);
    _exit(21);
  }
  return waitpid(pid, &state, 0) == pid && WIFEXITED(state) ? WEXITSTATUS(state) : 22;
}

int main(int argc, char **argv) {
  const rlim_t space = (rlim_t)300 << 20;
  if (argc > 2) {
    int resource = !strcmp(argv[1], "space") ? RLIMIT_AS : RLIMIT_DATA;
    if (!strcmp(argv[1], "files"))
      return check(RLIMIT_NOFILE, strtoul(argv[2], 0, 10)) ? 0 : 30;
    if (!check(resource, space))
      return 31;
    if (!allocates(16 << 20))
      return 32;
    /* The engine may leave some gigabytes more than the limit says. */
    if (allocates((size_t)16 << 30))
      return 33;
    return set(resource, space / 2) ? 0 : 34;
  }
  int failed = child(RLIMIT_AS, space, "space");
  if (!failed)
    failed = child(RLIMIT_DATA, space, "data");
  /* Room for one more than what it was given. */
  int next = dup(0);
  close(next);
  if (!failed)
    failed = child(RLIMIT_NOFILE, next + 1, "files");
  if (failed)
    return failed;
  if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
    /* Natively it is refused just the same (RLIMIT_MEMLOCK). */
    if (errno != ENOMEM && errno != EPERM)
      return 10;
  } else {
    long before = status("VmLck:");
    char *more = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
      return 11;
    long after = status("VmLck:");
    if (before <= 0 || after - before < 1024 || after > 100 << 10 || status("VmRSS:") > 200 << 10)
      return 12;
    if (munlockall() || status("VmLck:") != 0)
      return 13;
  }
  puts("good");
  return 0;
}
