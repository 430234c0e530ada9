// Random sequences of system calls about memory, signals, children and descriptors, by a seed; prints every result that
// the kernel does not choose freely, so that two runs of one seed say the same.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t state;
static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static uint64_t hash = 5381;
static int verbose;
static void note(const char *what, long value) {
    hash = hash * 33 + (uint64_t)value;
    if (verbose) printf("%s %lx\n", what, value), fflush(stdout);
}

// Memory that is played with: 64 pages, placed by hand, reserved at the start.
#define PAGES 64
static unsigned char *arena;
static volatile int handled;
static void handler(int signal, siginfo_t *info, void *context) {
    (void)context;
    handled += signal * 7 + (info->si_code == SI_USER) + (info->si_code == SI_TKILL) * 2;
}
static unsigned char *place(unsigned pages) { return arena + 4096 * draw(PAGES - pages + 1); }
static long result(long value) { return value == -1 ? -errno : value; }

// Result of a call that gives an address of the arena, as an offset.
static long at(void *address) { return address == MAP_FAILED ? -errno : (unsigned char *)address - arena; }

static sigjmp_buf back;
static volatile long fault;
static void faulted(int signal, siginfo_t *info, void *context) {
    (void)context;
    unsigned long where = (unsigned char *)info->si_addr - arena;
    fault = signal * 1000 + info->si_code * 100 + (where < PAGES * 4096ul ? (long)(where << 20) : 0);
    siglongjmp(back, 1);
}

// Reads, writes or executes there, or learns why not.
static void touch(unsigned char *p) {
    struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO}, segv, bus;
    sigaction(SIGSEGV, &action, &segv), sigaction(SIGBUS, &action, &bus);
    int how = (int)draw(4);
    unsigned char value = (unsigned char)draw(256);
    fault = 0;
    if (sigsetjmp(back, 1) == 0) {
        if (how == 0) note("there", *(volatile unsigned char *)p);
        if (how == 1) *(volatile unsigned char *)p = value;
        if (how == 2) ++*(volatile unsigned char *)p;
        // What is executed: where it may be written a return is put first.
        if (how == 3 && *(volatile unsigned char *)p == 0xc3) ((void (*)(void))p)();
        if (how == 3) {
            *(volatile unsigned char *)p = 0xc3;
            ((void (*)(void))p)();
        }
    }
    note("touch", fault);
    sigaction(SIGSEGV, &segv, NULL), sigaction(SIGBUS, &bus, NULL);
}

static int protections[] = {0, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC, PROT_READ | PROT_EXEC, PROT_EXEC, PROT_WRITE, 0x10, 0x1000000};

// Executes there if it can be written and executed: mov eax, imm8; ret
static void code(unsigned char *page) {
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
    unsigned char bytes[] = {0xb8, (unsigned char)draw(256), 0, 0, 0, 0xc3};
    size_t where = draw(4000);
    memcpy(page + where, bytes, sizeof bytes);
    note("code", ((int (*)(void))(page + where))());
    page[where + 1]++;
    note("code", ((int (*)(void))(page + where))());
    if (draw(2)) {
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        note("code", ((int (*)(void))(page + where))());
    }
}

// The same function by ways that leave no fault: the kernel writes it, or it lies in memory that is mapped twice.
static void written(unsigned char *p) {
    unsigned char bytes[] = {0xb8, (unsigned char)draw(256), 0, 0, 0, 0xc3};
    int how = (int)draw(4), fd = -1;
    unsigned char *other = p;
    if (how == 3) {
        fd = memfd_create("code", 0);
        if (ftruncate(fd, 4096)) return;
        if (mmap(p, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0) != p) return;
        other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    } else if (mmap(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p) {
        return;
    }
    memcpy(other, bytes, sizeof bytes);
    for (int i = 0; i < 3; i++) {
        note("written", ((int (*)(void))p)());
        bytes[1]++;
        struct iovec from = {bytes, sizeof bytes}, to = {p, sizeof bytes};
        int pipes[2];
        if (how == 0) note("by another", result(process_vm_writev(getpid(), &from, 1, &to, 1, 0)));
        if (how == 1) {
            int memory = open("/proc/self/mem", O_RDWR);
            note("by its file", result(pwrite(memory, bytes, sizeof bytes, (off_t)(uintptr_t)p)));
            close(memory);
        }
        if (how == 2 && pipe(pipes) == 0) {
            note("by a pipe", result(write(pipes[1], bytes, sizeof bytes)) + result(read(pipes[0], p, sizeof bytes)));
            close(pipes[0]), close(pipes[1]);
        }
        if (how == 3) draw(2) ? (void)memcpy(other, bytes, sizeof bytes) : note("by its name", result(pwrite(fd, bytes, sizeof bytes, 0)));
        if (draw(4) == 0) {
            pid_t child = fork();
            if (child == 0) _exit(((int (*)(void))p)());
            int status = 0;
            waitpid(child, &status, 0);
            note("in a child", status);
        }
    }
    note("written", ((int (*)(void))p)());
    if (fd >= 0) munmap(other, 4096), close(fd);
}

static void step(int depth);
static sigset_t all, usual;
static void *steps(void *argument) {
    pthread_sigmask(SIG_SETMASK, &usual, NULL);
    for (int i = 0; i < 10; i++) step((int)(intptr_t)argument);
    return NULL;
}

// This program again, by another name for it, from any thread.
static void *replaced(void *argument) {
    char *words[] = {"calls", argument, "30", verbose ? "all" : NULL, NULL}, *none[] = {NULL};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd & 1) execveat(fd, "", words, none, AT_EMPTY_PATH);
    execve("/proc/self/exe", words, none);
    _exit(99);
}

static void step(int depth) {
    unsigned pages = 1 + (unsigned)draw(8), more = 1 + (unsigned)draw(8);
    unsigned char *p = place(pages), *q = place(more);
    int protection = protections[draw(sizeof protections / sizeof *protections)];
    unsigned long length = pages * 4096ul - (draw(4) ? 0 : draw(4096)), odd = draw(8) ? 0 : draw(5000);
    sigset_t set, old;
    switch (draw(36)) {
    case 0: note("mmap", at(mmap(p, length, protection & 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0))); break;
    case 1: note("mmap", at(mmap(p + odd, length, protection & 7, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0))); break;
    case 2: note("noreplace", at(mmap(p, length, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0))); break;
    case 3: note("mprotect", result(mprotect(p + odd, length, protection))); break;
    case 4: note("munmap", result(munmap(p + odd, length))); break;
    case 5: // More than a page: new, as the kernel joins neighbours by their history (docs/virtual-pmu.md, Limits).
        if (pages > 1 && mmap(p, pages * 4096ul, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p)
            for (int i = (int)draw(3); i > 0; i--) code(p + 4096 * draw(pages));
        note("mremap", at(mremap(p + odd, length, more * 4096ul, MREMAP_MAYMOVE | MREMAP_FIXED, q)));
        break;
    case 6: note("mremap", at(mremap(p, length, length, 0))); break;
    case 7: note("madvise", result(madvise(p, length, (int)draw(12)))); break;
    case 8: note("mincore", result(syscall(SYS_mincore, p, length, q) ? -1 : 0)); break;
    case 9: if (mmap(p, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p) code(p); break;
    case 10: { // The kernel writes to the program's memory, or cannot.
        int fd[2];
        if (pipe(fd)) break;
        note("write", result(write(fd[1], q, 64)));
        fcntl(fd[0], F_SETFL, O_NONBLOCK);
        note("read", result(read(fd[0], p + odd, 100)));
        close(fd[0]), close(fd[1]);
        break;
    }
    case 11: { // A signal, blocked or not.
        int signal = (int)draw(70);
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN);
        int how = (int)draw(4);
        note("mask", result(syscall(SYS_rt_sigprocmask, how, &set, &old, draw(8) ? 8 : 4)));
        if (signal == SIGUSR1 || signal == SIGRTMIN || signal == SIGUSR2) note("kill", result(raise(signal)));
        sigpending(&old);
        note("pending", sigismember(&old, SIGUSR1) + 2 * sigismember(&old, SIGRTMIN));
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        note("handled", handled);
        break;
    }
    case 12: { // Actions as they are given and told back, on bad numbers, too.
        unsigned long action[4] = {(uintptr_t)SIG_IGN, draw(2) ? 0 : draw(4) ? SA_RESTART : draw(1ul << 34), 0, draw(1 << 20)}, was[4] = {1, 2, 3, 4};
        int signal = 35 + (int)draw(40), bad = draw(8) == 0;
        note("sigaction", result(syscall(SYS_rt_sigaction, draw(6) ? signal : (int)draw(10) - 5, bad ? (void *)8 : action, was, 8)));
        note("was", (long)(was[0] + was[1] + was[3]));
        break;
    }
    case 13: {
        stack_t stack = {.ss_sp = p, .ss_size = draw(4) ? 65536 : draw(4096), .ss_flags = (int)draw(4)}, was;
        note("altstack", result(sigaltstack(&stack, NULL)));
        note("altstack", result(sigaltstack(NULL, &was)));
        note("altstack", was.ss_flags + (long)was.ss_size);
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, NULL);
        break;
    }
    case 14: // A child in its own memory.
        if (depth < 2) {
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                verbose = 0;
                for (int i = 0; i < 20; i++) step(depth + 1);
                _exit((int)(hash & 0x7f));
            }
            int status = 0;
            waitpid(child, &status, 0);
            note("child", status);
        }
        break;
    case 15: { // The heap.
        char *end = sbrk(0);
        long change = (long)draw(1 << 20) - (1 << 18);
        note("brk", sbrk(change > 0 ? change : 0) == end);
        break;
    }
    case 16: note("bad", result(syscall(1000 + (long)draw(100)))); break;
    case 17: {
        struct rlimit limit = {0, 0};
        int which = (int)draw(18);
        note("limit", result(syscall(SYS_prlimit64, 0, which, NULL, draw(8) ? &limit : (void *)16)));
        if (which == RLIMIT_CORE || which == RLIMIT_AS || which == RLIMIT_DATA) note("limit", (long)limit.rlim_cur);
        break;
    }
    case 18: note("bad address", result(syscall(draw(2) ? SYS_rt_sigprocmask : SYS_rt_sigpending, 16, 16, 0, 8))); break;
    case 19: note("bad map", at(mmap(p, draw(2) ? 0 : length, 3, (int)draw(4) | MAP_FIXED, (int)draw(3) - 2, odd))); break;
    case 20: { // vfork and exec that fail.
        pid_t child = vfork();
        if (child == 0) {
            execl("/nonexistent", "x", NULL);
            _exit(errno);
        }
        int status;
        waitpid(child, &status, 0);
        note("exec", status);
        break;
    }
    case 21: { // GS.
        unsigned long was = 1, before;
        syscall(SYS_arch_prctl, 0x1004, &before);
        note("gs", result(syscall(SYS_arch_prctl, 0x1001, draw(4) ? draw(1ul << 50) : (unsigned long)p)));
        note("gs", result(syscall(SYS_arch_prctl, 0x1004, draw(8) ? &was : (void *)8)));
        note("gs", (long)was);
        syscall(SYS_arch_prctl, 0x1001, before);
        note("arch", result(syscall(SYS_arch_prctl, 0x7777, 0)));
        break;
    }
    case 22: { // Signals that wait for somebody.
        sigemptyset(&set);
        int signal = draw(2) ? SIGRTMIN + 2 : draw(2) ? SIGSEGV : SIGTRAP;
        sigaddset(&set, signal);
        sigprocmask(SIG_BLOCK, &set, &old);
        union sigval value = {.sival_int = (int)draw(1000)};
        int times = (int)draw(3);
        for (int i = 0; i < times; i++) note("queue", result(pthread_sigqueue(pthread_self(), signal, value)));
        siginfo_t info;
        struct timespec none = {0, 0};
        while (1) {
            int got = sigtimedwait(&set, &info, &none);
            note("waited", result(got));
            if (got < 0) break;
            note("with", info.si_value.sival_int * 10 + info.si_code);
        }
        sigprocmask(SIG_SETMASK, &old, NULL);
        break;
    }
    case 23: note("lock", result(draw(2) ? munlockall() : mlockall((int)draw(5)))); munlockall(); break;
    case 24: note("lock", result(draw(2) ? mlock(p + odd, length) : munlock(p, length))); break;
    case 25: { // System V memory.
        int id = shmget(IPC_PRIVATE, pages * 4096, 0600);
        if (id < 0) break;
        note("shmat", at(shmat(id, p + odd, draw(2) ? SHM_REMAP : draw(2) ? SHM_RND : 0)));
        shmctl(id, IPC_RMID, NULL);
        note("shmdt", result(shmdt(p)));
        break;
    }
    case 26: note("pkey", result(syscall(SYS_pkey_mprotect, p + odd, length, protection, -1))); break;
    case 27: note("prctl", result(prctl(PR_GET_SECCOMP))); note("prctl", result(prctl(9999, 1, 2, 3, 4))); break;
    case 28: note("msync", result(msync(p + odd, length, (int)draw(8)))); break;
    case 30: case 31: for (int i = 0; i < 8; i++) touch(arena + draw(PAGES * 4096)); break;
    case 32: written(p); break;
    case 33: // Another thread takes its turn.
        if (depth < 2) {
            pthread_t other;
            // Who waits takes no signal that is sent to the process, but for those of faults.
            sigset_t before;
            int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
            sigfillset(&all);
            for (int i = 0; i < 5; i++) sigdelset(&all, faults[i]);
            pthread_sigmask(SIG_SETMASK, &all, &before);
            usual = before;
            if (pthread_create(&other, NULL, steps, (void *)(intptr_t)(depth + 1)) == 0) pthread_join(other, NULL);
            pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
        break;
    case 34: // A child that is another program, asked for by its first thread or by another one.
        if (depth < 1) {
            char seed[24];
            snprintf(seed, sizeof seed, "%lu", (unsigned long)draw(1ul << 40));
            int by = (int)draw(3);
            fflush(stdout);
            pid_t child = by == 2 ? vfork() : fork();
            if (child == 0) {
                pthread_t other;
                if (by == 1 && pthread_create(&other, NULL, replaced, seed) == 0) pause();
                replaced(seed);
            }
            int status = 0;
            waitpid(child, &status, 0);
            note("another program", status);
        }
        break;
    default: { // What is there may be read.
        int fd[2];
        if (pipe(fd)) break;
        for (unsigned page = 0; page < PAGES; page++) note("readable", write(fd[1], arena + page * 4096, 1));
        close(fd[0]), close(fd[1]);
    }
    }
}

static void *thread(void *argument) {
    (void)argument;
    return NULL;
}

int main(int argc, char **argv) {
    state = argc > 1 ? strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15 + 1 : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 300;
    verbose = argc > 3;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL), sigaction(SIGUSR2, &action, NULL), sigaction(SIGRTMIN, &action, NULL);
    // Guarded by what stays: nothing else of the process is in there.
    unsigned char *guarded = mmap(NULL, (PAGES + 32) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    arena = guarded + 16 * 4096;
    for (int i = 0; i < steps; i++) {
        if (i % 64 == 63) {
            pthread_t other;
            if (pthread_create(&other, NULL, thread, NULL) == 0) pthread_join(other, NULL);
        }
        step(0);
    }
    printf("%lx %d\n", (unsigned long)hash, handled);
    return 0;
}
