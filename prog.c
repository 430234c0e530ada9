#include <stdio.h>
#include <truecount.h>

int main(void)
{
    const truecount_counter *c;
    uint64_t start, cost = 0;
    if (truecount_open("instructions:u", &c) != TRUECOUNT_OK)
        fprintf(stderr, "%s; %s\n", truecount_error_message(), truecount_error_hint());
    start = truecount_read(c);
    puts("hello");
    if (truecount_between(c, start, truecount_read(c), &cost) == TRUECOUNT_OK)
        printf("%llu instructions\n", (unsigned long long)cost);
    return truecount_close(c);
}
