//! Ends of functions, calls, and registers that are lent across branches, with flags that are alive there.

use super::filtered::{ends, same};
use super::recent::ALARMS;
use super::support::built;

/// A recursion that wants flags of who calls it and of what it calls, and has branches between references; on a stack that
/// nobody has used yet, and on one that is not aligned.
const TAILS: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

uint64_t tail(uint64_t depth, uint64_t *at);
__asm__(".globl tail\n"
    "tail: push %rbx\n push %rbp\n push %r12\n mov $0, %eax\n adc $0, %rax\n mov %rdi, %rbx\n mov %rsi, %r12\n"
    "test %rdi, %rdi\n mov (%rsi), %rcx\n jz 1f\n"
    "mov 8(%rsi), %rdx\n test $1, %bl\n lea (%rax,%rdx), %rax\n jnz 2f\n"
    "mov 16(%r12), %rbp\n add %rbp, %rax\n test $2, %bl\n mov %rax, 24(%r12)\n jz 2f\n"
    "mov 32(%r12), %rbp\n mov %rbp, 40(%r12)\n xor %rbp, %rax\n"
    "2: push %rax\n lea 48(%r12), %rsi\n lea -1(%rbx), %rdi\n cmp $7, %rbx\n lea 1(%rbx), %rbx\n call tail\n"
    "lea (%rax,%rax,2), %rax\n adc (%rsp), %rax\n"
    "sub $40, %rsp\n mov %rax, 8(%rsp)\n mov 8(%rsp), %rbp\n cmp %rbp, %rbx\n lea (%rbp,%rbx), %rax\n lea 48(%rsp), %rsp\n"
    "pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    "1: lea (%rcx,%rax), %rax\n cmp $3, %al\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    ".globl through\n"
    "through: push %rbp\n mov %rsp, %rbp\n mov %rdi, %rsp\n mov %rsi, %rdi\n mov %rdx, %rsi\n lea tail(%rip), %r11\n"
    "cmp %rdi, %rsi\n call *%r11\n mov %rbp, %rsp\n pop %rbp\n ret\n");
uint64_t through(char *stack, uint64_t depth, uint64_t *at);

static uint64_t data[4096];

static uint64_t all(char *stack, int times) {
    uint64_t sum = 0;
    for (int i = 0; i < 4096; i++) data[i] = i * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < times; i++) {
        sum = sum * 3 + through(stack - 1024 * (i % 60), i % 40, data + i % 50);
        sum = sum * 3 + through(stack - 1024 * (i % 60) - 4, i % 7, data + i % 50);
    }
    return sum;
}
"#;

const MAIN: &str = r#"
int main(int argc, char **argv) {
    char *stack = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return all(stack + (1 << 18), 300) % 100 + 3;
}
"#;

/// The same all the time, while alarms come.
const INTERRUPTED: &str = r#"
int main(int argc, char **argv) {
    char *stack = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t expected = all(stack + (1 << 18), 120);
    begin(argv);
    for (int i = 0; i < 150; i++)
        if (all(stack + (1 << 18), 120) != expected) abort();
    return end();
}
"#;

#[test]
fn what_flags_are_alive_behind() {
    let source = [TAILS, MAIN].concat();
    same("tails.c", &source, &["-O1"], true);
    let Some(program) = built("tails.c", &source, &["-O1"]) else {
        return;
    };
    let native = std::process::Command::new(&program).status().unwrap();
    for filtered in [false, true] {
        let Some(status) = ends(&program, &[], filtered) else {
            return;
        };
        assert_eq!(status, native, "filtered: {filtered}");
    }
}

#[test]
fn it_is_what_it_was_where_alarms_come() {
    let source = [ALARMS, TAILS, INTERRUPTED].concat();
    let arguments = ["-O1", "-static", "-mno-red-zone"];
    let Some(program) = built("tails_interrupted.c", &source, &arguments) else {
        return;
    };
    for (argument, code) in [("0", 0), ("1", 1)] {
        let Some(status) = ends(&program, &[argument], true) else {
            return;
        };
        assert_eq!(status.code(), Some(code), "how often alarms came");
    }
}
