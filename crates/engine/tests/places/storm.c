// A thread gets signals in quick succession, those of the faults' kind among them, from another one: after that its mask
// is what it was, and signals come as before.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NEED(condition) do { if (!(condition)) { printf("line %d\n", __LINE__); exit(1); } } while (0)
static const int kinds[] = {SIGUSR1, SIGSEGV, SIGTRAP, SIGUSR2, SIGBUS, 34};
static volatile int came[70], over;
static pthread_t first;
static void on(int signal) { came[signal]++; }

static void *sends(void *argument) {
    int rounds = *(int *)argument;
    union sigval value = {.sival_int = 1};
    for (int i = 0; i < rounds; i++) {
        int signal = kinds[i % 6];
        if (i & 1) pthread_kill(first, signal);
        else pthread_sigqueue(first, signal, value);
    }
    over = 1;
    return NULL;
}

static volatile unsigned sum;
static void works(void) {
    while (!over)
        for (unsigned i = 0; i < 100; i++) sum += i & 3 ? i : sum >> 3;
}

static void is_free(void) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int signal = 1; signal < 65; signal++) NEED(sigismember(&mask, signal) != 1);
    for (int i = 0; i < 6; i++) {
        int before = came[kinds[i]];
        raise(kinds[i]);
        NEED(came[kinds[i]] == before + 1);
    }
}

int main(void) {
    for (int i = 0; i < 6; i++) {
        struct sigaction action = {.sa_handler = on, .sa_flags = SA_RESTART};
        sigaction(kinds[i], &action, NULL);
    }
    first = pthread_self();
    for (int i = 0; i < 6; i++) {
        int rounds = 2000;
        pthread_t sender;
        over = 0;
        NEED(pthread_create(&sender, NULL, sends, &rounds) == 0);
        works();
        pthread_join(sender, NULL);
        is_free();
    }
    puts("good");
    return 0;
}
