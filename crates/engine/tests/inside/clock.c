// Prints what the clocks say, before and after waits of every kind: the same in every run under a clock of the engine's.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static long long ns(clockid_t id) {
    struct timespec t;
    if (clock_gettime(id, &t)) return -errno;
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static long long last;
// Milliseconds since the last one, rounded: what the clock went on.
static void went(const char *what, int result) {
    long long now = ns(CLOCK_MONOTONIC);
    printf("%s %d: %lld ms\n", what, result, (now - last) / 1000000);
    last = ns(CLOCK_MONOTONIC);
}
static volatile sig_atomic_t alarms;
static void on_alarm(int signal) { alarms++; }
static void *thread(void *sem) {
    usleep(20000);
    sem_post(sem);
    return 0;
}

// A wait that ends before its limit.
static int woken(void) {
    struct timespec at;
    sem_t sem;
    sem_init(&sem, 0, 0);
    pthread_t other;
    pthread_create(&other, 0, thread, &sem);
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 100;
    long long before = ns(CLOCK_MONOTONIC);
    int result = sem_timedwait(&sem, &at);
    printf("posted %d, %d\n", result, ns(CLOCK_MONOTONIC) - before < 1000000000);
    return pthread_join(other, 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "woken") == 0) return woken();
    if (argc > 1 && strcmp(argv[1], "timer") == 0) {
        // Waits by a timer until the clock has gone on by one second at least.
        struct timespec from, now = {0};
        struct itimerspec spec = {{0, 20000000}, {0, 20000000}};
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        clock_gettime(CLOCK_MONOTONIC, &from);
        timerfd_settime(timer, 0, &spec, 0);
        for (now = from; now.tv_sec < from.tv_sec + 2; clock_gettime(CLOCK_MONOTONIC, &now)) {
            unsigned long long times;
            if (read(timer, &times, 8) != 8) return 1;
        }
        return 0;
    }
    if (argc > 1) {
        printf("%lld\n", ns(CLOCK_REALTIME));
        return 0;
    }
    struct timeval tv;
    struct timespec ts = {0, 30000000};
    struct rusage usage;
    struct tms tms;
    unsigned cpu;
    gettimeofday(&tv, 0);
    printf("real %lld mono %lld raw %lld boot %lld tai %lld cpu %lld thread %lld\n", ns(CLOCK_REALTIME), ns(CLOCK_MONOTONIC),
           ns(CLOCK_MONOTONIC_RAW), ns(CLOCK_BOOTTIME), ns(CLOCK_TAI), ns(CLOCK_PROCESS_CPUTIME_ID), ns(CLOCK_THREAD_CPUTIME_ID));
    printf("of day %ld.%06ld time %ld bad %lld null %ld\n", tv.tv_sec, tv.tv_usec, time(0), ns(12345),
           syscall(SYS_clock_gettime, 0, 8L) ? (long)errno : 0);
    unsigned long long a = __rdtsc(), b = __rdtscp(&cpu), c = __rdtsc();
    printf("tsc %llu %llu %llu\n", a, b - a, c - b);
    getrusage(RUSAGE_SELF, &usage);
    printf("usage %ld.%06ld times %ld\n", usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, (long)times(&tms));
    printf("system %ld %ld\n", usage.ru_stime.tv_usec, tms.tms_stime);

    last = ns(CLOCK_MONOTONIC);
    went("nanosleep", nanosleep(&ts, 0));
    went("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, 0));
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 0;
    at.tv_nsec += 40000000;
    if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
    went("absolute", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, 0));
    went("past", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, 0));
    went("poll", poll(0, 0, 25));
    went("ppoll", ppoll(0, 0, &ts, 0));
    struct timeval limit = {0, 35000};
    went("select", select(0, 0, 0, 0, &limit));
    went("pselect", pselect(0, 0, 0, 0, &ts, 0));
    int epoll = epoll_create1(0);
    struct epoll_event event;
    went("epoll", epoll_wait(epoll, &event, 1, 15));
    went("no wait", epoll_wait(epoll, &event, 1, 0));
    unsigned word = 1;
    went("futex", syscall(SYS_futex, &word, FUTEX_WAIT, 1, &ts, 0, 0) ? errno : 0);
    went("futex other", syscall(SYS_futex, &word, FUTEX_WAIT, 2, &ts, 0, 0) ? errno : 0);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 1;
    at.tv_nsec = 0;
    last = ns(CLOCK_MONOTONIC);
    pthread_mutex_lock(&mutex);
    int result = pthread_cond_timedwait(&condition, &mutex, &at);
    long long late = ns(CLOCK_REALTIME) - at.tv_sec * 1000000000LL;
    printf("condition %d, at %d\n", result, late >= 0 && late < 1000000);
    pthread_mutex_unlock(&mutex);
    // A timer's time.
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    clock_gettime(CLOCK_MONOTONIC, &at);
    struct itimerspec spec = {{0, 0}, {at.tv_sec, at.tv_nsec + 20000000}};
    if (spec.it_value.tv_nsec >= 1000000000) spec.it_value.tv_sec++, spec.it_value.tv_nsec -= 1000000000;
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, 0);
    unsigned long long times_off;
    printf("timer %zd\n", read(timer, &times_off, 8));
    // Interrupted waits.
    struct sigaction action = {0};
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, 0);
    struct itimerval in = {{0, 0}, {0, 20000}};
    for (int round = 0; round < 5; round++) {
        struct timespec lasting = {50, 0}, left = {9, 9};
        setitimer(ITIMER_REAL, &in, 0);
        result = nanosleep(&lasting, &left);
        printf("interrupted %d %d, %d\n", result, errno, left.tv_sec == 49);
    }
    printf("alarms %d\n", alarms);
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        printf("child %lld\n", ns(CLOCK_MONOTONIC));
        fflush(stdout);
        execl(argv[0], argv[0], "again", (char *)0);
        return 9;
    }
    waitpid(child, 0, 0);
    printf("end %lld\n", ns(CLOCK_MONOTONIC));
    return 0;
}
