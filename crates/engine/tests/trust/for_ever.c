/* Writes a function, calls it, writes the next: over and over in 64 KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static unsigned long resident(void) {
    unsigned long kilobytes = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %lu", &kilobytes) == 1) break;
    if (file) fclose(file);
    return kilobytes;
}

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    int flip = !strcmp(argv[1], "flip");
    unsigned char *at = mmap(0, 1 << 16, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned sum = 0, n = atoi(argv[2]);
    for (unsigned i = 0; i < n; i++) {
        /* Four blocks, all new: mov eax, i; jmp +0; four times; ret */
        unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xeb, 0, 0xb8, 0, 0, 0, 0, 0xeb, 0,
                                0xb8, 0, 0, 0, 0, 0xeb, 0, 0xb8, 0, 0, 0, 0, 0xeb, 0, 0xc3};
        unsigned char *to = at + i % 2048 * 32;
        if (flip && i % 16 == 0) mprotect(at, 1 << 16, PROT_READ | PROT_WRITE);
        for (int k = 0; k < 4; k++) memcpy(code + 1 + 7 * k, &i, 4);
        memcpy(to, code, sizeof code);
        if (!flip) {
            sum += ((unsigned (*)(void))to)() == i;
        } else if (i % 16 == 15) {
            mprotect(at, 1 << 16, PROT_READ | PROT_EXEC);
            for (unsigned k = i - 15; k <= i; k++)
                sum += ((unsigned (*)(void))(at + k % 2048 * 32))() == k;
        }
    }
    if (sum != n / 16 * 16) return 6;
    return argc > 3 && resident() < 40000 ? 7 : 5;
}
