/* Starts /bin/true ARGUMENT times and prints how many page faults each start took. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 10;
    for (int i = 0; i < n; i++) {
        int status;
        if (vfork() == 0) {
            execl("/bin/true", "true", (char *)0);
            _exit(127);
        }
        if (wait(&status) < 0 || status) return 1;
    }
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("%ld\n", (usage.ru_minflt + usage.ru_majflt) / n);
    return 0;
}
