//! Programs under the virtual PMU: counts by hand, and equal to single-stepping.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::{step, virt};

/// Runs without address randomisation; `None` (and a printed reason) where the
/// machine forbids ptrace.
fn count(command: Command) -> Option<virt::Outcome> {
    count_with(command, &virt::Options::default())
}

fn count_with(mut command: Command, options: &virt::Options) -> Option<virt::Outcome> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    fixed_layout(&mut command);
    let outcome = launch(&mut command, options)?.wait();
    Some(outcome.expect("the engine ends well"))
}

/// Assembles a static program; `None` where there is no compiler.
fn assemble(name: &str, source: &str) -> Option<std::path::PathBuf> {
    built(&format!("{name}.s"), source, &["-nostdlib", "-static"])
}

const EXIT: &str = "mov $60, %eax\nxor %edi, %edi\nsyscall\n";

fn by_hand(name: &str, body: &str, expected: u64) {
    let source = format!(".globl _start\n_start:\n{body}\n{EXIT}");
    let Some(program) = assemble(name, &source) else {
        return;
    };
    for per_block in [false, true] {
        let options = virt::Options::default().per_block(per_block);
        let Some(outcome) = count_with(Command::new(&program), &options) else {
            return;
        };
        assert!(outcome.status.success(), "{name}: {}", outcome.status);
        let counted = outcome.totals.instructions();
        assert_eq!(counted, expected, "{name}, per block: {per_block}");
    }
}

#[test]
fn a_loop() {
    by_hand("loop", "mov $1000, %ecx\n1: dec %ecx\njnz 1b", 1 + 2000 + 3);
}

#[test]
fn repeated_strings_are_one() {
    by_hand(
        "rep",
        "lea -4096(%rsp), %rdi\nmov %rdi, %rsi\nmov $100, %ecx\nrep movsb\nrep movsb",
        5 + 3,
    );
}

#[test]
fn calls_and_returns() {
    by_hand(
        "calls",
        "mov $50, %ebx\n1: call 2f\ndec %ebx\njnz 1b\njmp 3f\n2: ret\n3:",
        1 + 50 * 4 + 1 + 3,
    );
}

#[test]
fn an_indirect_call_in_a_loop() {
    by_hand(
        "indirect",
        "lea 2f(%rip), %rax\nmov $50, %ebx\n1: call *%rax\ndec %ebx\njnz 1b\njmp 3f\n2: nop\nret\n3:",
        2 + 50 * 5 + 1 + 3,
    );
}

/// Blocks that are translated for an early exit, which leaves them its count to correct, and that are then entered by
/// others: by jumps, by early exits of other lengths, in loops, and through tables.
#[test]
fn what_an_early_exit_leads_to_is_entered_from_everywhere() {
    by_hand(
        "early",
        "mov $100, %ebx\n1: test $1, %bl\nnop\njne 2f\nnop\nnop\njmp 3f\n\
         2: nop\nnop\nnop\ntest $2, %bl\nje 3f\nnop\n3: dec %ebx\njnz 1b\n\
         mov $61, %ecx\nlea 5f(%rip), %rax\n4: test $1, %cl\njne 5f\nnop\njmp *%rax\n\
         5: nop\ndec %ecx\njnz 4b\n\
         mov $30, %edx\ntest %edx, %edx\njne 6f\nud2\n6: nop\ndec %edx\njnz 6b",
        (1 + 100 * 5 + 50 * 3 + 50 * 5 + 25) + (2 + 61 * 5 + 30 * 2) + (3 + 30 * 3) + 3,
    );
}

#[test]
fn flags_survive_the_count() {
    // Carry is alive across a branch: 100 rounds of stc; jmp; adc.
    by_hand(
        "flags",
        "xor %eax, %eax\nmov $100, %ecx\n1: stc\njmp 2f\n2: adc $0, %eax\nloop 1b\n\
         cmp $100, %eax\nje 3f\nud2\n3:",
        2 + 100 * 4 + 2 + 3,
    );
}

#[test]
fn self_modifying_code() {
    // mprotect the page, then overwrite the immediate of an executed instruction.
    by_hand(
        "smc",
        "lea 1f(%rip), %rdi\nand $-4096, %rdi\nmov $8192, %esi\nmov $7, %edx\nmov $10, %eax\nsyscall\n\
         mov $20, %ebx\n2: mov %ebx, 1f+1(%rip)\n1: mov $0, %eax\ncmp %eax, %ebx\njne 3f\n\
         dec %ebx\njnz 2b\njmp 4f\n3: ud2\n4:",
        7 + 20 * 6 + 1 + 3,
    );
}

/// A well-formed registration of 32 aligned bytes; its error is the exit status.
const REGISTERS: &str = ".bss\n.balign 32\narea: .skip 32\n.text\n.globl _start\n_start:\n\
    lea area(%rip), %rdi\nmov $32, %esi\nxor %edx, %edx\nmov $0x53053053, %r10d\n\
    mov $334, %eax\nsyscall\nneg %eax\nmov %eax, %edi\nmov $60, %eax\nsyscall\n";

#[test]
fn restartable_sequences_can_be_registered_by_who_has_none() {
    for (name, more, error) in [
        ("rseq", "", 0),
        (
            "rseq-own",
            ".section __rseq_cs, \"aw\"\n.quad 0\n",
            libc::ENOSYS,
        ),
    ] {
        let Some(program) = assemble(name, &format!("{REGISTERS}{more}")) else {
            return;
        };
        let Some(outcome) = count(Command::new(&program)) else {
            return;
        };
        assert_eq!(outcome.status.code(), Some(error), "{name}");
        assert_eq!(outcome.totals.instructions(), 10);
    }
}

/// The C library's registration and what it does with it, in every thread, as under single steps and as natively: the
/// number of the CPU is read from memory and is right.
// (Whether a thread that is joined has ended decides on the path: it is given the time.)
#[test]
fn the_number_of_the_cpu_is_read_where_the_kernel_writes_it() {
    let source = "#define _GNU_SOURCE\n#include <pthread.h>\n#include <sched.h>\n#include <stdio.h>\n\
        #include <unistd.h>\n#include <sys/syscall.h>\n#include <sys/wait.h>\n\
        static int bad;\n\
        static void *look(void *a) { cpu_set_t all, one; sched_getaffinity(0, sizeof all, &all);\n\
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) if (CPU_ISSET(cpu, &all)) {\n\
        CPU_ZERO(&one); CPU_SET(cpu, &one); sched_setaffinity(0, sizeof one, &one);\n\
        unsigned asked; syscall(SYS_getcpu, &asked, 0, 0);\n\
        if (sched_getcpu() != cpu || asked != cpu) bad = 1; } return a; }\n\
        static int ready[2], ended[2];\n\
        static void *thread(void *a) { unshare(CLONE_FILES); write(ready[1], \"\", 1); return look(a); }\n\
        int main(void) { pthread_t t; char c; look(0);\n\
        for (int i = 0; i < 3; i++) { if (pipe(ready) || pipe(ended)) return 2;\n\
        pthread_create(&t, 0, thread, 0); read(ready[0], &c, 1); close(ended[1]);\n\
        read(ended[0], &c, 1); pthread_join(t, 0); close(ready[0]); close(ready[1]); close(ended[0]); }\n\
        if (!fork()) { look(0); _exit(bad); } int s; wait(&s); puts(bad | s ? \"bad\" : \"good\"); return bad | s; }\n";
    let Some(program) = support::built("rseq-cpu.c", source, &["-O1", "-pthread", "-static"])
    else {
        return;
    };
    let words = [program.to_str().expect("a path in UTF-8")];
    let Some(outcome) = count(Command::new(words[0])) else {
        return;
    };
    assert_eq!(outcome.status.code(), Some(0));
    compare(&words);
}

/// Both ways of counting agree on a command.
fn compare(words: &[&str]) {
    let make = || {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    let Some(outcome) = count(make()) else { return };
    let mut command = make();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    fixed_layout(&mut command);
    let stepped = step::run(command, step::StepOptions::default());
    let Some(totals) = support::stepped(stepped) else {
        return;
    };
    assert_eq!(
        outcome.totals.instructions(),
        totals.instructions(),
        "{words:?}"
    );
}

#[test]
fn equal_to_single_stepping() {
    compare(&["true"]);
}

#[test]
#[ignore = "a million single steps: about a minute"]
fn longer_programs_equal_to_single_stepping() {
    compare(&["ls", "/"]);
    compare(&["sort", "/etc/passwd"]);
    compare(&["sha256sum", "/etc/passwd"]);
}

#[test]
fn a_killed_program_keeps_its_count() {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -9 $$"]);
    let Some(outcome) = count(command) else {
        return;
    };
    assert_eq!(outcome.status.signal(), Some(libc::SIGKILL));
    assert!(outcome.totals.instructions() > 10_000);
}

#[test]
fn children_and_new_images_are_counted_apart() {
    let mut command = Command::new("sh");
    command.args(["-c", "/bin/true; exec /bin/true"]);
    let Some(outcome) = count(command) else {
        return;
    };
    assert!(outcome.status.success());
    let named = outcome.totals.threads.iter().filter(|t| t.name == "true");
    assert_eq!(named.count(), 2, "{:?}", outcome.totals.threads);
}

#[test]
fn a_missing_program_is_an_error() {
    let mut command = Command::new("/no-such-directory-of-truecount/program");
    let error = virt::launch(&mut command, &virt::Options::default()).err();
    assert!(
        matches!(error, Some(virt::LaunchError::Spawn { .. })),
        "{error:?}"
    );
}

/// Events of one instruction by iced-x86, in the order of `virt::Event::ALL`.
fn oracle(factory: &mut iced_x86::InstructionInfoFactory, bytes: &[u8]) -> [bool; virt::EVENTS] {
    use iced_x86::{FlowControl as F, Mnemonic, OpAccess as A, OpKind};
    let mut decoder = iced_x86::Decoder::with_ip(64, bytes, 0, iced_x86::DecoderOptions::NONE);
    let insn = decoder.decode();
    let flow = insn.flow_control();
    // System calls are calls and returns to iced, and no near branches.
    let system = matches!(insn.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter);
    let memory: Vec<A> = factory
        .info(&insn)
        .used_memory()
        .iter()
        .map(iced_x86::UsedMemory::access)
        .collect();
    let accessed = |kinds: &[A]| memory.iter().any(|access| kinds.contains(access));
    let vector = (0..insn.op_count()).any(|at| {
        let register = insn.op_register(at);
        insn.op_kind(at) == OpKind::Register && (register.is_vector_register() || register.is_mm())
    });
    let exchange = insn.mnemonic() == Mnemonic::Xchg && !memory.is_empty();
    let branch = !system
        && matches!(
            flow,
            F::ConditionalBranch
                | F::UnconditionalBranch
                | F::IndirectBranch
                | F::Call
                | F::IndirectCall
                | F::Return
        );
    [
        true,
        branch,
        flow == F::ConditionalBranch,
        matches!(flow, F::IndirectBranch | F::IndirectCall),
        !system && matches!(flow, F::Call | F::IndirectCall),
        !system && flow == F::Return,
        accessed(&[A::Read, A::CondRead, A::ReadWrite, A::ReadCondWrite]),
        accessed(&[A::Write, A::CondWrite, A::ReadWrite, A::ReadCondWrite]),
        insn.has_lock_prefix() || exchange,
        vector || format!("{:?}", insn.mnemonic()).starts_with("Vzero"),
    ]
}

/// Every event of a command against single steps with iced-x86's facts.
fn compare_events(words: &[&str]) {
    use std::os::unix::fs::FileExt;
    let make = || {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    let options = virt::Options::default().per_block(true);
    let Some(outcome) = count_with(make(), &options) else {
        return;
    };
    let mut command = make();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    fixed_layout(&mut command);
    let mut factory = iced_x86::InstructionInfoFactory::new();
    let mut known = std::collections::HashMap::new();
    let mut expected = [0u64; virt::EVENTS];
    let mut memory = None;
    let mut see = |tid, pc: u64| {
        let facts = known.entry(pc).or_insert_with(|| {
            let file = memory.get_or_insert_with(|| {
                std::fs::File::open(format!("/proc/{tid}/mem")).expect("a stopped program's memory")
            });
            let mut bytes = [0u8; 15];
            let len = (1..=15)
                .rev()
                .find(|&len| file.read_exact_at(&mut bytes[..len], pc).is_ok())
                .expect("executed bytes can be read");
            oracle(&mut factory, &bytes[..len])
        });
        for (sum, &counts) in expected.iter_mut().zip(facts.iter()) {
            *sum += u64::from(counts);
        }
    };
    let stepped = step::run(
        command,
        step::StepOptions {
            retired: Some(&mut see),
            ..step::StepOptions::default()
        },
    );
    if support::stepped(stepped).is_none() {
        return;
    }
    for event in virt::Event::ALL {
        assert_eq!(
            outcome.totals.event(event),
            Some(expected[event as usize]),
            "{} of {words:?}",
            event.name()
        );
    }
    // The blocks say the same as the totals.
    let mut sums = virt::Counts::default();
    let blocks = outcome.blocks.expect("asked for");
    blocks.each(&mut |executed| {
        for facts in executed.facts {
            facts.add(executed.times, &mut sums);
        }
    });
    assert_eq!(sums, expected);
}

#[test]
fn every_event_equals_single_steps_with_another_decoder() {
    compare_events(&["true"]);
}

#[test]
#[ignore = "half a million single steps: a minute on a busy machine"]
fn every_event_of_ls_equals_single_steps_with_another_decoder() {
    compare_events(&["ls", "/"]);
}

#[test]
fn events_of_every_kind_by_hand() {
    // 10 rounds of: call, indirect call, push/pop, lock, xchg, vector, rep movsb, a taken and an
    // untaken branch; two rounds end early by a forward branch.
    let body = "lea 9f(%rip), %r12\nmov $10, %ebx\n\
        1: call 9f\ncall *%r12\npush %rax\npop %rcx\nlock incl -64(%rsp)\nxchg %eax, -64(%rsp)\n\
        paddd %xmm0, %xmm1\nmov $3, %ecx\nlea -256(%rsp), %rdi\nmov %rdi, %rsi\nrep movsb\n\
        cmp $2, %ebx\njbe 2f\nnop\nmov -64(%rsp), %eax\n2: dec %ebx\njnz 1b\njmp 3f\n\
        9: nop\nret\n3:";
    let source = format!(".globl _start\n_start:\n{body}\n{EXIT}");
    let Some(program) = assemble("kinds", &source) else {
        return;
    };
    let options = virt::Options::default().per_block(true);
    let Some(outcome) = count_with(Command::new(program), &options) else {
        return;
    };
    let counted: Vec<u64> = virt::Event::ALL
        .into_iter()
        .map(|event| outcome.totals.event(event).expect("counted"))
        .collect();
    // A round: 15 instructions, 4 in the callee's two calls, 2 skipped in two rounds; and 2 + 1 + 3.
    let (instructions, branches) = (2 + 10 * (15 + 4) + 8 * 2 + 1 + 3, 10 * 6 + 1);
    // Loads: 2 ret, pop, lock inc, xchg, rep movsb; 8 times mov. Stores: 2 calls, push, and 3.
    let (loads, stores) = (10 * 6 + 8, 10 * 6);
    assert_eq!(
        counted,
        [
            instructions,
            branches,
            20,
            10,
            20,
            20,
            loads,
            stores,
            20,
            10
        ]
    );
}

/// Flags and registers are alive where the stamps stand: the result and the count stay what they are,
/// and every interval is seen.
#[test]
fn time_stamps_change_nothing_and_miss_nothing() {
    let source = "
        .globl _start
        _start: mov $1000, %ecx; xor %ebx, %ebx; xor %esi, %esi; xor %edi, %edi
        again: mov $7, %edx; mov %ecx, %eax; shl $31, %eax; add %eax, %eax
        head: seto %al; adc $0, %rbx; movzbl %al, %eax; add %rax, %rsi; add %rdx, %rdi
        end: dec %ecx; jnz again
        add %rbx, %rdi; add %rsi, %rdi; and $255, %edi; mov $60, %eax; syscall";
    let Some(path) = assemble("stamps", source) else {
        return;
    };
    let Some(plain) = count(Command::new(&path)) else {
        return;
    };
    assert_eq!(plain.status.code(), Some(8000 & 255));
    assert!(plain.times.is_none());
    let bytes = std::fs::read(&path).expect("just built");
    let entry = u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"));
    let (head, end) = (entry + 23, Some(entry + 39));
    let interval = |start, end| virt::Interval { start, end };
    let intervals = [
        interval(head, None),
        interval(head, end),
        interval(head + 1, None), // inside an instruction
        interval(entry + 39, Some(head)),
    ];
    let watched = virt::Watched::new(&path, &intervals).expect("an ELF file");
    let options = virt::Options::default().times(Some(watched));
    let Some(timed) = count_with(Command::new(&path), &options) else {
        return;
    };
    assert_eq!(timed.status, plain.status);
    assert_eq!(timed.totals.instructions(), plain.totals.instructions());
    let times = timed.times.expect("asked for");
    assert_eq!(times.processes, 1);
    let seen = |t: &virt::Timed| t.cycles.iter().map(|bin| bin.1).sum::<u64>() + t.longer;
    let counts: Vec<u64> = times.intervals.iter().map(seen).collect();
    assert_eq!(counts, [999, 1000, 0, 999]);
    assert!(times.empty.median().is_some_and(|cost| cost > 0));
    assert!(times.intervals[0].median() >= times.empty.median());
    // Another program than the one meant is not timed.
    let watched = virt::Watched::new(Path::new("/proc/self/exe"), &intervals[..1]).expect("ELF");
    let options = virt::Options::default().times(Some(watched));
    if let Some(other) = count_with(Command::new(&path), &options) {
        let times = other.times.expect("asked for");
        assert_eq!((times.processes, seen(&times.intervals[0])), (0, 0));
        assert_eq!(other.totals.instructions(), plain.totals.instructions());
    }
}
