// GS: base by system call and by instructions, operands of many forms, threads, children, handlers, faults.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <immintrin.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int bad;
#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); bad = 1; } } while (0)

static void set(void *base) { syscall(SYS_arch_prctl, ARCH_SET_GS, base); }
static void *get(void) { void *base; syscall(SYS_arch_prctl, ARCH_GET_GS, &base); return base; }

static uint64_t answer(void) { return 42; }

static void operands(uint64_t *t) {
    uint64_t a, b = 2, c = 3, flags;
    asm volatile("movq %%gs:0x10, %0" : "=r"(a)); CHECK(a == t[2]);
    asm volatile("movl %%gs:0x10, %k0" : "=r"(a)); CHECK(a == (uint32_t)t[2]);
    asm volatile("movq %%gs:(%1), %0" : "=r"(a) : "r"(8ul)); CHECK(a == t[1]);
    asm volatile("movq %%gs:8(%1,%2,8), %0" : "=r"(a) : "r"(8ul), "r"(b)); CHECK(a == t[4]);
    asm volatile("movq %%gs:0(,%1,8), %0" : "=r"(a) : "r"(c)); CHECK(a == t[3]);
    asm volatile("movq %%gs:(%%rsi,%%rdi), %%rbx\n mov %%rbx, %0" : "=r"(a) : "S"(8ul), "D"(8ul) : "rbx"); CHECK(a == t[2]);
    asm volatile("movq %%gs:(%%rbx,%%rdi), %%rsi\n mov %%rsi, %0" : "=r"(a) : "b"(8ul), "D"(16ul) : "rsi"); CHECK(a == t[3]);
    asm volatile("mov $8, %%r13d\n mov $1, %%r12d\n movq %%gs:(%%r13,%%r12,8), %%r14\n mov %%r14, %0"
                 : "=r"(a) : : "r12", "r13", "r14"); CHECK(a == t[2]);
    asm volatile("push %%rbp\n mov $16, %%ebp\n movq %%gs:(%%rbp), %0\n pop %%rbp" : "=r"(a)); CHECK(a == t[2]);
    asm volatile("movq %1, %%gs:0x28\n addq $5, %%gs:0x28\n incb %%gs:0x28" : "=m"(t[5]) : "r"(b)); CHECK(t[5] == 8);
    asm volatile("lock xaddq %0, %%gs:0x28" : "=r"(a), "=m"(t[5]) : "0"(100ul)); CHECK(a == 8 && t[5] == 108);
    asm volatile("movw $0x1234, %%gs:0x28\n movb $7, %%gs:0x2a\n movl $-1, %%gs:0x2c" : "=m"(t[5]));
    CHECK(t[5] == 0xffffffff00071234);
    asm volatile("pushq %%gs:0x10\n popq %%gs:0x30" : "=m"(t[6])); CHECK(t[6] == t[2]);
    asm volatile("movabsq %%gs:0x10, %%rax" : "=a"(a)); CHECK(a == t[2]);
    asm volatile("movabsb %%al, %%gs:0x30" : "=m"(t[6]) : "a"(9ul)); CHECK((uint8_t)t[6] == 9);
    asm volatile("cmpq %1, %%gs:0x10\n sete %b0\n movzx %b0, %q0" : "=r"(a) : "r"(t[2])); CHECK(a == 1);
    asm volatile("stc\n movq %%gs:0x10, %1\n pushfq\n popq %0" : "=r"(flags), "=r"(a)); CHECK(flags & 1);
    asm volatile("movups %%gs:0x10, %%xmm9\n movups %%xmm9, %%gs:0x40" : "=m"(t[8]), "=m"(t[9]) : : "xmm9");
    CHECK(t[8] == t[2] && t[9] == t[3]);
    asm volatile("imulq $10, %%gs:0x8, %0" : "=r"(a)); CHECK(a == 10 * t[1]);
    asm volatile("mov $0x10, %%eax\n mov $0x7, %%edx\n xor %%ecx, %%ecx\n xor %%ebx, %%ebx\n lock cmpxchg8b %%gs:0x8\n"
                 : "=a"(a), "=d"(b) : : "rcx", "rbx"); CHECK(a == (uint32_t)t[1]);
    asm volatile("lea %%gs:0x10, %0" : "=r"(a)); CHECK(a == 0x10);
    t[7] = (uint64_t)answer;
    asm volatile("sub $128, %%rsp\n callq *%%gs:0x38\n add $128, %%rsp" : "=a"(a) : : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
    CHECK(a == 42);
    asm volatile("sub $128, %%rsp\n mov $7, %%ecx\n callq *%%gs:(,%%rcx,8)\n add $128, %%rsp" : "=a"(a) : : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
    CHECK(a == 42);
    asm volatile("lea 1f(%%rip), %%rax\n mov %%rax, %%gs:0x38\n mov $0x30, %%edx\n jmpq *%%gs:8(%%rdx)\n ud2\n1: mov $1, %0" : "=r"(a) : : "rax", "rdx");
    CHECK(a == 1);
    if (__builtin_cpu_supports("avx512f")) {
        asm volatile("xor %%eax, %%eax\n vbroadcastsd %%gs:8(%%rax), %%zmm17\n vmovdqu64 %%zmm17, %%zmm2\n vmovq %%xmm2, %0" : "=r"(a) : : "rax", "xmm2");
        CHECK(a == t[1]);
    }
    if (__builtin_cpu_supports("avx2")) {
        asm volatile("mov $8, %%r9d\n vmovups %%gs:0x10(%%r9,%%r9,1), %%ymm8\n vmovq %%xmm8, %0" : "=r"(a) : : "r9", "xmm8"); CHECK(a == t[4]);
        asm volatile("mov $24, %%esi\n andn %%gs:(%%rsi), %%rdi, %0" : "=r"(a) : "D"(0ul) : "rsi"); CHECK(a == t[3]);
    }
}

static void with_instructions(uint64_t *t) {
    if (!(getauxval(AT_HWCAP2) & 2)) return;
    uint64_t a;
    void *before = get();
    asm volatile("rdgsbase %0" : "=r"(a)); CHECK(a == (uint64_t)before);
    asm volatile("mov %1, %%r12\n wrgsbase %%r12\n rdgsbase %%r13\n mov %%r13, %0" : "=r"(a) : "r"(t + 1) : "r12", "r13");
    CHECK(a == (uint64_t)(t + 1) && get() == t + 1);
    asm volatile("movq %%gs:0, %0" : "=r"(a)); CHECK(a == t[1]);
    asm volatile("wrgsbase %k1\n rdgsbase %0" : "=r"(a) : "r"(0xffffffff12345678ul)); CHECK(a == 0x12345678);
    asm volatile("wrgsbase %q1\n rdgsbase %k0" : "=r"(a) : "r"(t)); CHECK((uint32_t)a == (uint32_t)(uint64_t)t);
    set(before);
}

static volatile int ticks;
static void tick(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    uint64_t a;
    asm volatile("movq %%gs:0x58, %0" : "=r"(a));
    if (a != 0x5858) bad = 1;
    ticks++;
}
static sigjmp_buf back;
static void *where;
static uint64_t registers[4];
static void fault(int signal, siginfo_t *info, void *context) {
    (void)signal;
    ucontext_t *u = context;
    where = info->si_addr;
    registers[0] = u->uc_mcontext.gregs[REG_RSI];
    registers[1] = u->uc_mcontext.gregs[REG_RDI];
    registers[2] = u->uc_mcontext.gregs[REG_RBX];
    registers[3] = u->uc_mcontext.gregs[REG_RCX];
    siglongjmp(back, 1);
}

static void *thread(void *argument) {
    // (Stays when the thread's stack has gone: the handler looks at it up to the end.)
    uint64_t *t = calloc(16, 8);
    for (int i = 1; i < 6; i++) t[i] = 11 * i;
    t[11] = 0x5858;
    CHECK(argument == get());
    set(t);
    operands(t);
    for (int i = 0; i < 100000; i++) {
        uint64_t a;
        asm volatile("incq %%gs:0x50\n movq %%gs:0x50, %0" : "=r"(a) : : "memory");
        if (a != (uint64_t)i + 1) { bad = 1; break; }
    }
    return 0;
}

int main(void) {
    uint64_t t[16] = {0, 0x1111111111, 0x2222222222, 0x3333333333, 0x4444444444};
    t[11] = 0x5858;
    CHECK(get() == 0);
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, -1l) == -1);
    set(t);
    CHECK(get() == t);
    with_instructions(t); // (before the handler, which has the base of here)
    struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval timer = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &timer, 0);
    for (int i = 0; i < 3000 || ticks < 20; i++) operands(t);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, thread, t);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(get() == t);
        operands(t);
        fflush(stdout);
        _exit(bad);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    action.sa_sigaction = fault;
    sigaction(SIGSEGV, &action, 0);
    set((void *)0x1000);
    if (!sigsetjmp(back, 1))
        asm volatile("mov $1, %%esi\n mov $2, %%edi\n mov $3, %%ebx\n mov $4, %%ecx\n movq %%gs:0x20(%%rcx), %%rax" : : : "rsi", "rdi", "rbx", "rcx", "rax");
    CHECK(where == (void *)0x1024 && registers[0] == 1 && registers[1] == 2 && registers[2] == 3 && registers[3] == 4);
    where = 0;
    if (!sigsetjmp(back, 1))
        asm volatile("mov $5, %%esi\n mov $6, %%edi\n mov $7, %%ebx\n mov $8, %%ecx\n jmpq *%%gs:0x20(%%rcx,%%rsi)" : : : "rsi", "rdi", "rbx", "rcx", "rax");
    CHECK(where == (void *)0x102d && registers[0] == 5 && registers[1] == 6 && registers[2] == 7 && registers[3] == 8);
    puts(bad ? "bad" : "good");
    return bad;
}
