/* Checks of perf_event_open, its descriptors and rdpmc, for tests/inside.rs.
   Written against perf_event_open(2) only: it runs on hardware, too, where
   counts are larger by what interrupts add. With "exact" as argument counts
   must be exactly the instructions. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;
static int failures;

#define CHECK(condition, ...)                                      \
  do {                                                             \
    if (!(condition)) {                                            \
      fprintf(stderr, "line %d: %s: ", __LINE__, #condition);      \
      fprintf(stderr, __VA_ARGS__);                                \
      fprintf(stderr, "\n");                                       \
      failures++;                                                  \
    }                                                              \
  } while (0)

static struct perf_event_attr attr_of(unsigned type, u64 config) {
  struct perf_event_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.size = sizeof attr;
  attr.type = type;
  attr.config = config;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  return attr;
}

static struct perf_event_attr instructions(void) { return attr_of(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS); }

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu, int group, unsigned long flags) {
  return (int)syscall(SYS_perf_event_open, attr, pid, cpu, group, flags);
}

static u64 value(int fd) {
  u64 words[16];
  CHECK(read(fd, words, sizeof words) >= 8, "%s", strerror(errno));
  return words[0];
}

/* 2 instructions a round. */
static void spin(u64 rounds) { __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(rounds)); }

static inline u64 rdpmc(uint32_t counter) {
  uint32_t low, high;
  __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
  return low | (u64)high << 32;
}

static void registers(int exact) {
  struct perf_event_attr attr = instructions();
  int fd = open_event(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  CHECK(fd >= 0, "%s", strerror(errno));
  struct perf_event_mmap_page *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(page != MAP_FAILED, "%s", strerror(errno));
  CHECK(page->cap_user_rdpmc && page->index, "index %u", page->index);
  CHECK(page->pmc_width == 48, "%u", page->pmc_width);
  uint32_t counter = page->index - 1;
  /* Nothing between: the first rdpmc itself and two moves by the compiler are
     all there can be, so by hand. */
  for (int i = 0; i < 1000; i++) {
    uint32_t first, second, carry;
    __asm__ volatile(
        "mov %3, %%ecx\n rdpmc\n mov %%eax, %0\n"
        "stc\n"
        "mov $500, %%esi\n 1: dec %%esi\n jnz 1b\n"
        "rdpmc\n"
        "sbb %2, %2\n"
        "mov %%eax, %1\n"
        : "=&r"(first), "=&r"(second), "=&r"(carry) : "r"(counter) : "rax", "rcx", "rdx", "rsi", "cc");
    u64 got = second - first;
    /* rdpmc, mov, stc, mov, 500 * 2 */
    CHECK(exact ? got == 1004 : got >= 1004, "round %d: %lu", i, (unsigned long)got);
    CHECK(carry == 0xffffffff, "dec keeps the carry, rdpmc too: %x", carry);
    if (failures) return;
  }
  /* The counter of what never happens, of a group with the first. */
  unsigned zero_config = 0;
  FILE *info = fopen("/proc/cpuinfo", "r");
  char line[256];
  while (info && !zero_config && fgets(line, sizeof line, info)) {
    if (strstr(line, "GenuineIntel")) zero_config = 0x1cb;
    if (strstr(line, "AuthenticAMD") || strstr(line, "HygonGenuine")) zero_config = 0x2c;
  }
  if (info) fclose(info);
  attr = attr_of(PERF_TYPE_RAW, zero_config);
  int irqs = zero_config ? open_event(&attr, 0, -1, fd, 0) : -1;
  if (irqs >= 0) {
    struct perf_event_mmap_page *other = mmap(NULL, 4096, PROT_READ, MAP_SHARED, irqs, 0);
    CHECK(other != MAP_FAILED && other->index && other->index != page->index, "%s", strerror(errno));
    uint32_t index = other->index - 1, low = 9, high = 9, after = index;
    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high), "+c"(after));
    CHECK(!exact || (low == 0 && high == 0), "%u %u", high, low);
    CHECK(after == index, "%u", after);
    munmap(other, 4096);
    close(irqs);
  }
  /* By the page's protocol it is what read says. */
  for (int i = 0; i < 100; i++) {
    u64 before = value(fd), by_page;
    uint32_t lock;
    do {
      lock = page->lock;
      __asm__ volatile("" ::: "memory");
      uint32_t index = page->index;
      int64_t count = page->offset;
      if (index) {
        int64_t pmc = (int64_t)rdpmc(index - 1);
        count += pmc << 16 >> 16;
      }
      by_page = (u64)count;
      __asm__ volatile("" ::: "memory");
    } while (page->lock != lock);
    u64 after = value(fd);
    CHECK(before < by_page && by_page < after, "%lu %lu %lu", (unsigned long)before, (unsigned long)by_page, (unsigned long)after);
    if (i % 10 == 0) {
      ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
      u64 off = value(fd);
      CHECK(page->index == 0 && (u64)page->offset == off, "%u", page->index);
      ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    }
  }
  /* The event lives while it is mapped. */
  close(fd);
  u64 start = rdpmc(counter);
  spin(1000);
  u64 spent = rdpmc(counter) - start;
  CHECK(spent >= 2000 && (!exact || spent < 2100), "%lu", (unsigned long)spent);
  CHECK(page->index, "gone with its descriptor");
  munmap(page, 4096);
}

/* Enabled around a loop: by system call exactly its length and what encloses it. */
static void switching(int exact) {
  struct perf_event_attr attr = instructions();
  attr.disabled = 1;
  attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID;
  int fd = open_event(&attr, 0, -1, -1, 0);
  spin(100000);
  u64 words[4], id = 0;
  CHECK(read(fd, words, sizeof words) == 32 && words[0] == 0 && words[1] == 0, "%lu", (unsigned long)words[0]);
  CHECK(ioctl(fd, PERF_EVENT_IOC_ID, &id) == 0 && id && id == words[3], "id %lu", (unsigned long)id);
  CHECK(read(fd, words, 24) == -1 && errno == ENOSPC, "%d", errno);
  u64 counts[3];
  for (int i = 0; i < 3; i++) {
    ioctl(fd, PERF_EVENT_IOC_RESET, 0);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    spin(10000);
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    spin(1000);
    counts[i] = value(fd);
  }
  CHECK(counts[0] >= 20000 && counts[0] < 20300, "%lu", (unsigned long)counts[0]);
  CHECK(!exact || (counts[1] == counts[2]), "%lu %lu", (unsigned long)counts[1], (unsigned long)counts[2]);
  CHECK(read(fd, words, sizeof words) == 32 && words[1] == words[2] && words[1], "times");
  struct iovec vector[2] = {{words, 32}, {words, 0}};
  CHECK(readv(fd, vector, 1) == 32 && words[0] == counts[2], "readv");
  CHECK(lseek(fd, 0, SEEK_SET) == -1 && errno == ESPIPE, "%d", errno);
  CHECK(pread(fd, words, 32, 0) == -1 && errno == ESPIPE, "%d", errno);
  CHECK(write(fd, words, 8) == -1, "written");
  CHECK(ioctl(fd, PERF_EVENT_IOC_REFRESH, 1) == -1 && errno == EINVAL, "%d", errno);
  CHECK(ioctl(fd, 0x5401, words) == -1 && errno == ENOTTY, "%d", errno);
  /* Duplicates are the same event; a closed one is none. */
  int copy = dup(fd);
  CHECK(value(copy) == counts[2], "dup");
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
  CHECK(high >= 100 && value(high) == counts[2], "F_DUPFD");
  close(fd);
  CHECK(read(fd, words, 8) == -1 && errno == EBADF, "%d", errno);
  CHECK(value(copy) == counts[2], "closed");
  close(copy);
  close(high);
}

static void groups(void) {
  struct perf_event_attr attr = instructions();
  attr.disabled = 1;
  attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED;
  int leader = open_event(&attr, 0, -1, -1, 0);
  attr.disabled = 0;
  int second = open_event(&attr, 0, -1, leader, 0);
  attr = instructions();
  int third = open_event(&attr, 0, -1, leader, 0);
  CHECK(leader >= 0 && second >= 0 && third >= 0, "%s", strerror(errno));
  u64 words[8], id;
  spin(1000);
  CHECK(read(leader, words, sizeof words) == 64 && words[0] == 3 && words[2] == 0, "%lu", (unsigned long)words[0]);
  ioctl(leader, PERF_EVENT_IOC_ENABLE, 0);
  spin(10000);
  CHECK(ioctl(third, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP) == 0, "%d", errno);
  spin(1000);
  CHECK(read(leader, words, sizeof words) == 64, "%d", errno);
  CHECK(words[2] >= 20000 && words[2] < 20300, "%lu", (unsigned long)words[2]);
  CHECK(words[4] == words[2] && words[6] == words[2], "%lu %lu", (unsigned long)words[4], (unsigned long)words[6]);
  ioctl(second, PERF_EVENT_IOC_ID, &id);
  CHECK(id == words[5], "ids");
  ioctl(leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
  CHECK(value(third) == 0, "reset");
  /* Closed members leave the group. */
  close(second);
  attr.pinned = 1;
  CHECK(open_event(&attr, 0, -1, leader, 0) == -1 && errno == EINVAL, "%d", errno);
  attr.pinned = 0;
  CHECK(open_event(&attr, 0, -1, third, 0) == -1 && errno == EINVAL, "%d", errno);
  CHECK(open_event(&attr, 0, -1, 999, 0) == -1 && errno == EBADF, "%d", errno);
  close(leader);
  ioctl(third, PERF_EVENT_IOC_ENABLE, 0);
  spin(1000);
  CHECK(value(third) >= 2000, "a member without its leader");
  close(third);
}

static void refusals(int exact) {
  struct perf_event_attr attr = instructions();
  if (exact) { /* what only a PMU like the engine's refuses */
    attr.config = PERF_COUNT_HW_CPU_CYCLES;
    CHECK(open_event(&attr, 0, -1, -1, 0) == -1 && errno == ENOENT, "%d", errno);
    attr = attr_of(PERF_TYPE_HW_CACHE, 0);
    CHECK(open_event(&attr, 0, -1, -1, 0) == -1 && errno == ENOENT, "%d", errno);
    attr = instructions();
    attr.exclude_kernel = 0;
    CHECK(open_event(&attr, 0, -1, -1, 0) == -1 && (errno == EACCES || errno == EOPNOTSUPP), "%d", errno);
    attr = instructions();
    attr.sample_period = 1000;
    CHECK(open_event(&attr, 0, -1, -1, 0) == -1 && errno == EOPNOTSUPP, "%d", errno);
    attr = instructions();
    CHECK(open_event(&attr, -1, 0, -1, 0) == -1 && errno == ENOENT, "%d", errno);
  }
  attr = instructions();
  CHECK(open_event(&attr, -1, -1, -1, 0) == -1 && errno == EINVAL, "%d", errno);
  CHECK(open_event(&attr, 0x3fffffff, -1, -1, 0) == -1 && errno == ESRCH, "%d", errno);
  CHECK(open_event(&attr, 0, -1, -1, 1 << 10) == -1 && errno == EINVAL, "%d", errno);
  attr.size = 8;
  CHECK(open_event(&attr, 0, -1, -1, 0) == -1 && errno == E2BIG && attr.size >= 64, "%d %u", errno, attr.size);
  CHECK(open_event((void *)8, 0, -1, -1, 0) == -1 && errno == EFAULT, "%d", errno);
  attr = instructions();
  int fd = open_event(&attr, 0, -1, -1, 0);
  CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL, "%d", errno);
  CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 8192) == MAP_FAILED && errno == EINVAL, "%d", errno);
  struct perf_event_mmap_page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(page != MAP_FAILED && page->index, "%s", strerror(errno));
  page->data_tail = 5;
  munmap(page, 4096);
  CHECK(value(fd) > 0, "still there");
  close(fd);
  /* The kernel's own events are as ever. */
  attr = attr_of(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
  attr.exclude_kernel = 0;
  fd = open_event(&attr, 0, -1, -1, 0);
  if (fd >= 0) {
    spin(1000000);
    CHECK(value(fd) > 0, "task-clock");
    close(fd);
  }
}

static void *thread(void *rounds) {
  spin((u64)rounds);
  return NULL;
}

static pid_t other_tid;
static int there[2], go[2];

static void *announced(void *rounds) {
  other_tid = (pid_t)syscall(SYS_gettid);
  char byte;
  CHECK(write(there[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1, "pipe");
  while (__atomic_load_n(&other_tid, __ATOMIC_ACQUIRE)) {}
  spin((u64)rounds);
  return NULL;
}

static void threads_and_children(void) {
  struct perf_event_attr attr = instructions();
  int own = open_event(&attr, 0, -1, -1, 0);
  attr.inherit = 1;
  int all = open_event(&attr, 0, -1, -1, 0);
  attr.inherit_thread = 1;
  int team = open_event(&attr, 0, -1, -1, 0);
  attr.inherit_thread = 0;
  CHECK(own >= 0 && all >= 0, "%s", strerror(errno));
  pthread_t other;
  for (int i = 0; i < 4; i++) {
    pthread_create(&other, NULL, thread, (void *)1000000);
    pthread_join(other, NULL);
  }
  pid_t child = fork();
  if (child == 0) {
    pthread_create(&other, NULL, thread, (void *)1000000);
    pthread_join(other, NULL);
    if (fork() == 0) {
      spin(1000000);
      _exit(0);
    }
    wait(NULL);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, NULL, 0);
  u64 mine = value(own), everything = value(all);
  CHECK(mine < 200000, "%lu", (unsigned long)mine);
  CHECK(everything > 12000000 && everything < 12400000, "%lu", (unsigned long)everything);
  if (team >= 0) {
    u64 inside = value(team);
    CHECK(inside > 8000000 && inside < 8300000, "%lu", (unsigned long)inside);
  }
  ioctl(all, PERF_EVENT_IOC_RESET, 0);
  CHECK(value(all) < 10000, "reset with children");
  struct perf_event_mmap_page *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, all, 0);
  CHECK(page == MAP_FAILED && errno == EINVAL, "inherited events have no page");
  /* A thread's descriptors are the process's; a child's event counts the parent. */
  attr = instructions();
  int parents = open_event(&attr, 0, -1, -1, 0);
  child = fork();
  if (child == 0) {
    u64 before = value(parents);
    spin(1000000);
    _exit(value(parents) - before < 100000 ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  CHECK(status == 0, "a child that is not inherited counted");
  /* Another thread of this process, by its id. */
  CHECK(pipe(there) == 0 && pipe(go) == 0, "pipe");
  pthread_create(&other, NULL, announced, (void *)1000000);
  char byte;
  CHECK(read(there[0], &byte, 1) == 1, "pipe");
  attr.disabled = 1;
  attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  int others = open_event(&attr, other_tid, -1, -1, 0);
  CHECK(others >= 0, "%s", strerror(errno));
  CHECK(write(go[1], "x", 1) == 1, "pipe");
  ioctl(others, PERF_EVENT_IOC_ENABLE, 0);
  __atomic_store_n(&other_tid, 0, __ATOMIC_RELEASE);
  pthread_join(other, NULL);
  u64 words[3];
  CHECK(read(others, words, 24) == 24 && words[0] > 2000000 && words[1] && words[1] == words[2], "%lu %lu %lu",
        (unsigned long)words[0], (unsigned long)words[1], (unsigned long)words[2]);
  close(own), close(all), close(team), close(parents), close(others);
}

/* A parent counts the program that its child becomes, as perf stat does. */
static void exec_of_a_child(const char *self, int exact) {
  u64 counts[2];
  for (int i = 0; i < 2; i++) {
    int ready[2];
    CHECK(pipe(ready) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
      char byte;
      close(ready[1]);
      if (read(ready[0], &byte, 1) == 1) execl(self, self, "spin", NULL);
      _exit(9);
    }
    struct perf_event_attr attr = instructions();
    attr.disabled = 1;
    attr.enable_on_exec = 1;
    attr.inherit = 1;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    int fd = open_event(&attr, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
    CHECK(fd >= 0, "%s", strerror(errno));
    CHECK(write(ready[1], "x", 1) == 1, "pipe");
    close(ready[0]), close(ready[1]);
    int status;
    waitpid(child, &status, 0);
    u64 words[3];
    CHECK(status == 0 && read(fd, words, 24) == 24, "%d", errno);
    CHECK(words[0] > 6000000 && words[1] && words[1] == words[2], "%lu", (unsigned long)words[0]);
    counts[i] = words[0];
    close(fd);
  }
  if (exact) CHECK(counts[0] == counts[1], "%lu %lu", (unsigned long)counts[0], (unsigned long)counts[1]);
  printf("%lu\n", (unsigned long)counts[0]);
}

/* More events than a table holds, one after the other. */
static void many(void) {
  struct perf_event_attr attr = instructions();
  int kept = open_event(&attr, 0, -1, -1, 0);
  for (int i = 0; i < 20000 && !failures; i++) {
    int fd = open_event(&attr, 0, -1, -1, 0);
    CHECK(fd >= 0, "event %d: %s", i, strerror(errno));
    close(fd);
  }
  u64 all = value(kept);
  CHECK(all > 100000, "%lu", (unsigned long)all);
  close(kept);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "spin")) {
    spin(3000000);
    return 0;
  }
  int exact = argc > 1 && !strcmp(argv[1], "exact");
  struct perf_event_attr attr = instructions();
  int fd = open_event(&attr, 0, -1, -1, 0);
  if (fd < 0) {
    fprintf(stderr, "no instructions here: %s\n", strerror(errno));
    return 77;
  }
  close(fd);
  registers(exact);
  switching(exact);
  groups();
  refusals(exact);
  threads_and_children();
  exec_of_a_child(argv[0], exact);
  many();
  return failures != 0;
}
