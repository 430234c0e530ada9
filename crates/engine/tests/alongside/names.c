// Makes a temporary file, and tells its name.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char name[4096];
    snprintf(name, sizeof name, "%s/nameXXXXXX", argv[1]);
    int fd = mkstemp(name);
    if (fd < 0)
        return 1;
    // One that the run has made itself is in nobody's way.
    if (mkdir(strcat(strcpy(malloc(5000), name), ".d"), 0700))
        return 2;
    unlink(name);
    rmdir(strcat(name, ".d"));
    name[strlen(name) - 2] = 0;
    puts(name);
    return 0;
}
