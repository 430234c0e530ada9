/* Asks for the machine in every way that it knows, and prints the answers, one a line. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static void first_line(const char *path) {
    char text[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got < 0) {
        printf("%s: %s\n", path, strerror(errno));
        return;
    }
    text[got] = 0;
    text[strcspn(text, "\n")] = 0;
    printf("%s: %s\n", path, text);
    close(fd);
}

static char *before;
static void handler(int signal) {
    char here;
    printf("frame: %s\n", before - &here > 3072 && before - &here < 6000 ? "roomy" : "small");
    (void)signal;
}

static void random_bytes(const char *path) {
    unsigned char bytes[8] = {0};
    int fd = open(path, O_RDONLY);
    printf("%s:", path);
    if (fd < 0 || read(fd, bytes, 8) != 8) printf(" error");
    for (int i = 0; i < 8; i++) printf(" %02x", bytes[i]);
    printf("\n");
    close(fd);
}

/* A state area as large as cpuid says, with a page behind it that must not be touched. */
static void save(unsigned size) {
    char *memory = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + 4096, 4096, PROT_NONE);
    char *area = memory + 4096 - ((size + 63) & ~63u);
    uint32_t low = ~0u, high = ~0u;
    __asm__ volatile("xsave (%0)" : : "r"(area), "a"(low), "d"(high) : "memory");
    __asm__ volatile("xrstor (%%rax)" : : "a"(area), "d"(0) : "memory");
    uint64_t saved = *(uint64_t *)(area + 512);
    printf("saved: %s\n", saved & ~7ull ? "more than is shown" : "what is shown");
}

int main(int argc, char **argv, char **environment) {
    unsigned a, b, c, d, size = 0;
    __cpuid(0, a, b, c, d);
    printf("vendor: %.4s%.4s%.4s\n", (char *)&b, (char *)&d, (char *)&c);
    __cpuid(1, a, b, c, d);
    printf("leaf 1: %x %x %x %x\n", a, b, c, d);
    int saves = c >> 27 & 1;
    __cpuid_count(7, 0, a, b, c, d);
    printf("leaf 7: %x %x %x %x\n", a, b, c, d);
    __cpuid_count(13, 0, a, size, c, d);
    printf("leaf 13: %x %x\n", a, size);
    if (saves) {
        unsigned low, high;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        printf("xcr0: %x %x\n", low, high);
        save(size);
    }
    uint64_t number, processor = 7;
    unsigned char ok;
    __asm__ volatile("rdrand %0; setc %1" : "=r"(number), "=q"(ok));
    printf("rdrand: %d %llx\n", ok, (unsigned long long)number);
    __asm__ volatile("rdtscp; mov %%rcx, %0" : "=r"(processor) : : "rax", "rcx", "rdx");
    printf("rdtscp: %llu\n", (unsigned long long)processor);
    while (*environment) environment++;
    printf("auxv:");
    for (Elf64_auxv_t *each = (Elf64_auxv_t *)(environment + 1); each->a_type; each++)
        printf(" %lu", (unsigned long)each->a_type);
    printf("\nstack: %s\n", (uintptr_t)argv % 16 == 8 ? "aligned" : "not aligned");
    struct utsname names;
    uname(&names);
    printf("uname: %s %s %s %s\n", names.sysname, names.nodename, names.release, names.machine);
    struct sysinfo info;
    sysinfo(&info);
    printf("memory: %lu\n", info.totalram >> 20);
    printf("processors: %ld %ld\n", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF));
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    printf("bind: %d %d\n", sched_setaffinity(0, sizeof set, &set), sched_getcpu());
    CPU_ZERO(&set);
    CPU_SET(63, &set);
    printf("bind to none: %d\n", sched_setaffinity(0, sizeof set, &set));
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    printf("stack limit: %lu\n", (unsigned long)limit.rlim_cur);
    first_line("/proc/sys/kernel/osrelease");
    first_line("/sys/devices/system/cpu/online");
    first_line("/sys/devices/system/cpu/cpu0/cache/index0/size");
    first_line("/sys/fs/cgroup/memory.max");
    first_line("/proc/meminfo");
    printf("access: %d\n", access("/sys/devices/system/node", R_OK));
    /* mseal: Linux 6.10 */
    long newer = syscall(462, 0, 0, 0);
    printf("newer: %ld %s\n", newer, errno == ENOSYS ? "ENOSYS" : "other");
    size_t large = 8 << 20;
    char *one = mmap(0, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *two = mmap(0, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("side by side: %d %d\n", one - two == (long)large, (uintptr_t)one % (2 << 20) != 0);
    char *more = mremap(one, large, 2 * large, MREMAP_MAYMOVE);
    printf("moved: %d\n", two - more == (long)(2 * large));
    int fd = memfd_create("large", 0);
    if (ftruncate(fd, large) != 0) return 1;
    char *file = mmap(0, large, PROT_READ, MAP_PRIVATE, fd, 0);
    /* Where the first was: the highest gap. */
    printf("file: %d\n", file - two == (long)large);
    before = (char *)&limit;
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    random_bytes("/dev/urandom");
    random_bytes("/dev/random");
    random_bytes("/dev/urandom");
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int vdso = 0, vsyscall = 0;
    while (fgets(line, sizeof line, maps)) {
        vdso |= strstr(line, "[vdso]") || strstr(line, "[vvar");
        vsyscall |= !!strstr(line, "[vsyscall]");
        if (strstr(line, "[stack]")) printf("maps: %s", strchr(line, ' '));
    }
    printf("vdso: %d %d\n", vdso, vsyscall);
    (void)argc;
    return 0;
}
