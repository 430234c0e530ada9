/* Prints pointers and branches on their bits: its count follows from where the kernel puts stack, heap and program.
   docs/determinism.md */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    unsigned long sum = 0;
    for (int i = 0; i < 100; i++) {
        char *block = malloc(100 + i);
        unsigned long address = (unsigned long)block ^ (unsigned long)&block;
        for (int bit = 0; bit < 48; bit++)
            if (address >> bit & 1)
                sum += address % (bit + 3);
        printf("%p %p %lu\n", (void *)block, (void *)&block, (unsigned long)main);
    }
    return sum == 42;
}
