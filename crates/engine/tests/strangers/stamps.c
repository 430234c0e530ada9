/* The time stamp counter, forbidden and allowed again. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
static sigjmp_buf back;
static void on(int signal) { siglongjmp(back, signal); }
static int reads(void) {
    unsigned low, high;
    int signal = sigsetjmp(back, 1);
    if (!signal) __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return signal;
}
int main(void) {
    signal(SIGSEGV, on);
    for (int i = 0; i < 3; i++) {
        int set = prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
        printf("%d %d", set, reads());
        set = prctl(PR_SET_TSC, PR_TSC_ENABLE);
        printf(" %d %d\n", set, reads());
    }
    return 0;
}
