// A thread waits in a program, and one at the same address in the program that it starts: each for its own process.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t posted;

static void *waits(void *none) {
    sem_wait(&posted);
    return none;
}

int main(int count, char **words) {
    (void)words;
    alarm(60);
    pthread_t other;
    sem_init(&posted, 0, 0);
    pthread_create(&other, 0, waits, 0);
    usleep(1000);
    if (count == 1) {
        int status = -1;
        if (fork() == 0) {
            execl("/proc/self/exe", "again", "child", NULL);
            _exit(1);
        }
        wait(&status);
        printf("child %d\n", status);
    }
    sem_post(&posted);
    pthread_join(other, 0);
    puts(count == 1 ? "parent" : "in the child");
    return 0;
}
