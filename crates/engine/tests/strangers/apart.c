/* A child in a namespace of process ids of its own, as of container tools: it makes a child, and both talk by pipes. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int to[2], from[2], status, end;
    char byte = 0;
    pipe(to), pipe(from);
    int child = syscall(SYS_clone, CLONE_NEWPID | (geteuid() ? CLONE_NEWUSER : 0) | SIGCHLD, 0, 0, 0, 0);
    if (child < 0) { puts("not allowed"); return 0; }
    if (!child) {
        read(to[0], &byte, 1);
        int inner = fork();
        if (!inner) _exit(getpid());
        waitpid(inner, &status, 0);
        byte += WEXITSTATUS(status) + getpid();
        write(from[1], &byte, 1);
        _exit(4);
    }
    byte = 10;
    write(to[1], &byte, 1);
    read(from[0], &byte, 1);
    waitpid(child, &end, 0);
    printf("%d %d\n", byte, WEXITSTATUS(end));
    return 0;
}
