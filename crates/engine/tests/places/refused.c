// Where the virtual PMU cannot give way, MAP_FIXED is told so and the program goes on: with a second thread everywhere, and
// where its own code is always. Prints what mmap said; natively each is 0.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int end[2];
static void *wait_for_end(void *unused) {
    char byte;
    return (void *)(long)read(end[0], &byte, 1);
}

static int take(unsigned long address, unsigned long bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    char *p = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED) return errno;
    p[bytes - 1] = 1;
    munmap(p, bytes);
    return 0;
}

int main(void) {
    printf("alone: %d\n", take(0x551000000000, 0x10000));
    pthread_t thread;
    if (pipe(end) || pthread_create(&thread, 0, wait_for_end, 0)) return 1;
    printf("two: %d %d\n", take(0x551000000000, 0x10000), take(0x10000000, 0x6f000000));
    printf("elsewhere: %d\n", take(0x600000000000, 0x10000));
    write(end[1], "", 1);
    pthread_join(thread, 0);
    return 0;
}
