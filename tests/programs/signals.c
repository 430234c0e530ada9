// Signals: longjmp out of handlers, SA_SIGINFO on an alternate stack, timers, faults mended and
// retried, masks, nested handlers, siglongjmp from SIGSEGV, signals between threads.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf jump;
static volatile sig_atomic_t ticks, nested, got_info, on_alt, from_thread;
static char alt[1 << 16];
static char *page;

static void on_segv(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    char here;
    on_alt = &here >= alt && &here < alt + sizeof alt;
    if ((char *)info->si_addr == page + 8) { // mended, and the store runs again
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        got_info = 1;
        return;
    }
    siglongjmp(jump, 1);
}

static void on_fpe(int sig, siginfo_t *info, void *context) {
    (void)sig;
    ucontext_t *u = context;
    got_info = info->si_code == FPE_INTDIV && (uintptr_t)info->si_addr == (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
    u->uc_mcontext.gregs[REG_RIP] += 2; // skip `div %ecx`
    u->uc_mcontext.gregs[REG_RAX] = 77;
}

static void on_tick(int sig) {
    (void)sig;
    ticks++;
}

static void on_usr2(int sig) {
    (void)sig;
    nested += 100;
}

static void on_usr1(int sig) {
    (void)sig;
    nested++;
    raise(SIGUSR2);
    nested++;
}

static void on_rt(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    from_thread = info->si_value.sival_int;
}

static void *other(void *main_thread) {
    union sigval value = {.sival_int = 42};
    pthread_sigqueue(*(pthread_t *)main_thread, SIGRTMIN + 1, value);
    return NULL;
}

static void catch_with(int sig, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(sig, &action, NULL);
}

int main(void) {
    stack_t stack = {.ss_sp = alt, .ss_size = sizeof alt};
    sigaltstack(&stack, NULL);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    catch_with(SIGSEGV, on_segv, SA_ONSTACK);
    page[8] = 5;
    printf("mended %d value %d alt %d\n", (int)got_info, page[8], (int)on_alt);

    int jumps = 0;
    for (volatile int i = 0; i < 50; i++)
        if (sigsetjmp(jump, 1) == 0)
            *(volatile int *)16 = i;
        else
            jumps++;
    printf("jumps %d\n", jumps);

    got_info = 0;
    catch_with(SIGFPE, on_fpe, 0);
    unsigned result;
    __asm__ volatile("xor %%edx, %%edx\n\tmov $9, %%eax\n\txor %%ecx, %%ecx\n\tdiv %%ecx" : "=a"(result)::"ecx", "edx", "cc");
    printf("fpe %d result %u\n", (int)got_info, result);

    signal(SIGALRM, on_tick);
    struct itimerval every = {.it_interval = {0, 2000}, .it_value = {0, 2000}};
    setitimer(ITIMER_REAL, &every, NULL);
    uint64_t sum = 0;
    for (uint64_t i = 0; ticks < 50; i++)
        sum += i * i ^ (sum >> 3);
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, NULL);
    printf("ticks at least 50: %d\n", ticks >= 50 && sum != 1);

    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 7};
    catch_with(SIGRTMIN + 1, on_rt, SA_ONSTACK | SA_RESTART);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec once = {.it_value = {0, 1000000}};
    timer_settime(timer, 0, &once, NULL);
    while (!from_thread)
        ;
    printf("timer value %d\n", (int)from_thread);
    timer_delete(timer);

    signal(SIGUSR1, on_usr1);
    signal(SIGUSR2, on_usr2);
    raise(SIGUSR1);
    printf("nested %d\n", (int)nested);

    sigset_t set, old, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR2);
    sigpending(&pending);
    int before = nested;
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("pending %d held %d then %d\n", sigismember(&pending, SIGUSR2), before, (int)nested);

    pthread_t self = pthread_self(), thread;
    from_thread = 0;
    pthread_create(&thread, NULL, other, &self);
    pthread_join(thread, NULL);
    while (!from_thread)
        usleep(100);
    printf("from thread %d\n", (int)from_thread);

    // a system call that a signal interrupts: without SA_RESTART EINTR
    struct sigaction plain = {.sa_handler = on_tick};
    sigaction(SIGALRM, &plain, NULL);
    struct itimerval later = {.it_value = {0, 20000}};
    setitimer(ITIMER_REAL, &later, NULL);
    int fds[2];
    char byte;
    if (pipe(fds)) return 1;
    ssize_t n = read(fds[0], &byte, 1);
    printf("read %zd %s\n", n, errno == EINTR ? "EINTR" : "other");

    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile int *)24 = 1;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child signal %d\n", WTERMSIG(status));
    return 0;
}
