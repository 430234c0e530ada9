/* A compiler that never stops, with company: see tests/full.rs. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int go_on = 1, handled, turns;
static int pipes[2];
static void *const bodies_end = &pipes;

static void on_timer(int signal) {
    (void)signal;
    handled++;
}

static void *sleeper(void *unused) {
    char byte = 0;
    (void)unused;
    if (read(pipes[0], &byte, 1) != 1 || byte != 'x') return (void *)1;
    return 0;
}

static void *runner(void *unused) {
    (void)unused;
    unsigned long x = 1;
    while (go_on) {
        x = x * 3 + 1;
        turns++;
    }
    return x == 0 ? bodies_end : 0;
}

static void *caller(void *unused) {
    (void)unused;
    unsigned long x = 0;
    while (go_on) x += getpid() > 0;
    return x == 0 ? bodies_end : 0;
}

/* Every number is written as a function in its own 64 KiB and called. */
static unsigned compile(unsigned n) {
    unsigned char *at = mmap(0, 1 << 16, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xeb, 0, 0xeb, 0, 0xeb, 0, 0xeb, 0, 0xc3};
        unsigned char *to = at + i % 4096 * 16;
        memcpy(code + 1, &i, 4);
        memcpy(to, code, sizeof code);
        sum += ((unsigned (*)(void))to)() == i;
    }
    munmap(at, 1 << 16);
    return sum == n;
}

static void *compiler(void *unused) {
    (void)unused;
    return (void *)(unsigned long)!compile(8000);
}

int main(void) {
    pthread_t threads[5];
    void *(*bodies[5])(void *) = {sleeper, runner, caller, compiler, compiler};
    struct itimerval every = {{0, 1000}, {0, 1000}};
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    if (pipe(pipes) || sigaction(SIGALRM, &action, 0)) return 1;
    for (int i = 0; i < 5; i++)
        if (pthread_create(&threads[i], 0, bodies[i], 0)) return 2;
    setitimer(ITIMER_REAL, &every, 0);
    int bad = 0;
    for (int round = 0; round < 3; round++) {
        bad |= !compile(2500);
        pid_t child = fork();
        if (child == 0) _exit(compile(2500) ? 0 : 9);
        int status = 0;
        while (waitpid(child, &status, 0) < 0) {}
        bad |= status;
    }
    for (int i = 3; i < 5; i++) {
        void *result = 0;
        pthread_join(threads[i], &result);
        bad |= result != 0;
    }
    go_on = 0;
    bad |= write(pipes[1], "x", 1) != 1;
    for (int i = 0; i < 3; i++) {
        void *result = 0;
        pthread_join(threads[i], &result);
        bad |= result != 0;
    }
    return bad || !handled || !turns ? 6 : 5;
}
