/* Calls through a null pointer, to addresses that are none, and to data: the fault is that of the CPU. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
static sigjmp_buf back;
static volatile long address, at;
static void on(int signal, siginfo_t *info, void *context) {
    address = (long)info->si_addr;
    at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    siglongjmp(back, signal);
}
static int data[2];
int main(int count, char **words) {
    void *volatile to[] = {0, (void *)8, data, (void *)0xffffffff80000000, (void *)0x8000000000000000};
    int which = count > 1 ? atoi(words[1]) : -1;
    if (which >= 0) {
        ((void (*)(void))to[which])();
        return 9;
    }
    struct sigaction action = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 4; i++) {
        int signal = sigsetjmp(back, 1);
        if (!signal) ((void (*)(void))to[i])();
        printf("%d: signal %d, address and place as called: %d %d\n", i, signal, address == (long)to[i], at == (long)to[i]);
    }
    return 0;
}
