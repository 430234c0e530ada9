// A child writes code of its parent's, which waits for it in turn in waitpid and in read.
#include "code.h"

int main(void) {
    unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(at != MAP_FAILED);
    returns(at, 0);
    NEED(CALL(at) == 0);
    for (int value = 1; value < 40; value++) {
        int ends[2];
        NEED(pipe(ends) == 0);
        pid_t pid = fork();
        NEED(pid >= 0);
        if (pid == 0) {
            unsigned char bytes[CODE_BYTES];
            returns(bytes, value);
            struct iovec from = {bytes, CODE_BYTES}, to = {at, CODE_BYTES};
            usleep(2000);
            if (process_vm_writev(getppid(), &from, 1, &to, 1, 0) != CODE_BYTES)
                _exit(1);
            if (write(ends[1], "x", 1) != 1)
                _exit(2);
            _exit(0);
        }
        close(ends[1]);
        char byte;
        if (value % 2)
            NEED(read(ends[0], &byte, 1) == 1 && CALL(at) == value);
        int status;
        NEED(waitpid(pid, &status, 0) == pid && status == 0);
        NEED(CALL(at) == value);
        close(ends[0]);
    }
    puts("good");
    return 0;
}
