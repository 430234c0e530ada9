/* Threads and processes that are killed: where, the argument says. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void wait_a_moment(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, 0);
}

static void *spin(void *x)
{
    for (volatile unsigned long i = 0;; i++)
        ;
    return x;
}

static void *sleeper(void *x)
{
    for (;;)
        pause();
    return x;
}

static void nothing(int s) { (void)s; }

static void child(int how)
{
    switch (how) {
    case 0: /* while it computes */
        spin(0);
    case 1: /* while it waits */
        sleeper(0);
    case 2: /* by a fault */
        *(volatile int *)0 = 1;
    case 3: /* by itself */
        abort();
    case 4: { /* nobody reads */
        int p[2];
        if (pipe(p))
            _exit(1);
        close(p[0]);
        write(p[1], "x", 1);
        _exit(1);
    }
    case 5: /* while it waits, after a handler has run */
        signal(SIGUSR1, nothing);
        kill(getpid(), SIGUSR1);
        sleeper(0);
    case 6: /* as its program is loaded */
        execl("/bin/sleep", "sleep", "100", (char *)0);
        _exit(127);
    }
    _exit(1);
}

int main(int argc, char **argv)
{
    int how = argc > 1 ? atoi(argv[1]) : 0, rounds = how == 6 ? 60 : 2;
    if (how >= 7) { /* threads that the end of the process ends */
        pthread_t t;
        pthread_create(&t, 0, how == 7 ? spin : sleeper, 0);
        wait_a_moment(50000);
        return 0;
    }
    for (int i = 0; i < rounds; i++) {
        pid_t p = fork();
        if (!p)
            child(how);
        wait_a_moment(how == 6 ? i * 50 : 50000);
        kill(p, SIGKILL);
        int s;
        waitpid(p, &s, 0);
        if (how != 6)
            printf("signal %d\n", WTERMSIG(s));
    }
    return 0;
}
