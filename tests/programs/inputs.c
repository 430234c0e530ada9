// Takes something in from one source, and executes as many instructions as that says: what `closed runs` have to name.
// usage: inputs SOURCE [FILE]
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile int seen;

static void work(uint64_t value) {
    for (uint64_t i = 0; i < value % 10007; i++) sink += i;
}

static void *waits(void *lock) {
    for (int i = 0; i < 2000; i++) {
        if (pthread_mutex_trylock(lock) == 0) {
            sink += 1;
            sched_yield();
            pthread_mutex_unlock(lock);
        } else {
            work(13);
        }
    }
    return 0;
}

static void handler(int signal) { seen = signal; }

static uint64_t read_from(const char *path) {
    uint64_t value = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, &value, sizeof value) <= 0) exit(3);
    close(fd);
    return value;
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "none";
    const char *file = argc > 2 ? argv[2] : "/etc/passwd";
    uint64_t value = 0;
    // Each run leaves a line.
    const char *runs = getenv("INPUTS_RUNS");
    if (runs) {
        int fd = open(runs, O_WRONLY | O_APPEND);
        if (write(fd, "run\n", 4) != 4) return 3;
        close(fd);
    }
    if (!strcmp(which, "none")) {
        value = 5;
    } else if (!strcmp(which, "file")) {
        value = read_from(file);
    } else if (!strcmp(which, "mapped")) {
        int fd = open(file, O_RDONLY);
        uint64_t *at = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        value = *at;
    } else if (!strcmp(which, "environment")) {
        for (char **each = environ; *each; each++) value += strlen(*each);
    } else if (!strcmp(which, "malloc")) {
        char *at = malloc(100000);
        value = (uintptr_t)at >> 4;
    } else if (!strcmp(which, "raise")) {
        signal(SIGUSR1, handler);
        raise(SIGUSR1);
        value = seen;
    } else if (!strcmp(which, "pair")) {
        int ends[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        write(ends[0], &argc, sizeof argc);
        read(ends[1], &value, sizeof argc);
    } else if (!strcmp(which, "written")) {
        // A file that is made, read and taken away again.
        char name[] = "inputs.XXXXXX";
        snprintf(name, sizeof name, "inputs.tmp");
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        write(fd, &argc, sizeof argc);
        pread(fd, &value, sizeof argc, 0);
        unlink(name);
    } else if (!strcmp(which, "sleep")) {
        struct timespec time = {0, 1000000};
        value = nanosleep(&time, 0);
    } else if (!strcmp(which, "getrandom")) {
        getrandom(&value, sizeof value, 0);
    } else if (!strcmp(which, "urandom")) {
        value = read_from("/dev/urandom");
    } else if (!strcmp(which, "time")) {
        // Of the vDSO, and without the time stamp counter.
        value = time(0);
    } else if (!strcmp(which, "clock")) {
        struct timespec time;
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
        value = time.tv_nsec;
    } else if (!strcmp(which, "rdtsc")) {
        value = __builtin_ia32_rdtsc();
    } else if (!strcmp(which, "pid")) {
        value = getpid();
    } else if (!strcmp(which, "fork")) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        waitpid(child, 0, 0);
        value = child;
    } else if (!strcmp(which, "thread")) {
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_t thread;
        pthread_create(&thread, 0, waits, &lock);
        waits(&lock);
        pthread_join(thread, 0);
    } else if (!strcmp(which, "stdin")) {
        if (read(0, &value, sizeof value) < 0) return 3;
    } else if (!strcmp(which, "proc")) {
        value = read_from("/proc/uptime") ^ read_from("/proc/self/stat");
    } else if (!strcmp(which, "fifo")) {
        mkfifo(file, 0600);
        int fd = open(file, O_RDWR);
        write(fd, &argc, sizeof argc);
        read(fd, &value, sizeof argc);
        unlink(file);
    } else if (!strcmp(which, "socket")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(file))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) || read(fd, &value, sizeof value) < 0) return 3;
    } else if (!strcmp(which, "own-socket")) {
        // Both ends in one program.
        struct sockaddr_in to = {.sin_family = AF_INET};
        socklen_t length = sizeof to;
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(server, (struct sockaddr *)&to, sizeof to) || listen(server, 1)) return 3;
        getsockname(server, (struct sockaddr *)&to, &length);
        if (connect(client, (struct sockaddr *)&to, sizeof to)) return 3;
        int fd = accept(server, 0, 0);
        write(fd, &argc, sizeof argc);
        read(client, &value, sizeof argc);
    } else if (!strcmp(which, "alarm")) {
        struct itimerval when = {.it_value = {0, 1000}};
        signal(SIGALRM, handler);
        setitimer(ITIMER_REAL, &when, 0);
        while (!seen) value++;
    } else if (!strcmp(which, "sysinfo")) {
        struct sysinfo info;
        sysinfo(&info);
        value = info.freeram >> 12;
    } else if (!strcmp(which, "cpu")) {
        unsigned cpu = 0;
        syscall(SYS_getcpu, &cpu, 0, 0);
        value = cpu * 100;
    } else if (!strcmp(which, "statfs")) {
        struct statfs data;
        statfs("/", &data);
        value = data.f_bfree;
    } else if (!strcmp(which, "times")) {
        struct stat data;
        int fd = open("inputs.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
        write(fd, &argc, sizeof argc);
        stat("inputs.tmp", &data);
        unlink("inputs.tmp");
        value = data.st_mtim.tv_nsec;
    } else if (!strcmp(which, "lock") || !strcmp(which, "wait-lock")) {
        // Two kinds of locks; what one that is not got costs.
        int fd = open(file, O_RDWR), waits = *which == 'w';
        struct flock all = {.l_type = F_WRLCK};
        if (flock(fd, LOCK_EX | (waits ? 0 : LOCK_NB))) value += 1000;
        if (fcntl(fd, waits ? F_SETLKW : F_SETLK, &all)) value += 3000;
    } else if (!strcmp(which, "own-lock")) {
        // Held by another process of the run.
        int fd = open(file, O_RDWR), ends[2], back[2];
        if (pipe(ends) || pipe(back)) return 3;
        pid_t child = fork();
        if (child == 0) {
            struct flock all = {.l_type = F_WRLCK};
            int own = open(file, O_RDWR);
            if (flock(own, LOCK_EX) || fcntl(own, F_SETLK, &all)) _exit(3);
            close(back[1]);
            write(ends[1], "", 1);
            read(back[0], &value, 1);
            _exit(0);
        }
        read(ends[0], &value, 1);
        struct flock all = {.l_type = F_WRLCK};
        if (flock(fd, LOCK_EX | LOCK_NB)) value += 1000;
        if (fcntl(fd, F_SETLK, &all)) value += 3000;
        close(back[1]);
        waitpid(child, 0, 0);
        if (value != 4000) return 3;
    } else if (!strcmp(which, "hold")) {
        // For other processes: until its input ends.
        int fd = open(file, O_RDWR);
        struct flock all = {.l_type = F_WRLCK};
        if (flock(fd, LOCK_EX) || fcntl(fd, F_SETLKW, &all)) return 3;
        if (write(1, "held\n", 5) != 5) return 3;
        read(0, &value, 1);
    } else if (!strcmp(which, "cached")) {
        unsigned char there = 0;
        int fd = open(file, O_RDONLY);
        void *at = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
        mincore(at, 4096, &there);
        value = there;
    } else {
        return 2;
    }
    work(value);
    return 0;
}
