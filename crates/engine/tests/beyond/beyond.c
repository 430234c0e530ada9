/* What could leave the sight of a tracer of system calls: calls made otherwise, by other numbers, or by the kernel later. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <linux/io_uring.h>
#include <linux/aio_abi.h>

static long int80(long n, long a, long b, long c, long d, long e, long f) {
    long r;
    register long r8 __asm__("r8") = 8, r9 __asm__("r9") = 9, r10 __asm__("r10") = 10, r11 __asm__("r11") = 11;
    __asm__ volatile("push %%rbp; mov %[f], %%rbp; int $0x80; pop %%rbp"
                     : "=a"(r), "+r"(r8), "+r"(r9), "+r"(r10), "+r"(r11)
                     : "a"(n), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [f] "r"(f) : "memory", "cc");
    if (r8 != 8 || r9 != 9 || r10 != 10 || r11 != 11) printf("registers changed\n");
    return r;
}
typedef int (*function)(void);
static void put(void *at, int value) { unsigned char c[6] = {0xb8, value, value >> 8, value >> 16, value >> 24, 0xc3}; memcpy(at, c, 6); }
static int call(void *at) { return ((function)at)(); }
static long raw(long n, long a, long b, long c, long d, long e, long f) {
    long r; register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return r;
}
static void *low(void *want) { void *p = mmap(want, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS|MAP_32BIT|(want?MAP_FIXED:0), -1, 0); return p; }

static void t_int80_memory(void) {
    char *page = low(0);
    put(page, 1); printf("%d", call(page));
    printf(" mprotect %ld", int80(125, (long)page, 8192, 7, 0, 0, 0));
    put(page, 2); printf(" %d", call(page));
    printf(" munmap %ld", int80(91, (long)page, 8192, 0, 0, 0, 0));
    printf(" mmap2 %d", int80(192, (long)page, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED, -1, 0) == (long)page);
    put(page, 3); printf(" %d", call(page));
    long other = int80(192, 0, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    printf(" low %d", other > 0 && other < 1L << 32);
    put((void *)other, 4); printf(" %d", call((void *)other));
    int *args = (int *)(page + 4096); args[0] = (int)other; args[1] = 4096; args[2] = 7; args[3] = MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED; args[4] = -1; args[5] = 0;
    printf(" old %d", int80(90, (long)args, 0, 0, 0, 0, 0) == other);
    put((void *)other, 5); printf(" %d", call((void *)other));
    printf(" advise %ld", int80(219, other, 4096, 4, 0, 0, 0));
    printf(" byte %d", *(char *)other);
    put((void *)other, 6); printf(" %d", call((void *)other));
    long moved = int80(163, other, 8192, 16384, 1, 0, 0);
    printf(" moved %d %d", moved > 0, call((void *)moved));
    printf(" brk %d\n", int80(45, 0, 0, 0, 0, 0, 0) == (long)sbrk(0) || 1);
}
static void t_int80_read(void) {
    char *page = low(0); int fd[2]; pipe(fd);
    put(page, 1); put(page + 64, 2); printf("%d %d", call(page), call(page + 64));
    unsigned char c[6] = {0xb8, 7, 0, 0, 0, 0xc3}; write(fd[1], c, 6);
    printf(" read %ld", int80(3, fd[0], (long)page, 6, 0, 0, 0));
    printf(" %d\n", call(page));
}
static void t_int80_children(void) {
    fflush(stdout);
    for (int which = 0; which < 3; which++) {
        long pid = which == 0 ? int80(2, 0, 0, 0, 0, 0, 0) : which == 1 ? int80(120, SIGCHLD, 0, 0, 0, 0, 0) : fork();
        if (pid == 0) { for (volatile int i = 0; i < 1000; i++); int80(which == 1 ? 252 : 1, 40 + which, 0, 0, 0, 0, 0); }
        int *status = low(0); *status = 0;
        long got = which == 1 ? int80(7, pid, (long)status, 0, 0, 0, 0) : int80(114, pid, (long)status, 0, 0, 0, 0);
        printf("%d %d ", got == pid, WEXITSTATUS(*status));
    }
    printf("\n");
}
static volatile int handled;
static void on(int s) { handled++; }
static void every(int microseconds) { struct itimerval t = {{0, microseconds}, {0, microseconds}}; setitimer(ITIMER_REAL, &t, 0); }
static void waited(const char *what, long result) { printf("%s %ld, handled %d\n", what, result, handled > 0); handled = 0; }
static void t_int80_wait(void) {
    int fd[2]; pipe(fd); char *page = low(0);
    struct sigaction a = {.sa_handler = on, .sa_flags = SA_RESTART}; sigaction(SIGALRM, &a, 0);
    int child = fork();
    if (!child) { usleep(100000); write(fd[1], "x", 1); _exit(0); }
    every(20000);
    waited("read", int80(3, fd[0], (long)page, 1, 0, 0, 0));
    a.sa_flags = 0; sigaction(SIGALRM, &a, 0);
    waited("read", int80(3, fd[0], (long)page, 1, 0, 0, 0));
    int *ts = (int *)page; ts[0] = 5; ts[1] = 0;
    waited("nanosleep", int80(162, (long)page, (long)page + 8, 0, 0, 0, 0));
    waited("pause", int80(29, 0, 0, 0, 0, 0, 0));
    every(0); waitpid(child, 0, 0);
}
static void t_int80_plain(void) {
    char *page = low(0); strcpy(page, "text\n");
    printf("%d %d %ld %ld\n", int80(20, 0, 0, 0, 0, 0, 0) == getpid(), int80(224, 0, 0, 0, 0, 0, 0) == gettid(), int80(999, 0, 0, 0, 0, 0, 0), int80(6, 77, 0, 0, 0, 0, 0));
    fflush(stdout); int80(4, 1, (long)page, 5, 0, 0, 0);
    strcpy(page, "/"); printf("%ld\n", int80(33, (long)page, 0, 0, 0, 0, 0));
    unsigned *mask = (unsigned *)page; mask[0] = 1 << (SIGUSR1 - 1); mask[1] = 0;
    printf("mask %ld", int80(175, SIG_BLOCK, (long)page, 0, 8, 0, 0));
    sigset_t s; sigprocmask(0, 0, &s); printf(" %d\n", sigismember(&s, SIGUSR1));
}
static void t_int80_exec(void) {
    char *page = low(0); strcpy(page, "/bin/echo"); strcpy(page + 100, "echo"); strcpy(page + 110, "done"); strcpy(page + 120, "A=b");
    unsigned *argv = (unsigned *)(page + 200), *envp = (unsigned *)(page + 240);
    argv[0] = (long)page + 100; argv[1] = (long)page + 110; argv[2] = 0; envp[0] = (long)page + 120; envp[1] = 0;
    strcpy(page + 130, "/nowhere"); printf("%ld\n", int80(11, (long)page + 130, (long)argv, (long)envp, 0, 0, 0)); fflush(stdout);
    int80(11, (long)page, (long)argv, (long)envp, 0, 0, 0); printf("no\n");
}
static void t_int80_exit(void) { printf("ends\n"); fflush(stdout); int80(1, 7, 0, 0, 0, 0, 0); }
static void t_int80_trace(void) { printf("%ld\n", int80(26, 1, -1, 0, 0, 0, 0)); }
static void t_int80_action(void) {
    char *page = low(0); printf("%ld\n", int80(174, SIGUSR1, 0, (long)page, 8, 0, 0)); fflush(stdout);
    unsigned *a = (unsigned *)page; memset(page, 0, 64); a[0] = 1; printf("%ld\n", int80(174, SIGUSR1, (long)page, 0, 8, 0, 0)); fflush(stdout); kill(getpid(), SIGUSR1); printf("ignored\n");
}
static void t_upper(void) {
    char *page = mmap(0, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    put(page, 1); printf("%d", call(page));
    printf(" %ld", raw(1L << 32 | SYS_munmap, (long)page, 8192, 0, 0, 0, 0));
    printf(" %d", raw(5L << 40 | SYS_mmap, (long)page, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED, -1, 0) == (long)page);
    put(page, 2); printf(" %d", call(page));
    printf(" %d\n", raw(1L << 33 | SYS_getpid, 0, 0, 0, 0, 0, 0) == getpid()); fflush(stdout);
    long pid = raw(1L << 32 | SYS_fork, 0, 0, 0, 0, 0, 0); if (pid == 0) _exit(3); int st; waitpid(pid, &st, 0); printf("%d\n", WEXITSTATUS(st));
}
static void t_x32(void) { printf("%ld %ld\n", raw(0x40000000 | SYS_getpid, 0, 0, 0, 0, 0, 0), raw(0x40000000 | SYS_fork, 0, 0, 0, 0, 0, 0)); }
static void t_sysenter(void) { __asm__ volatile("mov $20, %%eax; sysenter" ::: "rax", "rcx", "rdx"); }
static void wide(int s, siginfo_t *i, void *c) { ucontext_t *u = c; greg_t *g = u->uc_mcontext.gregs; g[REG_CSGSFS] = (g[REG_CSGSFS] & ~0xffffL) | 0x23; }
static void t_sigreturn32(void) {
    struct sigaction a = {.sa_sigaction = wide, .sa_flags = SA_SIGINFO}; sigaction(SIGUSR1, &a, 0);
    printf("now\n"); fflush(stdout); kill(getpid(), SIGUSR1); printf("back\n");
}
static void t_remap(void) {
    int fd = memfd_create("x", 0); ftruncate(fd, 8192);
    char *p = mmap(0, 8192, 7, MAP_SHARED, fd, 0); put(p, 1); put(p + 4096, 2);
    printf("%d %d", call(p), call(p + 4096));
    printf(" %ld", raw(SYS_remap_file_pages, (long)p, 4096, 0, 1, 0, 0));
    printf(" %d", call(p)); put(p + 4096, 3); printf(" %d %d", call(p), call(p + 4096)); put(p, 4); printf(" %d %d\n", call(p), call(p + 4096));
}
static void t_process_madvise(void) {
    int fd = memfd_create("x", 0); char b[4096] = {0}; put(b, 1); write(fd, b, 4096);
    char *p = mmap(0, 4096, 7, MAP_PRIVATE, fd, 0); put(p, 2); printf("%d", call(p));
    int self = raw(434, getpid(), 0, 0, 0, 0, 0); struct { void *b; long l; } v = {p, 4096};
    long r = raw(440, self, (long)&v, 1, 4, 0, 0); printf(" %ld", r);
    printf(" %d %d\n", *(int *)(p + 1), call(p));
}
static void t_secret(void) {
    int fd = raw(447, 0, 0, 0, 0, 0, 0); if (fd < 0) { printf("none %d\n", fd); return; }
    ftruncate(fd, 4096); char *w = mmap(0, 4096, 3, MAP_SHARED, fd, 0), *x = mmap(0, 4096, 5, MAP_SHARED, fd, 0);
    if (w == MAP_FAILED || x == MAP_FAILED) { printf("failed\n"); return; }
    for (int i = 1; i < 40; i++) { put(w, i); printf("%d ", call(x)); } printf("\n");
}
static void t_shm(void) {
    int id = shmget(IPC_PRIVATE, 8192, 0700 | IPC_CREAT); char *w = shmat(id, 0, 0), *x = shmat(id, 0, SHM_EXEC); shmctl(id, IPC_RMID, 0);
    if (x == (char *)-1) { printf("failed\n"); return; }
    for (int i = 1; i < 40; i++) { put(w, i); printf("%d ", call(x)); } shmdt(w); put(x, 99); printf("%d\n", call(x));
    if (!fork()) { put(x, 77); printf("%d\n", call(x)); fflush(stdout); _exit(0); } wait(0); printf("%d\n", call(x)); shmdt(x);
}
static void t_grows(void) {
    char *p = mmap((void *)0x200000000, 4096, 7, MAP_PRIVATE|MAP_ANONYMOUS|MAP_GROWSDOWN|MAP_FIXED, -1, 0);
    for (int i = 1; i < 20; i++) { put(p, i); printf("%d ", call(p)); p[-4000] = 0; put(p - 4096 * i, i + 100); printf("%d ", call(p - 4096 * i)); } printf("\n");
}
static void t_seal(void) {
    char *p = mmap(0, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0); put(p, 1); printf("%d", call(p));
    printf(" %ld", raw(462, (long)p, 8192, 0, 0, 0, 0)); put(p, 2); printf(" %d", call(p)); put(p + 4096, 3); printf(" %d", call(p + 4096)); put(p + 4096, 4);
    printf(" %d %d\n", call(p + 4096), mprotect(p, 4096, 3));
}
static void t_implied(void) {
    personality(personality(0xffffffff) | READ_IMPLIES_EXEC);
    char *p = mmap(0, 8192, 3, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i < 20; i++) { put(p, i); printf("%d ", call(p)); } mprotect(p, 8192, 3); put(p, 50); printf("%d\n", call(p));
}
static long setup(unsigned n, struct io_uring_params *p) { return raw(425, n, (long)p, 0, 0, 0, 0); }
static void t_uring(void) {
    struct io_uring_params p = {0}; int r = setup(4, &p); if (r < 0) { printf("none\n"); return; }
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED|MAP_POPULATE, r, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, 3, MAP_SHARED|MAP_POPULATE, r, IORING_OFF_CQ_RING);
    struct io_uring_sqe *e = mmap(0, p.sq_entries * sizeof *e, 3, MAP_SHARED|MAP_POPULATE, r, IORING_OFF_SQES);
    int fd = memfd_create("x", 0); char b[8] = {0}; 
    char *page = mmap(0, 4096, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i < 6; i++) {
        put(page, 100 + i); printf("%d ", call(page));
        put(b, i); pwrite(fd, b, 6, 0);
        unsigned *tail = (unsigned *)(sq + p.sq_off.tail); unsigned mask = *(unsigned *)(sq + p.sq_off.ring_mask), at = *tail & mask;
        memset(&e[at], 0, sizeof *e); e[at].opcode = IORING_OP_READ; e[at].fd = fd; e[at].addr = (long)page; e[at].len = 6;
        ((unsigned *)(sq + p.sq_off.array))[at] = at; __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        raw(426, r, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
        unsigned *head = (unsigned *)(cq + p.cq_off.head); struct io_uring_cqe *c = (void *)(cq + p.cq_off.cqes); printf("res %d ", c[*head & *(unsigned *)(cq + p.cq_off.ring_mask)].res); ++*head;
        printf("%d ", call(page));
    }
    printf("\n");
}
static void t_aio(void) {
    aio_context_t c = 0; if (raw(SYS_io_setup, 4, (long)&c, 0, 0, 0, 0) < 0) { printf("none\n"); return; }
    int fd = memfd_create("x", 0); char b[8] = {0}; char *page = mmap(0, 4096, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i < 6; i++) {
        put(page, 100 + i); printf("%d ", call(page)); put(b, i); pwrite(fd, b, 6, 0);
        struct iocb io = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = fd, .aio_buf = (long)page, .aio_nbytes = 6}, *ios = &io; struct io_event ev;
        printf("sub %ld ", raw(SYS_io_submit, c, 1, (long)&ios, 0, 0, 0)); raw(SYS_io_getevents, c, 1, 1, (long)&ev, 0, 0); printf("res %lld %d ", (long long)ev.res, call(page));
    }
    printf("\n");
}
static void t_mdwe(void) {
    char *page = mmap(0, 4096, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0); put(page, 1); printf("%d ", call(page));
    printf("%d", prctl(65, 1, 0, 0, 0)); char *p = mmap(0, 4096, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0); printf(" %d", p == MAP_FAILED); put(page, 2); printf(" %d", call(page));
    printf(" %d", mprotect(page, 4096, 5)); printf(" %d\n", call(page));
    char *q = mmap((void *)0x900000000, 4096, 5, MAP_PRIVATE|MAP_FIXED, open("/proc/self/exe", O_RDONLY), 0); printf("%d\n", q != MAP_FAILED); fflush(stdout);
    if (!fork()) { execl("/bin/echo", "echo", "child", (char *)0); } wait(0);
}
static void t_arch(void) { printf("%ld %ld\n", raw(SYS_arch_prctl, 0x1011, 0, 0, 0, 0, 0), raw(SYS_arch_prctl, 0x1012, 1, 0, 0, 0, 0)); }
static volatile int selector; static long site;
static void sys(int s, siginfo_t *i, void *c) { selector = 0; ucontext_t *u = c; u->uc_mcontext.gregs[REG_RAX] = 1000 + i->si_syscall; site = i->si_arch; }
static void t_dispatch(void) {
    struct sigaction a = {.sa_sigaction = sys, .sa_flags = SA_SIGINFO}; sigaction(SIGSYS, &a, 0);
    printf("%d", prctl(59, 1, 0, 0, &selector)); selector = 1; long r = int80(20, 0, 0, 0, 0, 0, 0); printf(" %ld %lx", r, site);
    selector = 1; r = raw(39, 0, 0, 0, 0, 0, 0); printf(" %ld %lx\n", r, site); prctl(59, 0, 0, 0, 0);
    printf("%d", prctl(59, 2, (long)t_arch, 4096, 0)); printf(" %d\n", getpid() > 0);
}
static void t_populate(void) {
    char *p = mmap(0, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0); put(p, 1); printf("%d", call(p)); printf(" %d", madvise(p, 8192, 23)); put(p, 2); printf(" %d\n", call(p));
}
static void t_poke(void) {
    fflush(stdout); int fd[2]; pipe(fd); int pid = fork();
    if (!pid) { char c; write(fd[1], "r", 1); volatile long x = 0; for (;;) { x++; if (getppid() == 1) _exit(0); } }
    char c; read(fd[0], &c, 1); usleep(30000); printf("attach %ld", ptrace(PTRACE_ATTACH, pid, 0, 0)); int st; waitpid(pid, &st, __WALL);
    struct user_regs_struct u; printf(" get %ld", ptrace(PTRACE_GETREGS, pid, 0, &u)); printf(" set %ld", ptrace(PTRACE_SETREGS, pid, 0, &u)); ptrace(PTRACE_DETACH, pid, 0, 0);
    kill(pid, 9); waitpid(pid, &st, 0); printf(" %d\n", st);
}
static void t_move(void) {
    int u = raw(SYS_userfaultfd, O_CLOEXEC, 0, 0, 0, 0, 0); struct uffdio_api api = {.api = UFFD_API}; if (u < 0 || ioctl(u, UFFDIO_API, &api)) { printf("none\n"); return; }
    char *p = mmap(0, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0), *q = mmap(0, 8192, 7, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    put(q, 2); put(p, 1); printf("%d %d", call(p), call(q)); madvise(p, 4096, MADV_DONTNEED);
    struct uffdio_register r = {.range = {(long)p, 8192}, .mode = UFFDIO_REGISTER_MODE_MISSING}; printf(" reg %d", ioctl(u, UFFDIO_REGISTER, &r));
    struct { uint64_t dst, src, len, mode; int64_t move; } m = {(long)p, (long)q, 4096, 0, 0};
    printf(" move %d", ioctl(u, _IOWR(0xaa, 5, m), &m)); printf(" %d", call(p)); printf(" byte %d", *q); put(q, 3); printf(" %d\n", call(q));
}
static const struct { const char *name; void (*f)(void); } all[] = {
#define T(x) {#x, t_##x}
    T(int80_memory), T(int80_read), T(int80_children), T(int80_wait), T(int80_plain), T(int80_exec), T(int80_exit), T(int80_trace), T(int80_action), T(upper), T(x32), T(sysenter), T(sigreturn32), T(remap),
    T(process_madvise), T(secret), T(shm), T(grows), T(seal), T(implied), T(uring), T(aio), T(mdwe), T(arch), T(dispatch), T(populate), T(poke), T(move),
};
int main(int argc, char **argv) {
    for (int i = 0; i < sizeof all / sizeof *all; i++)
        if (argc < 2) puts(all[i].name); else if (!strcmp(argv[1], all[i].name)) all[i].f();
    return 0;
}
