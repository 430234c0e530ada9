// open(2) of a FIFO waits for its other end: of processes and threads, by path and by /dev/fd.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char name[64];
static volatile uint64_t sum;

static void computes(int much) {
    for (int i = 0; i < much; i++) sum += i;
}

static void hears(int signal) { (void)signal; }

static void *writes(void *what) {
    computes(3000000);
    int fd = open(name, O_WRONLY);
    if (write(fd, what, strlen(what)) < 0) printf("not written\n");
    close(fd);
    return NULL;
}

// A child that opens for `how` after a while, and hands a word over or takes one.
static pid_t child(int how, int much) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid) return pid;
    char word[16] = "";
    computes(much);
    int fd = open(name, how);
    if (how == O_WRONLY) {
        if (write(fd, "word", 4) != 4) printf("not written\n");
    } else {
        ssize_t got = read(fd, word, sizeof word - 1);
        printf("the child has %zd: %s\n", got, word);
        fflush(stdout);
    }
    _exit(fd < 0);
}

static void takes(const char *who) {
    char word[16] = "";
    int fd = open(name, O_RDONLY);
    ssize_t got = read(fd, word, sizeof word - 1), end = read(fd, word + 8, 1);
    printf("%s: %zd, %s, then %zd; waits: %d\n", who, got, word, end, !(fcntl(fd, F_GETFL) & O_NONBLOCK));
    close(fd);
}

int main(void) {
    snprintf(name, sizeof name, "/tmp/turn-fifo-%d", getpid());
    unlink(name);
    if (mkfifo(name, 0600)) return 1;
    int status = 0;
    // The reader waits, then the writer.
    for (int i = 0; i < 3; i++) {
        pid_t pid = child(O_WRONLY, i * 2000000);
        takes("reader");
        waitpid(pid, &status, 0);
    }
    for (int i = 0; i < 3; i++) {
        pid_t pid = child(O_RDONLY, i * 2000000);
        int fd = open(name, O_WRONLY);
        printf("writer: %d; waits: %d\n", fd >= 0, !(fcntl(fd, F_GETFL) & O_NONBLOCK));
        if (write(fd, "more", 4) != 4) return 1;
        close(fd);
        waitpid(pid, &status, 0);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, writes, "thread");
    takes("thread");
    pthread_join(thread, NULL);
    // A writer that comes and goes without a word ends the wait, too.
    pthread_create(&thread, NULL, writes, "");
    takes("nothing");
    pthread_join(thread, NULL);

    // An open end of a pipe is there: nobody waits, and what is in it stays.
    int ends[2];
    char path[32], byte = 0;
    if (pipe(ends) || write(ends[1], "ab", 2) != 2) return 1;
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    if (read(again, &byte, 1) != 1) return 1;
    printf("pipe: %c, %d %d\n", byte, fcntl(again, F_GETFD), fcntl(again, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    int other = open(path, O_WRONLY);
    printf("pipe: %zd\n", write(other, "c", 1));

    // A signal ends a wait, or it goes on.
    struct sigaction action = {.sa_handler = hears};
    sigaction(SIGALRM, &action, NULL);
    for (int how = O_RDONLY; how <= O_WRONLY; how++) {
        ualarm(20000, 0);
        int fd = open(name, how);
        printf("interrupted: %d %s\n", fd, strerror(errno));
    }
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    pid_t pid = child(O_WRONLY, 1000);
    alarm(1);
    sleep(2);
    takes("restarted");
    waitpid(pid, &status, 0);
    int fd = open(name, O_RDONLY | O_NONBLOCK);
    printf("without waiting: %d %d\n", fd >= 0, open(name, O_PATH) >= 0);
    unlink(name);
    return 0;
}
