//! Programs whose counts are computed by hand, instruction by instruction.

use crate::elf::{Asm, DATA, EAX, EBX, ECX, EDI, EDX, ENTRY, ESI, R10, STACK};
use truecount_engine::step::{Exit, StepOptions};

pub fn default() -> StepOptions<'static> {
    StepOptions::default()
}

/// Instructions of the program, which must exit with `code`.
pub fn count(asm: &Asm, code: i32) -> u64 {
    let totals = asm.step(default());
    assert_eq!(totals.exit, Exit::Code(code), "{totals:?}");
    assert_eq!(
        totals.processes.iter().map(|p| p.instructions).sum::<u64>(),
        totals.instructions()
    );
    totals.instructions()
}

#[test]
fn a_loop() {
    let mut a = Asm::new();
    let again = a.label();
    a.mov(ECX, 1000)
        .bind(again)
        .raw(&[0xff, 0xc9])
        .jump(0x75, again)
        .exit(0); // dec ecx; jnz
    assert_eq!(count(&a, 0), 1 + 2 * 1000 + 3);
}

#[test]
fn repeated_string_instructions_count_once() {
    // mov ecx; mov esi; mov edi; the string instruction: 4 each.
    let strings: [(&[u8], u32); 8] = [
        (&[0xf3, 0xa4], 0),        // rep movsb, not once
        (&[0xf3, 0xa4], 1),        // once
        (&[0xf3, 0xa4], 300),      // rep movsb
        (&[0xf3, 0x48, 0xab], 50), // rep stosq
        (&[0xf3, 0xac], 77),       // rep lodsb
        (&[0xf3, 0xa6], 100),      // repe cmpsb: memory is equal, runs to its end
        (&[0xf2, 0xa6], 100),      // repne cmpsb: ends at the first byte
        (&[0xf2, 0xae], 100),      // repne scasb
    ];
    let mut a = Asm::new();
    for (bytes, n) in strings {
        a.mov(ECX, n)
            .mov(ESI, DATA)
            .mov(EDI, DATA + 0x400)
            .raw(bytes);
    }
    a.exit(0);
    assert_eq!(count(&a, 0), 4 * 8 + 3);
}

/// A gather that meets a page fault between two elements traps there: it is one instruction all the same.
#[test]
fn a_gather_over_pages_that_are_not_there_yet_counts_once() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        truecount_testing::skip!("cpu-features", "this CPU has no vpgatherdd");
        return;
    }
    let mut a = Asm::new();
    a.raw(&[0xc5, 0xe9, 0x76, 0xd2]); // vpcmpeqd xmm2, xmm2, xmm2
    a.mov(EAX, 0).raw(&[0xc5, 0xf9, 0x6e, 0xc8]); // vmovd xmm1, eax
    for lane in 1..4 {
        // vpinsrd xmm1, xmm1, eax, lane
        a.mov(EAX, 0x1000 * u32::from(lane))
            .raw(&[0xc4, 0xe3, 0x71, 0x22, 0xc8, lane]);
    }
    a.mov(EBX, DATA)
        .raw(&[0xc4, 0xe2, 0x69, 0x90, 0x04, 0x0b]) // vpgatherdd xmm0, [rbx + xmm1], xmm2
        .exit(0);
    assert_eq!(count(&a, 0), 1 + 8 + 2 + 3);
}

#[test]
fn repe_cmpsb_that_ends_early() {
    // One byte differs in the middle; ecx shows that it stopped there: 10 − 5 = 5.
    let mut a = Asm::new();
    a.raw(&[0xc6, 0x04, 0x25])
        .raw(&(DATA + 4).to_le_bytes())
        .raw(&[1]); // mov byte [DATA+4], 1
    a.mov(ECX, 10).mov(ESI, DATA).mov(EDI, DATA + 0x100);
    a.raw(&[0xf3, 0xa6]); // repe cmpsb
    a.raw(&[0x89, 0xcf]).mov(EAX, 231).raw(&[0x0f, 0x05]); // exit(ecx)
    assert_eq!(count(&a, 5), 1 + 3 + 1 + 3);
}

#[test]
fn a_jump_to_itself_counts_each_time() {
    let mut a = Asm::new();
    let itself = a.label();
    a.mov(ECX, 500).bind(itself).jump(0xe2, itself).exit(0); // loop .
    assert_eq!(count(&a, 0), 1 + 500 + 3);
}

#[test]
fn a_jump_to_itself_until_a_signal() {
    // setitimer(ITIMER_REAL, 30 ms), then `jmp .` until SIGALRM kills it.
    let mut a = Asm::new();
    let itself = a.label();
    a.raw(&[0xc7, 0x04, 0x25])
        .raw(&(DATA + 24).to_le_bytes())
        .raw(&30_000u32.to_le_bytes());
    a.syscall(38, &[0, DATA, 0]);
    let at = u64::from(a.here());
    a.bind(itself).jump(0xeb, itself);
    let (mut on_the_spot, mut elsewhere) = (0, 0);
    let mut see = |_, pc| {
        if pc == at {
            on_the_spot += 1;
        } else {
            elsewhere += 1;
        }
    };
    let totals = a.step(StepOptions {
        retired: Some(&mut see),
        ..StepOptions::default()
    });
    assert_eq!(totals.exit, Exit::Signal(libc::SIGALRM));
    assert_eq!(elsewhere, 1 + 5);
    assert!(on_the_spot > 1, "{on_the_spot}");
    assert_eq!(totals.instructions(), elsewhere + on_the_spot);
}

#[test]
fn system_calls_count_themselves() {
    let mut a = Asm::new();
    for _ in 0..10 {
        a.syscall(39, &[]); // getpid
    }
    a.mov(EAX, 39).raw(&[0xcd, 0x80]); // int 0x80 (another number there; it returns)
    a.exit(7);
    assert_eq!(count(&a, 7), 20 + 2 + 3);
}

/// fork (57) or vfork (58), child exits with 7, parent waits.
pub fn forks(number: u32) {
    let mut a = Asm::new();
    let child = a.label();
    a.syscall(number, &[]).raw(&[0x85, 0xc0]).jump(0x74, child); // test eax, eax; jz
    a.syscall(61, &[u32::MAX, 0, 0, 0]).exit(3); // wait4
    a.bind(child).exit(7);
    let totals = a.step(default());
    let of: Vec<_> = totals
        .processes
        .iter()
        .map(|p| (p.instructions, p.exit))
        .collect();
    // Parent: mov, syscall, test, jz, 4 + 2 of wait4, 3 of exit. Child: test, jz, 3 of exit.
    assert_eq!(
        of,
        [
            (4 + 6 + 3, Some(Exit::Code(3))),
            (2 + 3, Some(Exit::Code(7)))
        ]
    );
    assert_eq!(totals.exit, Exit::Code(3));
}

#[test]
fn fork_and_wait() {
    forks(57);
}

#[test]
fn vfork_and_wait() {
    forks(58);
}

#[test]
fn a_child_whose_first_instruction_is_a_system_call() {
    let mut a = Asm::new();
    a.mov(EAX, 57).raw(&[0x0f, 0x05]); // fork
    a.raw(&[0x0f, 0x05]); // number: 0 in the child (read), the child's id in the parent (none)
    a.exit(0);
    let totals = a.step(default());
    let of: Vec<_> = totals.processes.iter().map(|p| p.instructions).collect();
    assert_eq!(of, [2 + 1 + 3, 1 + 3]);
}

#[test]
fn threads() {
    // clone(VM | FS | FILES | SIGHAND | THREAD | SYSVSEM); both threads end by exit (60).
    let mut a = Asm::new();
    let (child, again) = (a.label(), a.label());
    a.syscall(56, &[0x50f00, STACK, 0, 0])
        .raw(&[0x85, 0xc0])
        .jump(0x74, child);
    a.syscall(60, &[0]);
    a.bind(child)
        .mov(ECX, 100)
        .bind(again)
        .raw(&[0xff, 0xc9])
        .jump(0x75, again);
    a.syscall(60, &[5]);
    let totals = a.step(default());
    assert_eq!(totals.processes.len(), 1, "{totals:?}");
    let of: Vec<_> = totals.threads.iter().map(|t| t.instructions).collect();
    assert_eq!(of, [6 + 2 + 3, 2 + 1 + 200 + 3]);
    assert!(
        totals
            .threads
            .iter()
            .all(|t| t.pid == totals.processes[0].pid)
    );
}

#[test]
fn a_program_that_executes_itself() {
    // With argc 1: execve("/proc/self/exe", {"a", "b"}, NULL); then argc is 2.
    let mut a = Asm::new();
    let second = a.label();
    let path = a.label();
    a.raw(&[0x83, 0x3c, 0x24, 2]).jump(0x74, second); // cmp dword [rsp], 2; je
    a.mov_label(EDI, path).mov(ESI, DATA).mov(EDX, 0);
    a.raw(&[0x48, 0x89, 0x3c, 0x25]).raw(&DATA.to_le_bytes()); // mov [DATA], rdi
    a.raw(&[0x48, 0x89, 0x3c, 0x25])
        .raw(&(DATA + 8).to_le_bytes());
    a.mov(EAX, 59).raw(&[0x0f, 0x05]);
    a.exit(1);
    a.bind(second).exit(9);
    a.bind(path).raw(b"/proc/self/exe\0");
    assert_eq!(count(&a, 9), 2 + 3 + 2 + 2 + 2 + 3);
}

#[test]
fn a_thread_that_executes_takes_its_process_over() {
    let mut a = Asm::new();
    let (second, child, path) = (a.label(), a.label(), a.label());
    a.raw(&[0x83, 0x3c, 0x24, 2]).jump(0x74, second);
    a.syscall(56, &[0x50f00, STACK, 0, 0])
        .raw(&[0x85, 0xc0])
        .jump(0x74, child);
    a.syscall(34, &[]).exit(1); // pause until killed by the exec
    a.bind(child)
        .mov_label(EDI, path)
        .mov(ESI, DATA)
        .mov(EDX, 0);
    a.raw(&[0x48, 0x89, 0x3c, 0x25]).raw(&DATA.to_le_bytes());
    a.raw(&[0x48, 0x89, 0x3c, 0x25])
        .raw(&(DATA + 8).to_le_bytes());
    a.mov(EAX, 59).raw(&[0x0f, 0x05]);
    a.bind(second).exit(9);
    a.bind(path).raw(b"/proc/self/exe\0");
    let totals = a.step(default());
    assert_eq!(totals.exit, Exit::Code(9));
    let of: Vec<_> = totals.threads.iter().map(|t| t.instructions).collect();
    // The leader is killed somewhere between its clone and the end of its pause.
    assert!((2 + 6..=2 + 6 + 2 + 2).contains(&of[0]), "{of:?}");
    assert_eq!(of[1..], [2 + 3 + 2 + 2 + 2 + 3]);
}

#[test]
fn a_signal_handler_and_its_return() {
    let mut a = Asm::new();
    let (handler, restorer) = (a.label(), a.label());
    a.handle(10, handler, restorer); // 13: see `handle`
    a.syscall(39, &[]).raw(&[0x89, 0xc7]); // getpid; mov edi, eax
    a.mov(ESI, 10).mov(EAX, 62).raw(&[0x0f, 0x05]); // kill(pid, SIGUSR1)
    a.raw(&[0x89, 0xdf]).mov(EAX, 231).raw(&[0x0f, 0x05]); // exit(ebx)
    a.bind(handler).mov(EBX, 42).raw(&[0x90, 0xc3]); // mov; nop; ret
    a.bind(restorer).mov(EAX, 15).raw(&[0x0f, 0x05]); // rt_sigreturn
    // The handler's ebx is undone by the return: exit(0).
    assert_eq!(count(&a, 0), 13 + 3 + 3 + 3 + 3 + 2);
}

#[test]
fn an_instruction_that_faults_and_is_tried_again_counts_once() {
    let mut a = Asm::new();
    let (handler, restorer) = (a.label(), a.label());
    a.handle(11, handler, restorer);
    a.mov(EAX, 0);
    a.raw(&[0xc6, 0x00, 1]); // mov byte [rax], 1: faults, then succeeds
    a.exit(0);
    a.bind(handler);
    a.raw(&[0x48, 0xc7, 0x82])
        .raw(&144u32.to_le_bytes())
        .raw(&(DATA + 64).to_le_bytes()); // rax in the context
    a.raw(&[0xc3]);
    a.bind(restorer).mov(EAX, 15).raw(&[0x0f, 0x05]);
    assert_eq!(count(&a, 0), 13 + 1 + 1 + 3 + 2 + 2);
}

#[test]
fn a_fault_that_kills_does_not_count() {
    let mut a = Asm::new();
    a.mov(EAX, 0).raw(&[0xc6, 0x00, 1]);
    let totals = a.step(default());
    assert_eq!(
        (totals.exit, totals.instructions()),
        (Exit::Signal(libc::SIGSEGV), 1)
    );
}

#[test]
fn a_killed_program_keeps_its_count() {
    let mut a = Asm::new();
    a.syscall(39, &[])
        .raw(&[0x89, 0xc7])
        .mov(ESI, 9)
        .mov(EAX, 62)
        .raw(&[0x0f, 0x05, 0x90]);
    let totals = a.step(default());
    assert_eq!(
        (totals.exit, totals.instructions()),
        (Exit::Signal(libc::SIGKILL), 2 + 1 + 3)
    );
}

#[test]
fn trap_instructions_retire() {
    let mut a = Asm::new();
    let (handler, restorer) = (a.label(), a.label());
    a.handle(5, handler, restorer);
    a.raw(&[0xcc]).raw(&[0xcd, 3]).exit(0); // int3; int 3
    a.bind(handler).raw(&[0xc3]);
    a.bind(restorer).mov(EAX, 15).raw(&[0x0f, 0x05]);
    assert_eq!(count(&a, 0), 13 + 2 * (1 + 1 + 2) + 3);
}

#[test]
fn the_trap_flag_does_not_show() {
    let mut a = Asm::new();
    a.raw(&[0x9c, 0x9d]); // pushf; popf
    a.raw(&[0x9c, 0x58]); // pushf; pop rax
    a.raw(&[0xc1, 0xe8, 8, 0x83, 0xe0, 1]); // shr eax, 8; and eax, 1
    a.raw(&[0x89, 0xc7]).mov(EAX, 231).raw(&[0x0f, 0x05]); // exit(eax)
    assert_eq!(count(&a, 0), 2 + 2 + 2 + 3);
}

#[test]
fn loads_of_ss_count_with_what_follows() {
    let mut a = Asm::new();
    a.raw(&[0x8c, 0xd0]); // mov eax, ss
    a.raw(&[0x8e, 0xd0, 0x90]); // mov ss, eax; nop
    a.raw(&[0x8e, 0xd0]).mov(EAX, 39); // mov ss, eax; mov eax, 39
    a.raw(&[0x8c, 0xd1, 0x8e, 0xd1, 0x0f, 0x05]); // mov ecx, ss; mov ss, ecx; syscall
    a.mov(ECX, 40)
        .mov(ESI, DATA)
        .mov(EDI, DATA)
        .raw(&[0x8c, 0xd0]);
    a.raw(&[0x8e, 0xd0, 0xf3, 0xa4]); // mov ss, eax; rep movsb
    a.exit(0);
    assert_eq!(count(&a, 0), 1 + 2 + 2 + 3 + 4 + 2 + 3);
}

#[test]
fn a_stopped_program_goes_on() {
    // The child sends SIGCONT until its parent is gone; the parent stops itself once.
    let mut a = Asm::new();
    let (child, again) = (a.label(), a.label());
    a.raw(&[0xc7, 0x04, 0x25])
        .raw(&(DATA + 8).to_le_bytes())
        .raw(&5_000_000u32.to_le_bytes());
    a.syscall(39, &[]).raw(&[0x89, 0xc3]); // getpid; mov ebx, eax
    a.syscall(57, &[]).raw(&[0x85, 0xc0]).jump(0x74, child);
    a.raw(&[0x89, 0xdf])
        .mov(ESI, 19)
        .mov(EAX, 62)
        .raw(&[0x0f, 0x05]); // kill(me, SIGSTOP)
    a.exit(0);
    a.bind(child).bind(again);
    a.syscall(35, &[DATA, 0]); // nanosleep
    a.raw(&[0x89, 0xdf])
        .mov(ESI, 18)
        .mov(EAX, 62)
        .raw(&[0x0f, 0x05]); // kill(parent, SIGCONT)
    a.raw(&[0x85, 0xc0]).jump(0x74, again).exit(0);
    let totals = a.step(default());
    assert_eq!(totals.exit, Exit::Code(0));
    assert_eq!(totals.processes[0].instructions, 1 + 3 + 4 + 4 + 3);
}

#[test]
fn a_signal_that_would_be_thrown_away_adds_nothing() {
    // SIGCHLD comes while the parent sleeps; untraced it would sleep on, and the kernel would not
    // run the call again.
    let mut a = Asm::new();
    let child = a.label();
    a.raw(&[0xc7, 0x04, 0x25])
        .raw(&(DATA + 8).to_le_bytes())
        .raw(&400_000_000u32.to_le_bytes());
    a.syscall(57, &[]).raw(&[0x85, 0xc0]).jump(0x74, child);
    a.syscall(35, &[DATA, 0]).exit(0); // nanosleep, 400 ms
    a.bind(child);
    a.raw(&[0xc7, 0x04, 0x25])
        .raw(&(DATA + 8).to_le_bytes())
        .raw(&100_000_000u32.to_le_bytes());
    a.syscall(35, &[DATA, 0]).exit(0);
    let totals = a.step(default());
    let of: Vec<_> = totals.processes.iter().map(|p| p.instructions).collect();
    assert_eq!(of, [1 + 4 + 4 + 3, 2 + 1 + 4 + 3]);
}

#[test]
fn a_call_restarted_after_a_handler_retires_twice() {
    let mut a = Asm::new();
    let (handler, restorer, child) = (a.label(), a.label(), a.label());
    a.handle(10, handler, restorer);
    a.syscall(22, &[DATA + 64]); // pipe
    a.syscall(39, &[]).raw(&[0x89, 0xc3]);
    a.syscall(57, &[]).raw(&[0x85, 0xc0]).jump(0x74, child);
    // read(pipe[0], DATA, 1): mov edi, [DATA+64]; …
    a.raw(&[0x8b, 0x3c, 0x25]).raw(&(DATA + 64).to_le_bytes());
    a.mov(ESI, DATA).mov(EDX, 1).mov(EAX, 0);
    let read = u64::from(a.here());
    a.raw(&[0x0f, 0x05]).exit(0);
    a.bind(child);
    a.raw(&[0xc7, 0x04, 0x25])
        .raw(&(DATA + 136).to_le_bytes())
        .raw(&300_000_000u32.to_le_bytes());
    a.syscall(35, &[DATA + 128, 0]);
    a.raw(&[0x89, 0xdf])
        .mov(ESI, 10)
        .mov(EAX, 62)
        .raw(&[0x0f, 0x05]); // kill(parent, SIGUSR1)
    a.syscall(35, &[DATA + 128, 0]);
    a.raw(&[0x8b, 0x3c, 0x25]).raw(&(DATA + 68).to_le_bytes());
    a.mov(ESI, DATA)
        .mov(EDX, 1)
        .mov(EAX, 1)
        .raw(&[0x0f, 0x05])
        .exit(0); // write(pipe[1], …, 1)
    a.bind(handler).raw(&[0xc3]);
    a.bind(restorer).mov(EAX, 15).raw(&[0x0f, 0x05]);
    let mut reads = 0;
    let mut see = |_, pc| reads += u32::from(pc == read);
    let totals = a.step(StepOptions {
        retired: Some(&mut see),
        ..StepOptions::default()
    });
    assert_eq!(totals.exit, Exit::Code(0));
    assert_eq!(reads, 2);
    assert_eq!(
        totals.processes[0].instructions,
        13 + 3 + 3 + 4 + 4 + 2 + 3 + 3
    );
}

#[test]
fn the_stream_of_addresses() {
    let mut a = Asm::new();
    let again = a.label();
    a.mov(R10, 3)
        .mov(ECX, 2)
        .bind(again)
        .raw(&[0xff, 0xc9])
        .jump(0x75, again)
        .exit(0);
    let mut stream = vec![];
    let mut see = |_, pc| stream.push(pc - u64::from(ENTRY));
    a.step(StepOptions {
        retired: Some(&mut see),
        ..StepOptions::default()
    });
    // mov r10d is 6 bytes, mov ecx 5; dec and jnz 2 each; mov, mov, syscall.
    assert_eq!(stream, [0, 6, 11, 13, 11, 13, 15, 20, 25]);
}
