// Threads with locks and atomics, allocation, and a child: for sanitizers, which keep shadows of all memory.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long atomic;
static long sum;
static char *pieces[64];

static void *work(void *argument) {
    long number = (long)argument;
    for (long i = 0; i < 2000; i++) {
        pthread_mutex_lock(&lock);
        sum += i;
        char **piece = &pieces[(number * 7 + i) % 64];
        free(*piece);
        *piece = malloc(16 + i % 5000);
        memset(*piece, 1, 16 + i % 5000);
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&atomic, 1);
    }
    return 0;
}

int main(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) pthread_create(threads + i, 0, work, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    int status = 1;
    if (fork() == 0) _exit(strlen("abc") != 3);
    wait(&status);
    puts(sum == 8 * 1999000 && atomic == 16000 && status == 0 ? "good" : "bad");
    return 0;
}
