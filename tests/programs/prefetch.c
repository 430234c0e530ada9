// Random reads, half of them from a small table that stays in the caches, half from one far larger
// than the caches: the time of one execution of `look_up` has two modes, hit and miss. Built with
// -DDISTANCE=16, what is read that many iterations later is prefetched: the second mode moves to the
// first. Argument: iterations.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SMALL = 1 << 9, LARGE = 1 << 26 }; // 4 KiB and 512 MiB of 8-byte words

#ifndef DISTANCE
#define DISTANCE 0
#endif

static uint64_t *table;
static uint32_t *indices;

__attribute__((noinline)) static uint64_t look_up(size_t i)
{
    if (DISTANCE) __builtin_prefetch(&table[indices[i + DISTANCE]]);
    return table[indices[i]];
}

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? strtoul(argv[1], 0, 0) : 1000000;
    if (count > 100000000) return 2;
    table = aligned_alloc(2 << 20, LARGE * sizeof *table);
    indices = malloc((count + DISTANCE) * sizeof *indices);
    if (!table || !indices) return 1;
    // Huge pages: else even a prefetch waits for the translation of the address.
    madvise(table, LARGE * sizeof *table, MADV_HUGEPAGE);
    for (size_t i = 0; i < LARGE; i++) table[i] = i;
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < count + DISTANCE; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        indices[i] = (state >> 60 & 1) ? state >> 20 & (SMALL - 1) : state >> 20 & (LARGE - 1);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += look_up(i);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
