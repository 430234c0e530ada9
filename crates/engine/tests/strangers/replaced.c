/* Signals that come at any moment of an execve: the next program blocks none of them. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void on(int signal) {}
int main(int count, char **words) {
    if (count > 1) {
        sigset_t mask;
        int blocked = 0;
        sigprocmask(SIG_BLOCK, 0, &mask);
        for (int i = 1; i < 64; i++) blocked += sigismember(&mask, i) == 1;
        return blocked;
    }
    for (int i = 0; i < 12; i++) {
        int status, child = fork();
        if (!child) {
            signal(SIGURG, on);
            for (volatile int k = 0; k < i * 3000; k++);
            execl("/proc/self/exe", "x", "blocked", (char *)0);
            _exit(99);
        }
        for (int k = 0; !waitpid(child, &status, WNOHANG); k++) {
            kill(child, SIGURG);
            usleep(i % 3 ? 30 : 2000);
        }
        printf("%x\n", status);
    }
    return 0;
}
