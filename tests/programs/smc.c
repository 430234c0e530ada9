// Code written at run time: rewritten in place, through a second mapping, in fresh pages, unmapped and mapped again.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*Function)(void);

static void put(unsigned char *at, int value) { // mov eax, value; ret
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

int main(void) {
    long sum = 0;
    unsigned char *rwx = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2000; i++) {
        put(rwx, i);
        sum += ((Function)rwx)();
    }
    printf("in place %ld\n", sum);

    int fd = memfd_create("code", 0);
    if (fd < 0 || ftruncate(fd, 4096)) return 1;
    unsigned char *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned char *x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    sum = 0;
    for (int i = 0; i < 200; i++) { // a new place each time: nothing stale
        put(w + 16 * i, i * 3);
        sum += ((Function)(x + 16 * i))();
    }
    printf("two mappings %ld\n", sum);

    unsigned char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sum = 0;
    for (int i = 0; i < 500; i++) {
        mprotect(p, 4096, PROT_READ | PROT_WRITE);
        put(p, i * 5);
        mprotect(p, 4096, PROT_READ | PROT_EXEC);
        sum += ((Function)p)();
    }
    printf("mprotect %ld\n", sum);

    sum = 0;
    for (int i = 0; i < 300; i++) {
        unsigned char *q = mmap((void *)0x200000000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        put(q, i * 7);
        mprotect(q, 4096, PROT_READ | PROT_EXEC);
        sum += ((Function)q)();
        munmap(q, 4096);
    }
    printf("mapped again %ld\n", sum);

    // code that changes the instruction right behind itself: movb $imm, target; target: mov eax, imm; ret
    unsigned char self[] = {0xc6, 0x05, 1, 0, 0, 0, 9, 0xb8, 1, 0, 0, 0, 0xc3};
    unsigned char *s = rwx + 4096;
    sum = 0;
    for (int i = 0; i < 100; i++) {
        memcpy(s, self, sizeof self);
        s[6] = (unsigned char)i;
        sum += ((Function)s)();
    }
    printf("behind itself %ld\n", sum);
    return 0;
}
