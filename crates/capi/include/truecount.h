/* truecount.h: what a piece of code costs in the CPU's own counters.
 *
 *     #include <truecount.h>                        cc prog.c $(pkg-config --cflags --libs truecount)
 *
 *     const truecount_counter *c;
 *     if (truecount_open("instructions:u", &c) != TRUECOUNT_OK)
 *         fprintf(stderr, "%s; %s\n", truecount_error_message(), truecount_error_hint());
 *     uint64_t cost, start = truecount_read(c);
 *     work();
 *     if (truecount_between(c, start, truecount_read(c), &cost) == TRUECOUNT_OK)
 *         printf("%llu instructions\n", (unsigned long long)cost);
 *     truecount_close(c);
 *
 * Where the machine has no PMU, start the program by `truecount run -- ./prog`: it has the virtual PMU then.
 *
 * Errors. Functions that return int return an enum truecount_status; 0 is success. What failed, and what to do about
 * it, is kept for the thread (truecount_error_message, truecount_error_hint). No use of a handle crashes: a counter
 * of another thread or of the parent process, one that is closed, or that could not be opened gives a status, and a
 * read gives TRUECOUNT_INVALID. (Only NULL must not be passed to truecount_read, nor a copy of what a handle points to.)
 *
 * Threads. Counters and groups count the thread that opened them and are used, and closed, by that thread alone; what a
 * thread has not closed is closed when it ends. Recorders may be used by all threads; a region ends on the thread on
 * which it began. After fork, the child opens its own.
 *
 * Signal handlers may read an open counter of the thread that they run on (truecount_read, truecount_between), and
 * nothing else: all other calls may allocate.
 */
#ifndef TRUECOUNT_H
#define TRUECOUNT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0xMMmmpp: major, minor, patch. */
#define TRUECOUNT_VERSION 0x000100

/* What a read gives that failed, and what a group gives for an event that was not on the PMU. */
#define TRUECOUNT_INVALID UINT64_MAX

enum truecount_status {
    TRUECOUNT_OK = 0,
    /* The text does not name one event. */
    TRUECOUNT_EVENT = 1,
    /* The machine, the kernel or the rights of this user do not give it. */
    TRUECOUNT_NOT_AVAILABLE = 2,
    /* Another thread opened it. */
    TRUECOUNT_THREAD = 3,
    /* The parent process opened it. */
    TRUECOUNT_FORKED = 4,
    /* It is closed, or opening it failed. */
    TRUECOUNT_CLOSED = 5,
    /* The pointer is not what the function takes. */
    TRUECOUNT_HANDLE = 6,
    /* An argument is NULL, not UTF-8, or too small. */
    TRUECOUNT_ARGUMENT = 7,
    /* It was not counted all the time, or could not be read. */
    TRUECOUNT_NO_COUNT = 8,
    /* A file cannot be created or written. */
    TRUECOUNT_FILE = 9,
    /* A region ends that has not begun. */
    TRUECOUNT_NESTING = 10,
    /* A fault of this library. */
    TRUECOUNT_INTERNAL = 11
};

/* A counter of the thread that opened it. The fields are for truecount_read alone. */
typedef struct truecount_counter {
    uint64_t private_thread;
    uint64_t private_register;
    uint64_t private_words[2];
} truecount_counter;

/* Several events of the thread that opened them. */
typedef struct truecount_group truecount_group;

/* Records regions of all threads into region profiles. */
typedef struct truecount_recorder truecount_recorder;

/* Why the last call of this thread that failed did so, what to do about it, and its status. The texts are valid until
 * the next call of this thread that fails; empty where none has failed. */
const char *truecount_error_message(void);
const char *truecount_error_hint(void);
int truecount_error_status(void);

/* The library's version, as TRUECOUNT_VERSION. */
uint32_t truecount_version(void);

/* Whether instructions:u can be counted here: 1, or 0 with the reason in truecount_error_message. */
int truecount_available(void);

/* Opens an event: any expression of perf (instructions:u, L1-dcache-load-misses:u, r01cb:u, page-faults),
 * instructions-minus-irqs:u, wall-time, user-time, system-time, zero. Where it fails, *counter is a handle of which
 * every use fails. A handle takes 32 bytes until the process ends. */
int truecount_open(const char *event, const truecount_counter **counter);
int truecount_close(const truecount_counter *counter);

/* Where the counter stands, read any way: a point, for truecount_between. truecount_read is faster. */
uint64_t truecount_read_any(const truecount_counter *counter);

/* What was counted between two points of this counter. Fails where one is TRUECOUNT_INVALID, or the end
 * was read before the start. */
int truecount_between(const truecount_counter *counter, uint64_t start, uint64_t end, uint64_t *count);

/* What was counted since the counter was opened, extrapolated where the event shared its register. */
int truecount_count(const truecount_counter *counter, uint64_t *count);

/* Whether reads are right: the event is on the register it had and was never off it. Takes a system call. */
int truecount_check(const truecount_counter *counter);

/* The event's name with its filter, the unit of its counts, and who counts ("hardware", "virtual", "software"); valid
 * until the counter is closed. NULL where there is no such counter. */
const char *truecount_name(const truecount_counter *counter);
const char *truecount_unit(const truecount_counter *counter);
const char *truecount_source(const truecount_counter *counter);

/* 1 where the same work gives the same count, else 0. */
int truecount_is_exact(const truecount_counter *counter);

/* Opens several events: groups in braces are counted together, {instructions,branches}:u,page-faults. */
int truecount_group_open(const char *events, const truecount_group **group);
int truecount_group_close(const truecount_group *group);
size_t truecount_group_len(const truecount_group *group);
const char *truecount_group_name(const truecount_group *group, size_t event);

/* A region, which may be in another one of the same group. Its end gives a count for each event, in the order of the
 * names; TRUECOUNT_INVALID for one that was not on the PMU. */
int truecount_group_start(const truecount_group *group);
int truecount_group_stop(const truecount_group *group, uint64_t *counts, size_t room);

/* Records one to four events, separated by semicolons, into PATH.mm_profdata (several: PATH.EVENT.mm_profdata), which
 * `truecount profile` reads. */
int truecount_recorder_open(const char *path, const char *events, const truecount_recorder **recorder);
int truecount_recorder_flush(const truecount_recorder *recorder);
int truecount_recorder_close(const truecount_recorder *recorder);

/* Regions nest, on every thread for itself: the end is that of the innermost one. */
int truecount_region_begin(const truecount_recorder *recorder, const char *label);
int truecount_region_end(const truecount_recorder *recorder);

/* A loop of a known number of instructions, which it gives (0: not known on this CPU): something to test with. */
uint64_t truecount_known_loop(uint64_t iterations);

/* Where the counter stands: a point, for truecount_between. Eight instructions on x86-64 and on aarch64, where the counter
 * is on a register that user space may read, and the thread is the one that opened it; otherwise truecount_read_any.
 * TRUECOUNT_INVALID, with the reason in truecount_error_message, where it cannot be read. */
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__) && defined(__GCC_ASM_FLAG_OUTPUTS__) && \
    !defined(TRUECOUNT_NO_INLINE)
static inline __attribute__((always_inline, unused)) uint64_t truecount_read(const truecount_counter *counter)
{
    uint64_t here, point;
    int other;
    __asm__ volatile("movq %%fs:0, %1\n\tcmpq %2, %1" : "=@ccne"(other), "=&r"(here) : "m"(counter->private_thread));
    if (__builtin_expect(other, 0))
        return truecount_read_any(counter);
    __asm__ volatile("lfence\n\trdpmc\n\tshlq $32, %%rdx\n\torq %%rdx, %%rax"
                     : "=a"(point)
                     : "c"(counter->private_register)
                     : "rdx", "cc", "memory");
    return point;
}
#elif defined(__aarch64__) && defined(__LP64__) && defined(__linux__) && defined(__GNUC__) && !defined(TRUECOUNT_NO_INLINE)
/* The number of the register is part of the instruction that reads it: private_register is where the library has that
 * instruction and a return, which change x0 alone. */
static inline __attribute__((always_inline, unused)) uint64_t truecount_read(const truecount_counter *counter)
{
    uint64_t thread, reads, here;
    register uint64_t point __asm__("x0");
    __asm__ volatile("ldp %0, %1, %3\n\tmrs %2, tpidr_el0" : "=&r"(thread), "=&r"(reads), "=&r"(here) : "Q"(*counter));
    if (__builtin_expect(here != thread, 0))
        return truecount_read_any(counter);
    __asm__ volatile("isb\n\tblr %1" : "=r"(point) : "r"(reads) : "x30", "cc", "memory");
    return point;
}
#else
static inline uint64_t truecount_read(const truecount_counter *counter)
{
    return truecount_read_any(counter);
}
#endif

/* What two reads in a row count themselves: taken off, an empty region is 0. 0 where the counter cannot be read. A macro
 * where that can be: it reads the counter in the function that uses it, by the same variable, so that it costs the same
 * there. */
static inline uint64_t truecount_private_least(const truecount_counter *counter, uint64_t least, uint64_t start, uint64_t end)
{
    uint64_t count;
    return truecount_between(counter, start, end, &count) == TRUECOUNT_OK && count < least ? count : least;
}

#ifdef __GNUC__
#define truecount_overhead(counter) \
    (__extension__({ \
        uint64_t tc_least_ = TRUECOUNT_INVALID, tc_start_, tc_end_; \
        int tc_try_; \
        for (tc_try_ = 0; tc_try_ < 16; tc_try_++) { \
            tc_start_ = truecount_read(counter); \
            tc_end_ = truecount_read(counter); \
            tc_least_ = truecount_private_least(counter, tc_least_, tc_start_, tc_end_); \
        } \
        tc_least_ == TRUECOUNT_INVALID ? 0 : tc_least_; \
    }))
#else
static inline uint64_t truecount_overhead(const truecount_counter *counter)
{
    uint64_t least = TRUECOUNT_INVALID, start, end;
    int i;
    for (i = 0; i < 16; i++) {
        start = truecount_read(counter);
        end = truecount_read(counter);
        least = truecount_private_least(counter, least, start, end);
    }
    return least == TRUECOUNT_INVALID ? 0 : least;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
