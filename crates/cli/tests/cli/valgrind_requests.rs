//! `truecount valgrind`: every request of `valgrind.h` and `callgrind.h`, against what Valgrind 3.19 answers and logs.

use std::path::Path;
use std::process::Command;

use crate::call_edges::{self, own};
use crate::client_requests::PLAIN;
use crate::support::{code, stderr, stdout, virtual_pmu};
use crate::valgrind::front;

const PROGRAM: &str = r#"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <valgrind/callgrind.h>
#include <valgrind/valgrind.h>
/* 3 * n + 3 instructions */
int work(int n);
__asm__(".globl work; .type work, @function; work: mov %edi, %eax; 1: nop; sub $1, %edi; jnz 1b; nop; ret; .size work, . - work");
static long seen;
/* Functions outside of the count: they change all vectors, and their requests are not seen. */
static void clobber(void) {
    if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroall" ::: "memory");
    __asm__ volatile("pcmpeqd %%xmm8, %%xmm8" ::: "memory");
}
static long f0(long tid) { clobber(); seen = tid; work(1000); return 40 + (long)RUNNING_ON_VALGRIND; }
static long f1(long tid, long a) { seen = tid + a; return a * 2; }
static long f2(long tid, long a, long b) { seen = tid + a + b; return a - b; }
static long f3(long tid, long a, long b, long c) { seen = tid + a + b + c; return a * b + c; }
__attribute__((noinline)) static long calls(void) {
    long before[4] = {1, 2, 3, 4}, after[4] = {0};
    int avx = __builtin_cpu_supports("avx");
    if (avx) __asm__ volatile("vmovdqu %0, %%ymm8" :: "m"(before));
    else __asm__ volatile("movdqu %0, %%xmm8" :: "m"(before));
    long result = VALGRIND_NON_SIMD_CALL0(f0);
    if (avx) __asm__ volatile("vmovdqu %%ymm8, %0" : "=m"(after));
    else __asm__ volatile("movdqu %%xmm8, %0" : "=m"(after));
    return result + (memcmp(before, after, avx ? 32 : 16) ? 1000 : 0);
}
__attribute__((noinline)) static int says(int n) { return VALGRIND_PRINTF_BACKTRACE("trace %d\n", n) + 1; }
#define R(what) printf("%s = %ld\n", #what, (long)(what))
#define ASK(n, a, b, c, d) printf("%#x = %d\n", n, (int)VALGRIND_DO_CLIENT_REQUEST_EXPR(-7, n, a, b, c, d, 0))
int main(void) {
    char pool[256], buf[64];
    static char stack[4096];
    R(RUNNING_ON_VALGRIND);
    ASK(0x1002, work, 10, 0, 0);
    R(VALGRIND_COUNT_ERRORS);
    R(VALGRIND_PRINTF("hello %s %d\n", "you", 5));
    R(VALGRIND_PRINTF("no newline"));
    R(VALGRIND_PRINTF(" and more\ntwo\nlines\n"));
    R(VALGRIND_PRINTF("%5d|%-5d|%05d|%u|%x|%X|%o|%c|%%|%p\n", 42, 42, 42, 4000000000u, 255, 255, 8, 'z', (void *)0x1234));
    R(VALGRIND_PRINTF("%ld|%lu|%lx|%lld|%zu|%d\n", -5L, 5UL, 0xffL, -1LL, (size_t)9, -3));
    R(VALGRIND_PRINTF("%s|%10s|%-10s\n", (char *)0, "right", "left"));
    R(VALGRIND_PRINTF("%f|%.2f|%8.3f|%5.1f|%-9.1f|\n", 1.5, 2.25, -3.14159, 9.96, 1.25));
    R(VALGRIND_PRINTF("%'d|%d|%d|%d|%d|%d|%d|%d\n", 1234567, 1, 2, 3, 4, 5, 6, 7));
    R(VALGRIND_PRINTF("%f %f %f %f %f %f %f %f %f %d\n", 1., 2., 3., 4., 5., 6., 7., 8., 9., 10));
    R(VALGRIND_PRINTF("%#x|%*d|\n", 255, 6, 7));
    R(VALGRIND_PRINTF("%s", ""));
    R(VALGRIND_PRINTF("\n"));
    R(VALGRIND_PRINTF("unfinished "));
    R(says(3));
    R(calls()); R(seen);
    R(VALGRIND_NON_SIMD_CALL1(f1, 11)); R(seen);
    R(VALGRIND_NON_SIMD_CALL2(f2, 11, 5)); R(seen);
    R(VALGRIND_NON_SIMD_CALL3(f3, 2, 3, 4)); R(seen);
    ASK(0x1301, pool, 100, 8, 1);
    ASK(0x130b, pool, 100, 50, 8);
    ASK(0x1302, pool, 8, 0, 0);
    ASK(0x1303, pool, 8, 0, 0);
    R(VALGRIND_MEMPOOL_EXISTS(pool));
    ASK(0x1305, pool, pool + 10, 10, 0);
    ASK(0x1306, pool, pool + 10, 0, 0);
    ASK(0x1307, pool, pool + 10, 0, 0);
    ASK(0x1308, pool, pool + 10, 0, 0);
    ASK(0x1309, pool, pool + 10, pool + 10, 5);
    ASK(0x1304, pool, 0, 0, 0);
    R(VALGRIND_STACK_REGISTER(stack, stack + 4095));
    R(VALGRIND_STACK_REGISTER(stack, stack + 4095));
    ASK(0x1503, 1, stack, stack + 4095, 0);
    ASK(0x1502, 1, 0, 0, 0);
    memset(buf, 'x', 64);
    R(VALGRIND_MAP_IP_TO_SRCLOC(16, buf)); printf("%.64s\n", buf);
    ASK(0x1801, 1, 0, 0, 0);
    ASK(0x1801, -1L, 0, 0, 0);
    R(VALGRIND_MONITOR_COMMAND("no such thing"));
    ASK(0x1203, "--stats=no", 0, 0, 0);
    ASK(0x1902, pool, 0, 0, 0);
    ASK(0x9999, 0, 0, 0, 0);
    ASK(0x4d430000, 0, 0, 0, 0);
    ASK(0x43540009, 0, 0, 0, 0);
    ASK(0x43540000, 0, 0, 0, 0);
    ASK(0x43540003, "named", 0, 0, 0);
    ASK(0x43540001, 0, 0, 0, 0);
    ASK(0x43540002, 0, 0, 0, 0);
    ASK(0x43540002, 0, 0, 0, 0);
    ASK(0x43540005, 0, 0, 0, 0);
    ASK(0x43540004, 0, 0, 0, 0);
    work(1000);
    return 0;
}
"#;

/// The program of this source; nothing, with the reason said, where Valgrind's headers are missing.
fn compiled(at: &Path, text: &str) -> Option<String> {
    let source = at.join("requests.c");
    let program = at.join("requests");
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc")
        .args(["-g", "-O1", "-w", "-o"])
        .args([&program, &source])
        .output();
    if !compiled.is_ok_and(|done| done.status.success()) {
        truecount_testing::skip!(
            "valgrind-headers",
            "no C compiler, or no <valgrind/valgrind.h>"
        );
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

/// What was printed, and the names in traces: addresses and numbers of processes left out.
fn printed(log: &str) -> Vec<String> {
    let line = |line: &str| {
        let rest = line.trim_start_matches(['*', '=']);
        let (_, text) = rest.split_once([' '])?;
        if line.starts_with("**") {
            return Some(text.to_owned());
        }
        let (by, place) = text.trim_start().split_once(" 0x")?;
        let (_, name) = place.split_once(": ")?;
        matches!(by, "at" | "by").then(|| format!("{by} {name}"))
    };
    log.lines().filter_map(line).collect()
}

const PRINTED: [&str; 16] = [
    "hello you 5",
    "no newline and more",
    "two",
    "lines",
    "   42|42   |00042|4000000000|ff|FF|10|z|%|0x1234",
    "-5|5|ff|-1|9|-3",
    "(null)|     right|left      ",
    "1.500000|2.25|  -3.142| 10.0|1.2      |",
    "1,234,567|1|2|3|4|5|6|7",
    "1.000000 2.000000 3.000000 4.000000 5.000000 6.000000 7.000000 8.000000 9.000000 10",
    "0xff|     7|",
    "",
    "unfinished trace 3",
    "at VALGRIND_PRINTF_BACKTRACE (valgrind.h:6815)",
    "by says (requests.c:30)",
    "by main (requests.c:52)",
];

#[test]
fn all_requests_are_answered_as_valgrind_does() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let Some(program) = compiled(at, PROGRAM) else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    let options = [&PLAIN[..], &["--log-file=log"]].concat();
    let output = front(at, &options, &[&program]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let answers = stdout(&output);
    let ours = printed(&read("log"));
    // The header's line is that of the version which is installed.
    let plain = |line: &String| !line.contains("valgrind.h");
    let expected = PRINTED.map(str::to_owned);
    assert_eq!(
        ours.iter().filter(|line| plain(line)).collect::<Vec<_>>(),
        expected
            .iter()
            .filter(|line| plain(line))
            .collect::<Vec<_>>()
    );
    for line in [
        "calls() = 40\nseen = 1\n",
        "VALGRIND_NON_SIMD_CALL3(f3, 2, 3, 4) = 10\nseen = 10\n",
        "0x1303 = -7\n",
        "0x9999 = -7\n",
        "0x43540009 = -7\n",
        "0x43540003 = 0\n",
    ] {
        assert!(answers.contains(line), "{line} in {answers}");
    }
    // What ran outside of the count is in no part.
    let parts = ["out.1", "out.2", "out"].map(|name| own(&read(name), "work"));
    assert_eq!(parts, [0, 0, 3003]);
    // The same text, whatever the tool; without a tree of calls there are no callers.
    let none = front(at, &["--tool=none", "--log-file=log", "-q"], &[&program]);
    assert_eq!(code(&none), 0, "{}", stderr(&none));
    let texts = printed(&read("log"));
    assert_eq!(texts.get(..13), ours.get(..13));
    let real = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=theirs",
            "-q",
            "--log-file=log",
        ])
        .arg(&program)
        .current_dir(at)
        .env_remove("VALGRIND_OPTS")
        .output();
    let Ok(real) = real.map_err(|error| {
        truecount_testing::skip!("valgrind", "no valgrind to compare with: {error}");
    }) else {
        return;
    };
    assert_eq!(answers, stdout(&real));
    assert_eq!(ours, printed(&read("log")));
    let parts = ["theirs.1", "theirs.2"].map(|name| read(name).contains(") work"));
    assert_eq!(parts, [false; 2]);
}

const WITHOUT_REDIRECTION: &str = r#"
#include <stdio.h>
#include <valgrind/valgrind.h>
/* 3 * n + 3 instructions */
int work(int n);
__asm__(".globl work; .type work, @function; work: mov %edi, %eax; 1: nop; sub $1, %edi; jnz 1b; nop; ret; .size work, . - work");
__attribute__((noinline)) void nothing(void) { __asm__ volatile("nop"); }
__attribute__((noinline)) long zero(void) { return 5; }
__attribute__((noinline)) long seven(long a, long b, long c, long d, long e, long f, long g) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g;
}
__attribute__((noinline)) long recursive(long n) {
    OrigFn fn = { (unsigned long)recursive };
    long result;
    if (n == 0) return work(1000);
    CALL_FN_W_W(result, fn, n - 1);
    return result + 1;
}
/* Another function would be called by the original's address. */
__attribute__((noinline)) unsigned long original(void) {
    OrigFn fn = { 1 };
    VALGRIND_GET_ORIG_FN(fn);
    return fn.nraddr;
}
int main(void) {
    OrigFn fn;
    unsigned long result = 9;
    fn.nraddr = (unsigned long)nothing; CALL_FN_v_v(fn);
    fn.nraddr = (unsigned long)zero; CALL_FN_W_v(result, fn); printf("%ld\n", result);
    fn.nraddr = (unsigned long)work; CALL_FN_W_W(result, fn, 1000); printf("%ld\n", result);
    fn.nraddr = (unsigned long)seven; CALL_FN_W_7W(result, fn, 1, 2, 3, 4, 5, 6, 7); printf("%ld\n", result);
    printf("%ld %lu\n", recursive(3), original());
    return 0;
}
"#;

#[test]
fn calls_without_redirection_are_calls() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let Some(program) = compiled(at, WITHOUT_REDIRECTION) else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    let output = front(at, &PLAIN, &[&program]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let answers = stdout(&output);
    assert_eq!(answers, "5\n1000\n140\n1003 0\n");
    let ours = read("out");
    assert_eq!(own(&ours, "work"), 2 * 3003);
    let edges = call_edges::read(&ours).edges;
    for (caller, callee, number) in [
        ("main", "nothing", 1),
        ("main", "zero", 1),
        ("main", "work", 1),
        ("main", "seven", 1),
        ("recursive", "work", 1),
    ] {
        let edge = edges.get(&(caller.to_owned(), callee.to_owned()));
        assert_eq!(edge.map(|edge| edge.0), Some(number), "{caller} {callee}");
    }
    // Without a tree, and with another tool's requests, it is the same program.
    for tool in ["--tool=none", "--tool=cachegrind"] {
        let output = front(at, &[tool, "-q", "--log-file=log"], &[&program]);
        assert_eq!(stdout(&output), answers, "{tool}");
    }
    let real = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=theirs", "-q"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(&program)
        .current_dir(at)
        .env_remove("VALGRIND_OPTS")
        .output();
    let Ok(real) = real.map_err(|error| {
        truecount_testing::skip!("valgrind", "no valgrind to compare with: {error}");
    }) else {
        return;
    };
    assert_eq!(answers, stdout(&real));
    let theirs = read("theirs");
    // Callgrind does not know these calls for some, and has what comes behind them below what they called: as `work'2`.
    for function in ["nothing", "zero", "seven", "work", "original"] {
        let cost = own(&theirs, function) + own(&theirs, &format!("{function}'2"));
        assert_eq!(own(&ours, function), cost, "{function}");
    }
}

#[test]
fn what_is_printed_without_end_is_bounded() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let text = "#include <valgrind/valgrind.h>\nstatic char line[4096];\nint main(void) {\n\
        for (int i = 0; i < 4095; i++) line[i] = 'x';\n\
        for (int i = 0; i < 3000; i++) VALGRIND_PRINTF(\"%d %s\\n\", i, line);\n\
        VALGRIND_PRINTF(\"%s\", (char *)1); VALGRIND_PRINTF((char *)1);\n\
        return VALGRIND_PRINTF(\"%*d\", 2147483647, 1) == 1 << 20; }\n";
    let Some(program) = compiled(at, text) else {
        return;
    };
    let output = front(at, &["--tool=none"], &[&program]);
    let log = stderr(&output);
    assert_eq!(code(&output), 1, "{}", log.len());
    let lines = log.lines().filter(|line| line.starts_with("**")).count();
    assert!((1500..3000).contains(&lines), "{lines}");
    assert!(log.contains("bytes of what programs printed"), "{lines}");
}
