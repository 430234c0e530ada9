// Reads a number from a file, executes as many rounds, and leaves the next number there: a run whose inputs are what the
// one before left. usage: next FILE
#include <stdio.h>
#include <stdlib.h>

static volatile long sink;

int main(int argc, char **argv) {
    char text[32];
    FILE *file = fopen(argv[argc - 1], "r");
    if (!file || !fgets(text, sizeof text, file)) return 3;
    fclose(file);
    long rounds = atol(text);
    for (long i = 0; i < rounds; i++) sink += i;
    file = fopen(argv[argc - 1], "w");
    if (!file) return 3;
    fprintf(file, "%ld\n", rounds + 100);
    return fclose(file);
}
