//! Programs that run for long: their code comes to lie on huge pages, and is counted as before.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch, run};
use truecount_engine::virt::Options;

/// 240,000 blocks, again and again; in between code that is new, and threads that execute the old.
const SOURCE: &str = r#"#include <pthread.h>
#include <stdio.h>
long many(long);
asm(".globl many\nmany: mov %rdi,%rax\n.rept 240000\nadd $3,%rax\njmp 1f\nnop\n1:\n.endr\nret\n");
static long part(long from, int times) {
    for (int i = 0; i < times; i++) from = many(from);
    return from;
}
static void *other(void *times) { return (void *)part(1, (int)(long)times); }
#define NEW(n) case n: sum += sum % (n + 11); break;
int main(int count, char **words) {
    long sum = count;
    pthread_t thread;
    if (count > 1) pthread_create(&thread, 0, other, (void *)900L);
    for (int round = 0; round < 8; round++) {
        sum = part(sum, round ? 60 : 700);
        switch (round) { NEW(0) NEW(1) NEW(2) NEW(3) NEW(4) NEW(5) NEW(6) NEW(7) }
    }
    void *more = 0;
    if (count > 1) pthread_join(thread, &more);
    printf("%ld %ld\n", sum, (long)more);
    fflush(stdout);
    return getchar() != 'x';
}
"#;

/// Mappings for which huge pages were asked, with what can be executed among them.
fn huge(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let flags = text
        .lines()
        .filter_map(|line| line.strip_prefix("VmFlags:"));
    let asked = flags.filter(|flags| flags.split(' ').any(|flag| flag == "hg"));
    asked.count()
}

#[test]
fn code_of_long_runs_lies_on_huge_pages() {
    let modes = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let given = modes.is_ok_and(|modes| !modes.contains("[never]"));
    let Some(program) = built("huge.c", SOURCE, &["-O1", "-pthread"]) else {
        return;
    };
    for threads in [false, true] {
        let command = || {
            let mut command = Command::new(&program);
            command.args(threads.then_some("thread")).env_clear();
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            fixed_layout(&mut command);
            command
        };
        let mut native = command().spawn().expect("it was just built");
        let mut expected = String::new();
        // Its input ends, and so does it.
        drop(native.stdin.take());
        let mut pipe = native.stdout.take().expect("a pipe");
        pipe.read_to_string(&mut expected).expect("text");
        native.wait().expect("it ends");
        let mut counts = Vec::new();
        for per_block in [false, true] {
            let options = Options::default().per_block(per_block);
            let Some(mut running) = launch(&mut command(), &options) else {
                return;
            };
            let child = running.child_mut();
            let mut said = String::new();
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
            lines.read_line(&mut said).expect("text");
            assert_eq!(said, expected);
            if given && !per_block {
                // The tables, and a part of the code.
                assert!(huge(child.id()) >= 2, "{}", huge(child.id()));
            }
            let mut input = child.stdin.take().expect("a pipe");
            input.write_all(b"x").expect("it reads");
            let outcome = running.wait().expect("the engine ends well");
            assert_eq!(outcome.status.code(), Some(0));
            assert!(outcome.totals.threads.iter().all(|thread| thread.whole));
            counts.push(outcome.totals.instructions());
        }
        if !given {
            truecount_testing::skip!("huge-pages", "the kernel gives no huge pages");
        }
        // Threads wait for each other as it comes.
        if !threads {
            assert_eq!(counts[0], counts[1]);
            let blocks = 240_000 * 2 * (700 + 7 * 60);
            assert!(
                (blocks..blocks + 1_000_000).contains(&counts[0]),
                "{counts:?}"
            );
        }
    }
}

/// The tables are two mappings then, which one call moves since Linux 6.17 only: they give way all the same.
#[test]
fn tables_on_huge_pages_give_way() {
    let source = r#"#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static long one(long a) { return a + 1; }
static long two(long a) { return a * 3 % 1000003; }
static long (*volatile functions[])(long) = {one, two};
static long work(int times) {
    long sum = 1;
    for (int i = 0; i < times; i++) sum = functions[i & 1](sum);
    return sum;
}
int main(void) {
    long sum = work(8000000);
    // Code that is new, so that it is looked at how long this has run.
    for (int i = 0; i < 40; i++) sum += sum % (i + 7);
    char *wanted = (char *)0x7e900000;
    if (mmap(wanted, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != wanted) return 9;
    memset(wanted, 1, 1 << 16);
    sum += work(1000);
    for (int i = 0; i < 1 << 16; i++) sum += wanted[i];
    printf("%ld\n", sum);
    return 0;
}
"#;
    let Some(program) = built("huge-tables.c", source, &["-O1"]) else {
        return;
    };
    let native = Command::new(&program).output().expect("it was just built");
    let expected = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(native.status.success());
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        let Some((status, output, totals)) = run(Command::new(&program), &options) else {
            return;
        };
        assert_eq!((status.code(), output), (Some(0), expected.clone()));
        assert!(totals.instructions() > 60_000_000);
    }
}
