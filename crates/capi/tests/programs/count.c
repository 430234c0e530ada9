/* A loop of known length, counted ten times; an empty region; what the counter says of itself. */
#include <inttypes.h>
#include <stdio.h>
#include <truecount.h>

int main(int argc, char **argv)
{
    const char *event = argc > 1 ? argv[1] : "instructions:u";
    const truecount_counter *c;
    uint64_t overhead, length = 0, start, end, count;
    int i;
    if (truecount_open(event, &c) != TRUECOUNT_OK) {
        printf("no counter: %s\nhint: %s\n", truecount_error_message(), truecount_error_hint());
        return 3;
    }
    overhead = truecount_overhead(c);
    start = truecount_read(c);
    end = truecount_read(c);
    if (truecount_between(c, start, end, &count) != TRUECOUNT_OK)
        return 4;
    printf("empty %" PRId64 "\n", (int64_t)(count - overhead));
    for (i = 0; i < 10; i++) {
        start = truecount_read(c);
        length = truecount_known_loop(100000);
        end = truecount_read(c);
        if (truecount_between(c, start, end, &count) != TRUECOUNT_OK)
            return 4;
        printf("loop %" PRIu64 "\n", count - overhead - length);
    }
    if (truecount_check(c) != TRUECOUNT_OK || truecount_count(c, &count) != TRUECOUNT_OK)
        return 5;
    printf("all %s\n", count > 11 * length - length ? "counted" : "too few");
    printf("%s %s %s exact=%d\n", truecount_name(c), truecount_unit(c), truecount_source(c), truecount_is_exact(c));
    printf("available %d version %d\n", truecount_available(), truecount_version() == TRUECOUNT_VERSION);
    return truecount_close(c) == TRUECOUNT_OK ? 0 : 6;
}
