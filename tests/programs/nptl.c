/* What the C library's own tests of threads are about, one line each. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what, long value) { printf("%s %ld\n", what, value), fflush(stdout); }
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_key_t key;
static sem_t semaphore;
static long serials, written, cleaned, destroyed, forked, handled;
static __thread long own = 7;

static void clean(void *by) { __atomic_fetch_add(&cleaned, (long)by, __ATOMIC_SEQ_CST); }
static void destroy(void *value) { __atomic_fetch_add(&destroyed, (long)value, __ATOMIC_SEQ_CST); }
static void handle(int signal) { (void)signal; __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST); }

/* Cancelled in a wait: in a read, a sleep, a condition, a join, or a loop that may be ended anywhere. */
static void *waits(void *how) {
    pthread_cleanup_push(clean, (void *)1);
    int pipes[2], old;
    if ((long)how == 0 && pipe(pipes) == 0) (void)!read(pipes[0], &old, 1);
    /* (A signal may end one wait before the thread is cancelled.) */
    while ((long)how == 1) pause();
    if ((long)how == 2) {
        pthread_mutex_lock(&mutex);
        pthread_cleanup_push((void (*)(void *))pthread_mutex_unlock, &mutex);
        for (;;) pthread_cond_wait(&condition, &mutex);
        pthread_cleanup_pop(1);
    }
    if ((long)how == 3) sem_wait(&semaphore);
    if ((long)how == 4) {
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
        for (volatile long i = 0;; i++) {}
    }
    if ((long)how == 5) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
        usleep(1000);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        for (;;) pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void *meets(void *number) {
    own += (long)number;
    pthread_setspecific(key, (void *)own);
    for (int i = 0; i < 100; i++) {
        int serial = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        pthread_mutex_lock(&mutex), serials += serial, pthread_mutex_unlock(&mutex);
        if (i & 1) pthread_rwlock_wrlock(&lock), written += 2, pthread_rwlock_unlock(&lock);
        else pthread_rwlock_rdlock(&lock), pthread_rwlock_unlock(&lock);
    }
    return (void *)own;
}

static void *dies(void *held) {
    pthread_mutex_lock(held);
    return NULL;
}

static void *starts(void *words) {
    pid_t child;
    int status = -1;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, words, (char *[]){NULL}) == 0) waitpid(child, &status, 0);
    return (void *)(long)status;
}

static void in_child(void) { forked += 10; }
static void before(void) { forked++; }
static void *forks(void *none) {
    (void)none;
    int status;
    pid_t child = fork();
    if (child == 0) {
        pthread_t other;
        void *result;
        pthread_barrier_init(&barrier, NULL, 1);
        if (pthread_create(&other, NULL, meets, (void *)1)) _exit(9);
        pthread_join(other, &result);
        _exit((int)(forked + (long)result));
    }
    waitpid(child, &status, 0);
    return (void *)(long)status;
}

static void *replaces(void *none) {
    (void)none;
    execl("/bin/sh", "sh", "-c", "exit 17", NULL);
    _exit(1);
}

static void *outlives(void *first) {
    pthread_join(*(pthread_t *)first, NULL);
    say("first thread is gone", 1);
    exit(5);
}

int main(void) {
    pthread_t threads[8], first = pthread_self();
    void *result;
    long total = 0;
    pthread_key_create(&key, destroy), sem_init(&semaphore, 0, 0);
    for (long how = 0; how < 6; how++) {
        pthread_create(&threads[0], NULL, waits, (void *)how);
        if (how < 4) usleep(2000);
        pthread_cancel(threads[0]), pthread_join(threads[0], &result);
        say("cancelled", result == PTHREAD_CANCELED);
    }
    pthread_barrier_init(&barrier, NULL, 8);
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, meets, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], &result), total += (long)result;
    say("serial", serials), say("written", written), say("own", total), say("destroyed", destroyed);
    pthread_mutexattr_t attribute;
    pthread_mutex_t held;
    pthread_mutexattr_init(&attribute), pthread_mutexattr_setrobust(&attribute, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&held, &attribute);
    pthread_create(&threads[0], NULL, dies, &held), pthread_join(threads[0], NULL);
    say("its owner died", pthread_mutex_lock(&held) == EOWNERDEAD);
    say("consistent", pthread_mutex_consistent(&held)), say("unlocked", pthread_mutex_unlock(&held));
    pthread_mutexattr_init(&attribute), pthread_mutexattr_setprotocol(&attribute, PTHREAD_PRIO_INHERIT);
    pthread_mutexattr_settype(&attribute, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&held, &attribute);
    say("locked", pthread_mutex_lock(&held)), say("again", pthread_mutex_lock(&held) == EDEADLK);
    say("unlocked", pthread_mutex_unlock(&held));
    struct timespec past = {1, 0};
    pthread_mutex_lock(&mutex), say("timed out", pthread_cond_timedwait(&condition, &mutex, &past) == ETIMEDOUT), pthread_mutex_unlock(&mutex);
    say("timed out", sem_timedwait(&semaphore, &past) == -1 && errno == ETIMEDOUT);
    signal(SIGUSR1, handle);
    pthread_create(&threads[0], NULL, waits, (void *)1);
    say("sent", pthread_kill(threads[0], SIGUSR1)), pthread_cancel(threads[0]), pthread_join(threads[0], NULL);
    pthread_create(&threads[0], NULL, starts, (char *[]){"sh", "-c", "exit 23", NULL}), pthread_join(threads[0], &result), say("spawned", (long)result);
    pthread_atfork(before, NULL, in_child);
    pthread_create(&threads[0], NULL, forks, NULL), pthread_join(threads[0], &result), say("forked", (long)result);
    for (int i = 0; i < 300; i++) pthread_create(&threads[0], NULL, dies, &(pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER), pthread_join(threads[0], NULL);
    int status;
    if (fork() == 0) {
        pthread_create(&threads[0], NULL, replaces, NULL);
        pause();
    }
    wait(&status), say("replaced by a thread", status);
    say("cleaned", cleaned);
    pthread_create(&threads[0], NULL, outlives, &first);
    pthread_exit(NULL);
}
