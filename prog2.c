#include <inttypes.h>
#include <stdio.h>
#include <truecount.h>

int main(void)
{
    const truecount_counter *c;
    if (truecount_open("instructions:u", &c) != TRUECOUNT_OK) {
        fprintf(stderr, "%s; %s\n", truecount_error_message(), truecount_error_hint());
        return 1;
    }
    uint64_t cost, start = truecount_read(c);
    puts("hello");
    if (truecount_between(c, start, truecount_read(c), &cost) == TRUECOUNT_OK)
        printf("%" PRIu64 " instructions\n", cost - truecount_overhead(c));
    return truecount_close(c);
}
