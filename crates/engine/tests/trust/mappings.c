// Many mappings with code; code mapped where /proc cannot be opened any more.
#include "code.h"
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MANY = 18000 };
static unsigned char *at[MANY];

static void code_now(int salt) {
    unsigned char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(page != MAP_FAILED);
    returns(page, salt);
    NEED(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    NEED(CALL(page) == salt);
    NEED(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    returns(page, salt + 1);
    NEED(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    NEED(CALL(page) == salt + 1);
    // Moved, and something else in its place.
    unsigned char *to = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    NEED(CALL(to) == salt + 1);
    NEED(mmap(page, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
    returns(page, salt + 2);
    NEED(CALL(page) == salt + 2 && CALL(to) == salt + 1);
    NEED(munmap(page, 8192) == 0 && munmap(to, 4096) == 0);
    // The heap.
    unsigned char *heap = sbrk(3 * 4096);
    heap = (unsigned char *)(((uintptr_t)heap + 4095) & ~4095ul);
    returns(heap, salt + 3);
    NEED(mprotect(heap, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    NEED(CALL(heap) == salt + 3);
    returns(heap, salt + 4);
    NEED(CALL(heap) == salt + 4);
}

static sigjmp_buf back;
static void on_fault(int s) { siglongjmp(back, s); }
static int calls(unsigned char *page) {
    int s = sigsetjmp(back, 1);
    return s ? -s : CALL(page);
}

int main(void) {
    for (int i = 0; i < MANY; i++) {
        // A page without permissions behind each keeps them apart.
        at[i] = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        NEED(at[i] != MAP_FAILED);
        NEED(mprotect(at[i], 4096, PROT_READ | PROT_WRITE) == 0);
        returns(at[i], i);
        NEED(mprotect(at[i], 4096, PROT_READ | PROT_EXEC) == 0);
        if (i % 8 == 0) NEED(CALL(at[i]) == i);
    }
    for (int i = 0; i < MANY; i += 4) {
        NEED(mprotect(at[i], 4096, PROT_READ | PROT_WRITE) == 0);
        returns(at[i], i + 7);
        NEED(mprotect(at[i], 4096, PROT_READ | PROT_EXEC) == 0);
        NEED(CALL(at[i]) == i + 7 && CALL(at[MANY - 1 - i]) == MANY - 1 - i);
    }
    signal(SIGSEGV, on_fault);
    NEED(munmap(at[5], 4096) == 0 && calls(at[5]) == -SIGSEGV);
    NEED(mprotect(at[6], 4096, PROT_READ) == 0 && calls(at[6]) == -SIGSEGV);
    NEED(mprotect(at[6], 4096, PROT_READ | PROT_EXEC) == 0 && calls(at[6]) == 6);
    for (int i = 0; i < MANY; i++) munmap(at[i], 8192);
    code_now(1);
    fflush(stdout);
    if (fork() == 0) {
        struct rlimit none = {3, 3};
        NEED(setrlimit(RLIMIT_NOFILE, &none) == 0 && open("/proc/self/maps", O_RDONLY) == -1);
        for (int i = 0; i < 50; i++) code_now(i);
        _exit(4);
    }
    int status;
    wait(&status);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    if (fork() == 0) {
        if (unshare(CLONE_NEWUSER) == 0 || geteuid() == 0) {
            char empty[] = "/tmp/truecount-empty-XXXXXX";
            if (mkdtemp(empty) && chroot(empty) == 0) NEED(chdir("/") == 0 && open("/proc/self/maps", O_RDONLY) == -1);
        }
        for (int i = 0; i < 50; i++) code_now(i);
        _exit(4);
    }
    wait(&status);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    puts("good");
}
