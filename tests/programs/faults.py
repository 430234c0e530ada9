"""Writes a C program of many functions (400,000 blocks and more) that are all called once, and then 5,000 faults that
it handles: how long does it take to find out where a fault was?"""
import sys

functions = int(sys.argv[1])
print("#include <setjmp.h>\n#include <signal.h>\n#include <stdlib.h>")
for n in range(functions):
    tests = " ".join(f"if (x & {1 << b}) x += {n + b}; else x ^= {n * 7 + b};" for b in range(8))
    print(f"__attribute__((noinline)) static unsigned f{n}(unsigned x) {{ {tests} return x; }}")
print("static unsigned (*const all[])(unsigned) = {%s};" % ", ".join(f"f{n}" for n in range(functions)))
print(r"""
static sigjmp_buf back;
static void handler(int signal) { (void)signal; siglongjmp(back, 1); }
int main(int argc, char **argv) {
    volatile unsigned x = 0;
    volatile int faults = 0;
    for (unsigned round = 0; round < 8; round++)
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) x = all[i](x * 2654435761u + round);
    signal(SIGSEGV, handler);
    int wanted = argc > 1 ? atoi(argv[1]) : 5000;
    while (faults < wanted) {
        faults++;
        if (sigsetjmp(back, 1) == 0) *(volatile int *)0 = 1;
    }
    return faults != wanted;
}""")
