//! Runs with `--reproducible` that something ends: signals from outside, a time limit; and what they say of themselves then.

use std::io::{BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::support::{self, code, first_line, json, run, stderr, truecount, until};

/// The program of `tests/programs/ends.c`; `None`: skipped.
fn program() -> Option<(tempfile::TempDir, String)> {
    let source = include_str!("../../../../tests/programs/ends.c");
    support::program(source).filter(|_| !lacks_features())
}

fn lacks_features() -> bool {
    let machine = truecount_engine::machine::Machine::named("x86-64-v3");
    let lacking = machine.is_ok_and(|machine| machine.lacking().is_some());
    if lacking {
        truecount_testing::skip!("cpu-features", "this CPU has no x86-64-v3");
    }
    lacking
}

/// truecount with the program inside, which has begun.
struct Run {
    child: Child,
    out: BufReader<ChildStdout>,
    /// PIDs of the program and its child.
    pids: [i32; 2],
    document: PathBuf,
}

impl Run {
    fn start(program: &(tempfile::TempDir, String), way: &str) -> Self {
        let document = program.0.path().join("out.json");
        let json = format!("--json={}", document.display());
        let words = ["run", "--reproducible", &json, "--", &program.1, way];
        let (child, out, line) = first_line(truecount(&words).stdin(Stdio::piped()));
        let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap());
        let pids = [numbers.next().unwrap(), numbers.next().unwrap()];
        Self {
            child,
            out,
            pids,
            document,
        }
    }

    /// How truecount ended, what it said, and the document.
    fn end(mut self) -> (Option<i32>, String, Value) {
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        let mut err = self.child.stderr.take().unwrap();
        err.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap().code();
        let document = std::fs::read(&self.document).unwrap_or_default();
        let document = serde_json::from_slice(&document).unwrap_or_default();
        (status, text, document)
    }
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: a signal to a process that this test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// What is said to have come in.
fn sources(document: &Value) -> Vec<&str> {
    let inputs = document["outside"]["inputs"].as_array().unwrap();
    inputs
        .iter()
        .map(|input| input["source"].as_str().unwrap())
        .collect()
}

/// Threads that spin, that take a lock in turn, that wait for each other for ever, a read from outside, `pause`.
const WAYS: [&str; 5] = ["spin", "locks", "waits", "reads", "pause"];

#[test]
fn signals_from_outside_end_it_whatever_its_threads_do() {
    let Some(program) = program() else { return };
    for (way, number) in WAYS
        .iter()
        .zip([libc::SIGTERM, libc::SIGINT].iter().cycle())
    {
        let run = Run::start(&program, way);
        signal(i32::try_from(run.child.id()).unwrap(), *number);
        let (status, text, document) = run.end();
        assert_eq!(status, Some(128 + number), "{way}: {text}");
        assert!(sources(&document).contains(&"end"), "{way}: {document}");
        assert!(document["counters"][0]["value"].as_u64() > Some(10_000));
    }
}

#[test]
fn a_kill_from_outside_is_no_closed_run() {
    let Some(program) = program() else { return };
    for way in ["spin", "waits"] {
        let run = Run::start(&program, way);
        signal(run.pids[0], libc::SIGKILL);
        let (status, text, document) = run.end();
        assert_eq!(status, Some(128 + libc::SIGKILL), "{way}: {text}");
        assert!(sources(&document).contains(&"killed"), "{way}: {document}");
    }
    // The one that has its turn: the others go on. (What it had executed is a count or a cut one, as it happens.)
    let run = Run::start(&program, "children");
    signal(run.pids[1], libc::SIGKILL);
    let (status, text, _) = run.end();
    assert_eq!(status, Some(libc::SIGKILL), "{text}");
}

#[test]
fn a_program_does_not_outlive_a_killed_truecount() {
    let Some(program) = program() else { return };
    for way in ["spin", "waits"] {
        let mut run = Run::start(&program, way);
        signal(i32::try_from(run.child.id()).unwrap(), libc::SIGKILL);
        run.child.wait().unwrap();
        let stat = format!("/proc/{}/stat", run.pids[0]);
        until("the program goes on", || {
            let text = std::fs::read_to_string(&stat).unwrap_or_default();
            let state = text.rsplit(')').next().unwrap_or_default().trim_start();
            text.is_empty() || state.starts_with(['Z', 'X'])
        });
    }
}

#[test]
fn a_time_limit_ends_it_whatever_its_threads_do() {
    let Some(program) = program() else { return };
    let path = program.1.as_str();
    for way in ["spin", "locks", "reads"] {
        let head = ["stat", "--source", "virtual", "--json", "--timeout", "1s"];
        let child = truecount(&[&head[..], &["--reproducible", "--", path, way]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = child;
        // Nothing is written to it, and it stays open.
        let stdin = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert_eq!(code(&output), 124, "{way}: {}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        let document: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        assert_eq!(document["timed_out"], true, "{way}");
        assert_eq!(document["outside"]["closed"], false, "{way}");
    }
}

/// What the kernel says that a child used is another number in every run.
#[test]
fn what_children_used_is_held_constant() {
    const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int told;
static void on(int signal) { told += signal != 0; }
static void show(const char *name, struct rusage *usage) {
    long sum = 0;
    for (int i = 0; i < 18; i++) sum |= ((long *)usage)[i];
    fprintf(stderr, "%s %ld\n", name, sum);
}
int main(void) {
    struct sigaction action = { .sa_handler = on, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &action, 0);
    for (int way = 0; way < 3; way++) {
        struct rusage usage;
        siginfo_t info;
        int status = 0, result;
        memset(&usage, 7, sizeof usage);
        int child = fork();
        if (!child) {
            memset(malloc(3 << 20), 1, 3 << 20);
            // A wait that this interrupts goes on.
            kill(getppid(), SIGUSR1);
            for (volatile int n = 0; n < 300000; n++) continue;
            _exit(0);
        }
        if (way == 0) result = wait4(child, &status, 0, &usage) != child;
        if (way == 1) result = syscall(SYS_waitid, P_PID, child, &info, WEXITED, &usage);
        if (way == 2) while ((result = wait4(child, &status, WNOHANG, &usage)) == 0) usleep(1000);
        show(result == (way == 2 ? child : 0) ? "used" : "failed", &usage);
    }
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    show("used", &usage);
    getrusage(RUSAGE_SELF, &usage);
    memset(&usage.ru_utime, 0, sizeof usage.ru_utime);
    show("used", &usage);
    return told != 3;
}
"#;
    let Some((_directory, program)) = support::program(SOURCE) else {
        return;
    };
    let program = program.as_str();
    for head in ["--deterministic=time", "--deterministic=time,threads"] {
        let output = run(&["run", "--json", head, "--", program]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let said = stderr(&output);
        let used = said.lines().filter(|line| *line == "used 0").count();
        assert_eq!(used, 5, "{head}: {said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let named = sources(&document);
        assert!(!named.contains(&"clock"), "{head}: {document}");
    }
    let document = json(&["run", "--json", "--deterministic=aslr", "--", program]);
    assert!(sources(&document).contains(&"clock"), "{document}");
}

/// Programs ask which signals are ignored, and do less for those: `nohup` and a shell's `&` changed counts.
#[test]
fn no_signal_is_ignored_or_blocked_at_first() {
    const SOURCE: &str = r#"
#include <signal.h>
#include <stdio.h>
int main(void) {
    int ignored = 0, blocked = 0;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    for (int signal = 1; signal < 32; signal++) {
        struct sigaction action;
        if (sigaction(signal, 0, &action) == 0) ignored += action.sa_handler == SIG_IGN;
        blocked += sigismember(&mask, signal) == 1;
    }
    fprintf(stderr, "ignored %d, blocked %d\n", ignored, blocked);
    return 0;
}
"#;
    if lacks_features() {
        return;
    }
    let Some((_directory, program)) = support::program(SOURCE) else {
        return;
    };
    let counted = |ignores: bool, head: &str| {
        let mut command = truecount(&["run", "--json", head, "--", &program]);
        // SAFETY: system calls on a set of its own.
        unsafe {
            command.pre_exec(move || {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGUSR2);
                if ignores {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                    libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                }
                Ok(())
            });
        }
        let output = command.output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (stderr(&output), document["counters"][0]["value"].clone())
    };
    let plain = counted(false, "--reproducible");
    assert!(plain.0.contains("ignored 0, blocked 0"), "{}", plain.0);
    assert_eq!(counted(true, "--reproducible"), plain);
    // Without a machine that is shown, it is as natively.
    let (said, _) = counted(true, "--deterministic");
    assert!(
        !said.contains("ignored 0") && !said.contains("blocked 0"),
        "{said}"
    );
}
