#include "code.h"
// A small function is written anew and called 50,000 times; code of many blocks beside it, and faults in between.
static sigjmp_buf back;
static void fault(int signal) { siglongjmp(back, signal); }

int main(void) {
    unsigned char *page = mmap(0, 8 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(page != MAP_FAILED);
    signal(SIGSEGV, fault);
    for (int i = 0; i < 20000; i++) returns(page + 0x10000 + i * 16, i);
    for (int i = 0; i < 20000; i++) NEED(CALL(page + 0x10000 + i * 16) == i);
    for (int i = 0; i < 50000; i++) {
        returns(page, i);
        NEED(CALL(page) == i);
        if (i % 25 == 0 && !sigsetjmp(back, 1)) {
            *(volatile int *)8 = 1;
            NEED(0);
        }
    }
    puts("good");
    return 0;
}
