// Programs that restrict their own system calls: user dispatch, seccomp's strict mode, filters.
#include "code.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <ucontext.h>

static char volatile selector;
static volatile int got, number, right = 1;
static void on_call(int s, siginfo_t *i, void *u) {
    selector = 0;
    ucontext_t *c = u;
    got++;
    number = i->si_syscall;
    right &= s == SIGSYS && i->si_code == 2 && i->si_arch == AUDIT_ARCH_X86_64;
    right &= (long long)i->si_call_addr == c->uc_mcontext.gregs[REG_RIP];
    right &= memcmp((char *)i->si_call_addr - 2, "\x0f\x05", 2) == 0;
    right &= c->uc_mcontext.gregs[REG_RAX] == number;
    c->uc_mcontext.gregs[REG_RAX] = 4242;
}
static volatile int created, looked;
static void *in_thread(void *arg) {
    // Not inherited. The thread that made this one has it on: it makes no call of its own meanwhile.
    while (!created) {}
    selector = 1;
    long id = syscall(SYS_getppid);
    selector = 0;
    looked = 1;
    return id == getppid() ? arg : 0;
}
static int dispatch(void) {
    struct sigaction a = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, 0);
    if (prctl(59, 1, 0, 0, &selector) != 0) return 2;
    NEED(prctl(59, 1, 100ul, 0, &selector) == -1 && errno == EINVAL);
    NEED(prctl(59, 1, 0, 0, 1ul << 63) == -1 && errno == EFAULT);
    for (int at = 1; at < 200; at++) {
        selector = 1;
        long x = syscall(at % 2 ? SYS_getppid : SYS_mmap, 0, 0, 0, 0, 0, 0);
        NEED(x == 4242 && got == at && number == (at % 2 ? SYS_getppid : SYS_mmap) && right);
    }
    pthread_t t;
    void *good;
    NEED(pthread_create(&t, 0, in_thread, (void *)1) == 0);
    created = 1;
    while (!looked) {}
    pthread_join(t, &good);
    NEED(good);
    if (fork() == 0) _exit(in_thread((void *)1) ? 5 : 6);
    int status;
    wait(&status);
    NEED(WEXITSTATUS(status) == 5);
    // Everything but this library's code.
    NEED(prctl(59, 1, 1ul, (1ul << 47), &selector) == 0);
    selector = 1;
    NEED(syscall(SYS_getppid) == getppid());
    selector = 0;
    NEED(prctl(59, 0, 0, 0, 0) == 0);
    selector = 1;
    NEED(syscall(SYS_getppid) == getppid());
    selector = 0;
    // Forced where it cannot be handled; an invalid selector.
    for (int way = 0; way < 4; way++) {
        if (fork() == 0) {
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGSYS);
            if (way == 1) signal(SIGSYS, SIG_IGN);
            if (way == 2) sigprocmask(SIG_BLOCK, &set, 0);
            if (way == 3) signal(SIGSYS, SIG_DFL);
            prctl(59, 1, 0, 0, &selector);
            selector = way == 0 ? 7 : 1;
            syscall(SYS_getppid);
            for (;;) selector = 0, _exit(1);
        }
        wait(&status);
        NEED(status == SIGSYS || status == (SIGSYS | 0x80));
    }
    return 0;
}
static volatile long trapped;
static void on_trap(int s, siginfo_t *i, void *u) {
    ucontext_t *c = u;
    trapped = i->si_syscall;
    right &= s == SIGSYS && i->si_code == 1 && (long long)i->si_call_addr == c->uc_mcontext.gregs[REG_RIP];
    c->uc_mcontext.gregs[REG_RAX] = -77;
}
static void filter(int only) {
    // getppid is trapped; what a program under test has no need of ends it.
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, only ? SYS_prctl : SYS_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, only ? SYS_futex : SYS_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IONBF, 0);
    if (argc > 1) {
        // Strict: nothing but read, write, exit.
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        if (fib(20) == 6765) write(1, "good\n", 5);
        syscall(SYS_exit, 0);
    }
    if (dispatch() == 2) puts("this kernel has no user dispatch");
    NEED(right);
    int status;
    for (int only = 0; only < 2; only++) {
        if (fork() == 0) {
            struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
            sigaction(SIGSYS, &a, 0);
            filter(only);
            NEED(syscall(SYS_getppid) == -1 && errno == 77 && trapped == SYS_getppid && right);
            // Code of its own, mapped after that.
            for (int at = 0; at < 20; at++) {
                unsigned char *page = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                returns(page, at);
                NEED(CALL(page) == at);
                NEED(mprotect(page, 4096, PROT_READ) == 0 && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
                NEED(CALL(page) == at);
                if (at % 2) NEED(munmap(page, 4096) == 0);
            }
            _exit(8);
        }
        wait(&status);
        NEED(WIFEXITED(status) && WEXITSTATUS(status) == 8);
    }
    if (fork() == 0) {
        execl("/proc/self/exe", argv[0], "strict", (char *)0);
        _exit(1);
    }
    wait(&status);
    NEED(status == 0);
    puts("good");
}
