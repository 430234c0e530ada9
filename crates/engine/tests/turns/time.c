// Waits with limits: sleep, condition variables, poll, a child.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int done;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static void *later(void *none) {
    sleep(500);
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_signal(&ready);
    pthread_mutex_unlock(&lock);
    return none;
}

static void wait_for(long seconds) {
    struct timespec limit;
    long start = now();
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += seconds;
    int result = 0;
    pthread_mutex_lock(&lock);
    while (!done && !result) result = pthread_cond_timedwait(&ready, &lock, &limit);
    pthread_mutex_unlock(&lock);
    printf("%s after %ld s\n", result ? "timed out" : "woken", now() - start);
}

int main(void) {
    long start = now();
    sleep(3600);
    printf("slept %ld s\n", now() - start);
    wait_for(1000);
    pthread_t thread;
    pthread_create(&thread, 0, later, 0);
    wait_for(1000);
    pthread_join(thread, 0);
    int ends[2];
    pipe(ends);
    struct pollfd poll_for = {ends[0], POLLIN, 0};
    start = now();
    int result = poll(&poll_for, 1, 60000);
    printf("polled %d after %ld s\n", result, now() - start);
    fflush(stdout);
    start = now();
    int status = 0;
    if (fork() == 0) {
        sleep(100);
        _exit(7);
    }
    wait(&status);
    printf("child %d after %ld s\n", WEXITSTATUS(status), now() - start);
    return 0;
}
