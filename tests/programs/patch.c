// Code that threads patch while others run it, as just-in-time compilers do: stores of one aligned
// word, a self-loop that waits to be replaced, new functions on a page that is being executed,
// permissions changed meanwhile, signals all the time; and the kernel writing into code pages.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

typedef int (*Function)(void);
enum { PAGES = 8, SIZE = PAGES * 4096, ROUNDS = 900 };
static unsigned char *code;
static atomic_int stop, wrong, ready;

// An aligned eight bytes: mov eax, value; ret; and what follows never runs.
static uint64_t returns(int value) {
    return 0xb8 | (uint64_t)(uint32_t)value << 8 | (uint64_t)0xc3 << 40;
}

static void store(unsigned char *at, uint64_t word) {
    __atomic_store_n((uint64_t *)at, word, __ATOMIC_RELEASE);
}

static void *runner(void *unused) {
    (void)unused;
    int last = 0;
    while (!stop) {
        int now = ((Function)code)(); // never goes back
        if (now < last) wrong++;
        last = now;
        for (int p = 1; p < PAGES; p++)
            if (((Function)(code + p * 4096))() != p) wrong++;
    }
    return NULL;
}

static void *spinner(void *unused) {
    (void)unused;
    for (int i = 1; i <= 60; i++) {
        while (ready != i) ;
        if (((Function)(code + 64))() != i) wrong++; // waits in `jmp .` until patched
        ready = -i;
    }
    return NULL;
}

static void tick(int sig) { (void)sig; }

int main(void) {
    code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int p = 0; p < PAGES; p++) store(code + p * 4096, returns(p));
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval interval = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &interval, NULL);

    pthread_t threads[4];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, runner, NULL);
    pthread_create(&threads[3], NULL, spinner, NULL);
    for (int i = 1; i <= ROUNDS; i++) {
        store(code, returns(i));
        int p = 1 + i % (PAGES - 1);
        for (int k = 1; k < 16; k++) store(code + p * 4096 + 16 * k, returns(i + k)); // beside what runs
        if (((Function)(code + p * 4096 + 16))() != i + 1) wrong++;
        if (i % 16 == 0) mprotect(code + p * 4096, 4096, PROT_READ | PROT_EXEC), mprotect(code, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC);
        if (i % 15 == 0 && i / 15 <= 60) {
            store(code + 64, 0xfeeb);
            ready = i / 15;
            if (i % 2) usleep(50);
            store(code + 64, returns(i / 15));
            while (ready != -(i / 15)) ;
        }
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("patched by threads: %d wrong\n", wrong);

    // The kernel writes where code was just executed: a whole answer, then the new code runs.
    int fds[2], sum = 0;
    if (pipe(fds)) return 1;
    for (int i = 0; i < 100; i++) {
        uint64_t words[2] = {returns(i), returns(i + 1)};
        sum += ((Function)code)() * 0;
        if (write(fds[1], words, 16) != 16) return 2;
        struct iovec parts[2] = {{code, 8}, {code + 4096, 8}};
        ssize_t got = i % 2 ? readv(fds[0], parts, 2) : read(fds[0], code, 16);
        if (got != 16) printf("got %zd\n", got);
        sum += ((Function)code)() + ((Function)(code + (i % 2 ? 4096 : 8)))();
    }
    printf("written by the kernel %d\n", sum);

    // The same page mapped twice, rewritten in place through the other mapping.
    int fd = memfd_create("code", 0);
    if (fd < 0 || ftruncate(fd, 8192)) return 3;
    unsigned char *w = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned char *x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 4096);
    sum = 0;
    for (int i = 0; i < 500; i++) {
        store(w + 4096, returns(i));
        sum += ((Function)x)();
        if (i % 50 == 0) { // another writable mapping, made after the code ran
            unsigned char *again = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
            store(again, returns(1000));
            sum += ((Function)x)();
            munmap(again, 4096);
        }
    }
    printf("two mappings %d\n", sum);
    return 0;
}
