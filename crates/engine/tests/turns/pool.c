#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
enum { THREADS = 4, ITEMS = 3000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, tree = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int made, taken, done;
struct node { unsigned key; struct node *side[2]; } *root;
static void *worker(void *none) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (made == taken && !done) pthread_cond_wait(&ready, &lock);
        if (made == taken) { pthread_mutex_unlock(&lock); return none; }
        unsigned key = taken++;
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < 500 + (int)(key * 2654435761u >> 22); i++) key = key * 1664525 + 1013904223;
        struct node *new = calloc(1, sizeof *new);
        new->key = key;
        pthread_mutex_lock(&tree);
        struct node **at = &root;
        while (*at) at = &(*at)->side[key > (*at)->key];
        *at = new;
        pthread_mutex_unlock(&tree);
    }
}
int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&lock);
        made++;
        pthread_cond_signal(&ready);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    done = 1;
    pthread_cond_broadcast(&ready);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 0;
}
