// A thread that waits often, and is open to another one only while it executes: who is woken by it sees it closed for as
// long as turns end only where it waits.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int is_open, seen;
static int asked[2], answered[2];

static void *look(void *none) {
    char byte;
    while (read(asked[0], &byte, 1) == 1) {
        if (is_open) seen = 1;
        if (write(answered[1], &byte, 1) != 1) break;
    }
    return none;
}

int main(void) {
    pthread_t other;
    char byte = 0;
    alarm(60);
    if (pipe(asked) || pipe(answered)) return 1;
    pthread_create(&other, 0, look, 0);
    while (!seen) {
        is_open = 1;
        if (write(asked[1], &byte, 1) != 1) return 1;
        for (volatile int i = 0; i < 200; i++)
            ;
        is_open = 0;
        if (read(answered[0], &byte, 1) != 1) return 1;
    }
    close(asked[1]);
    pthread_join(other, 0);
    printf("seen\n");
    return 0;
}
