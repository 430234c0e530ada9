// Code that system calls write: process_vm_writev, /proc/self/mem, writes to a file that is mapped.
#include "code.h"

static void by_process_vm_writev(unsigned char *at, int value) {
    unsigned char bytes[CODE_BYTES];
    returns(bytes, value);
    struct iovec from = {bytes, CODE_BYTES}, to = {at, CODE_BYTES};
    NEED(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == CODE_BYTES);
}

static int memory = -1;
static void by_memory_file(unsigned char *at, int value) {
    unsigned char bytes[CODE_BYTES];
    returns(bytes, value);
    NEED(pwrite(memory, bytes, CODE_BYTES, (off_t)(uintptr_t)at) == CODE_BYTES);
}

static void by_memory_stream(unsigned char *at, int value) {
    unsigned char bytes[CODE_BYTES];
    returns(bytes, value);
    struct iovec from[2] = {{bytes, 2}, {bytes + 2, CODE_BYTES - 2}};
    NEED(lseek(memory, (off_t)(uintptr_t)at, SEEK_SET) == (off_t)(uintptr_t)at);
    NEED(writev(memory, from, 2) == CODE_BYTES);
}

static int file = -1;
static void by_pwrite(unsigned char *at, int value) {
    unsigned char bytes[CODE_BYTES];
    (void)at;
    returns(bytes, value);
    NEED(pwrite(file, bytes, CODE_BYTES, 0) == CODE_BYTES);
}

static void by_write(unsigned char *at, int value) {
    unsigned char bytes[CODE_BYTES];
    (void)at;
    returns(bytes, value);
    NEED(lseek(file, 0, SEEK_SET) == 0 && write(file, bytes, CODE_BYTES) == CODE_BYTES);
}

static void by_copy(unsigned char *at, int value) {
    unsigned char bytes[CODE_BYTES];
    (void)at;
    returns(bytes, value);
    int other = memfd_create("other", 0);
    NEED(write(other, bytes, CODE_BYTES) == CODE_BYTES);
    off_t from = 0;
    NEED(lseek(file, 0, SEEK_SET) == 0 && sendfile(file, other, &from, CODE_BYTES) == CODE_BYTES);
    close(other);
}

static void rounds(unsigned char *at, void (*writes)(unsigned char *, int)) {
    for (int value = 1; value < 200; value++) {
        writes(at, value);
        NEED(CALL(at) == value);
        NEED(CALL(at) == value);
    }
}

static int constant(void) __attribute__((noinline, section(".text.patched"), aligned(4096)));
static int constant(void) {
    __asm__ volatile("");
    return 12345;
}

int main(void) {
    int protections[] = {PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC};
    for (int p = 0; p < 2; p++) {
        unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        NEED(at != MAP_FAILED);
        if (protections[p] & PROT_WRITE) {
            NEED(mprotect(at, 4096, protections[p]) == 0);
            rounds(at, by_process_vm_writev);
        }
        NEED(mprotect(at, 4096, protections[p]) == 0);
        memory = open("/proc/self/mem", O_RDWR);
        NEED(memory >= 0);
        rounds(at, by_memory_file);
        rounds(at, by_memory_stream);
        close(memory);
    }
    // The program's own text, as linked.
    NEED(constant() == 12345);
    memory = open("/proc/self/mem", O_WRONLY);
    by_memory_file((unsigned char *)constant, 77);
    NEED(((int (*volatile)(void))constant)() == 77);
    int twin = dup(memory);
    close(memory);
    memory = twin;
    by_memory_file((unsigned char *)constant, 78);
    NEED(((int (*volatile)(void))constant)() == 78);
    close(memory);
    // A file mapped twice, and once more, privately; written by calls.
    int sharing[] = {MAP_SHARED, MAP_PRIVATE};
    for (int s = 0; s < 2; s++) {
        file = memfd_create("code", 0);
        NEED(file >= 0 && ftruncate(file, 4096) == 0);
        unsigned char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, sharing[s], file, 0);
        NEED(data != MAP_FAILED && at != MAP_FAILED);
        rounds(at, by_pwrite);
        rounds(at, by_write);
        rounds(at, by_copy);
        for (int value = 1; value < 200; value++) {
            returns(data, value);
            NEED(CALL(at) == value);
            by_pwrite(at, value + 1000);
            NEED(CALL(at) == value + 1000);
        }
        // More mappings come and go while those that there are are watched.
        for (int value = 1; value < 200; value++) {
            returns(data, value);
            NEED(CALL(at) == value);
            if (value % 3) continue;
            unsigned char *again = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            NEED(again != MAP_FAILED);
            returns(again, value + 1000);
            NEED(CALL(at) == value + 1000);
            munmap(again, 4096);
        }
        munmap(data, 4096);
        rounds(at, by_pwrite);
        munmap(at, 4096);
        close(file);
    }
    puts("good");
    return 0;
}
