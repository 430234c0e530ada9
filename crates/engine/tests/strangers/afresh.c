/* A handler begins with the state of a new program, and what it interrupted goes on with its own. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
unsigned control;
unsigned short word;
unsigned char environment[32];
uint64_t vector[2];
double third;
__attribute__((naked)) static void on(int signal) {
    __asm__("stmxcsr control(%rip); fnstcw word(%rip); fnstenv environment(%rip); fldenv environment(%rip);"
            "movdqu %xmm7, vector(%rip); mov $1, %eax; cvtsi2sd %eax, %xmm0; mov $3, %eax; cvtsi2sd %eax, %xmm1;"
            "divsd %xmm1, %xmm0; movsd %xmm0, third(%rip); ret");
}
int main(void) {
    /* Towards zero, denormals flushed, a division by zero not masked. */
    unsigned set = 0x1f80 & ~0x200 | 0x6000 | 0x8000, after;
    unsigned short set_word = 0x37f | 0xc00, word_after;
    uint64_t value[2] = {1, 2}, value_after[2];
    double one, twelve;
    signal(SIGUSR1, on);
    for (int i = 0; i < 3; i++) {
        __asm__ volatile("ldmxcsr %0; fldcw %1; fld1; movdqu %2, %%xmm7" ::"m"(set), "m"(set_word), "m"(value[0]) : "xmm7");
        raise(SIGUSR1);
        __asm__ volatile("stmxcsr %0; fnstcw %1; fstpl %2; movdqu %%xmm7, %3"
                         : "=m"(after), "=m"(word_after), "=m"(one), "=m"(value_after[0]));
        printf("%x %x %x %lx %lx %a; %x %x %g %lx %lx\n", control, word, *(unsigned short *)(environment + 8), (long)vector[0],
               (long)vector[1], third, after, word_after, one, (long)value_after[0], (long)value_after[1]);
    }
    return 0;
}
