/* As google-benchmark asks for PMUs (perf_counters.cc), and libpfm for their types. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LIST "/sys/bus/event_source/devices"
int main(void)
{
    DIR *list = opendir(LIST);
    int listed = list != NULL, cpu = 0, error = errno;
    struct dirent *entry;
    while (list && (entry = readdir(list)))
        cpu |= !strcmp(entry->d_name, "cpu") || !strcmp(entry->d_name, "cpu_core");
    char type[32] = "";
    int file = open(LIST "/cpu/type", O_RDONLY);
    if (file >= 0 && read(file, type, sizeof type - 1) < 0)
        return 1;
    close(file);
    struct perf_event_attr attr = {.size = sizeof attr, .type = PERF_TYPE_HARDWARE, .disabled = 1, .inherit = 1, .pinned = 1,
                                   .exclude_kernel = 1, .exclude_hv = 1, .read_format = PERF_FORMAT_GROUP};
    attr.config = PERF_COUNT_HW_INSTRUCTIONS | (cpu ? 4ull << 32 : 0);
    int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    uint64_t count[3] = {0};
    if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) || read(fd, count, sizeof count) < 16)
        return 2;
    uint64_t before = count[1];
    for (volatile int i = 0; i < 1000; i++)
        ;
    if (read(fd, count, sizeof count) < 16)
        return 3;
    printf("%s: %s type %.1s, %s\n", listed ? cpu ? "cpu" : "no cpu" : error == ENOENT ? "no list" : "error", 
           access(LIST, F_OK) ? "?" : "there", type, count[1] - before > 4000 && count[1] - before < 12000 ? "counted" : "not counted");
    return 0;
}
