// Signals of faults' kind, sent while they are blocked, stay pending, and can be waited for.
#include "code.h"
#include <poll.h>
#include <sys/signalfd.h>

static volatile int handled;
static void handler(int signal) { handled = signal; }

int main(void) {
    int signals[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGTRAP};
    for (int at = 0; at < 5; at++) {
        int number = signals[at];
        sigset_t set, pending, old;
        sigemptyset(&set);
        sigaddset(&set, number);
        sigprocmask(SIG_BLOCK, &set, &old);
        siginfo_t info;
        struct timespec none = {0, 0};
        NEED(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
        NEED(kill(getpid(), number) == 0);
        NEED(sigpending(&pending) == 0 && sigismember(&pending, number));
        NEED(sigtimedwait(&set, &info, &none) == number);
        NEED(info.si_signo == number && info.si_code == SI_USER && info.si_pid == getpid());
        NEED(sigpending(&pending) == 0 && !sigismember(&pending, number));
        NEED(raise(number) == 0 && raise(number) == 0);
        NEED(sigwaitinfo(&set, &info) == number && info.si_code == SI_TKILL);
        NEED(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
        union sigval value = {.sival_int = 4711};
        NEED(sigqueue(getpid(), number, value) == 0);
        int fd = signalfd(-1, &set, SFD_NONBLOCK);
        NEED(fd >= 0);
        struct pollfd ready = {fd, POLLIN, 0};
        NEED(poll(&ready, 1, 1000) == 1);
        struct signalfd_siginfo got;
        NEED(read(fd, &got, sizeof got) == sizeof got);
        NEED(got.ssi_signo == (unsigned)number && got.ssi_int == 4711);
        NEED(read(fd, &got, sizeof got) == -1 && errno == EAGAIN);
        close(fd);
        // Another process sends it while this one waits.
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            usleep(20000);
            kill(parent, number);
            _exit(0);
        }
        NEED(sigwaitinfo(&set, &info) == number && info.si_pid == pid);
        NEED(waitpid(pid, NULL, 0) == pid);
        // Unblocked, it arrives; ignored, it is gone.
        signal(number, handler);
        handled = 0;
        NEED(kill(getpid(), number) == 0 && handled == 0);
        sigprocmask(SIG_SETMASK, &old, NULL);
        NEED(handled == number);
        sigprocmask(SIG_BLOCK, &set, &old);
        NEED(kill(getpid(), number) == 0);
        signal(number, SIG_IGN);
        sigprocmask(SIG_SETMASK, &old, NULL);
        signal(number, SIG_DFL);
    }
    puts("good");
    return 0;
}
