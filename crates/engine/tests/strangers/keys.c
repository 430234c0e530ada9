/* Code on pages that can only be executed, and on such whose protection key is shut. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static sigjmp_buf back;
static int key;
static volatile int code, same_key;
static unsigned inside;
static unsigned rights(void) {
    unsigned low, high;
    __asm__ volatile("rdpkru" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}
static void on(int signal, siginfo_t *info, void *context) {
    code = info->si_code, same_key = info->si_pkey == key, inside = rights();
    siglongjmp(back, 1);
}
static void note(int signal) { inside = rights(); }
static int call(void *page) { return ((int (*)(void))page)(); }
static char *function(int value) {
    char *page = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 0xb8, page[1] = value, page[5] = 0xc3;
    return page;
}
static void *thread(void *page) {
    printf("thread %x %d\n", rights(), call(page));
    return 0;
}
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    key = pkey_alloc(0, 0);
    if (key < 0) { puts("no keys"); return 0; }
    struct sigaction action = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    signal(SIGUSR1, note);
    char *hidden = function(7);
    mprotect(hidden, 4096, PROT_EXEC);
    printf("%d\n", call(hidden));
    if (!sigsetjmp(back, 1)) printf("read %d\n", *(volatile char *)hidden);
    else printf("fault %d, rights %x, now %x\n", code, inside, rights());
    pkey_set(key, 0); /* the handler was left with its own */
    char *page = function(8);
    pkey_mprotect(page, 4096, 7, key);
    for (int i = 0; i < 12; i++) {
        page[1] = 8 + i;
        pkey_set(key, PKEY_DISABLE_ACCESS);
        printf("%d ", call(page));
        if (!sigsetjmp(back, 1)) page[1] = 1, puts("written");
        else printf("fault %d %d %x\n", code, same_key, inside);
        pkey_set(key, 0);
    }
    pkey_set(key, PKEY_DISABLE_WRITE);
    raise(SIGUSR1);
    printf("handler %x, now %x\n", inside, rights());
    pthread_t other;
    pthread_create(&other, 0, thread, page);
    pthread_join(other, 0);
    int ends[2];
    pipe(ends);
    write(ends[1], "x", 1);
    printf("%zd\n", read(ends[0], page, 1));
    char *write_only = mmap(0, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_only[0] = 0xb8, write_only[1] = 5, write_only[5] = 0xc3;
    printf("%d %d", call(write_only), write_only[1]);
    write_only[1] = 6;
    printf(" %d\n", call(write_only));
    return 0;
}
