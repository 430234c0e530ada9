// A child that ends when it sees that its parent has: by the end of a pipe.
#include <unistd.h>
int main(void) {
    int ends[2];
    if (pipe(ends))
        return 1;
    if (fork() == 0) {
        close(ends[1]);
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        char byte;
        while (read(ends[0], &byte, 1) > 0)
            ;
        for (volatile int i = 0; i < 300000; i++)
            ;
        _exit(0);
    }
    return 0;
}
