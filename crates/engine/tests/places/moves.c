// Takes addresses wherever it wants them, and does what a program does in between: branches through pointers, system
// calls, signals, code that is written, children.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int add(int a, int b) { return a + b; }
static int subtract(int a, int b) { return a - b; }
static int multiply(int a, int b) { return a * b; }
static int (*volatile operations[])(int, int) = {add, subtract, multiply};
static volatile int signals;
static void handler(int signal) { signals += signal; }
static unsigned char *page;

static long work(void) {
    long sum = 0;
    for (int i = 0; i < 30; i++) sum += operations[i % 3](i, 2);
    char buffer[16];
    for (int i = 0; i < 3; i++) sum += syscall(SYS_getppid) == getppid();
    int fd[2];
    if (pipe(fd)) return -1;
    sum += write(fd[1], "12345", 5) + read(fd[0], buffer, 16) + buffer[4];
    close(fd[0]);
    close(fd[1]);
    raise(SIGUSR1);
    // mov eax, imm8; ret: written again and again
    page[1]++;
    sum += ((int (*)(void))page)();
    // The kernel writes there, too.
    FILE *zero = fopen("/dev/zero", "r");
    sum += (long)read(fileno(zero), page + 64, 8);
    fclose(zero);
    return sum;
}

static unsigned long results = 5381;
static void note(long value) { results = results * 33 + (unsigned long)value; }

static void take(unsigned long address, unsigned long bytes, int replace) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (replace ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    char *p = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED) {
        if (replace) printf("%#lx, %#lx bytes: %m\n", address, bytes);
        note(errno);
        return;
    }
    for (unsigned long at = 0; at < bytes; at += bytes / 8) p[at] = 1;
    p[bytes - 1] = 2;
    note(work());
    note(p[0] + p[bytes / 2] + p[bytes - 1]);
    if (munmap(p, bytes)) puts("munmap");
}

int main(int argc, char **argv) {
    signal(SIGUSR1, handler);
    page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, "\xb8\x01\x00\x00\x00\xc3", 6);
    note(work());
    // Everything below 2 GiB that is free natively, in pieces of two sizes that do not start where one likes to.
    unsigned long first = argc > 1 ? 0x10000000 : 0x1000000;
    for (unsigned long a = first; a < 0x7ff00000; a += 0x1c80000) take(a, 0x1000000, 0);
    for (unsigned long a = 0x7ff00000 - 0x2000000; a > first + 0x4000000; a -= 0x3080000) take(a, 0x2000000, 1);
    // All of it at once, and a bit less again.
    take(first, 0x7ff00000 - first, 1);
    take(first + 0x4000000, 0x7ff00000 - first - 0x4000000, 1);
    // Around the program, where it is free.
    unsigned long own = (uintptr_t)main & ~0xffffffful;
    if (own > 1ul << 32)
        for (long step = -22; step < 23; step++) take(own + step * 0x4000000 + 0x1000, 0x3f00000, 0);
    // The heap goes on and on.
    char *start = sbrk(0);
    for (int i = 0; i < 24; i++) {
        char *more = sbrk(0x4000000);
        note(more == start + i * 0x4000000l);
        if (more != (void *)-1) more[0x3ffffff] = 1;
        note(work());
    }
    // A child's memory moves by itself.
    pid_t child = fork();
    if (child == 0) {
        take(first, 0x60000000 - first, 0);
        take(0x70000000, 0xff00000, 1);
        _exit((int)(results & 0x7f));
    }
    int status;
    waitpid(child, &status, 0);
    note(status);
    note(work());
    printf("%lx %d\n", results, signals);
    return 0;
}
