//! What the engine does not tell the model changes nothing in it: all is as where every reference is told.

use crate::memory::built;
use crate::support::{code, json, run, stderr, virtual_pmu};

/// Every fact and everything modelled, of `--model` alone, and where the order of references is asked for, too: then all
/// of them are told.
fn same(program: &str, model: &[&str], threads: bool) {
    let run = |more: &[&str]| {
        let mut arguments = vec!["run", "--json", "--reproducible"];
        arguments.extend(model.iter().chain(more).copied());
        arguments.extend(["--", program]);
        let mut memory = json(&arguments)["memory"].take();
        memory.as_object_mut().unwrap().remove("locality");
        memory
    };
    let (some, all) = (run(&[]), run(&["--locality"]));
    assert_eq!(some["lost"], serde_json::json!(0));
    for (name, value) in all.as_object().unwrap() {
        // Whose blocks of the heap they were is not exact with several threads (docs/memory.md).
        if threads && ["data", "heap"].contains(&name.as_str()) {
            continue;
        }
        assert!(&some[name] == value, "{program} {model:?}: other {name}");
    }
    assert!(some["model"]["conditional"]["branches"].as_u64() > Some(0));
}

/// Sizes that say different things of what was used last: one set; lines of instructions of half a line; few of all.
const MODELS: [&[&str]; 4] = [
    &["--model=cachegrind"],
    &["--D1=1024,16,64", "--I1=2048,1,32", "--LL=65536,4,64"],
    &["--model=cachegrind", "--L2=8192,2,64", "--predictor=tage"],
    &["--D1=4096,1,64", "--I1=65536,1,64", "--LL=1048576,16,128"],
];

fn check(source: &str, arguments: &[&str], threads: bool, models: &[&[&str]]) {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), source, arguments) else {
        return;
    };
    for model in models {
        same(program.to_str().unwrap(), model, threads);
    }
}

/// References of all sizes and alignments, repeated and not, with flags alive; recursion; pointers to functions.
const PLAIN: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static char room[1 << 16];
struct packed { char c; int i; long l; double d; } __attribute__((packed));
static struct packed many[100];
static int one(int n) { return n + 1; }
static int two(int n) { return n ^ 3; }
static int (*volatile functions[])(int) = { one, two, two, one, two };
__attribute__((noinline)) static int sum(int n) { return n ? n + sum(n - 1) : 0; }
int main(void) {
    long total = 0;
    for (int i = 0; i < 1 << 16; i += 3) room[i] = i;
    for (int i = 0; i < 100; i++) { many[i].i += i; many[i].l = i; many[i].d *= 2; total += many[i].c; }
    for (int i = 0; i < 500; i++) total += functions[i * 7 % 5](i);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 60; i++) total += sum(i) + room[i * 1000];
        memmove(room + 1, room, 10000 + round);
        memset(room + 7, round, 3333);
        total += strlen(room + 13);
        for (uint64_t *at = (uint64_t *)(room + round); at < (uint64_t *)(room + 9000); at++) *at += total;
        char *blocks[64];
        for (int i = 0; i < 64; i++) blocks[i] = memset(malloc(i * 40 + 1), i, i * 40 + 1);
        for (int i = 0; i < 64; i++) { total += blocks[i][i]; free(blocks[i]); }
    }
    uint64_t low = 0, high = 0, a[64];
    for (int i = 0; i < 64; i++) a[i] = -1ull - i;
    for (int i = 0; i + 1 < 64; i += 2)
        __asm__ volatile(
            "addq (%2), %0; movq %0, 8(%2); movq (%2), %%rax; movq %%rax, (%2); adcq 8(%2), %1"
            : "+r"(low), "+r"(high) : "r"(a + i) : "rax", "memory", "cc");
    for (int i = 0; i < 9; i++) {
        char *from = room + i * 64, *to = room + 5000;
        long n = 100 * i;
        __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(n) : : "memory");
    }
    return (total + high + low) == 12345;
}
"#;

#[test]
fn plain() {
    check(PLAIN, &["-O1"], false, &MODELS);
    check(PLAIN, &["-O3", "-static"], false, &MODELS[..1]);
}

/// Branches without flags, indirect ones by each sort of operand, instructions across lines, flags alive all along.
const BRANCHES: &str = r#"
__attribute__((used)) static long table[8];
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile(
        "lea table(%rip), %rbx\n"
        "lea 10f(%rip), %rax; mov %rax, (%rbx)\n"
        "lea 20f(%rip), %rax; mov %rax, 8(%rbx)\n"
        "lea 30f(%rip), %rax; mov %rax, 16(%rbx)\n"
        "mov $300, %r12d\n"
        "0: mov $5, %ecx\n"
        "1: add %rcx, %rdi\n"
        "loop 1b\n"
        "mov $9, %ecx\n"
        "2: cmp $4, %ecx\n"
        "loopne 2b\n"
        "mov $3, %ecx\n"
        "3: cmp %ecx, %ecx\n"
        "loope 3b\n"
        "mov %r12d, %ecx\n"
        "and $1, %ecx\n"
        "jrcxz 4f\n"
        "inc %rdi\n"
        "4: movabs $0x100000003, %rcx\n"
        "and $3, %ecx\n"
        "5: dec %ecx\n"
        "jecxz 6f\n"
        "jmp 5b\n"
        "6: mov %r12d, %edx\n"
        "and $1, %edx\n"
        "mov (%rbx,%rdx,8), %rdx\n"
        "jmp *%rdx\n"
        ".balign 64\n"
        ".rept 61; nop; .endr\n"
        "10: lea 11f(%rip), %rcx\n"      // in two lines
        "jmp *%rcx\n"
        "11: jmp *16(%rbx)\n"
        "20: mov 16(%rbx), %r11\n"
        "jmp *%r11\n"
        "30: lea 40f(%rip), %rax\n"
        "call *%rax\n"
        "lea 40f(%rip), %rbp\n"
        "push %rbp\n"
        "call *(%rsp)\n"
        "pop %rbp\n"
        "lea 50f(%rip), %rsi\n"
        "push %rsi\n"
        "ret\n"
        ".balign 64\n"
        ".rept 63; nop; .endr\n"
        "40: cmp %r12d, %edi\n"          // flags alive over lines and references
        "mov 24(%rbx), %rax\n"
        "mov %rax, 32(%rbx)\n"
        "jc 41f\n"
        "setz 40(%rbx)\n"
        "41: ret\n"
        "50: stc\n"
        ".balign 64\n"
        "jnc 51f\n"
        "adc $0, %rdi\n"
        "51: xor $1, %rdi\n"
        "dec %r12d\n"
        "jnz 0b\n"
        "std; lea 63(%rbx), %rdi; mov $20, %ecx; rep stosb; cld\n"
        "mov (%rbx), %rax\n"
        "mov $60, %eax\n"
        "xor %edi, %edi\n"
        "syscall\n");
}
"#;

#[test]
fn branches() {
    check(BRANCHES, &["-O1", "-nostdlib", "-static"], false, &MODELS);
}

/// What faults and is made again, what is never made, handlers in between; a fork, and another program.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static char *p;
static sigjmp_buf back;
static volatile int leaves;
static void segv(int signal, siginfo_t *info, void *context) {
    (void)signal; (void)context;
    char *page = (char *)((long)info->si_addr & ~4095L);
    if (leaves) siglongjmp(back, 1);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}
int main(int argc, char **argv) {
    struct sigaction action = { .sa_sigaction = segv, .sa_flags = SA_SIGINFO | SA_NODEFER };
    sigaction(SIGSEGV, &action, 0);
    p = mmap(0, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 16; i++) p[i * 4096 + 5] = i;
    for (int i = 0; i < 8; i++) { mprotect(p + i * 4096, 4096, PROT_READ); p[i * 4096 + 5] += i; }
    leaves = 1;
    for (volatile int i = 20; i < 40; i++)
        if (!sigsetjmp(back, 1)) *(volatile int *)(p + i * 4096 + 64 * (i & 7)) = 3;
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 1)) {
            char *to = p + 15 * 4096 + 4000, *from = p + 1000;
            long n = 300;
            __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        }
    if (!fork()) {
        for (int i = 5000; i < 60000; i += 97) p[i] ^= i;
        if (argc == 1) execl(argv[0], argv[0], "again", (char *)0);
        _exit(0);
    }
    int status;
    wait(&status);
    return 0;
}
"#;

#[test]
fn faults_and_processes() {
    check(FAULTS, &["-O1"], false, &MODELS[..2]);
}

/// Threads that take turns, with a heap that goes from one to the other, and a signal for each.
const THREADS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
static char *handed[4][30];
static long counts[4];
static void handler(int signal) { (void)signal; counts[0]++; }
static void *work(void *which) {
    long number = (long)which, total = 0;
    for (int round = 0; round < 30; round++) {
        char *block = malloc(round * 17 + 8);
        memset(block, round, round * 17 + 8);
        handed[number][round] = block;
        for (int i = 0; i < 200; i++) total += block[i % (round * 17 + 8)] + (i % 3 ? counts[number] : 0);
        counts[number] += total & 1;
        if (round == 15) raise(SIGUSR1);
    }
    return (void *)total;
}
int main(void) {
    signal(SIGUSR1, handler);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(threads + i, 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < 4; i++) for (int j = 0; j < 30; j++) free(handed[i][j]);
    return 0;
}
"#;

#[test]
fn threads() {
    check(THREADS, &["-O1", "-pthread"], true, &MODELS[..2]);
}

/// A timer's signals, which arrive anywhere, and most often where the ring has no room: what is computed in between, and
/// how often branches are taken, stays as it is.
const SIGNALS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile long arrived;
static void handler(int signal) { (void)signal; arrived++; }
int main(void) {
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGALRM, &action, 0);
    struct itimerval timer = { { 0, 300 }, { 0, 300 } };
    setitimer(ITIMER_REAL, &timer, 0);
    static unsigned long room[4096];
    unsigned long x = 1, sum = 0;
    for (long i = 0; i < 1000000 || arrived < 200; i++) {
        if (i >= 1000000) continue;
        x = x * 6364136223846793005ul + 1442695040888963407ul;
        room[x >> 52] += i;
        if (x & 0x100000000) x ^= room[i & 4095];
    }
    timer = (struct itimerval){ { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &timer, 0);
    for (int i = 0; i < 4096; i++) sum ^= room[i] * i;
    printf("%lx %lx\n", x, sum);
    return 0;
}
"#;

#[test]
fn signals_change_nothing() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), SIGNALS, &["-O2"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let natively = std::process::Command::new(program).output().unwrap();
    for option in ["--memory", "--model"] {
        let output = run(&["run", option, "--", program]);
        assert_eq!(code(&output), 0, "{option}: {}", stderr(&output));
        assert_eq!(output.stdout, natively.stdout, "{option}");
    }
}
