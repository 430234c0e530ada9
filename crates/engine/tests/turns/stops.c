#define _GNU_SOURCE
// Children that are stopped by signals and continued, in ways that are told by name; with an argument: traced.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static int ready[2];

static void *wait_for_ever(void *none) {
    pause();
    return none;
}

static void sum(void) {
    volatile long sum = 0;
    for (int i = 0; i < 1000000; i++) sum += i;
}

static void say(const char *how, pid_t child) {
    int status = 0, stopped = 0;
    waitpid(child, &status, WUNTRACED);
    if (WIFSTOPPED(status)) stopped = WSTOPSIG(status);
    sum();
    kill(child, SIGCONT);
    waitpid(child, &status, WCONTINUED);
    int continued = WIFCONTINUED(status);
    waitpid(child, &status, 0);
    printf("%s: stopped by %d, continued %d, ended %d\n", how, stopped, continued, WEXITSTATUS(status));
    fflush(stdout);
}

static pid_t child(int how) {
    pid_t pid = fork();
    if (pid) return pid;
    pthread_t thread;
    char byte = 0;
    switch (how) {
    case 3: raise(SIGSTOP); break;
    case 4:
        write(ready[1], &byte, 1);
        for (int i = 0; i < 20; i++) sum();
        break;
    case 5:
        setpgid(0, 0);
        raise(SIGTSTP);
        break;
    case 6:
        for (int i = 0; i < 4; i++) pthread_create(&thread, 0, wait_for_ever, 0);
        kill(getpid(), SIGSTOP);
        break;
    }
    _exit(how);
}

// Goes on with whatever a tracee stops for.
static int trace(int seize) {
    pid_t pid = fork();
    int status;
    if (!pid) {
        if (!seize) ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        sum();
        _exit(7);
    }
    if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status)) return 1;
    if (seize) {
        if (ptrace(PTRACE_SEIZE, pid, 0, 0)) return 2;
        kill(pid, SIGCONT);
    } else {
        ptrace(PTRACE_CONT, pid, 0, 0);
    }
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) ptrace(PTRACE_CONT, pid, 0, 0);
    printf("%s: ended %d\n", seize ? "seized" : "traced", WEXITSTATUS(status));
    return 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int asked, answered;

static void *answers(void *none) {
    pthread_mutex_lock(&lock);
    while (asked >= 0) {
        if (asked > answered) {
            answered = asked;
            pthread_cond_broadcast(&changed);
        }
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return none;
}

static void ask(void) {
    pthread_mutex_lock(&lock);
    asked++;
    pthread_cond_broadcast(&changed);
    while (answered < asked) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

// As debuggers begin: the child has its parent's memory when it asks to be traced, and the parent has other threads.
static int trace_by_vfork(void) {
    pthread_t thread;
    int status;
    pthread_create(&thread, 0, answers, 0);
    ask();
    pid_t pid = vfork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl("/proc/self/exe", "stops", "ends", (char *)0);
        _exit(1);
    }
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        ask();
        // As debuggers write breakpoints.
        struct user_regs_struct registers;
        ptrace(PTRACE_GETREGS, pid, 0, &registers);
        long word = 0;
        struct iovec here = {&word, sizeof word}, there = {(void *)registers.rsp, sizeof word};
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) != sizeof word) return 1;
        if (process_vm_writev(pid, &here, 1, &there, 1, 0) != sizeof word) return 2;
        ptrace(PTRACE_CONT, pid, 0, 0);
    }
    pthread_mutex_lock(&lock);
    asked = -1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    printf("vforked: ended %d\n", WEXITSTATUS(status));
    return answered < 2;
}

// A debugger's end: what it traces is killed, and each of its threads ends when the tracer waits for it.
static int trace_and_kill(void) {
    pthread_t thread;
    int status, stops = 0, by = 0;
    pid_t found, last = 0, other = fork(), pid = other ? fork() : -1;
    if (!other) {
        pause();
        _exit(1);
    }
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        for (int i = 0; i < 2; i++) pthread_create(&thread, 0, wait_for_ever, 0);
        pause();
    }
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACECLONE);
    ptrace(PTRACE_CONT, pid, 0, 0);
    // Each new thread is told by the one that made it, and stops itself.
    while (stops < 4 && (found = waitpid(-1, &status, __WALL)) > 0) {
        if (WIFSTOPPED(status)) {
            int event = status >> 16 != 0 || found != pid;
            stops += event;
            if (found != pid) last = found;
            // What else it stops for is its own.
            if (stops < 4) ptrace(PTRACE_CONT, found, 0, event ? 0 : WSTOPSIG(status));
        }
    }
    // As gdb does it: one thread, which stands for its process. Others of the group are not meant.
    syscall(SYS_tkill, last, SIGKILL);
    while (!by && (found = waitpid(-1, &status, __WALL)) > 0) {
        if (found == pid && WIFSIGNALED(status)) by = WTERMSIG(status);
    }
    kill(other, SIGKILL);
    if (waitpid(other, &status, 0) != other || !WIFSIGNALED(status)) return 1;
    printf("killed: ended %d\n", by - 2);
    return 0;
}

int main(int count, char **words) {
    char byte;
    alarm(100);
    if (count > 1 && !strcmp(words[1], "ends")) return 7;
    if (count > 1 && !strcmp(words[1], "vforked")) return trace_by_vfork();
    if (count > 1 && !strcmp(words[1], "killed")) return trace_and_kill();
    if (count > 1) return trace(!strcmp(words[1], "seized"));
    if (pipe(ready)) return 1;
    say("itself", child(3));
    pid_t pid = child(4);
    if (read(ready[0], &byte, 1) != 1) return 1;
    kill(pid, SIGSTOP);
    say("by its parent", pid);
    say("by SIGTSTP", child(5));
    say("with threads", child(6));
    return 0;
}
