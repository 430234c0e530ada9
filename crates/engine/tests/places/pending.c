// Signals (by number, first argument) that are pending and blocked stay so across execve.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    sigset_t set, pending; sigemptyset(&set); int n = 0, s[4];
    for (char *c = argv[1]; *c && n < 4; ) { s[n] = strtol(c, &c, 10); sigaddset(&set, s[n++]); if (*c) c++; }
    if (argc < 3) { sigprocmask(SIG_BLOCK, &set, NULL); for (int i = 0; i < n; i++) kill(getpid(), s[i]);
        execl(argv[0], argv[0], argv[1], "x", NULL); return 1; }
    sigpending(&pending); for (int i = 0; i < n; i++) printf("%d", sigismember(&pending, s[i]));
    siginfo_t info; struct timespec none = {0, 0};
    for (int i = 0; i <= n; i++) printf(" %d", sigtimedwait(&set, &info, &none)); puts(""); return 0; }
