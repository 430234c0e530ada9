// A context that is begun in one function, gone on with in another one, and in another thread.
#include <pthread.h>
#include <ucontext.h>
#define NOINLINE __attribute__((noinline, noclone, noipa))

volatile long sink;
static ucontext_t outside, inside;
static char stack[1 << 16] __attribute__((aligned(16)));

NOINLINE void unit(void) { sink++; }
NOINLINE void leave(void) { swapcontext(&inside, &outside); sink++; }
NOINLINE void deeper(void) { unit(); leave(); unit(); leave(); unit(); }
NOINLINE void other(void) { unit(); deeper(); unit(); }
NOINLINE void begins(void) { swapcontext(&outside, &inside); sink++; }
NOINLINE void goes_on(void) { swapcontext(&outside, &inside); sink++; }
NOINLINE void *in_thread(void *nothing) { goes_on(); unit(); return nothing; }

int main(int count, char **arguments) {
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    inside.uc_link = &outside;
    makecontext(&inside, other, 0);
    begins();
    if (count > 1 && arguments[1][0] == 't') {
        pthread_t thread;
        pthread_create(&thread, 0, in_thread, 0);
        pthread_join(thread, 0);
    } else {
        goes_on();
    }
    goes_on();
    unit();
    return 0;
}
