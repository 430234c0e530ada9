/* Rewrites a small function and calls it, ARGUMENT times: on a page that stays writable ("rwx"), by turns
   writable and executable ("flip"), or next to many other mappings of code ("maps"), as JITs do it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, MAPS = 10000 };

static unsigned call(unsigned char *at) { return ((unsigned (*)(void))at)(); }

static void write_function(unsigned char *at, unsigned value) {
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(code + 1, &value, 4);
    memcpy(at, code, sizeof code);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    unsigned n = atoi(argv[2]), good = 0;
    int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    if (!strcmp(argv[1], "maps")) {
        /* Every second page is left out, so that each is a mapping of its own. */
        unsigned char *all = mmap(0, 2ul * MAPS * PAGE, PROT_NONE, anonymous | MAP_NORESERVE, -1, 0);
        for (unsigned i = 0; i < MAPS; i++) {
            unsigned char *at = all + 2ul * i * PAGE;
            mprotect(at, PAGE, PROT_READ | PROT_WRITE);
            write_function(at, i);
            mprotect(at, PAGE, PROT_READ | PROT_EXEC);
            good += call(at) == i;
        }
        printf("%u\n", good);
        return good != MAPS;
    }
    int flip = !strcmp(argv[1], "flip");
    unsigned char *at = mmap(0, PAGE, 7, anonymous, -1, 0);
    for (unsigned i = 0; i < n; i++) {
        if (flip) mprotect(at, PAGE, PROT_READ | PROT_WRITE);
        write_function(at, i);
        if (flip) mprotect(at, PAGE, PROT_READ | PROT_EXEC);
        good += call(at) == i;
    }
    printf("%u\n", good);
    return good != n;
}
