#define _GNU_SOURCE
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>
/* Rewrites the path of every stat of its child, and of its execve, as proot(1) does. */
static char name[64] = "/nonexistent";
static char program[64] = "/bin/false";
static void put(int pid, void *to, const char *text) {
    struct iovec own = {(void *)text, 16}, other = {to, 16};
    if (process_vm_writev(pid, &own, 1, &other, 1, 0) != 16) printf("not written\n");
}
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    int status, signals = 0, stats = 0, before = 1;
    int pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        struct stat found;
        for (int i = 0; i < 3; i++) if (stat(name, &found)) printf("not found\n");
        execl(program, "x", "it was exchanged", (char *)0);
        _exit(9);
    }
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int pass = 0;;) {
        ptrace(PTRACE_SYSCALL, pid, 0, pass);
        pass = 0;
        if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status)) break;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            struct user_regs_struct r;
            ptrace(PTRACE_GETREGS, pid, 0, &r);
            if (before && r.orig_rax == 262 && r.rsi == (unsigned long)name) stats++, put(pid, name, "/bin/echo\0\0\0\0\0\0\0");
            if (before && r.orig_rax == 59 && r.rdi == (unsigned long)program) before = 0, put(pid, program, "/bin/echo\0\0\0\0\0\0\0");
        } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) pass = WSTOPSIG(status), signals++;
    }
    printf("%d stats; %s %d\n", stats > 0, WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 0;
}
