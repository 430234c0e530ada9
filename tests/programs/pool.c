/* Four threads take work from a queue and put the results into a tree whose shape follows from their order:
   `pool [SCALE]`, pieces SCALE times as long. docs/determinism.md */
#include <pthread.h>
#include <stdlib.h>

struct node {
    unsigned long key;
    struct node *less, *more;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct node *tree;
static int next, ended;
static unsigned long scale = 1;

static void *worker(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (next == 0 && !ended)
            pthread_cond_wait(&filled, &lock);
        if (next == 0) {
            pthread_mutex_unlock(&lock);
            return unused;
        }
        unsigned long value = (unsigned long)next--;
        pthread_mutex_unlock(&lock);
        for (unsigned long i = 0; i < 3000 * scale; i++)
            value = value * 6364136223846793005ul + 1442695040888963407ul;
        struct node *node = calloc(1, sizeof *node);
        node->key = value;
        pthread_mutex_lock(&lock);
        struct node **at = &tree;
        while (*at)
            at = value < (*at)->key ? &(*at)->less : &(*at)->more;
        *at = node;
        pthread_mutex_unlock(&lock);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    if (argc > 1)
        scale = strtoul(argv[1], 0, 10);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < 400; i++) {
        pthread_mutex_lock(&lock);
        next++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    ended = 1;
    pthread_cond_broadcast(&filled);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return 0;
}
