// CLONE_CLEAR_SIGHAND: the child has default handlers, what was ignored stays ignored, and code that it
// writes itself still runs.
#include "code.h"
#include <linux/sched.h>

static void handler(int signal) { (void)signal; }

int main(void) {
    signal(SIGUSR1, handler);
    signal(SIGSEGV, handler);
    signal(SIGUSR2, SIG_IGN);
    unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    returns(at, 1);
    NEED(CALL(at) == 1);
    struct clone_args arguments = {.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    NEED(pid >= 0);
    if (pid == 0) {
        struct sigaction one, two, fault;
        sigaction(SIGUSR1, NULL, &one);
        sigaction(SIGUSR2, NULL, &two);
        sigaction(SIGSEGV, NULL, &fault);
        if (one.sa_handler != SIG_DFL || two.sa_handler != SIG_IGN || fault.sa_handler != SIG_DFL)
            _exit(2);
        for (int value = 2; value < 50; value++) {
            returns(at, value);
            if (CALL(at) != value)
                _exit(3);
        }
        raise(SIGUSR1);
        _exit(4);
    }
    int status;
    NEED(waitpid(pid, &status, 0) == pid);
    NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    struct sigaction one;
    sigaction(SIGUSR1, NULL, &one);
    NEED(one.sa_handler == handler);
    puts("good");
    return 0;
}
