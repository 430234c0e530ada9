//! Running truecount and looking at what came out.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than a loaded machine needs; a wait ends as soon as it can.
const LONG: Duration = Duration::from_secs(60);

/// The command under test, without a terminal and with a quiet environment.
pub(crate) fn truecount(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_truecount"));
    command
        .args(args)
        .stdin(Stdio::null())
        .env("TRUECOUNT_NO_CACHE", "1")
        .env_remove("CLICOLOR_FORCE");
    // What the tests were started with (a shell's background job ignores Ctrl-C) is not what they are about.
    // SAFETY: signal(2) is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

/// Runs it and gives everything that it printed.
pub(crate) fn run(args: &[&str]) -> Output {
    truecount(args).output().unwrap()
}

pub(crate) fn code(output: &Output) -> i32 {
    output
        .status
        .code()
        .expect("truecount is not killed by a signal")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs it, expects success, and parses what it printed.
pub(crate) fn json(args: &[&str]) -> serde_json::Value {
    let output = run(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One clear line on stderr with this status, and no panic.
pub(crate) fn fails(args: &[&str], status: i32, parts: &[&str]) {
    let output = run(args);
    let text = stderr(&output);
    assert_eq!(code(&output), status, "{args:?}: {text}");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("truecount: "))
        .collect();
    assert_eq!(lines.len(), 1, "{args:?}: {text}");
    for part in parts {
        assert!(lines[0].contains(part), "{args:?}: no `{part}` in {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

/// The median of a metric of a command of a bench.
pub(crate) fn median(document: &serde_json::Value, command: usize, metric: &str) -> Option<f64> {
    document["commands"][command]["metrics"][metric]["median"].as_f64()
}

/// Whether the CPU's counters can be used here.
pub(crate) fn hardware() -> bool {
    code(&run(&["check", "--require", "hardware"])) == 0
}

/// Whether single-stepping works here; says that the test is skipped where not.
pub(crate) fn step() -> bool {
    truecount_testing::counts(env!("CARGO_BIN_EXE_truecount"), "step")
}

/// Whether this user may count whole CPUs; says that the test is skipped where not.
pub(crate) fn whole_cpus() -> bool {
    let line = ["stat", "-a", "--json", "-e", "context-switches", "true"];
    let counted = json(&line)["counters"][0]["value"].is_u64();
    if !counted {
        truecount_testing::skip!("privilege", "whole CPUs cannot be counted by this user");
    }
    counted
}

/// A text with its line breaks as spaces: where lines end depends on how long the paths in them are.
pub(crate) fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the virtual PMU works here; says that the test is skipped where not.
pub(crate) fn virtual_pmu() -> bool {
    truecount_testing::counts(env!("CARGO_BIN_EXE_truecount"), "virtual")
}

/// `noise` with the virtual PMU, two runs of every setting.
pub(crate) const TWO_RUNS: [&str; 5] = ["noise", "--source", "virtual", "-n", "2"];

/// A C program, compiled; `None` without a compiler.
pub(crate) fn compiled(directory: &Path, source: &str) -> Option<PathBuf> {
    let (file, program) = (directory.join("program.c"), directory.join("program"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(&file)
        .status();
    let done = compiled.is_ok_and(|status| status.success());
    if !done {
        truecount_testing::skip!("cc", "no C compiler");
    }
    done.then_some(program)
}

/// A C program for the virtual PMU, in a directory of its own, and its path; `None`: skipped.
pub(crate) fn program(source: &str) -> Option<(tempfile::TempDir, String)> {
    if !virtual_pmu() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = compiled(directory.path(), source)?;
    let path = path.to_str().unwrap().to_owned();
    Some((directory, path))
}

/// Starts it with pipes for what it prints, and waits for its first line.
pub(crate) fn first_line(command: &mut Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, out, line)
}

/// Waits until it is so.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a signal is in a set of `/proc/PID/status`.
pub(crate) fn has_signal(pid: i32, set: &str, signal: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(set));
    let bits = line.and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (signal - 1) & 1 != 0)
}

/// Sends Ctrl-C to a truecount, so long after it has begun to wait for signals.
pub(crate) fn interrupt(child: &Child, after: Duration) {
    let pid = i32::try_from(child.id()).unwrap();
    until("truecount does not wait for signals", || {
        // While it waits for them the kernel does not list them as blocked (do_sigtimedwait in kernel/signal.c).
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let waits = call.starts_with(&format!("{} ", libc::SYS_rt_sigtimedwait));
        waits || has_signal(pid, "SigBlk:", libc::SIGINT)
    });
    std::thread::sleep(after);
    // SAFETY: our own child, not waited for yet.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
}

/// What [`stepped`] executes: a turn of its loop is two instructions.
pub(crate) const STEPPED: u64 = 1 + 300 * 2 + 3;

/// A program of so few instructions that single steps, of up to 100 µs each, are done at once; `None`: skipped.
pub(crate) fn stepped() -> Option<(tempfile::TempDir, String)> {
    if !step() {
        return None;
    }
    let instructions = if cfg!(target_arch = "x86_64") {
        "mov $300, %ecx\n1: sub $1, %ecx\njne 1b\nmov $60, %eax\nxor %edi, %edi\nsyscall\n"
    } else {
        "mov x1, #300\n1: subs x1, x1, #1\nb.ne 1b\nmov x8, #93\nmov x0, #0\nsvc #0\n"
    };
    let source = format!(".globl _start\n_start:\n{instructions}");
    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("p.s"), directory.path().join("p"));
    std::fs::write(&file, source).unwrap();
    let made = Command::new("cc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&program, &file])
        .output();
    truecount_testing::compiler(made).then(|| {
        let program = program.to_str().unwrap().to_owned();
        (directory, program)
    })
}
