//! `run --memory` and `--model` where processes are made, become others, have threads, are interrupted or killed; and
//! how much memory that takes.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{code, first_line, json, run, truecount, until, virtual_pmu};

/// Does what the first letter of its argument says, and nothing else: no library, so every reference is written here.
const PROGRAM: &str = r#"
.globl _start
_start:
    mov 8(%rsp), %r12           # load: argv[0]
    mov 16(%rsp), %rbx          # load: argv[1]
    movb (%rbx), %al            # load of a byte
    lea cells(%rip), %rbx
    cmp $'t', %al
    je threads
    cmp $'f', %al
    je forks
    cmp $'x', %al
    je executed
    cmp $'p', %al
    je processes
    cmp $'i', %al
    je endless
    cmp $'k', %al
    je killed
    mov $200000, %ecx
    cmp $'b', %al
    je bounded
    mov $1000000, %ecx

bounded:                        # 64 KiB, again and again
    mov %ecx, %edx
    and $1023, %edx
    shl $6, %edx
    mov (%rbx,%rdx), %rax       # load
    mov %rax, 8(%rbx,%rdx)      # store
    dec %ecx
    jnz bounded
    jmp end

threads:
    mov $56, %eax               # clone: VM, FS, FILES, SIGHAND, THREAD, SYSVSEM
    mov $0x50f00, %edi
    lea stack(%rip), %rsi
    xor %edx, %edx
    xor %r10d, %r10d
    xor %r8d, %r8d
    syscall
    test %eax, %eax
    jz thread
    mov $500, %ecx
1:  mov %rcx, 64(%rbx)          # 500 stores
    dec %ecx
    jnz 1b
    jmp leave
thread:
    mov $700, %ecx
1:  mov (%rbx), %rax            # 700 loads
    dec %ecx
    jnz 1b
leave:
    mov $60, %eax               # exit: this thread
    xor %edi, %edi
    syscall

forks:
    mov $57, %eax
    syscall
    test %eax, %eax
    jz child
    call_wait:
    mov $61, %eax               # wait4
    mov $-1, %rdi
    xor %esi, %esi
    xor %edx, %edx
    xor %r10d, %r10d
    syscall
    mov $500, %ecx
1:  mov %rcx, 64(%rbx)          # 500 stores
    dec %ecx
    jnz 1b
    mov %r12, arguments(%rip)   # store
    mov $59, %eax               # execve
    mov %r12, %rdi
    lea arguments(%rip), %rsi
    xor %edx, %edx
    syscall
    ud2
child:
    mov $1000, %ecx
1:  mov (%rbx), %rax            # 1000 loads
    dec %ecx
    jnz 1b
    jmp end
executed:
    mov $300, %ecx
1:  mov %rcx, (%rbx)            # 300 stores
    dec %ecx
    jnz 1b
    jmp end

processes:                      # 'p' and how many hundreds
    mov 16(%rsp), %rax
    movzbl 1(%rax), %r13d
    sub $'0', %r13d
    imul $50, %r13d
1:  mov $57, %eax
    syscall
    test %eax, %eax
    jz child
    mov $61, %eax
    mov $-1, %rdi
    xor %esi, %esi
    xor %edx, %edx
    xor %r10d, %r10d
    syscall
    dec %r13d
    jnz 1b
    jmp end

endless:
    mov $1, %eax
    mov $1, %edi
    lea ready(%rip), %rsi
    mov $6, %edx
    syscall
1:  mov (%rbx), %rax            # a load and a store in four instructions
    mov %rax, 8(%rbx)
    inc %rcx
    jmp 1b

killed:
    mov $100000, %ecx
1:  mov (%rbx), %rax            # 100000 loads
    dec %ecx
    jnz 1b
    mov $39, %eax               # getpid
    syscall
    mov %eax, %edi
    mov $62, %eax               # kill
    mov $9, %esi
    syscall
    ud2

end:
    mov $231, %eax
    xor %edi, %edi
    syscall

.data
.balign 64
arguments: .quad 0, x, 0
x: .asciz "x"
ready: .ascii "ready\n"
.bss
.balign 4096
cells: .skip 131072
.skip 4096
stack: .skip 64
"#;

fn assembled(directory: &Path) -> Option<String> {
    let (file, program) = (directory.join("ends.s"), directory.join("ends"));
    std::fs::write(&file, PROGRAM).unwrap();
    let status = Command::new("cc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&program, &file])
        .status();
    if status.is_ok_and(|status| status.success()) {
        return Some(program.to_str().unwrap().to_owned());
    }
    truecount_testing::skip!("cc", "no compiler for x86-64 assembly");
    None
}

#[test]
fn processes_programs_and_threads_to_the_last_reference() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = assembled(directory.path()) else {
        return;
    };
    // Each program's start: two loads of eight bytes, one of one.
    let rows = [
        ("t", 3 + 700, 17 + 8 * 700, 500, 8 * 500),
        ("f", 6 + 1000, 34 + 8 * 1000, 500 + 1 + 300, 8 * 801),
        ("p2", 3 + 2 + 100_000, 17 + 9 + 800_000, 0, 0),
    ];
    for option in ["--memory", "--model=cachegrind", "--locality"] {
        for (mode, loads, load_bytes, stores, store_bytes) in rows {
            let document = json(&["run", "--json", option, "--", &program, mode]);
            let memory = &document["memory"];
            let facts = &memory["facts"];
            let found = ["loads", "load_bytes", "stores", "store_bytes"].map(|name| &facts[name]);
            assert_eq!(
                found,
                [loads, load_bytes, stores, store_bytes],
                "{option} {mode}"
            );
            assert_eq!(memory["lost"], 0);
            assert_eq!(document["exit"]["code"], 0);
            if let Some(model) = memory.get("model") {
                assert_eq!(model["reads"]["references"], loads, "{mode}");
                assert_eq!(model["writes"]["references"], stores, "{mode}");
            }
            if let Some(locality) = memory.get("locality") {
                assert_eq!(locality["touches"], loads + stores, "{mode}");
            }
        }
    }
}

/// Ctrl-C: what was noted until then is told. A program that is killed by others loses a block at most, one that kills
/// itself nothing.
#[test]
fn what_was_noted_is_told_when_a_program_is_interrupted_or_killed() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = assembled(directory.path()) else {
        return;
    };
    for option in ["--memory", "--model=cachegrind"] {
        let file = directory.path().join("told.json");
        let to = format!("--json={}", file.display());
        let words = ["run", &to, option, "--", &program, "i"];
        let (mut child, _out, line) = first_line(&mut truecount(&words));
        assert_eq!(line, "ready\n");
        std::thread::sleep(std::time::Duration::from_millis(200));
        // SAFETY: a signal to our own child, not waited for yet.
        unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(128 + libc::SIGINT), "{option}");
        let text = std::fs::read_to_string(&file).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let facts = &document["memory"]["facts"];
        let (loads, stores) = (&facts["loads"], &facts["stores"]);
        let (loads, stores) = (loads.as_u64().unwrap(), stores.as_u64().unwrap());
        assert!(loads > 10_000, "{option}: {loads}");
        assert!((loads - 3).abs_diff(stores) <= 1, "{loads} {stores}");
        let instructions = document["counters"][0]["value"].as_u64().unwrap();
        assert!(
            (4 * loads).abs_diff(instructions) < 300,
            "{loads} {instructions}"
        );

        let output = run(&["run", "--json", option, "--", &program, "k"]);
        assert_eq!(code(&output), 128 + libc::SIGKILL);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["memory"]["facts"]["loads"], 100_003, "{option}");
        assert_eq!(document["memory"]["facts"]["stores"], 0);
    }
}

/// The launcher that reads the rings is killed: the program ends, too, and does not wait for a reader.
#[test]
fn nothing_is_left_of_a_killed_truecount() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = assembled(directory.path()) else {
        return;
    };
    let words = ["run", "--memory", "--", &program, "i"];
    let (mut child, mut out, line) = first_line(&mut truecount(&words));
    assert_eq!(line, "ready\n");
    child.kill().unwrap();
    child.wait().unwrap();
    // The other end is closed when the program is gone.
    let reader = std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    until("the program goes on", || reader.is_finished());
}

/// The most memory that truecount, or the program, had: in kibibytes.
fn most_memory(arguments: &[&str]) -> i64 {
    let mut child = truecount(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a structure of integers, which the kernel fills; our own child, nobody else waits for it.
    let (usage, status) = unsafe {
        let (mut usage, mut status) = (std::mem::zeroed::<libc::rusage>(), 0);
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut usage), pid);
        (usage, status)
    };
    // It is gone already.
    let _ = child.wait();
    assert_eq!(status, 0);
    usage.ru_maxrss
}

#[test]
fn memory_does_not_grow_with_references() {
    /// Kibibytes.
    const ROOM: i64 = 4096;
    /// The same for each process that has been.
    const PROCESS: i64 = 128;
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = assembled(directory.path()) else {
        return;
    };
    for option in ["--memory", "--model=cachegrind", "--sharing", "--locality"] {
        let [short, long] =
            ["b", "c"].map(|mode| most_memory(&["run", option, "--", &program, mode]));
        assert!(
            long < short + ROOM,
            "{option}: {short} KiB, five times longer {long}"
        );
    }
    let [few, many] =
        ["p1", "p6"].map(|mode| most_memory(&["run", "--memory", "--", &program, mode]));
    let most = few + ROOM + 250 * PROCESS;
    assert!(many < most, "50 processes {few} KiB, 300 {many}");
}
