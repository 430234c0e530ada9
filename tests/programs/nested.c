/* Calls GCC's nested functions ARGUMENT times: their trampolines are written to the stack and executed there. */
#include <stdio.h>
#include <stdlib.h>

static long apply(long (*f)(long), long value) { return f(value); }
static long (*volatile call)(long (*)(long), long) = apply;

static long outer(long n) {
    long add(long value) { return value + n; }
    return call(add, n);
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000, sum = 0;
    for (long i = 0; i < n; i++) sum += outer(i);
    printf("%ld\n", sum);
    return sum != n * (n - 1);
}
