// Several threads execute a page while another one maps others over it: nobody executes what is gone.
#include "code.h"
#include <pthread.h>
#define PAGE 4096ul
#define VERSIONS 200
static unsigned char *at;
static volatile int now, over;
static void *calls(void *argument) {
    long wrong = 0;
    while (!over) {
        int before = now, value = CALL(at), after = now;
        // The next one may be there already.
        if (value < before || value > after + 1) wrong++;
    }
    return (void *)wrong;
}
int main(void) {
    int fd = memfd_create("versions", 0);
    NEED(fd >= 0 && ftruncate(fd, VERSIONS * PAGE) == 0);
    for (int i = 0; i < VERSIONS; i++) {
        unsigned char bytes[CODE_BYTES];
        returns(bytes, i);
        NEED(pwrite(fd, bytes, CODE_BYTES, i * PAGE) == CODE_BYTES);
    }
    at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    NEED(at != MAP_FAILED);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) NEED(pthread_create(&threads[i], NULL, calls, NULL) == 0);
    for (int i = 1; i < VERSIONS; i++) {
        NEED(mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, i * PAGE) == at);
        now = i;
        NEED(CALL(at) == i);
    }
    over = 1;
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong) printf("%ld wrong\n", (long)wrong);
    }
    puts("good");
    return 0;
}
