// mremap that moves nothing, over mappings of several kinds: each stays what it is.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static sigjmp_buf back;
static int code;
static void faulted(int signal, siginfo_t *info, void *context) {
    (void)context;
    code = signal * 100 + info->si_code;
    siglongjmp(back, 1);
}

static int runs(unsigned char *p) {
    code = 0;
    if (sigsetjmp(back, 1) == 0) ((void (*)(void))p)();
    return code;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    unsigned char *p = mmap(NULL, 8 * 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 0xc3, 8 * 4096);
    // Code, data, code, data; executed once where it can be.
    mprotect(p + 4096, 4096, PROT_WRITE), mprotect(p + 3 * 4096, 4096, PROT_WRITE);
    printf("%d %d\n", runs(p), runs(p + 2 * 4096));
    // All of it (which Linux refuses before 6.17), then less than there was.
    printf("%d\n", mremap(p, 8 * 4096, 8 * 4096, 0) != MAP_FAILED);
    printf("%d %d\n", runs(p), runs(p + 4096));
    printf("%d\n", mremap(p, 8 * 4096, 4 * 4096, 0) == p);
    for (int i = 0; i < 5; i++) printf("%d ", runs(p + i * 4096));
    p[4096] = 0xc3;
    printf("\n%d\n", runs(p + 4096));
    return 0;
}
