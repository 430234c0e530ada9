/* A string instruction with GS that faults half-way: the handler sees the program's registers, and it goes on. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static char *second;
static greg_t seen[4];

static void handler(int number, siginfo_t *info, void *frame) {
    ucontext_t *context = frame;
    seen[0] = context->uc_mcontext.gregs[REG_RSI];
    seen[1] = context->uc_mcontext.gregs[REG_RCX];
    seen[2] = context->uc_mcontext.gregs[REG_RBX];
    seen[3] = context->uc_mcontext.gregs[REG_RAX] & 0xff;
    mprotect(second, 4096, PROT_READ | PROT_WRITE);
}

int main(void) {
    char *first = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int at = 0; at < 8192; at++) first[at] = at * 7;
    second = first + 4096;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    syscall(SYS_arch_prctl, ARCH_SET_GS, first);
    for (int way = 0; way < 3; way++) {
        mprotect(second, 4096, PROT_NONE);
        long rsi = 4088, rcx = 16, rax = 0, rbx = 77;
        if (way == 0)
            asm volatile("rep lodsb %%gs:(%%rsi), %%al" : "+S"(rsi), "+c"(rcx), "+a"(rax), "+b"(rbx));
        if (way == 1) {
            rbx = 4096;
            rax = 5;
            asm volatile("xlat %%gs:(%%rbx)" : "+S"(rsi), "+c"(rcx), "+a"(rax), "+b"(rbx));
        }
        if (way == 2) {
            rsi = 4096;
            asm volatile("mov %%gs:4(%%esi), %%al" : "+S"(rsi), "+c"(rcx), "+a"(rax), "+b"(rbx));
        }
        printf("%d: %lld %lld %lld %lld, then %ld %ld %ld %ld\n", way, seen[0], seen[1], seen[2], seen[3],
               rsi, rcx, rbx, rax);
    }
    return 0;
}
