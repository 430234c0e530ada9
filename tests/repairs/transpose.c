// Transposes a matrix: each write is to a line of its own, which is gone before its neighbours are written; repaired
// (-DREPAIRED) tile by tile, whose lines stay.
#include <stdio.h>
#ifndef N
#define N 2048
#endif
#ifndef ROUNDS
#define ROUNDS 8
#endif
#define TILE 8
static double from[N][N], to[N][N];

__attribute__((noinline)) static void transpose(void) {
#ifdef REPAIRED
    for (int i = 0; i < N; i += TILE)
        for (int j = 0; j < N; j += TILE)
            for (int k = i; k < i + TILE; k++)
                for (int l = j; l < j + TILE; l++)
                    to[l][k] = from[k][l];
#else
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            to[j][i] = from[i][j];
#endif
}

int main(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) from[i][j] = i ^ j;
    for (int round = 0; round < ROUNDS; round++) {
        transpose();
        __asm__ volatile("" ::: "memory");
    }
    printf("%g\n", to[0][N - 1]);
    return 0;
}
