// Nested functions, whose trampolines lie on the stack, called while the stack grows; the same on a
// stack that the program made to grow itself.
#include "code.h"

static int apply(int (*f)(int), int value) { return f(value); }
static int (*volatile call)(int (*)(int), int) = apply;

static int deep(int depth, int sum) {
    volatile char frame[300];
    frame[0] = (char)depth;
    int add(int value) { return value + depth + frame[0] * 0; }
    sum = call(add, sum);
    if (depth > 0)
        sum = deep(depth - 1, sum);
    return call(add, sum);
}

int main(void) {
    int expected = 0;
    for (int depth = 0; depth <= 600; depth++)
        expected += 2 * depth;
    for (int round = 0; round < 3; round++)
        NEED(deep(600, 0) == expected);
    int sum = 0;
    int add(int value) { return value + 1; }
    for (int round = 0; round < 20000; round++)
        sum = call(add, sum);
    NEED(sum == 20000);
    // A page that is written and executed again and again, the function next to what it writes.
    unsigned char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int value = 0; value < 3000; value++) {
        returns(at + value % 100, value);
        NEED(CALL(at + value % 100) == value);
        returns(at + 4096 - 3, value + 1);
        NEED(CALL(at + 4096 - 3) == value + 1);
    }
    // mov dword [rip+1], imm32: writes the immediate of the instruction behind it.
    unsigned char own[] = {0xc7, 0x05, 1, 0, 0, 0, 0, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};
    for (int value = 1; value < 3000; value++) {
        memcpy(own + 6, &value, 4);
        memcpy(at + 200, own, sizeof own);
        NEED(CALL(at + 200) == value);
        NEED(CALL(at + 200) == value);
    }
    for (int quiet = 0; quiet < 20000; quiet++)
        NEED(CALL(at + 200) == 2999);
    returns(at + 200, 5);
    NEED(CALL(at + 200) == 5);
    puts("good");
    return 0;
}
