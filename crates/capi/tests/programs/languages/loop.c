/* Loops of known length: what is counted beyond them, at least (a PMU counts interrupts, too). */
#include <truecount.h>

/* No header of the system's: the rig for Arm has none. */
int printf(const char *, ...);

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {1000, 100000, 1000, 100000};
    const truecount_counter *c;
    unsigned i;
    int j;
    if (truecount_open(argc > 1 ? argv[1] : "instructions:u", &c) != TRUECOUNT_OK) {
        printf("no counter: %s; %s\n", truecount_error_message(), truecount_error_hint());
        return 3;
    }
    const uint64_t overhead = truecount_overhead(c);
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t least = UINT64_MAX, length = 0;
        for (j = 0; j < 20; j++) {
            uint64_t count;
            const uint64_t start = truecount_read(c);
            length = truecount_known_loop(sizes[i]);
            if (truecount_between(c, start, truecount_read(c), &count) != TRUECOUNT_OK)
                return 4;
            least = count < least ? count : least;
        }
        printf("beyond %lld\n", (long long)(least - overhead - length));
    }
    return truecount_close(c);
}
