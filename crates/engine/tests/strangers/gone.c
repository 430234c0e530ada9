/* Code of a file that is truncated, punched, and made longer again; that moves, and is taken away. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static sigjmp_buf back;
static void on(int signal) { siglongjmp(back, signal); }
static void put(unsigned char *to, int value) { to[0] = 0xb8, memcpy(to + 1, &value, 4), to[5] = 0xc3; }
static int call(void *at) {
    int signal = sigsetjmp(back, 1);
    return signal ? -signal : ((int (*)(void))at)();
}
int main(void) {
    signal(SIGSEGV, on), signal(SIGBUS, on);
    int file = memfd_create("code", 0);
    ftruncate(file, 65536);
    unsigned char *written = mmap(0, 65536, 3, MAP_SHARED, file, 0), *run = mmap(0, 65536, 5, MAP_SHARED, file, 0);
    for (int i = 0; i < 3; i++) {
        put(written, i);
        put(written + 8190, i);
        printf("%d %d", call(run), call(run + 8190));
        ftruncate(file, 8192);
        printf(" half %d %d", call(run), call(run + 8190));
        ftruncate(file, 0);
        printf(" truncated %d", call(run));
        ftruncate(file, 65536);
        printf(" longer %d", call(run));
        put(written, i + 10);
        printf(" written %d", call(run));
        fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
        printf(" punched %d\n", call(run));
    }
    return 0;
}
