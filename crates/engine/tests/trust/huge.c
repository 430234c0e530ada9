#include "code.h"
// Code on huge pages (transparent ones, and reserved ones where the system has some), called and written anew.
static void use(unsigned char *page, size_t bytes) {
    for (int i = 0; i < 200; i++) {
        returns(page, i);
        returns(page + bytes - 64, i + 1);
        NEED(CALL(page) == i);
        NEED(CALL(page + bytes - 64) == i + 1);
    }
}

int main(void) {
    size_t bytes = 2 << 20;
    int prot = PROT_READ | PROT_WRITE | PROT_EXEC, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *two = mmap(0, 2 * bytes, prot, flags, -1, 0);
    NEED(two != MAP_FAILED);
    unsigned char *page = (unsigned char *)(((uintptr_t)two + bytes - 1) & -bytes);
    madvise(page, bytes, MADV_HUGEPAGE);
    use(page, bytes);
    unsigned char *reserved = mmap(0, bytes, prot, flags | MAP_HUGETLB, -1, 0);
    if (reserved != MAP_FAILED) use(reserved, bytes);
    fprintf(stderr, "reserved huge pages: %s\n", reserved != MAP_FAILED ? "yes" : "no");
    puts("good");
    return 0;
}
