// Processes with two threads each that hand a turn to each other, by semaphores at the same addresses in all of them.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t ping, pong;

static void *answers(void *none) {
    for (int i = 0; i < 1000; i++) sem_wait(&ping), sem_post(&pong);
    return none;
}

static int play(void) {
    pthread_t other;
    sem_init(&ping, 0, 0), sem_init(&pong, 0, 0);
    pthread_create(&other, 0, answers, 0);
    int done = 0;
    for (; done < 1000; done++) sem_post(&ping), sem_wait(&pong);
    pthread_join(other, 0);
    return done;
}

int main(void) {
    alarm(60);
    int results[2];
    if (pipe(results)) return 1;
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            int done = play();
            _exit(write(results[1], &done, sizeof done) != sizeof done);
        }
    printf("%d", play());
    for (int i = 0, done; i < 3; i++)
        if (read(results[0], &done, sizeof done) == sizeof done) printf(" %d", done);
    while (wait(NULL) > 0) ;
    printf("\n");
    return 0;
}
