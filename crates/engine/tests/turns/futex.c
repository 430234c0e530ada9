// Futexes by their system call, and a robust lock whose owner ends.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t first, second;
static int order[8], woken;

static long futex(uint32_t *at, int op, uint32_t value, void *more, uint32_t *other, uint32_t last) {
    return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, more, other, last);
}

static void *waits(void *number) {
    int own = (int)(intptr_t)number;
    futex(&first, FUTEX_WAIT_BITSET, 0, 0, 0, own % 2 ? 2 : 1);
    order[woken++] = own;
    return 0;
}

static void settle(void) {
    for (int i = 0; i < 20; i++) sched_yield();
}

static pthread_mutex_t robust;

static void *dies(void *none) {
    pthread_mutex_lock(&robust);
    return none;
}

int main(void) {
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) {
        pthread_create(&threads[i], 0, waits, (void *)(intptr_t)i);
        settle();
    }
    long n = futex(&first, FUTEX_WAKE_BITSET, 9, 0, 0, 1);
    settle();
    printf("bits 1:");
    for (int i = 0; i < n; i++) printf(" %d", order[i]);
    n = futex(&first, FUTEX_CMP_REQUEUE, 0, (void *)9, &second, 0);
    printf("\nmoved %ld, woken:", n);
    futex(&second, FUTEX_WAKE, 9, 0, 0, 0);
    settle();
    for (int i = 3; i < woken; i++) printf(" %d", order[i]);
    for (int i = 0; i < 6; i++) pthread_join(threads[i], 0);

    pthread_mutexattr_t robustly;
    pthread_mutexattr_init(&robustly);
    pthread_mutexattr_setrobust(&robustly, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &robustly);
    pthread_create(&threads[0], 0, dies, 0);
    settle();
    int result = pthread_mutex_lock(&robust);
    printf("\nowner died: %d\n", result == 130);
    pthread_join(threads[0], 0);
    return 0;
}
