gcc -O1 -pthread -o many -x c - <<'X'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int done;
static void *f(void *a) { return a; }
int main(int n, char **v) {
    for (long left = atol(v[1]); left; left--) {
        pthread_t t;
        if (pthread_create(&t, 0, f, (void *)left)) return 2;
        void *r; pthread_join(t, &r); done += r == (void *)left;
    }
    for (long left = atol(v[2]); left; left--) {
        int s; pid_t p = fork();
        if (p < 0) return 3;
        if (!p) _exit(left % 100);
        waitpid(p, &s, 0); done += WEXITSTATUS(s) == left % 100;
    }
    printf("%d\n", done);
}
X
