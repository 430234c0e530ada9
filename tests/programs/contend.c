/* Threads and processes that wait for each other all the time: `contend locks` (four threads take one mutex in turn, and two
   of them hand a number over by a condition), `contend pipes` (a byte goes to and fro between two processes). benches/README.md */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long count, turn;

static void *adds(void *unused)
{
    for (int i = 0; i < 2000000; i++) {
        pthread_mutex_lock(&lock);
        count = count * 3 + 1;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *hands_over(void *side)
{
    for (int i = 0; i < 100000; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 2 != (unsigned long)side)
            pthread_cond_wait(&changed, &lock);
        turn++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static int pipes(void)
{
    int there[2], back[2];
    char byte = 0;
    if (pipe(there) || pipe(back))
        return 1;
    if (fork() == 0) {
        while (read(there[0], &byte, 1) == 1 && byte != 'e')
            if (write(back[1], &byte, 1) != 1)
                _exit(1);
        _exit(0);
    }
    for (int i = 0; i < 200000; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 1;
    byte = 'e';
    if (write(there[1], &byte, 1) != 1)
        return 1;
    int status;
    return wait(&status) < 0 || status;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "pipes") == 0)
        return pipes();
    pthread_t threads[6];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, adds, NULL);
    for (unsigned long side = 0; side < 2; side++)
        pthread_create(&threads[4 + side], NULL, hands_over, (void *)side);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    printf("%lu\n", turn);
    return turn != 200000;
}
