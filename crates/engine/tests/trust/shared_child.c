// A child that shares memory but is a process of its own, and goes on running, in the runtime time and
// again, while the parent makes threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;

static const char *turn(uintptr_t number, int round) {
    size_t len = 4096 * (1 + (number + round) % 7);
    uint64_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return "mmap";
    memory[0] = number * 1000 + round;
    if (mprotect(memory, len, PROT_READ) || memory[0] != number * 1000 + round)
        return "another's value";
    return munmap(memory, len) ? "munmap" : NULL;
}

static void *work(void *argument) {
    for (int round = 0; round < 100; round++) {
        const char *wrong = turn((uintptr_t)argument, round);
        if (wrong)
            return (void *)wrong;
    }
    return NULL;
}

static int child(void *argument) {
    pthread_attr_t *unused = argument;
    (void)unused;
    // A thread of the child's ends: its runtime stack is free for the parent's.
    for (int round = 0; !stop; round++)
        if (turn(99, round))
            syscall(SYS_exit, 9);
    syscall(SYS_exit, 5);
    return 0;
}

int main(void) {
    for (int pass = 0; pass < 5; pass++) {
        enum { BYTES = 1 << 18, CHILDREN = 4 };
        int pids[CHILDREN];
        char *stacks[CHILDREN];
        stop = 0;
        for (int at = 0; at < CHILDREN; at++) {
            stacks[at] = malloc(BYTES);
            pids[at] = clone(child, stacks[at] + BYTES, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL);
            if (pids[at] < 0)
                return 1;
        }
        for (int batch = 0; batch < 5; batch++) {
            pthread_t threads[8];
            for (uintptr_t at = 0; at < 8; at++)
                if (pthread_create(&threads[at], NULL, work, (void *)at))
                    return 2;
            for (int at = 0; at < 8; at++) {
                void *wrong;
                pthread_join(threads[at], &wrong);
                if (wrong)
                    return 3;
            }
        }
        stop = 1;
        for (int at = 0; at < CHILDREN; at++) {
            int status;
            if (waitpid(pids[at], &status, 0) != pids[at] || !WIFEXITED(status) || WEXITSTATUS(status) != 5)
                return 4;
            free(stacks[at]);
        }
    }
    puts("good");
    return 0;
}
