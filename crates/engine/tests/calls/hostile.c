// Programs that a tree of calls has to survive: more paths than it keeps, deeper calls, stacks that overflow, return
// addresses that are not those of calls.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define NOINLINE __attribute__((noinline, noclone, noipa))

NOINLINE long right(int depth, long x);
// 2^depth paths.
NOINLINE long left(int depth, long x) { return depth == 0 ? x : left(depth - 1, 2 * x) + right(depth - 1, 2 * x + 1); }
NOINLINE long right(int depth, long x) { return depth == 0 ? x ^ 1 : left(depth - 1, 2 * x) - right(depth - 1, 2 * x + 1); }

NOINLINE long overflow(long n) {
    volatile char room[512];
    room[n & 511] = (char)n;
    return overflow(n + 1) + room[3];
}
static sigjmp_buf out;
static void caught(int signal) { siglongjmp(out, signal); }

long deep(long depth, void *stack);
long replaced(void), skipped(void), pushed(void);
__asm__(
    // On a stack of its own: one word a call.
    ".globl deep, down; deep: push %rbx; mov %rsp, %rbx; mov %rsi, %rsp; xor %eax, %eax; call down; mov %rbx, %rsp; pop %rbx; ret;"
    "down: inc %rax; dec %rdi; jz 1f; call down; 1: ret;"
    // Another return address than that of the call; the stack is as it was.
    ".globl replaced; replaced: call corrupt; nop; elsewhere: mov $42, %eax; ret;"
    "corrupt: lea elsewhere(%rip), %rax; mov %rax, (%rsp); ret;"
    // One byte further.
    ".globl skipped; skipped: call skipping; nop; mov $1, %eax; ret;"
    "skipping: addq $1, (%rsp); ret;"
    // A return that belongs to no call, and a call whose return address is taken away.
    ".globl pushed; pushed: lea 1f(%rip), %rax; push %rax; ret; 1: call 2f; 2: pop %rax; mov $7, %eax; ret;");

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    long n = count > 2 ? atol(arguments[2]) : 0, result = 0;
    if (!strcmp(what, "paths")) {
        result = left((int)n, 1);
    } else if (!strcmp(what, "deep")) {
        size_t size = (size_t)(n + 64) * 8;
        char *stack = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        result = deep(n, stack + size);
    } else if (!strcmp(what, "caught")) {
        stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
        sigaltstack(&stack, 0);
        struct sigaction action = {.sa_handler = caught, .sa_flags = SA_ONSTACK};
        sigaction(SIGSEGV, &action, 0);
        for (volatile int i = 0; i < 3; i++)
            result += sigsetjmp(out, 1) ? 1 : overflow(0);
    } else if (!strcmp(what, "overflow")) {
        result = overflow(0);
    } else if (!strcmp(what, "corrupt")) {
        for (int i = 0; i < n; i++)
            result += replaced() + skipped() + pushed();
    }
    printf("%ld\n", result);
    fflush(stdout);
    // Mebibytes at most, of this program alone: ru_maxrss is also that of who started it.
    long most = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6)) most = atol(line + 6);
    if (count > 3 && (most == 0 || most > atol(arguments[3]) * 1024)) {
        fprintf(stderr, "%ld KiB\n", most);
        return 3;
    }
    return 0;
}
