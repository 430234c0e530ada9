// Locks that spin without asking the kernel, and a thread that waits for a flag with `pause`.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int word, flag;
static long sum;

static void *work(void *none) {
    for (int i = 0; i < 20000; i++) {
        while (atomic_exchange(&word, 1))
            ;
        for (volatile int j = 0; j < 20; j++)
            ;
        sum++;
        atomic_store(&word, 0);
    }
    return none;
}

static void *wait_for_flag(void *none) {
    while (!flag) __builtin_ia32_pause();
    return none;
}

int main(void) {
    pthread_t threads[4], last;
    pthread_create(&last, 0, wait_for_flag, 0);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    flag = 1;
    pthread_join(last, 0);
    printf("%ld done\n", sum);
    return 0;
}
