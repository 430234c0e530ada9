// Sums a grid by columns, a row of lines for each number; repaired (-DREPAIRED) by rows, as it lies.
#include <stdio.h>
#ifndef N
#define N 2048
#endif
#ifndef ROUNDS
#define ROUNDS 8
#endif
static long grid[N][N];

__attribute__((noinline)) static long sum(void) {
    long sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
#ifdef REPAIRED
            sum += grid[i][j];
#else
            sum += grid[j][i];
#endif
    return sum;
}

int main(void) {
    long all = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) grid[i][j] = i ^ j;
    for (int round = 0; round < ROUNDS; round++) {
        all += sum();
        __asm__ volatile("" ::: "memory");
    }
    printf("%ld\n", all);
    return 0;
}
