// Threads that spin until they have a lock.
#include <pthread.h>
#include <stdio.h>
static pthread_spinlock_t lock;
static volatile int flag;
static long sum;
static void *worker(void *number) {
    for (long i = 0; i < 3000; i++) {
        pthread_spin_lock(&lock);
        sum += i % ((long)number + 2);
        pthread_spin_unlock(&lock);
    }
    // The last one lets the others go.
    if (__sync_add_and_fetch(&flag, 1) < 4)
        while (flag < 4) __builtin_ia32_pause();
    return 0;
}
int main(void) {
    pthread_t threads[4];
    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%ld\n", sum);
    return 0;
}
