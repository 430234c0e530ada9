// Children made by vfork whose execve fails and that end by exit, as Go's os/exec does it; then threads
// that all come to the runtime at once. Each thread checks its own results.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t barrier;

static void *work(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < 300; round++) {
        size_t len = 4096 * (1 + (number + round) % 7);
        uint64_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return "mmap";
        for (size_t at = 0; at < len / 8; at += 512)
            memory[at] = number * 1000 + round;
        if (mprotect(memory, len, PROT_READ))
            return "mprotect";
        for (size_t at = 0; at < len / 8; at += 512)
            if (memory[at] != number * 1000 + round)
                return "another's value";
        if (munmap(memory, len))
            return "munmap";
    }
    return NULL;
}

int main(void) {
    for (int child = 0; child < 3; child++) {
        pid_t pid = vfork();
        if (pid == 0) {
            char *words[] = {"/dev/null", NULL};
            execve(words[0], words, words + 1);
            syscall(SYS_exit, errno == EACCES ? 7 : 8);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            return 1;
    }
    enum { THREADS = 30 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t at = 0; at < THREADS; at++)
        if (pthread_create(&threads[at], NULL, work, (void *)at))
            return 2;
    for (int at = 0; at < THREADS; at++) {
        void *wrong;
        pthread_join(threads[at], &wrong);
        if (wrong) {
            printf("thread %d: %s\n", at, (char *)wrong);
            return 3;
        }
    }
    puts("good");
    return 0;
}
