//! `top` on a program with known functions: `--once` against `perf report`, the screen in a real terminal (tmux).

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "top/once.rs"]
mod once;
#[path = "top/screen.rs"]
mod screen;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Set: be the program that is looked at, and nothing else.
const WORKLOAD: &str = "TRUECOUNT_TEST_TOP";

/// What it says when it begins.
const RUNNING: &str = "the workload runs";

/// No calls inside, so that a build without optimization spends its time here, too. Milliseconds, many times a sampling
/// period: turns of about one period would be met at the same places again and again.
#[inline(never)]
fn top_test_hot(mut x: u64) -> u64 {
    let mut i = 0u64;
    while i < 7_000_000 {
        x = (x ^ i) & 0xffff_ffff;
        i += 1;
    }
    x
}

#[inline(never)]
fn top_test_warm(mut x: u64) -> u64 {
    let mut i = 0u64;
    while i < 3_000_000 {
        x = (x ^ i) & 0xffff_ffff;
        i += 1;
    }
    x
}

/// Not a test of its own: what is looked at. Ends by itself, should nobody end it.
#[test]
fn workload() {
    if std::env::var_os(WORKLOAD).is_none() {
        return;
    }
    println!("{RUNNING}");
    let start = std::time::Instant::now();
    let mut x = 1;
    while start.elapsed().as_secs() < 700 {
        x = top_test_warm(top_test_hot(x));
    }
    assert_ne!(x, u64::MAX);
}

/// One at a time, or the programs of several tests take each other's time.
static ONE: Mutex<()> = Mutex::new(());

/// The program, running.
struct Busy(Child, #[allow(dead_code)] MutexGuard<'static, ()>);

impl Busy {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["workload", "--exact", "--nocapture", "--test-threads=1"])
            .env(WORKLOAD, "1")
            .stdout(Stdio::piped());
        let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut this = Self(command.spawn().unwrap(), turn);
        let lines = BufReader::new(this.0.stdout.take().unwrap()).lines();
        let started = lines.map_while(Result::ok).any(|l| l.contains(RUNNING));
        assert!(started, "the workload did not start");
        this
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn truecount(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
