// Signals between threads and processes of a run: who waits in which way, and in which order they come.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t order[64], count;
static sem_t posted;
static __thread int own;

static void note(int signal) {
    order[count++ % 64] = signal * 10 + own;
    if (signal == SIGUSR2) sem_post(&posted);
}

static void *waits(void *number) {
    own = (int)(intptr_t)number;
    // Each for its own signal: the other one is blocked.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, own == 1 ? SIGUSR1 : SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sleep(1000);
    return NULL;
}

int main(void) {
    sem_init(&posted, 0, 0);
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, NULL), sigaction(SIGUSR2, &action, NULL), sigaction(SIGCHLD, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    pthread_t threads[3];
    for (intptr_t i = 1; i <= 3; i++) pthread_create(&threads[i - 1], NULL, waits, (void *)i);
    usleep(1000);
    sigset_t all, none, old;
    sigfillset(&all), sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    // Process-directed, while this thread blocks everything; several to one thread; by number.
    for (int i = 0; i < 4; i++) {
        kill(getpid(), SIGUSR2), kill(getpid(), SIGUSR1);
        union sigval value = {.sival_int = i};
        sigqueue(getpid(), SIGRTMIN, value);
        pthread_kill(threads[i % 3], SIGUSR2);
        usleep(10);
    }
    usleep(2000000);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++) printf("%d ", order[i]);
    printf("\n");

    // Children that end while their parent computes, waits, and sleeps.
    count = 0;
    uint64_t turns = 0;
    for (int i = 0; i < 5; i++)
        if (fork() == 0) {
            // Apart by several turns: signals of two that end in one would be one.
            for (volatile int turn = 0; turn < 1000000 * (i + 1); turn++) {}
            _exit(i);
        }
    while (count < 2) turns++;
    sigset_t wait_for;
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (count < 4) sigsuspend(&none);
    sigemptyset(&wait_for), sigaddset(&wait_for, SIGCHLD);
    int last = sigwaitinfo(&wait_for, NULL), ended = 0, status, sum = 0;
    while (waitpid(-1, &status, 0) > 0) ended++, sum += WEXITSTATUS(status);
    printf("turns %lu, last %d, ended %d, sum %d\n", turns, last, ended, sum);

    // A descriptor of signals, and one of a process.
    int fd = signalfd(-1, &all, SFD_CLOEXEC);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(1000);
        kill(parent, SIGUSR1), kill(parent, SIGTERM);
        _exit(3);
    }
    struct signalfd_siginfo info;
    for (int i = 0; i < 3; i++) {
        ssize_t got = read(fd, &info, sizeof info);
        printf("%zd: %u from the child: %d\n", got, info.ssi_signo, info.ssi_pid == (uint32_t)child);
    }
    waitpid(child, NULL, 0);
    child = fork();
    if (child == 0) sleep(100), _exit(0);
    int pidfd = syscall(SYS_pidfd_open, child, 0);
    struct pollfd ends = {pidfd, POLLIN, 0};
    int early = poll(&ends, 1, 10);
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    int late = poll(&ends, 1, -1);
    waitpid(child, &status, 0);
    printf("process: %d %d, killed by %d\n", early, late, WTERMSIG(status));
    return 0;
}
