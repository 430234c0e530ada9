// Timers of every kind go off by the run's clock: hours take no time, and who computes is interrupted at the same place.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t came, value, code;

static void note(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    came++, value = info->si_value.sival_int, code = info->si_code;
}

static void handle(int signal) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, NULL);
}

static long seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

// Of a process's threads the one that executes has the signal of its executed time, with the kernel's own code.
static pthread_t computes_now;
static volatile sig_atomic_t by_it;

static void note_thread(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    came++, by_it += pthread_equal(pthread_self(), computes_now) && info->si_code == SI_KERNEL;
}

static void *computes(void *unused) {
    computes_now = pthread_self();
    while (came < 5) (*(volatile uint64_t *)unused)++;
    return NULL;
}

static void *sleeps(void *unused) {
    (void)unused;
    sleep(100000);
    return NULL;
}

static void notified(union sigval value) {
    __atomic_store_n((int *)value.sival_ptr, 1, __ATOMIC_SEQ_CST);
}

int main(void) {
    long start = seconds();
    handle(SIGALRM), handle(SIGVTALRM), handle(SIGPROF), handle(SIGUSR1);
    alarm(3600);
    pause();
    printf("alarm %d after %ld s, left %u\n", came, seconds() - start, alarm(0));

    // An interval, while this thread computes and another one waits.
    pthread_t other;
    pthread_create(&other, NULL, sleeps, NULL);
    came = 0;
    struct itimerval often = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}}, old;
    setitimer(ITIMER_REAL, &often, NULL);
    volatile uint64_t sum = 0;
    uint64_t turns = 0;
    while (came < 20)
        for (int i = 0; i < 1000; i++) sum += i, turns++;
    getitimer(ITIMER_REAL, &old);
    setitimer(ITIMER_REAL, &off, NULL);
    printf("interval after %lu turns, %ld us\n", turns, old.it_interval.tv_usec);

    came = 0;
    setitimer(ITIMER_PROF, &often, NULL);
    while (came < 5) sum++;
    setitimer(ITIMER_PROF, &off, NULL);
    printf("profiled %lu\n", sum);

    struct sigaction threads = {.sa_sigaction = note_thread, .sa_flags = SA_SIGINFO};
    sigaction(SIGPROF, &threads, NULL);
    came = 0;
    setitimer(ITIMER_PROF, &often, NULL);
    pthread_t one;
    pthread_create(&one, NULL, computes, (void *)&sum);
    pthread_join(one, NULL);
    setitimer(ITIMER_PROF, &off, NULL);
    printf("by the one that executes: %d of %d\n", by_it, came);

    // One of timer_create, absolute, to a sleeper.
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
    timer_t timer;
    timer_create(CLOCK_REALTIME, &event, &timer);
    struct itimerspec spec = {{0, 0}, {0, 0}}, rest;
    clock_gettime(CLOCK_REALTIME, &spec.it_value);
    spec.it_value.tv_sec += 500;
    came = 0;
    timer_settime(timer, TIMER_ABSTIME, &spec, NULL);
    timer_gettime(timer, &rest);
    int result = usleep(900000000);
    printf("made: %d %d, value %d, code %d, left %ld, overrun %d, %s\n", came, result, value, code == SI_TIMER,
           rest.it_value.tv_sec / 10, timer_getoverrun(timer), strerror(errno));
    timer_delete(timer);

    // One that starts a function in a thread of its own.
    int done = 0;
    struct sigevent thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified, .sigev_value.sival_ptr = &done};
    timer_create(CLOCK_MONOTONIC, &thread, &timer);
    spec = (struct itimerspec){{0, 0}, {1000, 0}};
    timer_settime(timer, 0, &spec, NULL);
    while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) usleep(1000000);
    printf("thread: %d\n", done);
    timer_delete(timer);

    // A descriptor: polled, read after three times, read by a child, set again.
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    spec = (struct itimerspec){{10, 0}, {100, 0}};
    start = seconds();
    timerfd_settime(fd, 0, &spec, NULL);
    struct pollfd poll_fd = {fd, POLLIN, 0};
    uint64_t times = 0;
    int ready = poll(&poll_fd, 1, -1);
    printf("descriptor: %d after %ld s\n", ready, seconds() - start);
    sleep(25);
    result = read(fd, &times, 8);
    printf("read %d: %lu after %ld s\n", result, times, seconds() - start);
    pid_t child = fork();
    if (child == 0) {
        result = read(fd, &times, 8);
        printf("child %d: %lu\n", result, times);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    timerfd_gettime(fd, &rest);
    spec = (struct itimerspec){{0, 0}, {0, 0}};
    timerfd_settime(fd, 0, &spec, NULL);
    printf("off: %d, every %ld s\n", poll(&poll_fd, 1, 1000), rest.it_interval.tv_sec);
    return 0;
}
