// Signals of the faults' kind, blocked and waited for in every way there is; and faults while blocked.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <stdlib.h>
#include "code.h"

static const int kinds[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP};
static volatile int handled, handled_value;
static void on(int s, siginfo_t *i, void *u) { (void)u; handled = s; handled_value = i->si_value.sival_int; }
#define CHECK(x) do { if (!(x)) { printf("line %d signal %d errno %d handled %d: %s\n", __LINE__, s, errno, handled, #x); fflush(stdout); _exit(1); } } while (0)

static sigset_t only(int s) { sigset_t set; sigemptyset(&set); sigaddset(&set, s); return set; }
static void block(int s) { sigset_t set = only(s); pthread_sigmask(SIG_BLOCK, &set, 0); }
static void unblock(int s) { sigset_t set = only(s); pthread_sigmask(SIG_UNBLOCK, &set, 0); }
static void handler(int s) { struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO}; sigaction(s, &a, 0); }

static void waits(int s) {
    sigset_t set = only(s), pending, none;
    siginfo_t info;
    struct timespec no_time = {0, 0}, second = {1, 0};
    sigemptyset(&none);
    block(s);
    // Nothing is there.
    CHECK(sigtimedwait(&set, &info, &no_time) == -1 && errno == EAGAIN);
    // kill, tgkill, sigqueue.
    kill(getpid(), s);
    sigpending(&pending);
    CHECK(sigismember(&pending, s));
    CHECK(sigwaitinfo(&set, &info) == s && info.si_code == SI_USER && info.si_pid == getpid());
    raise(s);
    CHECK(sigtimedwait(&set, &info, &second) == s);
    sigqueue(getpid(), s, (union sigval){.sival_int = 77});
    CHECK(sigwaitinfo(&set, &info) == s && info.si_code == SI_QUEUE && info.si_value.sival_int == 77);
    // A timer.
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = s, .sigev_value.sival_int = 5};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec soon = {.it_value.tv_nsec = 20000000};
    timer_settime(timer, 0, &soon, 0);
    CHECK(sigwaitinfo(&set, &info) == s && info.si_code == SI_TIMER && info.si_value.sival_int == 5);
    // While calls wait: they are not disturbed.
    timer_settime(timer, 0, &soon, 0);
    struct timespec rest, nap = {0, 60000000};
    CHECK(nanosleep(&nap, &rest) == 0);
    CHECK(sigtimedwait(&set, &info, &no_time) == s);
    timer_delete(timer);
    // signalfd, poll, epoll.
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo got;
    CHECK(fd >= 0 && read(fd, &got, sizeof got) == -1 && errno == EAGAIN);
    kill(getpid(), s);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    CHECK(poll(&poll_fd, 1, 1000) == 1);
    CHECK(read(fd, &got, sizeof got) == sizeof got && got.ssi_signo == (unsigned)s);
    int epoll = epoll_create1(0);
    struct epoll_event watch = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &watch);
    if (fork() == 0) { usleep(20000); kill(getppid(), s); _exit(0); }
    CHECK(epoll_wait(epoll, &watch, 1, 2000) == 1);
    CHECK(read(fd, &got, sizeof got) == sizeof got && got.ssi_code == SI_USER);
    close(fd); close(epoll);
    while (wait(0) > 0);
    // Delivered when it is unblocked, once.
    handler(s);
    handled = 0;
    kill(getpid(), s);
    raise(s);
    CHECK(handled == 0);
    unblock(s);
    CHECK(handled == s);
    block(s);
    // Calls that wait with another mask.
    handled = 0;
    raise(s);
    CHECK(ppoll(0, 0, &second, &none) == -1 && errno == EINTR && handled == s);
    handled = 0;
    raise(s);
    CHECK(pselect(0, 0, 0, 0, &second, &none) == -1 && errno == EINTR && handled == s);
    handled = 0;
    raise(s);
    CHECK(sigsuspend(&none) == -1 && errno == EINTR && handled == s);
    handled = 0;
    if (fork() == 0) { usleep(20000); kill(getppid(), s); _exit(0); }
    CHECK(ppoll(0, 0, &second, &none) == -1 && errno == EINTR && handled == s);
    while (wait(0) > 0);
    sigpending(&pending);
    CHECK(!sigismember(&pending, s));
    // Inherited by what is executed is tested below; by a child it is not.
    raise(s);
    if (fork() == 0) { sigpending(&pending); _exit(sigismember(&pending, s)); }
    int status; wait(&status);
    CHECK(status == 0);
    CHECK(sigwaitinfo(&set, &info) == s);
    signal(s, SIG_DFL);
    unblock(s);
}

// Code that changes while the signals are blocked natively; copies that fault.
static void code(void) {
    int s = 0;
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 300; i++) {
        returns(page, i);
        int got = ((int (*)(void))page)();
        CHECK(got == i);
    }
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    CHECK(((int (*)(void))page)() == 299);
    mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    returns(page, 7);
    CHECK(((int (*)(void))page)() == 7);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 8L, 0, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, 8L, 8) == -1 && errno == EFAULT);
}

// A thread that waits for a signal which the process gets, while all block everything.
static void *waiter(void *arg) {
    sigset_t *set = arg; int got = 0;
    sigwait(set, &got);
    return (void *)(intptr_t)got;
}
static volatile int stop;
static void *worker(void *arg) { volatile unsigned n = 0; while (!stop) n++; return arg; }

static void threads(int s) {
    sigset_t all, old, set = only(s);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t waits, works;
    stop = 0;
    pthread_create(&works, 0, worker, 0);
    pthread_create(&waits, 0, waiter, &set);
    usleep(10000);
    kill(getpid(), s);
    void *got;
    pthread_join(waits, &got);
    CHECK((int)(intptr_t)got == s);
    stop = 1;
    pthread_join(works, 0);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

// A handler that passes on what it was given; it arrives when the handler is done.
static volatile int times;
static void again(int s, siginfo_t *i, void *u) {
    (void)u;
    if (times++ == 0) {
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), s, i);
        if (times != 1) _exit(3);
        mprotect((void *)((uintptr_t)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
    }
}
static void passed_on(void) {
    int s = SIGSEGV;
    struct sigaction a = {.sa_sigaction = again, .sa_flags = SA_SIGINFO};
    sigaction(s, &a, 0);
    volatile char *page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[5] = 1;
    CHECK(times == 2);
    signal(s, SIG_DFL);
}

// How a child ends.
static int ends(void (*what)(int), int s) {
    fflush(stdout);
    int child = fork(), status;
    if (child == 0) { what(s); _exit(0); }
    waitpid(child, &status, 0);
    return status;
}
static void do_fault(int s) {
    volatile int zero = 0;
    switch (s) {
    case SIGSEGV: *(volatile int *)16 = 1; break;
    case SIGILL: __asm__ volatile("ud2"); break;
    case SIGFPE: __asm__ volatile("cltd; idivl %0" : : "r"(zero) : "eax", "edx", "cc"); break;
    case SIGTRAP: __asm__ volatile("int3"); break;
    case SIGBUS: {
        FILE *f = tmpfile();
        char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
        *(volatile char *)p = 1;
    }
    }
}
static void fault_while_blocked(int s) { handler(s); block(s); do_fault(s); }
static void fault_while_all_blocked(int s) { sigset_t all; handler(s); sigfillset(&all); sigprocmask(SIG_SETMASK, &all, 0); do_fault(s); }
static void fault_while_pending(int s) { handler(s); block(s); raise(s); do_fault(s); }
static void by_default(int s) { block(s); raise(s); unblock(s); }
static void suspended(int s) { sigset_t none; sigemptyset(&none); block(s); raise(s); sigsuspend(&none); }
static void ignored(int s) { signal(s, SIG_IGN); block(s); raise(s); unblock(s); raise(s); _exit(9); }

int main(int argc, char **argv) {
    if (argc > 1) {
        int s = atoi(argv[1]);
        sigset_t set = only(s), pending;
        siginfo_t info;
        sigpending(&pending);
        CHECK(sigismember(&pending, s));
        CHECK(sigwaitinfo(&set, &info) == s);
        return 7;
    }
    passed_on();
    for (unsigned k = 0; k < 5; k++) {
        int s = kinds[k];
        printf("%d:", s);
        printf(" %x", ends(fault_while_all_blocked, s));
        printf(" %x", ends(fault_while_blocked, s));
        printf(" %x", ends(fault_while_pending, s));
        printf(" %x", ends(by_default, s));
        printf(" %x", ends(suspended, s));
        printf(" %x\n", ends(ignored, s));
        threads(s);
    }
    for (unsigned k = 0; k < 5; k++) { waits(kinds[k]); code(); }
    for (unsigned k = 0; k < 5; k++) threads(kinds[k]);
    // (Not SIGTRAP, which is the tracer's after an execve.)
    for (unsigned k = 0; k < 4; k++) {
        int s = kinds[k], status;
        char number[8];
        sprintf(number, "%d", s);
        if (fork() == 0) { block(s); raise(s); execl("/proc/self/exe", argv[0], number, (char *)0); _exit(1); }
        wait(&status);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    puts("good");
}
