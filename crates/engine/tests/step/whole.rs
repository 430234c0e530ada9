//! Real programs, and everything around the count: errors, cancellation, what the program sees.

use crate::elf::{Asm, DATA, Program};
use std::fs;
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use truecount_engine::step::{Exit, StepError, StepOptions, run};

fn has(program: &str) -> bool {
    let found = Command::new(program)
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .status()
        .is_ok();
    if !found {
        truecount_testing::skip!("tools", "no {program} here");
    }
    found
}

#[test]
fn true_is_the_same_again() {
    if !has("true") {
        return;
    }
    // (On some machines a step takes 100 µs.)
    let counts: Vec<_> = (0..2)
        .map(|_| {
            let totals = run(Command::new("true"), StepOptions::default()).unwrap();
            assert_eq!(totals.exit, Exit::Code(0));
            totals.instructions()
        })
        .collect();
    assert!(
        counts[0] > 20 && counts.iter().all(|&c| c == counts[0]),
        "{counts:?}"
    );
}

#[test]
fn the_program_sees_its_own_arguments_directory_streams_and_environment() {
    if !has("true") {
        return;
    }
    let directory = std::env::temp_dir().join(format!("truecount-step-io-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (input, output) = (directory.join("in"), directory.join("out"));
    fs::write(&input, "typed\n").unwrap();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "read line; echo \"$line|$0|$1|$MARK|$(pwd)\"; exit 3",
            "zero",
            "a b",
        ])
        .env("MARK", "set")
        .current_dir(&directory)
        .stdin(fs::File::open(&input).unwrap())
        .stdout(fs::File::create(&output).unwrap());
    let totals = run(command, StepOptions::default()).unwrap();
    assert_eq!(totals.exit, Exit::Code(3));
    let directory = directory.canonicalize().unwrap();
    let said = fs::read_to_string(&output).unwrap();
    assert_eq!(
        said,
        format!("typed|zero|a b|set|{}\n", directory.display())
    );
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_cannot_start_says_why() {
    let missing = run(
        Command::new("/no-such-directory-of-truecount/program"),
        StepOptions::default(),
    );
    assert!(
        matches!(missing, Err(StepError::Start { source, .. }) if source.kind() == ErrorKind::NotFound)
    );
    let file = std::env::temp_dir().join(format!("truecount-step-plain-{}", std::process::id()));
    fs::write(&file, "no program").unwrap();
    let refused = run(Command::new(&file), StepOptions::default());
    fs::remove_file(&file).unwrap();
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("Permission denied"), "{text}");
    let mut nowhere = Command::new("true");
    nowhere.current_dir("/no-such-directory-of-truecount");
    assert!(matches!(
        run(nowhere, StepOptions::default()),
        Err(StepError::Start { .. })
    ));
}

#[test]
fn a_32_bit_program_is_refused() {
    // mov eax, 1; xor ebx, ebx; int 0x80, in a 32-bit ELF file.
    let mut image = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    image.extend([2, 0, 3, 0, 1, 0, 0, 0]);
    image.extend(0x0804_8054u32.to_le_bytes());
    image.extend([
        52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0, 0,
    ]);
    for field in [1u32, 0, 0x0804_8000, 0x0804_8000, 100, 100, 5, 0x1000] {
        image.extend(field.to_le_bytes());
    }
    image.extend([0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80]);
    let program = Program::from_image(&image);
    if Command::new(&program.0).status().is_err() {
        truecount_testing::skip!("ia32", "this kernel runs no 32-bit programs");
        return;
    }
    let refused = program.step(StepOptions::default());
    assert!(
        matches!(refused, Err(StepError::NotSixtyFourBit { .. })),
        "{refused:?}"
    );
}

/// A program that spins forever beside a child that sleeps forever.
fn endless() -> Asm {
    let mut a = Asm::new();
    let (child, itself) = (a.label(), a.label());
    a.syscall(57, &[]).raw(&[0x85, 0xc0]).jump(0x74, child);
    a.bind(itself).jump(0xeb, itself);
    a.bind(child).syscall(34, &[]); // pause
    a
}

#[test]
fn cancellation_ends_everything_and_keeps_the_count() {
    let cancel = AtomicBool::new(false);
    let mut reports = 0;
    let mut progress = |p: truecount_engine::step::Progress| {
        reports += 1;
        assert!(p.instructions > 0 && p.per_second > 0.0 && p.threads >= 1);
        cancel.store(true, Ordering::Relaxed);
    };
    let options = StepOptions {
        cancel: Some(&cancel),
        progress: Some(&mut progress),
        ..StepOptions::default()
    };
    let totals = endless().step(options);
    assert!(totals.cancelled && !totals.timed_out && reports > 0);
    assert!(!totals.is_whole());
    assert_eq!(totals.exit, Exit::Signal(libc::SIGKILL));
    assert_eq!(totals.processes.len(), 2);
    assert!(
        totals
            .processes
            .iter()
            .all(|p| p.exit == Some(Exit::Signal(libc::SIGKILL)))
    );
    assert!(totals.processes[0].instructions > 4);
    // test, jz, mov, and the pause it was killed in.
    assert_eq!(totals.processes[1].instructions, 4);
}

#[test]
fn a_time_limit_reaches_a_program_that_sleeps() {
    let mut a = Asm::new();
    a.syscall(34, &[]);
    let start = Instant::now();
    let options = StepOptions {
        timeout: Some(Duration::from_millis(50)),
        ..StepOptions::default()
    };
    let totals = a.step(options);
    assert!(totals.timed_out && !totals.cancelled);
    assert_eq!(
        (totals.exit, totals.instructions()),
        (Exit::Signal(libc::SIGKILL), 2)
    );
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn other_children_of_the_caller_are_left_alone() {
    if !has("true") {
        return;
    }
    let mut child = Command::new("true").spawn().unwrap();
    let mut a = Asm::new();
    a.exit(0);
    assert_eq!(a.step(StepOptions::default()).instructions(), 3);
    assert!(child.wait().unwrap().success());
}

#[test]
fn addresses_are_the_same_unless_randomisation_is_asked_for() {
    // exit((stack pointer >> 12) & 0xff): the stack's page.
    let mut a = Asm::new();
    a.raw(&[
        0x48, 0x89, 0xe7, 0x48, 0xc1, 0xef, 12, 0x81, 0xe7, 0xff, 0, 0, 0,
    ]);
    a.raw(&[0xb8, 231, 0, 0, 0, 0x0f, 0x05]);
    let program = a.program();
    let pages = |aslr| -> Vec<Exit> {
        let options = || StepOptions {
            aslr,
            ..StepOptions::default()
        };
        (0..8)
            .map(|_| program.step(options()).unwrap().exit)
            .collect()
    };
    let fixed = pages(false);
    assert!(fixed.iter().all(|e| *e == fixed[0]), "{fixed:?}");
    let setting = fs::read_to_string("/proc/sys/kernel/randomize_va_space").unwrap_or_default();
    if setting.trim() == "0" {
        truecount_testing::skip!("aslr", "this kernel randomises nothing");
        return;
    }
    let random = pages(true);
    assert!(random.iter().any(|e| *e != random[0]), "{random:?}");
}

#[test]
fn code_that_may_not_be_read_is_still_understood() {
    // mprotect(code, PROT_EXEC), then rep movsb: it counts once though nobody may read it.
    let mut a = Asm::new();
    a.syscall(10, &[0x40_0000, 0x1000, 4]);
    a.raw(&[0xb9, 30, 0, 0, 0, 0xbe])
        .raw(&DATA.to_le_bytes())
        .raw(&[0xbf])
        .raw(&DATA.to_le_bytes());
    a.raw(&[0xf3, 0xa4]).exit(0);
    assert_eq!(a.step(StepOptions::default()).instructions(), 5 + 3 + 1 + 3);
}

#[test]
fn a_panic_in_a_callback_reaches_its_caller_and_leaves_no_process() {
    let mut pid = 0;
    let program = endless();
    let mut see = |tid: i32, _| {
        pid = tid;
        panic!("on purpose");
    };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        program.step(StepOptions {
            retired: Some(&mut see),
            ..StepOptions::default()
        })
    }));
    assert!(caught.is_err() && pid > 0);
    let gone = || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z")
    };
    let start = Instant::now();
    while !gone() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone(), "process {pid} lives on");
}

/// Critical sections with an abort handler cannot end under single steps, so programs that have some find a kernel
/// without; others may register.
#[test]
fn restartable_sequences_are_the_kernels() {
    // rseq(0, 0, 0, 0) is EINVAL on a kernel that has it; its error is the exit status.
    let mut a = Asm::new();
    a.syscall(334, &[0, 0, 0, 0]);
    a.raw(&[0xf7, 0xd8]).raw(&[0x89, 0xc7]); // neg eax; mov edi, eax
    a.syscall(60, &[]);
    let totals = a.step(StepOptions::default());
    assert_eq!(totals.exit, Exit::Code(libc::EINVAL));
    assert_eq!(totals.instructions(), 6 + 2 + 2);
}
