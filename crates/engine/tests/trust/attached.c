// Code on pages that may be written stays what it is when System V memory is attached and detached.
#include "code.h"
#include <sys/shm.h>

int main(void) {
    unsigned char *page = mmap(0, 16384, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 20; round++) {
        returns(page, round);
        NEED(CALL(page) == round);
        int id = shmget(IPC_PRIVATE, 8192, 0600);
        NEED(id >= 0);
        char *there = shmat(id, round % 2 ? page + 4096 : 0, round % 2 ? SHM_REMAP : 0);
        NEED(there != (void *)-1 && shmctl(id, IPC_RMID, 0) == 0);
        there[0] = 1;
        // Written by the program, or by the kernel.
        if (round % 4 < 2) {
            returns(page, 100 + round);
        } else {
            int fd[2];
            unsigned char bytes[CODE_BYTES];
            NEED(pipe(fd) == 0);
            returns(bytes, 100 + round);
            NEED(write(fd[1], bytes, sizeof bytes) == sizeof bytes);
            NEED(read(fd[0], page, 100) == sizeof bytes);
            close(fd[0]), close(fd[1]);
        }
        NEED(CALL(page) == 100 + round);
        NEED(shmdt(there) == 0);
        returns(page, 200 + round);
        NEED(CALL(page) == 200 + round);
    }
    puts("good");
}
