// A sandbox as browsers have it: system calls that are not in its list come to a handler of SIGSYS, which does
// something else for the program. What only the runtime would call is not in the list.
#include "code.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile long calls, last, right = 1, ticks, queued;
static void on_trap(int s, siginfo_t *i, void *u) {
    ucontext_t *c = u;
    calls++;
    last = i->si_syscall;
    right &= s == SIGSYS && i->si_code == 1 && i->si_arch == AUDIT_ARCH_X86_64;
    right &= (long long)i->si_call_addr == c->uc_mcontext.gregs[REG_RIP];
    right &= c->uc_mcontext.gregs[REG_RAX] == last;
    c->uc_mcontext.gregs[REG_RAX] = -77;
}
static void on_tick(int s, siginfo_t *i, void *u) {
    right &= s == SIGALRM && i->si_code == SI_KERNEL;
    ticks++;
}
static void on_queue(int s, siginfo_t *i, void *u) {
    right &= s == SIGUSR1 && i->si_code == SI_TKILL && i->si_pid == getpid();
    queued++;
}
#define ALLOW(n) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static void sandbox(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_rt_sigaction), ALLOW(SYS_sigaltstack), ALLOW(SYS_getpid),
        ALLOW(SYS_gettid), ALLOW(SYS_tgkill), ALLOW(SYS_mmap), ALLOW(SYS_mprotect), ALLOW(SYS_munmap),
        ALLOW(SYS_brk), ALLOW(SYS_futex), ALLOW(SYS_clock_gettime), ALLOW(SYS_getppid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void trap(long number, long a, long b, long c, long d) {
    long before = calls;
    long result = syscall(number, a, b, c, d, 0, 0);
    if (result != -1 || errno != 77 || calls != before + 1 || last != number || !right) {
        printf("call %ld: result %ld, errno %d, %ld traps, the last of call %ld, %ld\n", number, result, errno,
               calls - before, last, right);
        exit(1);
    }
}
int main(void) {
    struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSYS, &a, 0);
    struct sigaction b = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &b, 0);
    struct sigaction c = {.sa_sigaction = on_queue, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &c, 0);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, 0);
    sandbox();
    struct rlimit limit = {1, 1};
    char *arguments[] = {"true", 0};
    // A software event: PERF_TYPE_SOFTWARE, PERF_ATTR_SIZE_VER0.
    uint32_t event[64] = {1, 64};
    void *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 50; round++) {
        trap(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", 0, 0);
        trap(SYS_open, (long)"/etc/passwd", 0, 0, 0);
        trap(SYS_newfstatat, AT_FDCWD, (long)"/", 0, 0);
        trap(SYS_mremap, (long)page, 4096, 8192, MREMAP_MAYMOVE);
        trap(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&limit);
        trap(SYS_getrlimit, RLIMIT_DATA, (long)&limit, 0, 0);
        trap(SYS_madvise, (long)page, 4096, MADV_DONTNEED, 0);
        trap(SYS_shmget, 0, 4096, 0600, 0);
        trap(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0);
        trap(SYS_arch_prctl, 0x1003, (long)&limit, 0, 0);
        trap(SYS_process_vm_writev, getpid(), 0, 0, 0);
        trap(SYS_ftruncate, 99, 1, 0, 0);
        trap(SYS_perf_event_open, (long)event, 0, -1, -1);
        if (round < 3) trap(SYS_execve, (long)"/bin/true", (long)arguments, 0, 0);
        trap(SYS_clone, SIGCHLD, 0, 0, 0);
        trap(SYS_fork, 0, 0, 0, 0);
        trap(SYS_vfork, 0, 0, 0, 0);
        NEED(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) == 0 && queued == round + 1 && right);
        unsigned char *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        returns(code, round);
        NEED(CALL(code) == round);
    }
    // Until timers have come to translated code and to the runtime.
    for (int round = 0; ticks < 300; round++) {
        NEED(fib(12) == 144 && right);
        trap(SYS_mremap, (long)page, 4096, 8192, MREMAP_MAYMOVE);
    }
    NEED(right);
    puts("good");
    fflush(stdout);
    _exit(0);
}
