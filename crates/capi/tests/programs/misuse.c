/* Every wrong use gives a status and a message; argv[1] is an event that counts here, argv[2] a file for regions. */
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

static const truecount_group *group_made_elsewhere;

/* Ends with a counter, a group that counts and a region open. */
static void *leaves_all_open(void *of)
{
    const truecount_counter *c;
    expect("open, and end the thread", truecount_open("wall-time", &c), TRUECOUNT_OK);
    if (truecount_group_open("page-faults", &group_made_elsewhere) == TRUECOUNT_OK)
        expect("start, and end the thread", truecount_group_start(group_made_elsewhere), TRUECOUNT_OK);
    if (of)
        expect("begin, and end the thread", truecount_region_begin(of, "left open"), TRUECOUNT_OK);
    return NULL;
}

static void *stops_a_group(void *of)
{
    uint64_t counts[8];
    expect("start of another thread's group", truecount_group_start(of), TRUECOUNT_THREAD);
    expect("stop of another thread's group", truecount_group_stop(of, counts, 8), TRUECOUNT_THREAD);
    expect("close of another thread's group", truecount_group_close(of), TRUECOUNT_THREAD);
    return NULL;
}

static void *ends_a_region(void *of)
{
    expect("end of another thread's region", truecount_region_end(of), TRUECOUNT_NESTING);
    return NULL;
}

/* Before anything else is opened: whether a child is known does not depend on what its parent has opened. */
static void recorders(const char *event, const char *path)
{
    const truecount_recorder *r, *own;
    pthread_t thread;
    int status;
    expect("a recorder", truecount_recorder_open(path, event, &r), TRUECOUNT_OK);
    expect("a region", truecount_region_begin(r, "outer"), TRUECOUNT_OK);
    expect("a label that is not UTF-8", truecount_region_begin(r, "\xff"), TRUECOUNT_ARGUMENT);
    expect("no label", truecount_region_begin(r, NULL), TRUECOUNT_ARGUMENT);
    pthread_create(&thread, NULL, ends_a_region, (void *)r);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, leaves_all_open, (void *)r);
    pthread_join(thread, NULL);
    fflush(stdout);
    if (fork() == 0) {
        char other[4096];
        failures = 0;
        snprintf(other, sizeof other, "%s.child", path);
        expect("a region after fork", truecount_region_begin(r, "inner"), TRUECOUNT_FORKED);
        expect("end after fork", truecount_region_end(r), TRUECOUNT_FORKED);
        expect("flush after fork", truecount_recorder_flush(r), TRUECOUNT_FORKED);
        expect("a recorder of its own", truecount_recorder_open(other, event, &own), TRUECOUNT_OK);
        expect("its region", truecount_region_begin(own, "own"), TRUECOUNT_OK);
        expect("its end", truecount_region_end(own), TRUECOUNT_OK);
        expect("its close", truecount_recorder_close(own), TRUECOUNT_OK);
        expect("close after fork", truecount_recorder_close(r), TRUECOUNT_FORKED);
        expect("flush after close", truecount_recorder_flush(r), TRUECOUNT_CLOSED);
        fflush(stdout);
        /* By its handlers: the parent's regions end in the child, too. */
        exit(failures != 0);
    }
    wait(&status);
    expect("the recorder's child", status, 0);
    expect("the parent's end", truecount_region_end(r), TRUECOUNT_OK);
    expect("one end too many", truecount_region_end(r), TRUECOUNT_NESTING);
    expect("close", truecount_recorder_close(r), TRUECOUNT_OK);
    expect("close again", truecount_recorder_close(r), TRUECOUNT_CLOSED);
    expect("no such directory", truecount_recorder_open("/nowhere/at/all", event, &r), TRUECOUNT_FILE);
    expect("a region of what never opened", truecount_region_begin(r, "x"), TRUECOUNT_CLOSED);
    expect("no path", truecount_recorder_open(NULL, event, &r), TRUECOUNT_ARGUMENT);
    expect("no events", truecount_recorder_open(path, "", &r), TRUECOUNT_EVENT);
    expect("too many events", truecount_recorder_open(path, "zero;zero;zero;zero;zero", &r), TRUECOUNT_ARGUMENT);
}

enum { MANY = 1000 };
static const truecount_counter *many[MANY];

int main(int argc, char **argv)
{
    const char *event = argc > 1 ? argv[1] : "wall-time";
    const truecount_counter *c, *none, *again;
    const truecount_group *g;
    uint64_t count, counts[8];
    char bytes[64];
    pthread_t thread;
    int status, i;

    if (argc > 2)
        recorders(event, argv[2]);
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
    if (!strstr(truecount_error_hint(), "truecount_group_open()"))
        failures++;
    expect("no text", truecount_open(NULL, &none), TRUECOUNT_ARGUMENT);
    expect("not UTF-8", truecount_open("\xff\xfe", &none), TRUECOUNT_ARGUMENT);
    expect("nowhere to put it", truecount_open(event, NULL), TRUECOUNT_ARGUMENT);

    memset(bytes, 0x5a, sizeof bytes);
    invalid("read of stack memory", truecount_read((const truecount_counter *)bytes), TRUECOUNT_HANDLE);
    invalid("read of NULL", truecount_read_any(NULL), TRUECOUNT_HANDLE);
    invalid("read of inside", truecount_read_any((const truecount_counter *)((const char *)c + 8)), TRUECOUNT_HANDLE);
    expect("close of NULL", truecount_close(NULL), TRUECOUNT_HANDLE);
    expect("between of invalid points", truecount_between(c, TRUECOUNT_INVALID, 0, &count), TRUECOUNT_NO_COUNT);
    count = truecount_read(c);
    expect("points in the wrong order", truecount_between(c, count + 1000, count, counts), TRUECOUNT_NO_COUNT);
    expect("nowhere to put a count", truecount_between(c, 0, 0, NULL), TRUECOUNT_ARGUMENT);
    expect("a counter for a group", truecount_group_start((const truecount_group *)c), TRUECOUNT_HANDLE);

    if (truecount_group_open("page-faults", &g) == TRUECOUNT_OK) {
        expect("stop before start", truecount_group_stop(g, counts, 8), TRUECOUNT_NESTING);
        expect("start", truecount_group_start(g), TRUECOUNT_OK);
        pthread_create(&thread, NULL, stops_a_group, (void *)g);
        pthread_join(thread, NULL);
        fflush(stdout);
        if (fork() == 0) {
            failures = 0;
            expect("stop after fork", truecount_group_stop(g, counts, 8), TRUECOUNT_FORKED);
            expect("start after fork", truecount_group_start(g), TRUECOUNT_FORKED);
            fflush(stdout);
            _exit(failures != 0);
        }
        wait(&status);
        expect("the group's child", status, 0);
        expect("too little room", truecount_group_stop(g, counts, 0), TRUECOUNT_ARGUMENT);
        expect("nowhere to put counts", truecount_group_stop(g, NULL, 8), TRUECOUNT_ARGUMENT);
        expect("stop", truecount_group_stop(g, counts, 8), TRUECOUNT_OK);
        if (truecount_group_name(g, 1) || !truecount_group_name(g, 0))
            failures++;
        expect("close a group", truecount_group_close(g), TRUECOUNT_OK);
        expect("start of a closed group", truecount_group_start(g), TRUECOUNT_CLOSED);
    }

    for (i = 0; i < 20; i++) {
        pthread_create(&thread, NULL, leaves_all_open, NULL);
        pthread_join(thread, NULL);
        if (group_made_elsewhere)
            expect("stop of an ended thread's", truecount_group_stop(group_made_elsewhere, counts, 8), TRUECOUNT_CLOSED);
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
    /* Many at once, closed in another order, their places used again. */
    for (i = 0; i < MANY; i++) {
        if (truecount_open("zero", &many[i]) != TRUECOUNT_OK)
            failures++;
    }
    for (i = 0; i < MANY; i++) {
        if (truecount_close(many[i * 7 % MANY]) != TRUECOUNT_OK)
            failures++;
    }
    for (i = 0; i < MANY; i++) {
        if (truecount_open("zero", &again) != TRUECOUNT_OK || truecount_read(many[i]) != TRUECOUNT_INVALID ||
            truecount_read(again) == TRUECOUNT_INVALID)
            failures++;
    }
    invalid("read after close, others opened", truecount_read(c), TRUECOUNT_CLOSED);
    printf(failures ? "%d wrong\n" : "all as it must be\n", failures);
    return failures != 0;
}
