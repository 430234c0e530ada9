//! What is left out of the ring because it adds nothing adds nothing: the same lines, splits, executions and taken
//! branches as where every reference is noted.

use super::recent::ALARMS;
use super::support::{built, fixed_layout, launch, same_references};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use truecount_engine::virt::Options;
use truecount_engine::virt::references::{
    Access, Branch, Code, Elements, Executed, Facts as Asked, Lies, Line, Operand, References, Run,
    Sink, Thread,
};
use truecount_testing::programs::{ELEMENTS, FAULTS, REFERENCES};

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
    /// Elements that masks chose, and that were counted only.
    elements: u64,
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

    fn masked(
        &mut self,
        thread: Thread,
        code: &Code,
        (at, operand): (usize, usize),
        elements: Elements,
        _hint: &mut u32,
    ) {
        let operand = &code.operands(at)[operand];
        assert!(!elements.in_place);
        for element in (0..64).filter(|element| elements.mask >> element & 1 != 0) {
            let run = Run {
                address: elements.address + element * u64::from(operand.size),
                size: operand.size,
                times: 1,
            };
            touch(self.of(thread), code.instructions[at].pc, operand, run);
        }
    }

    fn elements(&mut self, thread: Thread, code: &Code, (at, operand): (usize, usize), times: u64) {
        let size = u64::from(code.operands(at)[operand].size);
        let pc = code.instructions[at].pc;
        *self.of(thread).bytes.entry(pc).or_default() += size * times;
        self.elements = self.elements.wrapping_add(times);
    }

    fn noted(&mut self, thread: Thread, executed: &Executed<'_>, at: usize) {
        let pc = executed.code.instructions[at].pc;
        let facts = self.of(thread);
        executed.references(at, |_, operand, run| touch(facts, pc, operand, run));
    }

    fn counted(
        &mut self,
        (thread, _): (Thread, u32),
        code: &Code,
        range: Range<usize>,
        times: u64,
    ) {
        let facts = self.of(thread);
        for instruction in &code.instructions[range] {
            let executed = &mut facts.code.entry(instruction.pc).or_default()[0];
            *executed = executed.wrapping_add(times);
        }
    }

    fn taken(&mut self, (thread, _): (Thread, u32), code: &Code, at: usize, times: u64) {
        let pc = code.instructions[at].pc;
        self.of(thread).code.entry(pc).or_default()[1] += times;
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}

fn run(program: &Path, filtered: bool) -> Option<Gathered> {
    run_with(program, &[], filtered).map(|(all, _)| all)
}

fn run_with(program: &Path, arguments: &[&str], filtered: bool) -> Option<(Gathered, ExitStatus)> {
    let mut command = Command::new(program);
    command.args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    same_references(&mut command);
    fixed_layout(&mut command);
    let all = Arc::new(Mutex::new(Gathered::default()));
    let sink: Arc<Mutex<dyn Sink>> = all.clone();
    let references = References::new(sink).filtered(filtered.then_some(Asked::ALL));
    let options = Options::default().references(Some(references));
    let outcome = launch(&mut command, &options)?
        .wait()
        .expect("it ends well");
    let mut all = std::mem::take(&mut *all.lock().unwrap());
    assert_eq!(all.lost, 0);
    for facts in all.threads.values_mut() {
        facts.code.retain(|_, counts| *counts != [0; 5]);
    }
    Some((all, outcome.status))
}

/// How a program ends.
pub(super) fn ends(program: &Path, arguments: &[&str], filtered: bool) -> Option<ExitStatus> {
    run_with(program, arguments, filtered).map(|(_, status)| status)
}

/// `shadow`: there are addresses for it.
pub(super) fn same(name: &str, source: &str, arguments: &[&str], shadow: bool) {
    same_and(name, source, arguments, shadow);
}

/// The same; how many elements that masks chose were counted only.
pub(super) fn same_and(name: &str, source: &str, arguments: &[&str], shadow: bool) -> Option<u64> {
    let program = built(name, source, arguments)?;
    let (all, some) = (run(&program, false)?, run(&program, true)?);
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
    assert_eq!(all.elements, 0);
    Some(some.elements)
}

#[test]
fn plain() {
    same("filtered_plain.c", REFERENCES, &["-O1"], true);
    same("filtered_vectors.c", REFERENCES, &["-O3", "-mavx2"], true);
}

/// Elements that masks choose, and other references of uncommon sorts.
#[test]
fn elements() {
    let arguments = ["-O1", "-no-pie", "-DWITH_FAULTS"];
    if let Some(program) = built("elements.c", ELEMENTS, &arguments) {
        assert!(Command::new(program).status().unwrap().success());
    }
    let counted = same_and("filtered_elements.c", ELEMENTS, &arguments, true);
    if is_x86_feature_detected!("avx512bw") {
        assert!(
            counted.is_none_or(|counted| counted > 10_000),
            "{counted:?}"
        );
    }
}

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
    let mut arguments = vec!["-O1", "-static", "-no-pie", "-DWITH_FAULTS"];
    arguments.extend(sections.iter().map(String::as_str));
    let sources = [
        ("plain", REFERENCES),
        ("faults", FAULTS),
        ("elements", ELEMENTS),
    ];
    for (name, source) in sources {
        let source = [PLACES, source].concat();
        same(&format!("no_shadow_{name}.c"), &source, &arguments, false);
    }
}

/// References to one base in a row, which are looked up together: all sizes, in any order, at every place of a line, some of
/// them known before and some not; with what changes the base in between, and faults.
const TOGETHER: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

__attribute__((aligned(4096))) static char room[1 << 16];
static sigjmp_buf back;

static void fault(int signal) { siglongjmp(back, 1); }

#define SPOILED "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "cc", "memory"

__attribute__((noinline)) static void fields(char *at) {
    __asm__ volatile("mov (%0), %%rax\n mov 8(%0), %%rcx\n mov 60(%0), %%edx\n mov 56(%0), %%rdx\n movb $1, 17(%0)\n"
        "mov 12(%0), %%esi\n movw $2, 22(%0)\n addq $1, 32(%0)\n mov -8(%0), %%rdi\n" :: "r"(at) : SPOILED);
    __asm__ volatile("movzwl 2(%0), %%eax\n movw $3, 2(%0)\n movzwl 2(%0), %%ecx\n mov 4(%0), %%edx\n mov 8(%0), %%rsi\n"
        :: "r"(at) : SPOILED);
    __asm__ volatile("mov %0, %%r8\n mov (%%r8), %%rax\n add $24, %%r8\n mov (%%r8), %%rcx\n mov 8(%%r8), %%rdx\n"
        "mov 8(%%r8), %%r8\n mov 16(%0), %%r8\n" :: "r"(at) : SPOILED);
    __asm__ volatile("mov $3, %%r9d\n mov 8(%0,%%r9,8), %%rax\n mov 16(%0,%%r9,8), %%rcx\n lea 1(%%r9), %%r9\n"
        "mov 16(%0,%%r9,8), %%rdx\n mov %%rdx, 24(%0,%%r9,8)\n" :: "r"(at) : SPOILED);
    __asm__ volatile("mov (%0), %%rax\n test %%eax, %%eax\n jz 1f\n mov 40(%0), %%rcx\n mov 48(%0), %%rdx\n"
        "1: mov 8(%0), %%rsi\n mov %%rsi, (%0)\n" :: "r"(at) : SPOILED);
}

__attribute__((noinline)) static void stack(char *top) {
    __asm__ volatile("mov %%rsp, %%r8\n mov %0, %%rsp\n push %%rax\n push %%rcx\n push %%rdx\n push %%rsi\n"
        "mov 8(%%rsp), %%rcx\n mov %%ecx, 4(%%rsp)\n sub $64, %%rsp\n mov %%rax, 16(%%rsp)\n mov 64(%%rsp), %%rcx\n"
        "movb $1, 61(%%rsp)\n add $64, %%rsp\n pop %%rdx\n pop (%%rsp)\n pop %%rcx\n mov -16(%%rsp), %%rax\n"
        "push 8(%%rsp)\n pop 8(%%rsp)\n lea -8(%%rsp), %%rsp\n pop %%rdx\n mov %%r8, %%rsp\n" :: "r"(top) : SPOILED);
}

int main(void) {
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    for (int at = 0; at < 140; at++) {
        char *place = room + 4096 + 200 * at;
        fields(place + at);
        if (at % 3 == 0) *(volatile long *)(place + at + 192) = 1;
        fields(place + at + 128);
        fields(place + at);
        stack(room + 60000 - 40 * at);
    }
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    for (int at = 0; at < 140; at++)
        if (!sigsetjmp(back, 1)) fields(pages + 4096 - 70 + at);
    for (int at = 0; at < 10; at++)
        if (!sigsetjmp(back, 1)) fields((char *)(0xdead000000000000 + at));
    return 0;
}
"#;

#[test]
fn looked_up_together() {
    same("filtered_together.c", TOGETHER, &["-O1"], true);
    same("filtered_together_2.c", TOGETHER, &["-O2", "-static"], true);
}

/// References of all sizes, aligned and not, in lines and pages and across them, some with flags alive.
const UNALIGNED: &str = r#"
#include <stdint.h>
__attribute__((aligned(4096))) static char room[16384];

static void all(void) {
    for (int at = 0; at < 16384; at += 8) *(volatile uint64_t *)(room + at) += 1;
}

__attribute__((noinline)) static void unaligned(char *at, long index) {
    __asm__ volatile("movzwl (%0), %%eax\n mov 1(%0), %%ecx\n mov 2(%0), %%rdx\n add %%rdx, 3(%0)\n movups 5(%0), %%xmm0\n"
        "movups %%xmm0, 9(%0)\n mov %%eax, 40(%0)\n pushq 1(%0)\n popq 1(%0)\n cmpw $3, 63(%0)\n"
        :: "r"(at) : "rax", "rcx", "rdx", "xmm0", "cc", "memory");
    __asm__ volatile("mov %0, %%r8\n mov %1, %%r13\n cmp %0, %1\n mov 7(%%r8,%%r13), %%eax\n adc (%%r8,%%r13,2), %%rax\n"
        "setc (%0)\n cmp %0, %1\n mov %%ax, (%%r13,%%r8)\n movdqu (%%r8,%%r13,8), %%xmm0\n cmovb (%0,%1), %%rax\n movdqu %%xmm0, 3(%0,%1)\n"
        "sbb %%rax, 5(%%r8)\n mov (%%r8), %%rax\n mov 9(%%r8,%%r13,4), %%r14\n mov %%r14, 11(%%r8)\n movq %%xmm0, 13(%0,%1)\n"
        :: "r"(at), "r"(index) : "rax", "r8", "r13", "r14", "xmm0", "cc", "memory");
}

// As much code as a block can have for them: flags are alive, and RAX has a word of the address.
__attribute__((noinline)) static void many(char *at, long index) {
    __asm__ volatile("cmp %1, %0\n mov %0, %%rax\n .rept 70\n adc %%rdx, 3(%%rax,%1)\n .endr\n" :: "r"(at), "r"(index) : "rax", "rdx", "cc", "memory");
    __asm__ volatile(".rept 70\n movdqu 1(%0,%1), %%xmm0\n .endr\n" :: "r"(at), "r"(index) : "xmm0", "memory");
}
"#;

const UNALIGNED_EVERYWHERE: &str = r#"
int main(void) {
    for (int i = 0; i < 2; i++) {
        for (int at = 0; at < 4300; at++) unaligned(room + at, at % 23);
        for (int at = 0; at < 200; at++) many(room + at, at % 7);
        all();
    }
    return 0;
}
"#;

const UNALIGNED_INTERRUPTED: &str = r#"
int main(int argc, char **argv) {
    all();
    begin(argv);
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unaligned(room + (seed >> 51), seed >> 48 & 7);
        if (i % 64 == 0) many(room + (seed >> 51), seed >> 48 & 7);
    }
    return end();
}
"#;

#[test]
fn what_is_not_aligned_is_counted() {
    let source = [UNALIGNED, UNALIGNED_EVERYWHERE].concat();
    same("filtered_unaligned_all.c", &source, &["-O1"], true);
}

#[test]
fn what_is_not_aligned_is_counted_once() {
    let arguments = ["-O1", "-static", "-mno-red-zone"];
    let source = [ALARMS, UNALIGNED, UNALIGNED_INTERRUPTED].concat();
    let Some(program) = built("filtered_unaligned.c", &source, &arguments) else {
        return;
    };
    let unaligned = |argument: &str, code: i32| -> Option<BTreeMap<u64, [u64; 3]>> {
        let (all, status) = run_with(&program, &[argument], true)?;
        assert_eq!(status.code(), Some(code), "how often alarms came");
        let counts = all.threads.values().flat_map(|facts| &facts.code);
        let counts = counts.map(|(pc, counts)| (*pc, [counts[2], counts[3], counts[4]]));
        Some(counts.filter(|(_, counts)| *counts != [0; 3]).collect())
    };
    let (Some(quiet), Some(interrupted)) = (unaligned("0", 0), unaligned("1", 1)) else {
        return;
    };
    assert_eq!(quiet, interrupted);
    let sum = |at: usize| -> u64 { quiet.values().map(|counts| counts[at]).sum() };
    assert!(sum(0) > 2_000_000 && sum(1) > 100_000 && sum(2) > 1_000);
}
