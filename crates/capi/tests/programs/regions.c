/* A group around a loop of known length, and nested regions of two threads. argv: events of the group, file, events. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <truecount.h>

static int failed(const char *what)
{
    printf("%s: %s; %s\n", what, truecount_error_message(), truecount_error_hint());
    return 1;
}

static void *other(void *of)
{
    const truecount_recorder *r = of;
    truecount_region_begin(r, "thread");
    truecount_known_loop(1000);
    truecount_region_end(r);
    return NULL;
}

int main(int argc, char **argv)
{
    const truecount_group *g;
    const truecount_recorder *r;
    uint64_t counts[4], outer[4], length;
    pthread_t thread;
    int i;
    if (argc != 4 || truecount_group_open(argv[1], &g) != TRUECOUNT_OK)
        return failed("group");
    for (i = 0; i < 10; i++) {
        if (truecount_group_start(g) || truecount_group_start(g))
            return failed("start");
        length = truecount_known_loop(100000);
        if (truecount_group_stop(g, counts, 4) || truecount_group_stop(g, outer, 4))
            return failed("stop");
        printf("%zu %s %" PRIu64 " %d\n", truecount_group_len(g), truecount_group_name(g, 0), counts[0] - length,
               outer[0] >= counts[0]);
    }
    if (truecount_recorder_open(argv[2], argv[3], &r) != TRUECOUNT_OK)
        return failed("recorder");
    if (truecount_region_begin(r, "outer") || truecount_region_begin(r, "inner"))
        return failed("begin");
    truecount_known_loop(1000);
    if (truecount_region_end(r) || truecount_region_end(r))
        return failed("end");
    if (truecount_region_end(r) != TRUECOUNT_NESTING)
        return failed("nesting");
    pthread_create(&thread, NULL, other, (void *)r);
    pthread_join(thread, NULL);
    if (truecount_recorder_close(r) != TRUECOUNT_OK)
        return failed("close");
    if (truecount_region_begin(r, "late") != TRUECOUNT_CLOSED)
        return failed("late");
    return truecount_group_close(g);
}
