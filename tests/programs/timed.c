/* Takes as many rounds as the last digits of the clock and of the time stamp counter say. docs/determinism.md */
#include <time.h>
#include <x86intrin.h>

int main(void)
{
    struct timespec now;
    volatile unsigned long work = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned long rounds = 1 + now.tv_nsec / 1000 % 1000 + __rdtsc() % 1000;
    while (rounds--)
        work += rounds;
    return 0;
}
