/* Loads the library, counts on two threads, unloads it, ends a thread, and forks; three times. argv[1]: the library. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t counted, unloaded;
static int (*open_counter)(const char *, const void **);
static uint64_t (*read_counter)(const void *);
static int (*close_counter)(const void *);

static void count(int closes)
{
    const void *c;
    if (open_counter("wall-time", &c) || read_counter(c) == UINT64_MAX || (closes && close_counter(c)))
        exit(2);
}

static void *thread(void *unused)
{
    (void)unused;
    count(0);
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&unloaded);
    return NULL;
}

int main(int argc, char **argv)
{
    int i, status;
    if (argc < 2)
        return 2;
    pthread_barrier_init(&counted, NULL, 2);
    pthread_barrier_init(&unloaded, NULL, 2);
    for (i = 0; i < 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        pthread_t other;
        if (!library)
            return 3;
        open_counter = (int (*)(const char *, const void **))dlsym(library, "truecount_open");
        read_counter = (uint64_t (*)(const void *))dlsym(library, "truecount_read_any");
        close_counter = (int (*)(const void *))dlsym(library, "truecount_close");
        count(1);
        pthread_create(&other, NULL, thread, NULL);
        pthread_barrier_wait(&counted);
        dlclose(library);
        pthread_barrier_wait(&unloaded);
        pthread_join(other, NULL);
        fflush(stdout);
        if (fork() == 0)
            _exit(7);
        wait(&status);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
            return 4;
        puts("unloaded and forked");
    }
    return 0;
}
