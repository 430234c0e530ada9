/* Signal handlers that read counters, whatever they interrupt; argv[1] is an event that counts here. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <truecount.h>

static const truecount_counter *own;
static volatile sig_atomic_t changes, handled, failed, wrong;

static void handler(int signal)
{
    uint64_t count, start = truecount_read(own), end = truecount_read_any(own);
    int status = truecount_between(own, start, end, &count);
    (void)signal;
    handled++;
    if (status == TRUECOUNT_OK)
        return;
    if (!changes)
        failed++;
    else if (truecount_error_status() != TRUECOUNT_THREAD || !strstr(truecount_error_message(), "signal handler"))
        wrong++;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const char *event = argc > 1 ? argv[1] : "wall-time";
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    struct sigaction action;
    double end;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    if (truecount_open(event, &own) != TRUECOUNT_OK) {
        printf("no counter: %s\n", truecount_error_message());
        return 3;
    }
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (end = now() + 0.3; now() < end;) {
        const truecount_counter *other;
        uint64_t count, start;
        int i;
        for (i = 0; i < 200; i++) {
            start = truecount_read_any(own);
            if (truecount_between(own, start, truecount_read_any(own), &count) != TRUECOUNT_OK)
                failed++;
            /* What allocates and frees. */
            truecount_close((const truecount_counter *)&count);
            free(malloc(100 + i));
        }
        changes = 1;
        for (i = 0; i < 20; i++)
            if (truecount_open(event, &other) == TRUECOUNT_OK)
                truecount_close(other);
        changes = 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("handled %d\nfailed %d\nother than busy %d\n", (int)handled, (int)failed, (int)wrong);
    return truecount_close(own);
}
