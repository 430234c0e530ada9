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

/// References of less common sorts, over and over beside plain ones: an address in the instruction, three parts of one in FS,
/// numbers of the x87, `pop` and `cmpxchg16b` in memory; where the CPU has AVX-512BW and VL, its vectors at all places of
/// a line, and elements that masks choose, with flags alive; with `WITH_FAULTS` faults that a mask prevents, and does not. (To
/// be linked without `-pie`; `WIDE` says whether the CPU has those, where `cpuid` does not.)
pub const ELEMENTS: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

__attribute__((aligned(4096))) static char room[1 << 16];
__attribute__((aligned(64), used)) static long fixed[8];
static __thread long local[64];
static sigjmp_buf back;
static volatile long total;

static void fault(int signal) { siglongjmp(back, 1); }

#define SPOILED "rax", "rcx", "rdx", "cc", "memory"
#define VECTORS "xmm0", "xmm1"

__attribute__((noinline)) static void uncommon(char *at, long index) {
    __asm__ volatile("movabs fixed, %%rax\n add $1, %%rax\n movabs %%rax, fixed\n movabs fixed+1, %%al\n movabs %%ax, fixed+9\n"
        "movabs fixed+20, %%eax\n movabs %%al, fixed+30\n movabs %%eax, fixed+62\n" ::: SPOILED);
    __asm__ volatile("xor %%eax, %%eax\n mov %1, %%rcx\n mov %%fs:0, %%rdx\n sub %%rdx, %%rcx\n cmp %%eax, %%eax\n"
        "mov %%fs:8(%%rcx,%0,8), %%rdx\n setz %%fs:(%%rcx,%0)\n incl %%fs:16(%%rcx,%0,4)\n"
        :: "r"(index & 31), "r"(local) : SPOILED);
    __asm__ volatile("fldt (%0)\n fstpt 20(%0)\n push 40(%0)\n pop 48(%0)\n push %%rax\n pop (%0)\n" :: "r"(at) : SPOILED);
    char *sixteen = (char *)((uintptr_t)(at + 80) & -16);
    __asm__ volatile("push %%rbx\n xor %%eax, %%eax\n xor %%edx, %%edx\n xor %%ebx, %%ebx\n xor %%ecx, %%ecx\n"
        "lock cmpxchg16b (%0)\n pop %%rbx\n" :: "r"(sixteen) : SPOILED);
}

__attribute__((noinline)) static void vectors(char *at) {
    __asm__ volatile("vmovdqu64 (%0), %%zmm16\n vmovdqu64 %%zmm16, 64(%0)\n vmovdqu8 -64(%0), %%ymm17\n vmovdqa64 %%zmm16, %%zmm18\n"
        "vmovups 3(%0), %%zmm17\n vmovdqu16 %%xmm17, 48(%0)\n vpminub 32(%0), %%ymm16, %%ymm18\n vpcmpeqb 96(%0), %%ymm17, %%k2\n"
        "vptestnmb (%0), %%zmm16, %%k3\n vpcmpub $4, 128(%0), %%zmm16, %%k2\n vpternlogd $7, 64(%0), %%zmm16, %%zmm18\n"
        "vpbroadcastb 5(%0), %%ymm16\n vpbroadcastd 4(%0), %%zmm17\n vextracti32x4 $1, %%zmm16, 16(%0)\n vextracti64x4 $1, %%zmm16, 32(%0)\n"
        "vinserti64x4 $0, 32(%0), %%zmm17, %%zmm18\n vmovss 8(%0), %%xmm16\n vmovq %%xmm16, 8(%0)\n vpmovzxbw 64(%0), %%zmm17\n"
        "vzeroupper\n" :: "r"(at) : SPOILED, VECTORS);
}

__attribute__((noinline)) static void masked(char *at, uint64_t mask) {
    __asm__ volatile("kmovq %1, %%k1\n vpxor %%xmm0, %%xmm0, %%xmm0\n vmovdqu8 (%0), %%zmm16%{%%k1%}%{z%}\n"
        "vmovdqu8 %%zmm16, 64(%0)%{%%k1%}\n vmovdqu16 32(%0), %%ymm17%{%%k1%}\n vmovdqu32 %%zmm16, (%0)%{%%k1%}\n"
        "cmp %1, %1\n vpcmpub $4, 64(%0), %%ymm17, %%k2%{%%k1%}\n setz %%al\n vpcmpeqb (%0), %%ymm17, %%k3%{%%k1%}\n"
        "adc %%al, (%0)\n mov %0, %%rax\n mov $8, %%ecx\n vmovdqu64 -64(%%rax,%%rcx,8), %%zmm18%{%%k1%}\n"
        "vmovupd %%ymm18, 3(%%rax)%{%%k1%}\n vptestmd (%%rax), %%zmm16, %%k2%{%%k1%}\n vpandq 128(%%rax), %%zmm16, %%zmm17%{%%k1%}\n"
        "vpcmpd $1, 16(%%rax), %%xmm17, %%k2%{%%k1%}\n vzeroupper\n" :: "r"(at), "r"(mask) : SPOILED, VECTORS);
}

int main(void) {
#ifndef WIDE
    __builtin_cpu_init();
    int wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
    int wide = WIDE;
#endif
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    static const uint64_t masks[] = {0, 1, -1ull, 0xff, 0x8000000000000000, 0x0f0f, 0xfffffffe, 0x100000001};
    for (int at = 0; at < 300; at++) {
        char *place = room + 4096 + 180 * at;
        for (int other = 0; other < 1 << 16; other += 1800) total += room[(other + at * 64) & 0xffff];
        uncommon(place + at % 67, at);
        if (!wide) continue;
        vectors(place + at % 65);
        masked(place + at % 71, masks[at % 8]);
        masked(place + at % 71, masks[at % 7] << at % 13);
    }
    for (int at = 0; at < 100 && wide; at++) // in two lines, of which some models have the first alone
        __asm__ volatile("vmovdqu64 (%0), %%zmm16\n vzeroupper" :: "r"(room + at % 10 * 128 + 16) : "memory", VECTORS);
#ifdef WITH_FAULTS
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    for (int at = 0; at < 200; at++)
        if (!sigsetjmp(back, 1)) uncommon(pages + 4096 - 100 + at % 100, at);
    for (int at = 0; at < 200 && wide; at++)
        if (!sigsetjmp(back, 1)) masked(pages + 4096 - 200 + at, masks[at % 8]);
    for (int at = 0; at < 130 && wide; at++)
        if (!sigsetjmp(back, 1)) vectors(pages + 4096 - 200 + at);
    for (int at = 0; at < 8 && wide; at++)
        if (!sigsetjmp(back, 1)) masked((char *)0xdead000000000000, masks[at]);
#endif
    return 0;
}
"#;
