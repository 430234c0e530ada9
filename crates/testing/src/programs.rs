//! Programs in C for tests of what a program references.

/// References of all sizes and alignments, repeated and not, with flags alive; recursion, pointers to functions, a heap.
pub const REFERENCES: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static char room[1 << 16];
struct packed { char c; int i; long l; double d; } __attribute__((packed));
static struct packed many[100];
static int one(int n) { return n + 1; }
static int two(int n) { return n ^ 3; }
static int (*volatile functions[])(int) = { one, two, two, one, two };
__attribute__((noinline)) static int sum(int n) { return n ? n + sum(n - 1) : 0; }
int main(void) {
    long total = 0;
    for (int i = 0; i < 1 << 16; i += 3) room[i] = i;
    for (int i = 0; i < 100; i++) { many[i].i += i; many[i].l = i; many[i].d *= 2; total += many[i].c; }
    for (int i = 0; i < 500; i++) total += functions[i * 7 % 5](i);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 60; i++) total += sum(i) + room[i * 1000];
        memmove(room + 1, room, 10000 + round);
        memset(room + 7, round, 3333);
        total += strlen(room + 13);
        for (uint64_t *at = (uint64_t *)(room + round); at < (uint64_t *)(room + 9000); at++) *at += total;
        char *blocks[64];
        for (int i = 0; i < 64; i++) blocks[i] = memset(malloc(i * 40 + 1), i, i * 40 + 1);
        for (int i = 0; i < 64; i++) { total += blocks[i][i]; free(blocks[i]); }
    }
    uint64_t low = 0, high = 0, a[64];
    for (int i = 0; i < 64; i++) a[i] = -1ull - i;
    for (int i = 0; i + 1 < 64; i += 2)
        __asm__ volatile(
            "addq (%2), %0; movq %0, 8(%2); movq (%2), %%rax; movq %%rax, (%2); adcq 8(%2), %1"
            : "+r"(low), "+r"(high) : "r"(a + i) : "rax", "memory", "cc");
    for (int i = 0; i < 9; i++) {
        char *from = room + i * 64, *to = room + 5000;
        long n = 100 * i;
        __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(n) : : "memory");
    }
    return (total + high + low) == 12345;
}
"#;

/// What faults and is made again, what is never made, what was made before and faults now; handlers in between; a fork.
pub const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static char *p;
static sigjmp_buf back;
static volatile int leaves;
static void segv(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)context;
    char *page = (char *)((long)info->si_addr & ~4095L);
    if (leaves) siglongjmp(back, 1);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}
int main(int argc, char **argv) {
    struct sigaction action = { .sa_sigaction = segv, .sa_flags = SA_SIGINFO | SA_NODEFER };
    sigaction(SIGSEGV, &action, 0);
    p = mmap(0, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 16; i++) p[i * 4096 + 5] = i;
    for (int i = 0; i < 8; i++) { mprotect(p + i * 4096, 4096, PROT_READ); p[i * 4096 + 5] += i; }
    leaves = 1;
    for (volatile int i = 20; i < 40; i++)
        if (!sigsetjmp(back, 1)) *(volatile int *)(p + i * 4096 + 64 * (i & 7)) = 3;
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 1)) {
            char *to = p + 15 * 4096 + 4000, *from = p + 1000;
            long n = 300;
            __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        }
    // Touched, forbidden, and not touched again.
    mprotect(p, 4096, PROT_NONE);
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 1)) *(volatile int *)p = 1;
    if (!fork()) {
        for (int i = 5000; i < 60000; i += 97) p[i] ^= i;
        // With an argument the child becomes the program once more, without.
        if (argc > 1) execl(argv[0], argv[0], (char *)0);
        _exit(0);
    }
    int status;
    wait(&status);
    return 0;
}
"#;
