// Ways to start a process: vfork, posix_spawn, fork in threads, execve with a changed environment.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int wait_for(pid_t pid) {
    int status;
    return waitpid(pid, &status, 0) == pid ? (WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status)) : -1;
}

static void *forks(void *unused) {
    long sum = 0;
    (void)unused;
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(i);
        sum += wait_for(pid);
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("%s says %s\n", argv[1], getenv("WORD") ? getenv("WORD") : "nothing");
        return argc;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    volatile int shared = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        shared = 5; // the parent's memory
        _exit(3);
    }
    printf("vfork %d shared %d\n", wait_for(pid), shared);
    pid = vfork();
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], "vforked", (char *)NULL);
        _exit(9);
    }
    printf("vfork exec %d\n", wait_for(pid));
    char *args[] = {argv[0], "spawned", "x", NULL}, *env[] = {"WORD=hello", NULL};
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, env)) return 1;
    printf("spawn %d\n", wait_for(pid));
    if (posix_spawn(&pid, "/nonexistent", NULL, NULL, args, env)) puts("spawn of nothing fails");
    pthread_t threads[4];
    long total = 0;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, forks, NULL);
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        total += (long)sum;
    }
    printf("forks in threads %ld\n", total);
    pid = (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
    if (pid == 0) _exit(21);
    printf("bare clone %d\n", wait_for(pid));
    printf("system %d\n", WEXITSTATUS(system("exit 4")));
    FILE *p = popen("echo from a pipe; kill -9 $$", "r");
    char line[64];
    if (p && fgets(line, sizeof line, p)) fputs(line, stdout);
    printf("pclose %d\n", WTERMSIG(pclose(p)));
    char *last[] = {argv[0], "last", "a", "b", NULL};
    execve("/proc/self/exe", last, env);
    return 1;
}
