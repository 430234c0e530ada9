// mprotect takes the execute permission: the code must not be callable, and be so again when it is back.
#include "code.h"

static sigjmp_buf back;
static volatile int code;
static void *volatile address;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    code = info->si_code;
    address = info->si_addr;
    siglongjmp(back, 1);
}

static int faults(unsigned char *at) {
    code = 0;
    if (sigsetjmp(back, 1) == 0) {
        CALL(at);
        return 0;
    }
    return code == SEGV_ACCERR && address == at;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    int without[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_WRITE, PROT_NONE};
    int with[] = {PROT_READ | PROT_EXEC, PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC};
    unsigned char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(at != MAP_FAILED);
    returns(at, 41);
    returns(at + 4096, 43);
    for (int w = 0; w < 3; w++)
        for (int o = 0; o < 4; o++) {
            NEED(mprotect(at, 8192, with[w]) == 0);
            NEED(CALL(at) == 41 && CALL(at + 4096) == 43);
            NEED(mprotect(at, 4096, without[o]) == 0);
            NEED(faults(at));
            NEED(CALL(at + 4096) == 43);
            NEED(mprotect(at, 8192, without[o]) == 0);
            NEED(faults(at + 4096) && faults(at));
            NEED(mprotect(at, 8192, with[w]) == 0);
            NEED(CALL(at) == 41 && CALL(at + 4096) == 43);
            // Written while it could not be executed.
            NEED(mprotect(at, 8192, PROT_READ | PROT_WRITE) == 0);
            returns(at, 100 + o);
            NEED(faults(at));
            NEED(mprotect(at, 8192, with[w]) == 0);
            NEED(CALL(at) == 100 + o);
            NEED(mprotect(at, 8192, PROT_READ | PROT_WRITE) == 0);
            returns(at, 41);
        }
    puts("good");
    return 0;
}
