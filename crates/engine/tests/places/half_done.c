// Calls about memory that fail half-way, move several mappings, or change bytes without a write: what can be executed
// then, and written, is what it is natively.
#include "code.h"
#include <sys/socket.h>

static sigjmp_buf back;
static void on_fault(int signal) { siglongjmp(back, signal); }
static int faults(unsigned char *at) {
    if (sigsetjmp(back, 1)) return 1;
    CALL(at);
    return 0;
}

#define PAGE 4096ul
#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)
#define ANYWHERE (MAP_PRIVATE | MAP_ANONYMOUS)

// Memory between gaps.
static unsigned char *pages(size_t count, int protection) {
    unsigned char *at = mmap(NULL, (count + 2) * PAGE, PROT_NONE, ANYWHERE, -1, 0);
    NEED(at != MAP_FAILED);
    NEED(munmap(at, PAGE) == 0 && munmap(at + (count + 1) * PAGE, PAGE) == 0);
    NEED(mprotect(at + PAGE, count * PAGE, protection) == 0);
    return at + PAGE;
}
static int is_mapped(unsigned char *at) {
    unsigned char present;
    return mincore(at, PAGE, &present) == 0;
}
// What a call that failed has left there.
static void as_the_kernel_left_it(unsigned char *at, int value) {
    if (is_mapped(at)) {
        NEED(CALL(at) == value);
    } else {
        NEED(faults(at));
    }
}

// mprotect fails at a gap: what is in front of it has changed, what is behind it has not.
static void protections(void) {
    unsigned char *at = pages(3, ALL);
    returns(at, 41), returns(at + 2 * PAGE, 43);
    NEED(munmap(at + PAGE, PAGE) == 0);
    NEED(CALL(at) == 41 && CALL(at + 2 * PAGE) == 43);
    NEED(mprotect(at + PAGE, 2 * PAGE, ALL) == -1);
    returns(at + 2 * PAGE, 44);
    NEED(CALL(at + 2 * PAGE) == 44);
    NEED(mprotect(at, 3 * PAGE, PROT_READ) == -1);
    NEED(faults(at) && CALL(at + 2 * PAGE) == 44);
    returns(at + 2 * PAGE, 45);
    NEED(CALL(at + 2 * PAGE) == 45);
    // It could not be executed, and can be, although the call says that it failed.
    NEED(mprotect(at, PAGE, PROT_READ | PROT_WRITE) == 0);
    NEED(faults(at));
    NEED(mprotect(at, 3 * PAGE, ALL) == -1);
    NEED(CALL(at) == 41);
    returns(at, 46);
    NEED(CALL(at) == 46);
}

// What is asked for in the place of code is refused, and the code may be gone.
static void places(void) {
    unsigned char *at = pages(1, ALL), *nothing = pages(1, ALL);
    NEED(munmap(nothing, PAGE) == 0);
    returns(at, 41);
    NEED(CALL(at) == 41);
    NEED(mremap(nothing, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED);
    as_the_kernel_left_it(at, 41);
    // A socket cannot be mapped.
    at = pages(1, ALL);
    returns(at, 42);
    NEED(CALL(at) == 42);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    NEED(s >= 0 && mmap(at, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, s, 0) == MAP_FAILED);
    as_the_kernel_left_it(at, 42);
    NEED(mmap(at, PAGE, ALL, ANYWHERE | MAP_FIXED, -1, 0) == at);
    returns(at, 43);
    NEED(CALL(at) == 43);
}

// Several mappings are moved at once, where the kernel does that.
static void moved(void) {
    unsigned char *from = pages(3, ALL), *to = pages(3, PROT_READ);
    for (int i = 0; i < 3; i++) returns(from + i * PAGE, 41 + i);
    for (int i = 0; i < 3; i++) NEED(CALL(from + i * PAGE) == 41 + i);
    NEED(mprotect(from + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    if (mremap(from, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) return;
    NEED(CALL(to) == 41 && faults(to + PAGE) && CALL(to + 2 * PAGE) == 43);
    returns(to, 51), returns(to + 2 * PAGE, 53);
    NEED(CALL(to) == 51 && faults(to + PAGE) && CALL(to + 2 * PAGE) == 53);
    NEED(faults(from) && faults(from + 2 * PAGE));
}

// Memory that is mapped twice, once for both: compared there, watched for the other.
static void twice(void) {
    int fd = memfd_create("code", 0);
    NEED(fd >= 0 && ftruncate(fd, PAGE) == 0);
    unsigned char *one = mmap(NULL, PAGE, ALL, MAP_SHARED, fd, 0);
    unsigned char *other = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    NEED(one != MAP_FAILED && other != MAP_FAILED);
    for (int i = 0; i < 40; i++) {
        returns(one, i);
        NEED(CALL(one) == i);
    }
    for (int i = 0; i < 4; i++) {
        NEED(CALL(other) == 39 + i);
        NEED(mprotect(one, PAGE, ALL) == 0);
        returns(one, 40 + i);
        NEED(CALL(one) == 40 + i);
    }
}

// Ranges of more than 16 MiB.
static void large(void) {
    size_t size = 24ul << 20, place = 20ul << 20;
    int fd = memfd_create("code", 0);
    NEED(fd >= 0 && ftruncate(fd, size) == 0);
    unsigned char bytes[CODE_BYTES];
    returns(bytes, 43);
    NEED(pwrite(fd, bytes, CODE_BYTES, place) == CODE_BYTES);
    unsigned char *at = mmap(NULL, size, ALL, ANYWHERE, -1, 0), *to = mmap(NULL, size, PROT_NONE, ANYWHERE, -1, 0);
    NEED(at != MAP_FAILED && to != MAP_FAILED);
    returns(at + place, 41);
    NEED(CALL(at + place) == 41);
    NEED(read(fd, at, size) == (ssize_t)size);
    NEED(CALL(at + place) == 43);
    struct iovec vector = {at, size};
    NEED(preadv(fd, &vector, 1, 0) == (ssize_t)size);
    NEED(CALL(at + place) == 43);
    NEED(mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    returns(to + place, 44);
    NEED(CALL(to + place) == 44);
    NEED(munmap(to, size) == 0 && close(fd) == 0);
}

// The kernel takes pages away: the file's bytes are back.
static void taken(void) {
    int fd = memfd_create("code", 0);
    unsigned char bytes[CODE_BYTES];
    returns(bytes, 41);
    NEED(fd >= 0 && ftruncate(fd, PAGE) == 0 && pwrite(fd, bytes, CODE_BYTES, 0) == CODE_BYTES);
    unsigned char *at = mmap(NULL, PAGE, ALL, MAP_PRIVATE, fd, 0);
    NEED(at != MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        NEED(CALL(at) == 41);
        returns(at, 42 + i);
        NEED(CALL(at) == 42 + i);
        NEED(madvise(at, PAGE, MADV_DONTNEED) == 0);
    }
    NEED(mprotect(at, PAGE, PROT_READ | PROT_EXEC) == 0 && CALL(at) == 41);
}

// The heap shrinks, and grows again without the permission to execute.
static void heap(void) {
    unsigned char *end = sbrk(0), *at = (unsigned char *)(((uintptr_t)end + PAGE - 1) & -PAGE);
    NEED(sbrk(at + 4 * PAGE - end) == end);
    NEED(mprotect(at, PAGE, ALL) == 0);
    returns(at, 41);
    NEED(CALL(at) == 41);
    NEED(brk(at) == 0 && faults(at));
    NEED(brk(at + 4 * PAGE) == 0);
    returns(at, 42);
    NEED(faults(at));
    NEED(mprotect(at, PAGE, ALL) == 0 && CALL(at) == 42);
    NEED(brk(end) == 0);
}

// Memory that children do not have.
static void children(void) {
    unsigned char *at = pages(2, ALL);
    returns(at, 41), returns(at + PAGE, 42);
    NEED(CALL(at) == 41 && CALL(at + PAGE) == 42);
    NEED(madvise(at, PAGE, MADV_DONTFORK) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (!faults(at) || CALL(at + PAGE) != 42) _exit(1);
        if (mmap(at, PAGE, ALL, ANYWHERE | MAP_FIXED, -1, 0) != at) _exit(2);
        returns(at, 43), returns(at + PAGE, 44);
        _exit(CALL(at) == 43 && CALL(at + PAGE) == 44 ? 7 : 3);
    }
    int status = 0;
    NEED(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    NEED(CALL(at) == 41);
}

int main(void) {
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    protections();
    places();
    moved();
    twice();
    large();
    taken();
    heap();
    children();
    puts("good");
    return 0;
}
