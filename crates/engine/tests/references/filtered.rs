//! What is left out of the ring because it adds nothing adds nothing: the same lines, splits, executions and taken
//! branches as where every reference is noted.

use super::support::{built, fixed_layout, launch};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use truecount_engine::virt::Options;
use truecount_engine::virt::references::{
    Access, Branch, Code, Executed, Lies, Line, Operand, References, Run, Sink, Thread,
};

/// What is asked of a run: by thread.
#[derive(Debug, Default)]
struct Facts {
    /// Eight bytes at a time, whether they were written, whether the stack pointer led there; who did it first.
    words: BTreeMap<(u64, bool, bool), u64>,
    /// By address of the instruction: executions, taken branches, references that are not aligned, in two lines, in two
    /// pages.
    code: BTreeMap<u64, [u64; 5]>,
    /// References of instructions that are always noted.
    bytes: BTreeMap<u64, u64>,
}

#[derive(Default)]
struct Gathered {
    threads: BTreeMap<u32, Facts>,
    /// Lines that were told, and references one by one.
    told: [u64; 2],
    lost: u32,
}

fn touch(facts: &mut Facts, pc: u64, operand: &Operand, run: Run) {
    for time in 0..run.times {
        let at = run.address + time * u64::from(run.size);
        let end = at + u64::from(run.size) - 1;
        let mut word = at & !7;
        while word <= end {
            if operand.access != Access::Store {
                facts
                    .words
                    .entry((word, false, operand.stack))
                    .or_insert(pc);
            }
            if operand.access != Access::Load {
                facts.words.entry((word, true, operand.stack)).or_insert(pc);
            }
            word += 8;
        }
        if run.size.is_power_of_two() && !at.is_multiple_of(u64::from(run.size)) {
            let counts = facts.code.entry(pc).or_default();
            counts[2] += 1;
            counts[3] += u64::from(at / 64 != end / 64);
            counts[4] += u64::from(at / 4096 != end / 4096);
        }
        if operand.form().is_none() {
            *facts.bytes.entry(pc).or_default() += u64::from(run.size);
        }
    }
}

impl Gathered {
    fn of(&mut self, thread: Thread) -> &mut Facts {
        self.threads.entry(thread.slot).or_default()
    }
}

impl Sink for Gathered {
    fn executed(&mut self, thread: Thread, executed: &Executed<'_>) {
        let facts = self.of(thread);
        for (at, instruction) in executed.instructions() {
            if at < executed.done {
                facts.code.entry(instruction.pc).or_default()[0] += 1;
            }
            executed.references(at, |_, operand, run| {
                touch(facts, instruction.pc, operand, run);
            });
            if let Branch::Conditional { target } = instruction.branch
                && at + 1 == executed.done
                && executed.next == Some(target)
            {
                facts.code.entry(instruction.pc).or_default()[1] += 1;
            }
        }
    }

    fn referenced(
        &mut self,
        thread: Thread,
        code: &Code,
        (at, operand): (usize, usize),
        address: u64,
        _hint: &mut u32,
    ) {
        self.told[1] += 1;
        let operand = &code.operands(at)[operand];
        let run = Run {
            address,
            size: operand.size,
            times: 1,
        };
        touch(self.of(thread), code.instructions[at].pc, operand, run);
    }

    fn line(&mut self, thread: Thread, line: &Line) {
        self.told[0] += 1;
        assert_eq!(line.was_loaded | line.was_stored | line.was_stack, 0);
        let facts = self.of(thread);
        let all = [
            (line.loaded, false, false),
            (line.stored, true, false),
            (line.stack_loaded, false, true),
            (line.stack_stored, true, true),
        ];
        for (bits, stored, stack) in all {
            for at in (0..8).filter(|at| bits >> at & 1 != 0) {
                let word = line.address + at * 8;
                facts.words.entry((word, stored, stack)).or_insert(0);
            }
        }
    }

    fn lies(&mut self, thread: Thread, code: &Code, (at, operand): (usize, usize), lies: Lies) {
        assert!(code.operands(at).len() > operand);
        let facts = self.of(thread);
        let counts = facts.code.entry(code.instructions[at].pc).or_default();
        counts[2] = counts[2].wrapping_add(lies.unaligned);
        counts[3] = counts[3].wrapping_add(lies.line_splits);
        counts[4] = counts[4].wrapping_add(lies.page_splits);
    }

    fn noted(&mut self, thread: Thread, executed: &Executed<'_>, at: usize) {
        let pc = executed.code.instructions[at].pc;
        let facts = self.of(thread);
        executed.references(at, |_, operand, run| touch(facts, pc, operand, run));
    }

    fn counted(&mut self, thread: Thread, code: &Code, range: Range<usize>, times: u64) {
        let facts = self.of(thread);
        for instruction in &code.instructions[range] {
            let executed = &mut facts.code.entry(instruction.pc).or_default()[0];
            *executed = executed.wrapping_add(times);
        }
    }

    fn taken(&mut self, thread: Thread, code: &Code, at: usize, times: u64) {
        let pc = code.instructions[at].pc;
        self.of(thread).code.entry(pc).or_default()[1] += times;
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}

fn run(program: &Path, filtered: bool) -> Option<Gathered> {
    let mut command = Command::new(program);
    command
        .env_clear()
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    fixed_layout(&mut command);
    let all = Arc::new(Mutex::new(Gathered::default()));
    let sink: Arc<Mutex<dyn Sink>> = all.clone();
    let references = References::new(sink).filtered(filtered);
    let options = Options::default().references(Some(references));
    launch(&mut command, &options)?
        .wait()
        .expect("it ends well");
    let mut all = std::mem::take(&mut *all.lock().unwrap());
    assert_eq!(all.lost, 0);
    for facts in all.threads.values_mut() {
        facts.code.retain(|_, counts| *counts != [0; 5]);
    }
    Some(all)
}

/// `shadow`: there are addresses for it.
fn same(name: &str, source: &str, arguments: &[&str], shadow: bool) {
    let Some(program) = built(name, source, arguments) else {
        return;
    };
    let (Some(all), Some(some)) = (run(&program, false), run(&program, true)) else {
        return;
    };
    let slots = |of: &Gathered| of.threads.keys().copied().collect::<Vec<_>>();
    assert_eq!(slots(&all), slots(&some));
    for (slot, facts) in &all.threads {
        let others = &some.threads[slot];
        let only = |one: &Facts, two: &Facts| -> Vec<String> {
            let known = |word: &(&_, &_)| two.words.contains_key(word.0);
            let rest = one.words.iter().filter(|word| !known(word));
            rest.map(|(word, pc)| format!("{pc:#x} {word:x?}"))
                .take(5)
                .collect()
        };
        assert_eq!(only(facts, others), [""; 0], "slot {slot}: words lacking");
        assert_eq!(only(others, facts), [""; 0], "slot {slot}: words too many");
        for (pc, counts) in &facts.code {
            assert_eq!(Some(counts), others.code.get(pc), "slot {slot}: {pc:#x}");
        }
        assert_eq!(facts.code.len(), others.code.len());
        assert_eq!(facts.bytes, others.bytes);
    }
    assert_eq!(all.told, [0; 2]);
    assert_eq!(some.told.map(|told| told > 0), [shadow, !shadow]);
}

/// Loops, calls, references of every size and alignment, flags that are alive, repeated instructions.
const PLAIN: &str = r#"
#include <stdint.h>
#include <string.h>
static char room[1 << 20];
struct packed { char c; int i; long l; double d; } __attribute__((packed));
static struct packed many[1000];
__attribute__((noinline)) static int sum(int n) { return n ? n + sum(n - 1) : 0; }
int main(void) {
    long total = 0;
    for (int i = 0; i < 1 << 20; i += 3) room[i] = i;
    for (int i = 0; i < 1000; i++) { many[i].i += i; many[i].l = i; many[i].d *= 2; total += many[i].c; }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) total += sum(i % 50) + room[i * 1000];
        memmove(room + 1, room, 100000 + round);
        memset(room + 7, round, 3333);
        total += strlen(room + 13);
        for (uint64_t *at = (uint64_t *)(room + round); at < (uint64_t *)(room + 50000); at++) *at += total;
    }
    // The carry is alive in front of loads and stores.
    uint64_t low = 0, high = 0, a[64];
    for (int i = 0; i < 64; i++) a[i] = -1ull - i;
    for (int i = 0; i + 1 < 64; i += 2)
        __asm__ volatile(
            "addq (%2), %0; movq %0, 8(%2); movq (%2), %%rax; movq %%rax, (%2); adcq 8(%2), %1"
            : "+r"(low), "+r"(high) : "r"(a + i) : "rax", "memory", "cc");
    char *from = room, *to = room + 5000;
    long n = 100;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(n) : : "memory");
    return (total + high + low) & 1;
}
"#;

#[test]
fn plain() {
    same("filtered_plain.c", PLAIN, &["-O1"], true);
    same("filtered_vectors.c", PLAIN, &["-O3", "-mavx2"], true);
}

/// What faults and is made again, what is never made, what was made before and faults now; handlers in between.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
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
int main(void) {
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
    // Touched, forbidden, and not touched again.
    mprotect(p, 4096, PROT_NONE);
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 1)) *(volatile int *)p = 1;
    if (!fork()) {
        for (int i = 5000; i < 60000; i += 97) p[i] ^= i;
        _exit(0);
    }
    int status;
    wait(&status);
    return 0;
}
"#;

#[test]
fn faults() {
    same("filtered_faults.c", FAULTS, &["-O1"], true);
}

/// A program that is linked to all places that the shadow may have.
const PLACES: &str = r#"
#define AT(name) __attribute__((section("." #name), used)) static char name[16] = "there";
AT(first) AT(second) AT(third) AT(fourth)
"#;

#[test]
fn without_addresses_for_a_shadow() {
    let places = [
        0x4413_6200_0000u64,
        0x6013_6200_0000,
        0x2413_6200_0000,
        0x1213_6200_0000,
    ];
    let names = ["first", "second", "third", "fourth"];
    let sections = names.iter().zip(places);
    let sections: Vec<String> = sections
        .map(|(name, at)| format!("-Wl,--section-start=.{name}={at:#x}"))
        .collect();
    let mut arguments = vec!["-O1", "-static", "-no-pie"];
    arguments.extend(sections.iter().map(String::as_str));
    for (name, source) in [("plain", PLAIN), ("faults", FAULTS)] {
        let source = [PLACES, source].concat();
        same(&format!("no_shadow_{name}.c"), &source, &arguments, false);
    }
}
