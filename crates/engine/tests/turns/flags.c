// Loops that wait for another thread and keep the flags, jump indirectly, or never end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile long flag, begun;

// Sets the carry and the overflow, clears zero; waits without changing them; tells them.
static void *keeps_flags(void *result) {
    unsigned char carry, overflow, zero;
    begun = 1;
    asm volatile("movb $0x80, %%al\n add $0xc0, %%al\n stc\n"
                 "1: mov %3, %%rcx\n nop\n jrcxz 2f\n jmp 3f\n 2: jmp 1b\n"
                 "3: setc %0\n seto %1\n setz %2\n"
                 : "=m"(carry), "=m"(overflow), "=m"(zero)
                 : "m"(flag)
                 : "rax", "rcx", "cc");
    printf("carry %d overflow %d zero %d\n", carry, overflow, zero);
    return result;
}

static void *jumps_indirectly(void *result) {
    begun = 1;
    asm volatile("lea 1f(%%rip), %%rax\n lea 2f(%%rip), %%rdx\n"
                 "1: mov %0, %%rcx\n test %%rcx, %%rcx\n cmovne %%rdx, %%rax\n add $0, %%rcx\n jmp *%%rax\n"
                 "2:\n" : : "m"(flag) : "rax", "rcx", "rdx", "cc");
    puts("indirectly");
    return result;
}

static void *stands_still(void *result) {
    begun = 1;
    asm volatile("1: jmp 1b");
    return result;
}

static void wait_for(void *(*what)(void *), int ends) {
    pthread_t thread;
    flag = begun = 0;
    pthread_create(&thread, 0, what, 0);
    while (!begun) ;
    for (volatile int i = 0; i < 300000; i++) ;
    flag = 1;
    if (ends) pthread_join(thread, 0);
}

int main(void) {
    wait_for(keeps_flags, 1);
    wait_for(jumps_indirectly, 1);
    wait_for(stands_still, 0);
    puts("stands still");
    exit(0);
}
