// Frames that end in other ways than by their return: longjmp, signals (nested, on a stack of their own, left by
// siglongjmp), other stacks, threads, processes. `unit` costs the same every time.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone, noipa))

volatile long sink;
NOINLINE void unit(void) { sink++; }

static jmp_buf env;
static sigjmp_buf signal_env;

NOINLINE void dive(int depth) {
    unit();
    if (depth == 0)
        longjmp(env, 1);
    dive(depth - 1);
    sink++;
}
NOINLINE void after_jump(void) { unit(); }

NOINLINE void inner(int signal) { unit(); (void)signal; }
NOINLINE void outer(int signal) {
    unit();
    raise(SIGUSR2);
    unit();
    (void)signal;
}
NOINLINE void on_fault(int signal) {
    unit();
    siglongjmp(signal_env, signal);
}
NOINLINE void after_signals(void) { unit(); }

static ucontext_t main_context, other_context;
NOINLINE void other_part(void) { unit(); }
NOINLINE void other(void) {
    for (int i = 0; i < 3; i++) {
        other_part();
        swapcontext(&other_context, &main_context);
    }
}
NOINLINE void after_switches(void) { unit(); }

NOINLINE void *thread_main(void *times) {
    for (intptr_t i = 0; i < (intptr_t)times; i++)
        unit();
    if ((intptr_t)times == 3)
        pthread_exit(0);
    return 0;
}
NOINLINE void in_child(void) { unit(); }
NOINLINE void after_all(void) { unit(); }

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "jump")) {
        for (volatile int i = 0; i < 4; i++)
            if (!setjmp(env))
                dive(5);
        after_jump();
    } else if (!strcmp(what, "signals")) {
        signal(SIGUSR2, inner);
        signal(SIGUSR1, outer);
        for (int i = 0; i < 7; i++)
            raise(SIGUSR1);
        after_signals();
    } else if (!strcmp(what, "faults")) {
        stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
        sigaltstack(&stack, 0);
        struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
        sigaction(SIGSEGV, &action, 0);
        for (volatile int i = 0; i < 5; i++)
            if (!sigsetjmp(signal_env, 1))
                *(volatile int *)8 = 1;
        after_signals();
    } else if (!strcmp(what, "stacks")) {
        getcontext(&other_context);
        other_context.uc_stack.ss_sp = malloc(65536);
        other_context.uc_stack.ss_size = 65536;
        makecontext(&other_context, other, 0);
        for (int i = 0; i < 3; i++) {
            swapcontext(&main_context, &other_context);
            after_switches();
        }
    } else if (!strcmp(what, "threads")) {
        pthread_t threads[3];
        for (intptr_t i = 0; i < 3; i++)
            pthread_create(&threads[i], 0, thread_main, (void *)(i + 1));
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], 0);
    } else if (!strcmp(what, "fork")) {
        if (fork() == 0) {
            in_child();
            _exit(0);
        }
        wait(0);
    }
    after_all();
    return 0;
}
