//! `truecount valgrind`: which part of a run is collected, by requests of the program and by functions.

use crate::call_edges::own;
use crate::support::{code, compiled, run, stderr, stdout, virtual_pmu};
use crate::valgrind::{front, line};

/// Client requests without Valgrind's header; functions with counts that are known.
pub(crate) const REQUESTS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
static long ask(long request, long argument) {
    volatile long words[6] = {request, argument, 0, 0, 0, 0};
    long answer = 7;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                     : "=d"(answer) : "a"(&words[0]), "0"(answer) : "cc", "memory");
    return answer;
}
#define CT(n) (0x43540000 + (n))
/* 3 * n + 3 instructions */
int work(int n);
__asm__(".globl work; .type work, @function; work: mov %edi, %eax; 1: nop; sub $1, %edi; jnz 1b; nop; ret; .size work, . - work");
static jmp_buf out;
__attribute__((noinline)) int inner(int n) { return work(n) + 1; }
__attribute__((noinline)) int rec(int n) { return n ? rec(n - 1) + 1 : work(1000); }
__attribute__((noinline)) void jumps(int n) { work(n); longjmp(out, 1); }
int main(int argc, char **argv) {
    printf("%ld %ld\n", ask(0x1001, 0), ask(0x9999, 0));
    work(1000);
    if (argc > 1 && atoi(argv[1]) == 1) {
        ask(CT(3), (long)"first");
        work(2000);
        ask(CT(1), 0);
        ask(CT(5), 0);
        work(4000);
        ask(CT(4), 0);
        ask(CT(2), 0);
        work(8000);
        ask(CT(2), 0);
        ask(CT(0), 0);
    }
    rec(5);
    if (!setjmp(out)) jumps(1000);
    return inner(1000) == 1;
}
"#;

pub(crate) fn requests() -> Option<(tempfile::TempDir, String)> {
    if !virtual_pmu() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), REQUESTS)?;
    Some((directory, program.to_str().unwrap().to_owned()))
}

pub(crate) const PLAIN: [&str; 5] = [
    "--tool=callgrind",
    "--callgrind-out-file=out",
    "--compress-strings=no",
    "--compress-pos=no",
    "-q",
];

#[test]
fn programs_ask_for_parts_of_their_profile() {
    let Some((directory, program)) = requests() else {
        return;
    };
    let at = directory.path();
    let output = front(at, &PLAIN, &[&program, "1"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // The default is kept by what nobody answers; natively by everything.
    assert_eq!(stdout(&output), "1 7\n");
    let alone = run(&["run", "--", &program]);
    assert_eq!(stdout(&alone), "7 7\n");
    let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    let (first, second, last) = (read("out.1"), read("out.2"), read("out"));
    assert_eq!(line(&first, "desc: Trigger:"), "Client Request: first");
    assert_eq!(own(&first, "work"), 3003);
    assert_eq!(line(&second, "desc: Trigger:"), "Client Request");
    // What came before the request for zeros, while it was stopped, and while it did not collect, is not there.
    assert_eq!((line(&second, "part:"), own(&second, "work")), ("2", 0));
    assert_eq!(line(&last, "desc: Trigger:"), "Program termination");
    assert_eq!((line(&last, "part:"), own(&last, "work")), ("3", 3 * 3003));
    let parts = front(
        at,
        &[&PLAIN[..], &["--combine-dumps=yes"]].concat(),
        &[&program, "1"],
    );
    assert_eq!(code(&parts), 0);
    assert_eq!(read("out").matches("\npart: ").count(), 3);
}

#[test]
fn collecting_is_toggled_by_functions() {
    let Some((directory, program)) = requests() else {
        return;
    };
    let at = directory.path();
    for (option, work, total) in [
        ("--toggle-collect=work", 4 * 3003, Some(4 * 3003)),
        ("--toggle-collect=inn?r", 3003, None),
        // Of a recursion the outermost call counts, and what it calls.
        ("--toggle-collect=rec", 3003, None),
        // Left by longjmp: until the next chosen function is entered.
        ("--toggle-collect=*j*mps", 2 * 3003, None),
        ("--toggle-collect=no_such_function", 0, Some(0)),
        ("--collect-atstart=no", 0, Some(0)),
        ("--instr-atstart=no", 0, Some(0)),
    ] {
        let output = front(at, &[&PLAIN[..], &[option]].concat(), &[&program]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let out = std::fs::read_to_string(at.join("out")).unwrap();
        assert_eq!(own(&out, "work"), work, "{option}: {out}");
        if let Some(total) = total {
            assert_eq!(line(&out, "totals:"), total.to_string(), "{option}: {out}");
        }
        let said = stderr(&output);
        assert_eq!(
            said.contains("no function of this name"),
            option.ends_with("no_such_function"),
            "{said}"
        );
    }
    // Both at once; what is chosen twice is what it was before.
    let both = [
        &PLAIN[..],
        &[
            "--toggle-collect=inner",
            "--toggle-collect=work",
            "--collect-atstart=yes",
        ],
    ]
    .concat();
    assert_eq!(code(&front(at, &both, &[&program])), 0);
    let out = std::fs::read_to_string(at.join("out")).unwrap();
    assert_eq!(
        own(&out, "work"),
        3003,
        "only the one inside of `inner`: {out}"
    );
}

#[test]
fn parts_end_at_functions() {
    let Some((directory, program)) = requests() else {
        return;
    };
    let at = directory.path();
    let options = [
        &PLAIN[..],
        &[
            "--dump-before=rec",
            "--dump-after=rec",
            "--zero-before=inner",
        ],
    ]
    .concat();
    let output = front(at, &options, &[&program]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let work = |name: &str| own(&std::fs::read_to_string(at.join(name)).unwrap(), "work");
    assert_eq!([work("out.1"), work("out.2"), work("out")], [3003; 3]);
    // Once for the recursion, and named after its function, as by Callgrind.
    let trigger = |name: &str| {
        let text = std::fs::read_to_string(at.join(name)).unwrap();
        line(&text, "desc: Trigger:").trim().to_owned()
    };
    assert_eq!(trigger("out.1"), "--dump-before=rec");
    assert_eq!(trigger("out.2"), "--dump-after=rec");
    assert!(!at.join("out.3").exists());
}

#[test]
fn a_part_is_the_threads_that_ends_it_where_threads_are_apart() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let source = r#"
#include <pthread.h>
/* 3 * n + 3 instructions */
long work(long n);
__asm__(".globl work; .type work, @function; work: mov %edi, %eax; 1: nop; sub $1, %edi; jnz 1b; nop; ret; .size work, . - work");
static void *thread(void *n) { work((long)n); return (void *)work(10); }
int main(void) { pthread_t a; work(1000); pthread_create(&a, 0, thread, (void *)2000); pthread_join(a, 0); work(4000); return 0; }
"#;
    let Some(program) = compiled(at, source) else {
        return;
    };
    let program = program.to_str().unwrap();
    let options = [&PLAIN[..], &["--separate-threads=yes", "--dump-after=work"]].concat();
    let output = front(at, &options, &[program]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let names = [
        "out.1-01", "out.2-02", "out.3-02", "out.4-01", "out-01", "out-02",
    ];
    let mut found: Vec<String> = std::fs::read_dir(at)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with("out"))
        .collect();
    found.sort();
    let mut all = names.map(str::to_owned).to_vec();
    all.sort();
    assert_eq!(found, all);
    let read = names.map(|name| std::fs::read_to_string(at.join(name)).unwrap());
    let work = read.each_ref().map(|text| own(text, "work"));
    assert_eq!(work, [3003, 6003, 33, 12_003, 0, 0]);
    let parts = read.each_ref().map(|text| line(text, "part:").trim());
    assert_eq!(parts, ["1", "2", "3", "4", "5", "5"]);
}

#[test]
fn threads_have_files_of_their_own() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let source = r#"
#include <pthread.h>
__attribute__((noinline)) void *work(void *n) { volatile long x = 0; for (long i = 0; i < (long)n; i++) x += i; return 0; }
int main(void) { pthread_t a, b; pthread_create(&a, 0, work, (void *)1000); pthread_create(&b, 0, work, (void *)2000);
    pthread_join(a, 0); pthread_join(b, 0); return 0; }
"#;
    let Some(program) = compiled(at, source) else {
        return;
    };
    let program = program.to_str().unwrap();
    for option in ["--toggle-collect=work", "--toggle-collect=main"] {
        let options = [&PLAIN[..], &["--separate-threads=yes", option]].concat();
        let output = front(at, &options, &[program]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
        let [main, a, b] = ["out-01", "out-02", "out-03"].map(read);
        assert_eq!(line(&b, "thread:"), "3");
        let [main, a, b] = [own(&main, "work"), own(&a, "work"), own(&b, "work")];
        match option {
            // A turn of the loop takes as much in each.
            "--toggle-collect=work" => assert!(
                main == 0 && a > 1000 && (b - a) % 1000 == 0,
                "{main} {a} {b}"
            ),
            // Threads begin with what was asked for at the start.
            _ => assert_eq!([main, a, b], [0; 3]),
        }
    }
}
