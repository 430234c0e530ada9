//! What the engine does not tell the model changes nothing in it: all is as where every reference is told.

use crate::memory::built;
use crate::support::{code, json, run, stderr, virtual_pmu};
use truecount_testing::programs::{ELEMENTS, FAULTS, REFERENCES};

/// Every fact and everything modelled, of `--model` alone, and where the order of references is asked for, too: then all
/// of them are told.
fn same(program: &str, model: &[&str], threads: bool) {
    let run = |more: &[&str]| {
        let mut arguments = vec!["run", "--json", "--reproducible"];
        arguments.extend(model.iter().chain(more).copied());
        // (With an argument, a child of the one that forks becomes the program once more.)
        arguments.extend(["--", program, "again"]);
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

/// Sizes of which different things are known: one set; lines of instructions of half a line; few of all; sets of more lines
/// than are known.
const MODELS: [&[&str]; 7] = [
    &["--model=cachegrind"],
    &["--D1=1024,16,64", "--I1=2048,1,32", "--LL=65536,4,64"],
    &["--model=cachegrind", "--L2=8192,2,64", "--predictor=tage"],
    &["--D1=4096,1,64", "--I1=65536,1,64", "--LL=1048576,16,128"],
    &["--D1=40960,20,64", "--I1=81920,20,64", "--LL=1048576,16,64"],
    &["--D1=49152,12,64", "--I1=1024,4,64", "--LL=1048576,16,64"],
    // Other lines go behind the first levels.
    &[
        "--D1=4096,4,64",
        "--I1=2048,2,64",
        "--L2=8192,4,64,random",
        "--LL=32768,8,64,plru",
    ],
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

#[test]
fn plain() {
    check(REFERENCES, &["-O1"], false, &MODELS);
    check(REFERENCES, &["-O3", "-static"], false, &MODELS[..1]);
}

/// Elements that masks choose, and other references of uncommon sorts.
#[test]
fn elements() {
    // (The reference machine has no AVX-512.)
    let wide = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    let wide = format!("-DWIDE={}", u8::from(wide));
    let arguments = ["-O1", "-no-pie", &wide, "-DWITH_FAULTS"];
    check(ELEMENTS, &arguments[..3], false, &MODELS);
    check(ELEMENTS, &arguments, false, &MODELS[..1]);
}

/// Branches without flags, indirect ones by each sort of operand, instructions across lines, flags alive all along.
pub(crate) const BRANCHES: &str = r#"
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

#[test]
fn faults_and_processes() {
    check(FAULTS, &["-O1"], false, &MODELS[..2]);
    check(FAULTS, &["-O1"], false, &MODELS[5..]);
}

/// Lines that have the same place where known ones are looked up, alone and in twos, in orders that a set does not keep; in
/// between string instructions, which nothing is known of behind.
const PLACES: &str = r#"
#include <string.h>
#include <sys/mman.h>
#define APART (256 * 1024)
static unsigned long state = 1;
static unsigned next(unsigned below) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (state >> 33) % below;
}
int main(void) {
    char *all = mmap(0, 40 * APART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long sum = 0;
    for (int i = 0; i < 24000; i++) {
        unsigned many = i / 4000 * 5 + 3;
        char *at = all + next(many) * (unsigned long)APART + 64 * next(3) + 4096 * next(2);
        switch (next(8)) {
        case 0: *(volatile long *)(at + 60) += i; break;
        case 1: *(volatile int *)(at + 5) = i; break;
        case 2: sum += *(volatile long *)(at + 8); break;
        default: sum += *(volatile char *)at;
        }
        if (next(500) == 0) {
            char *to = at;
            long n = next(200);
            __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
        }
    }
    return sum == 1;
}
"#;

#[test]
fn places_of_several_lines() {
    check(PLACES, &["-O1"], false, &MODELS);
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
    check(THREADS, &["-O1", "-pthread"], true, &MODELS[4..]);
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

/// 50,000 stores of a repeated instruction, and as many in a loop; with an argument Cachegrind is asked to stop in front of
/// them, and to start behind.
const OFF: &str = r#"
static char room[100000];
static unsigned long arguments[6];
static void request(unsigned long which) {
    unsigned long result = 0;
    arguments[0] = which;
    __asm__ volatile(
        "rol $3, %%rdi; rol $13, %%rdi; rol $61, %%rdi; rol $51, %%rdi; xchg %%rbx, %%rbx"
        : "+d"(result) : "a"(arguments) : "memory", "cc");
}
int main(int argc, char **argv) {
    (void)argv;
    char *to = room;
    long n = 50000;
    if (argc > 1) request(0x43470001);
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
    for (int i = 0; i < 50000; i++) room[i] += i;
    if (argc > 1) request(0x43470000);
    return 0;
}
"#;

#[test]
fn what_is_not_counted_is_not_modelled() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = built(directory.path(), OFF, &["-O1", "-static"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    let references = |words: &[&str]| -> u64 {
        let tool = ["valgrind", "--tool=cachegrind", "--cache-sim=yes"];
        let plain = ["--cachegrind-out-file=/dev/null", program];
        let output = run(&[&tool[..], &plain, words].concat());
        let text = stderr(&output);
        assert_eq!(code(&output), 0, "{text}");
        let line = text.lines().find(|line| line.contains("D   refs:"));
        let number = line.unwrap().split("refs:").nth(1).unwrap();
        let number = number.split_whitespace().next().unwrap();
        number.replace(',', "").parse().unwrap()
    };
    let (all, some) = (references(&[]), references(&["stop"]));
    // Each turn of the loop reads once, as Cachegrind has it, and some are what the two requests take.
    assert!((99_900..100_100).contains(&(all - some)), "{all} {some}");
}
