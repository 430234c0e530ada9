// Does not end by itself, in one of several ways: what signals and time limits have to end (docs/reproducible.md).
// usage: ends spin|locks|waits|reads|pause|children
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all;
static const char *way;

static void *goes_on(void *first) {
    if (!first) pthread_barrier_wait(&all);
    if (!strcmp(way, "waits")) {
        pthread_mutex_lock(&lock);
        for (;;) pthread_cond_wait(&never, &lock);
    }
    for (volatile long i = 0;; i++) {
        if (strcmp(way, "locks")) continue;
        pthread_mutex_lock(&lock);
        i++;
        pthread_mutex_unlock(&lock);
    }
    return first;
}

static void say(int child) {
    printf("%d %d\n", getpid(), child);
    fflush(stdout);
}

int main(int argc, char **argv) {
    enum { THREADS = 3 };
    way = argc > 1 ? argv[1] : "spin";
    if (!strcmp(way, "reads") || !strcmp(way, "pause")) {
        char byte;
        say(0);
        return strcmp(way, "pause") ? (int)read(0, &byte, 1) : pause();
    }
    if (!strcmp(way, "children")) {
        int status;
        int child = fork();
        if (!child)
            for (volatile int i = 0;; i++) continue;
        say(child);
        waitpid(child, &status, 0);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 99;
    }
    pthread_barrier_init(&all, 0, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, goes_on, 0);
    }
    pthread_barrier_wait(&all);
    say(0);
    goes_on(&all);
    return 0;
}
