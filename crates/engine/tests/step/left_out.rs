//! Programs that a count might leave out a part of: threads that execute, that are killed, that nobody may trace.

use crate::counts::default;
use crate::elf::{Asm, EAX, EDI, EDX, ENTRY, ESI, STACK};
use truecount_engine::step::{Exit, StepOptions};

/// Threads that run, and one that is in a system call, die at the `execve` of another one, over and over: every
/// program begins, its own part is counted, and no thread's end is lost.
#[test]
fn an_exec_of_any_thread_beside_threads_that_run_counts_every_program() {
    let mut a = Asm::new();
    let (first, child, spin, path) = (a.label(), a.label(), a.label(), a.label());
    // argc counts the programs down: 5 arguments, one less with each.
    a.raw(&[0x83, 0x3c, 0x24, 1]).jump(0x75, first); // cmp dword [rsp], 1; jne
    let end = u64::from(a.here());
    a.exit(9);
    let behind = u64::from(a.here());
    a.bind(spin).jump(0xeb, spin).bind(first);
    for n in 1..3 {
        a.syscall(56, &[0x50f00, STACK - 0x400 * n, 0, 0])
            .raw(&[0x85, 0xc0])
            .jump(0x74, spin);
    }
    a.raw(&[0x48, 0x8d, 0x5c, 0x24, 16]); // lea rbx, [rsp+16]: argv without its first
    a.syscall(56, &[0x50f00, STACK, 0, 0])
        .raw(&[0x85, 0xc0])
        .jump(0x74, child);
    a.raw(&[0xeb, 0xfe]); // jmp .
    a.bind(child).mov_label(EDI, path);
    a.raw(&[0x48, 0x89, 0xde]).mov(EDX, 0); // mov rsi, rbx
    a.mov(EAX, 59).raw(&[0x0f, 0x05]);
    a.exit(1);
    a.bind(path).raw(b"/proc/thread-self/exe\0");
    let program = a.program();
    for _ in 0..6 {
        let (mut execs, mut ends) = (0, 0);
        let mut see = |_, pc| {
            ends += u32::from(pc >= end && pc < behind);
            execs += u32::from(pc == u64::from(ENTRY));
        };
        let mut command = std::process::Command::new(&program.0);
        command.args(["a", "b", "c", "d"]);
        let options = StepOptions {
            retired: Some(&mut see),
            ..StepOptions::default()
        };
        let totals = truecount_engine::step::run(command, options).unwrap();
        assert_eq!((totals.exit, execs, ends), (Exit::Code(9), 5, 3));
        assert!(totals.is_whole(), "{totals:?}");
        // Four times two that spin and one that takes the process over; the first leader, too.
        assert_eq!(totals.threads.len(), 1 + 4 * 3, "{:?}", totals.threads);
    }
}

#[test]
fn a_program_that_is_killed_is_not_counted_to_its_end() {
    let mut a = Asm::new();
    a.syscall(39, &[])
        .raw(&[0x89, 0xc7])
        .mov(ESI, 9)
        .mov(EAX, 62)
        .raw(&[0x0f, 0x05]);
    assert!(!a.step(default()).is_whole());
}

#[test]
fn a_child_that_nobody_may_trace_is_missed_aloud() {
    // clone(CLONE_UNTRACED | SIGCHLD); both end.
    let mut a = Asm::new();
    a.syscall(56, &[0x80_0000 | 17, 0, 0, 0]).exit(0);
    let totals = a.step(default());
    assert_eq!((totals.unfollowed, totals.instructions()), (1, 6 + 3));
    assert!(!totals.is_whole());
}

/// clone(CLONE_VM | CLONE_VFORK): a process of its own in its parent's memory, which waits.
#[test]
fn a_process_that_shares_memory_is_counted_apart() {
    for flags in [0x100 | 17, 0x4100 | 17] {
        let mut a = Asm::new();
        let child = a.label();
        a.syscall(56, &[flags, STACK, 0, 0])
            .raw(&[0x85, 0xc0])
            .jump(0x74, child);
        a.syscall(61, &[u32::MAX, 0, 0, 0]).exit(3);
        a.bind(child).exit(7);
        let totals = a.step(default());
        let of: Vec<_> = totals.processes.iter().map(|p| p.instructions).collect();
        assert_eq!(of, [6 + 2 + 6 + 3, 2 + 3]);
        assert!(totals.is_whole());
    }
}
