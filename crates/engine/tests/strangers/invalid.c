/* Instructions that fault, each at its address: too long a one, the kernel's, such as are no address. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
static sigjmp_buf back;
static volatile long at, code;
static void on(int signal, siginfo_t *info, void *context) {
    code = info->si_code;
    at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    siglongjmp(back, signal);
}
static const struct { int length; unsigned char bytes[20]; } cases[] = {
    {16, {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}},
    {17, {0x90, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}},
    {15, {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}},
    {16, {0x2e, 0x2e, 0x2e, 0x2e, 0x2e, 0x2e, 0x2e, 0x2e, 0x2e, 0x2e, 0x2e, 0x05, 1, 0, 0, 0}},
    {2, {0x0f, 0x07}}, {2, {0x0f, 0x35}}, {2, {0x0f, 0x0b}}, {1, {0xf4}}, {1, {0x06}}, {2, {0xcd, 5}}, {2, {0xf0, 0x90}},
};
int main(void) {
    unsigned char *page = mmap((void *)0x300000000, 8192, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    struct sigaction action = {.sa_sigaction = on, .sa_flags = SA_SIGINFO | SA_NODEFER};
    int signals[] = {SIGSEGV, SIGILL, SIGBUS, SIGTRAP};
    for (int i = 0; i < 4; i++) sigaction(signals[i], &action, 0);
    for (int i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int edge = 0; edge < 2; edge++) {
            unsigned char *to = page + (edge ? 4096 - cases[i].length / 2 : 0);
            memset(page, 0xcc, 8192);
            memcpy(to, cases[i].bytes, cases[i].length);
            to[cases[i].length] = 0xc3;
            int signal = sigsetjmp(back, 1);
            if (!signal) ((void (*)(void))to)(), at = (long)to, code = 0;
            printf("%d: %d %ld at %ld\n", i, signal, (long)code, at - (long)to);
        }
    return 0;
}
