// Code in memory that another thread supplies when it is first touched (userfaultfd).
#include "code.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>

static int faults = -1;
static volatile int supplied;

static void *supplier(void *unused) {
    (void)unused;
    static unsigned char page[4096] __attribute__((aligned(4096)));
    for (;;) {
        struct uffd_msg message;
        struct pollfd ready = {faults, POLLIN, 0};
        NEED(poll(&ready, 1, -1) == 1);
        NEED(read(faults, &message, sizeof message) == sizeof message);
        returns(page, 11);
        struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~4095ULL, .src = (uintptr_t)page, .len = 4096};
        NEED(ioctl(faults, UFFDIO_COPY, &copy) == 0);
        supplied++;
    }
}

int main(void) {
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0) {
        puts("good");
        return 0; // not permitted here
    }
    struct uffdio_api api = {.api = UFFD_API};
    NEED(ioctl(faults, UFFDIO_API, &api) == 0);
    unsigned char *at = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)at, 8 * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    NEED(ioctl(faults, UFFDIO_REGISTER, &range) == 0);
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, supplier, NULL) == 0);
    for (int page = 0; page < 8; page += 2)
        NEED(CALL(at + page * 4096) == 11);
    NEED(supplied >= 3);
    puts("good");
    return 0;
}
