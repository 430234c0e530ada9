// Two threads count, each with a number of its own, in one line; repaired (-DREPAIRED) in one each.
#include <pthread.h>
#include <stdio.h>
#ifndef N
#define N 50000000
#endif
#ifdef REPAIRED
#define APART __attribute__((aligned(64)))
#else
#define APART
#endif
static struct { APART volatile long value; } counters[2] __attribute__((aligned(64)));

static void *count(void *counter) {
    volatile long *value = counter;
    for (int i = 0; i < N; i++) (*value)++;
    return 0;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, 0, count, (void *)&counters[0].value);
    count((void *)&counters[1].value);
    pthread_join(other, 0);
    printf("%ld\n", counters[0].value + counters[1].value);
    return 0;
}
