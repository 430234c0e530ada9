// Maps memory where it wants it, as sanitizers, emulators and language runtimes do, and uses it.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int at(unsigned long address, unsigned long bytes, int replace) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (replace ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    char *p = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p != (char *)address) {
        printf("%#lx, %#lx bytes: %m\n", address, bytes);
        return 1;
    }
    p[0] = 1;
    p[bytes - 1] = 2;
    memset(p + bytes / 2, 3, 4096);
    if (p[0] != 1 || p[bytes - 1] != 2) return 1;
    return munmap(p, bytes);
}

int main(void) {
    int bad = 0;
    for (unsigned long a = 0x10000000; a < 0x80000000; a += 0x10000000)
        for (int replace = 0; replace < 2; replace++) bad |= at(a, 64 << 10, replace) | at(a, 32 << 20, replace);
    // 1 TiB at each: shadow memory.
    for (unsigned long a = 0x010000000000; a < 0x550000000000; a += 0x010000000000) bad |= at(a, 1ul << 40, 1);
    for (unsigned long a = 0x570000000000; a < 0x7e0000000000; a += 0x010000000000) bad |= at(a, 1ul << 40, 1);
    // A child and a thread's memory still work.
    if (fork() == 0) _exit(at(0x400000000000, 1 << 20, 1));
    puts(bad ? "bad" : "good");
    return bad;
}
