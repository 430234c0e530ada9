// A parallel loop, and threads that wait for each other at its end.
#include <stdio.h>
int main(void) {
    double sum = 0;
    for (int round = 0; round < 50; round++) {
#pragma omp parallel for reduction(+ : sum) num_threads(2) schedule(dynamic, 10)
        for (int i = 0; i < 200; i++) sum += i * 0.5;
    }
    printf("%g\n", sum);
    return 0;
}
