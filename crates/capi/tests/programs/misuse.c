/* Every wrong use gives a status and a message; argv[1] is an event that counts here. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <truecount.h>
#include <unistd.h>

static int failures;

static void expect(const char *what, int got, int wanted)
{
    const char *message = truecount_error_message(), *hint = truecount_error_hint();
    if (got != wanted || (wanted && (!*message || !*hint))) {
        printf("WRONG %s: %d, not %d (%s; %s)\n", what, got, wanted, message, hint);
        failures++;
    } else {
        printf("%s: %d %s; %s\n", what, got, wanted ? message : "", wanted ? hint : "");
    }
}

static void invalid(const char *what, uint64_t point, int status)
{
    expect(what, point == TRUECOUNT_INVALID ? truecount_error_status() : -1, status);
}

static const truecount_counter *made_elsewhere;

static void *elsewhere(void *of)
{
    const truecount_counter *c = of;
    uint64_t count;
    invalid("read on another thread", truecount_read(c), TRUECOUNT_THREAD);
    expect("between on another thread", truecount_between(c, 0, 0, &count), TRUECOUNT_THREAD);
    expect("close on another thread", truecount_close(c), TRUECOUNT_THREAD);
    if (truecount_name(c))
        failures++;
    expect("open on another thread", truecount_open("wall-time", &made_elsewhere), TRUECOUNT_OK);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *event = argc > 1 ? argv[1] : "wall-time";
    const truecount_counter *c, *none, *again;
    const truecount_group *g;
    uint64_t count, counts[8];
    char bytes[64];
    pthread_t thread;
    int status, i;

    expect("open", truecount_open(event, &c), TRUECOUNT_OK);
    if (truecount_read(c) == TRUECOUNT_INVALID)
        failures++;
    pthread_create(&thread, NULL, elsewhere, (void *)c);
    pthread_join(thread, NULL);
    invalid("read of an ended thread's", truecount_read(made_elsewhere), TRUECOUNT_CLOSED);

    expect("no such event", truecount_open("no-such-event", &none), TRUECOUNT_EVENT);
    invalid("read of what never opened", truecount_read(none), TRUECOUNT_CLOSED);
    expect("close of what never opened", truecount_close(none), TRUECOUNT_CLOSED);
    expect("several events", truecount_open("page-faults,task-clock", &none), TRUECOUNT_EVENT);
    expect("no text", truecount_open(NULL, &none), TRUECOUNT_ARGUMENT);
    expect("not UTF-8", truecount_open("\xff\xfe", &none), TRUECOUNT_ARGUMENT);
    expect("nowhere to put it", truecount_open(event, NULL), TRUECOUNT_ARGUMENT);

    memset(bytes, 0x5a, sizeof bytes);
    invalid("read of stack memory", truecount_read((const truecount_counter *)bytes), TRUECOUNT_HANDLE);
    invalid("read of NULL", truecount_read_any(NULL), TRUECOUNT_HANDLE);
    invalid("read of inside", truecount_read_any((const truecount_counter *)((const char *)c + 8)), TRUECOUNT_HANDLE);
    expect("close of NULL", truecount_close(NULL), TRUECOUNT_HANDLE);
    expect("between of invalid points", truecount_between(c, TRUECOUNT_INVALID, 0, &count), TRUECOUNT_NO_COUNT);
    expect("nowhere to put a count", truecount_between(c, 0, 0, NULL), TRUECOUNT_ARGUMENT);
    expect("a counter for a group", truecount_group_start((const truecount_group *)c), TRUECOUNT_HANDLE);

    if (truecount_group_open("page-faults", &g) == TRUECOUNT_OK) {
        expect("stop before start", truecount_group_stop(g, counts, 8), TRUECOUNT_NESTING);
        expect("start", truecount_group_start(g), TRUECOUNT_OK);
        expect("too little room", truecount_group_stop(g, counts, 0), TRUECOUNT_ARGUMENT);
        expect("stop", truecount_group_stop(g, counts, 8), TRUECOUNT_OK);
        if (truecount_group_name(g, 1) || !truecount_group_name(g, 0))
            failures++;
        expect("close a group", truecount_group_close(g), TRUECOUNT_OK);
        expect("start of a closed group", truecount_group_start(g), TRUECOUNT_CLOSED);
    }

    fflush(stdout);
    if (fork() == 0) {
        failures = 0;
        invalid("read after fork", truecount_read(c), TRUECOUNT_FORKED);
        expect("between after fork", truecount_between(c, 0, 0, &count), TRUECOUNT_FORKED);
        expect("open after fork", truecount_open(event, &again), TRUECOUNT_OK);
        if (truecount_read(again) == TRUECOUNT_INVALID)
            failures++;
        expect("close in the child", truecount_close(c), TRUECOUNT_OK);
        fflush(stdout);
        _exit(failures != 0);
    }
    wait(&status);
    expect("the child", status, 0);

    expect("close", truecount_close(c), TRUECOUNT_OK);
    invalid("read after close", truecount_read(c), TRUECOUNT_CLOSED);
    expect("close after close", truecount_close(c), TRUECOUNT_CLOSED);
    for (i = 0; i < 300; i++) {
        if (truecount_open("zero", &again) != TRUECOUNT_OK || truecount_close(again) != TRUECOUNT_OK)
            failures++;
    }
    invalid("read after close, others opened", truecount_read(c), TRUECOUNT_CLOSED);
    printf(failures ? "%d wrong\n" : "all as it must be\n", failures);
    return failures != 0;
}
