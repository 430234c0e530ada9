// Memory with code of a file's, of which pages were written before and behind the code: for the kernel it may be several
// mappings once the code was executed and written. It is moved, made longer and shorter all the same.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };
static int file;

// Four pages; which of them were executed, and then written in this order.
static unsigned char *made(const char *executed, const char *written) {
    unsigned char *p = mmap(NULL, 4 * PAGE, 7, MAP_PRIVATE, file, 0);
    int sum = 0;
    for (; *executed; executed++) sum += ((int (*)(void))(p + (*executed - '0') * PAGE))();
    for (; *written; written++) p[(*written - '0') * PAGE + 1]++;
    printf("%d ", sum);
    return p;
}

// The same, where the page that was executed was the last of its mapping then.
static unsigned char *joined(void) {
    unsigned char *p = mmap(NULL, 4 * PAGE, 7, MAP_PRIVATE, file, 0);
    mprotect(p + 3 * PAGE, PAGE, PROT_READ | PROT_EXEC);
    printf("%d ", ((int (*)(void))(p + 2 * PAGE))());
    mprotect(p + 3 * PAGE, PAGE, 7);
    for (const char *at = "032"; *at; at++) p[(*at - '0') * PAGE + 1]++;
    return p;
}

static void said(const char *what, unsigned char *p, int pages) {
    printf("%s", what);
    if (p == MAP_FAILED) {
        puts(" failed");
        return;
    }
    for (int i = 0; i < pages; i++) printf(" %d", ((int (*)(void))(p + i * PAGE))());
    puts("");
}

int main(void) {
    file = memfd_create("code", 0);
    for (int i = 0; i < 16; i++) {
        unsigned char page[PAGE] = {0xb8, (unsigned char)(10 * (i + 1)), 0, 0, 0, 0xc3};
        if (write(file, page, PAGE) != PAGE) return 1;
    }
    const char *ways[][2] = {{"1", "031"}, {"1", "301"}, {"12", "0312"}, {"2", "302"}, {"03", "1203"}, {"", "03"}};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *executed = ways[i][0], *written = ways[i][1];
        unsigned char *room = mmap(NULL, 16 * PAGE, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        said("longer", mremap(made(executed, written), 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE), 8);
        said("shorter", mremap(made(executed, written), 4 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room), 3);
        said("elsewhere", mremap(made(executed, written), 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room), 4);
        said("both", mremap(made(executed, written), 4 * PAGE, 6 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 8 * PAGE), 6);
        unsigned char *p = made(executed, written);
        munmap(p + 2 * PAGE, PAGE);
        printf("%d ", mremap(p, 4 * PAGE, 5 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) == MAP_FAILED);
        said("a gap", p, 2);
        said("again", mremap(mremap(made(executed, written), 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE), 8 * PAGE, 9 * PAGE, MREMAP_MAYMOVE), 9);
    }
    said("joined", mremap(joined(), 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE), 8);
    return 0;
}
