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

/// So many turns of multiplications that wait for each other: their time is the CPU's, and neither the compiler's nor the
/// place's where the code came to lie (variables in memory are forwarded in no time, or not). No calls inside, so that a
/// build without optimization spends its time here, too.
macro_rules! turns {
    ($x:expr, $many:expr) => {{
        let (mut x, many): (u64, u64) = ($x, $many);
        // SAFETY: registers only.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "2:", "imul {x}, {x}", "imul {x}, {x}", "imul {x}, {x}", "imul {x}, {x}",
                "dec {many}", "jnz 2b",
                x = inout(reg) x, many = inout(reg) many => _, options(nomem, nostack)
            );
        }
        // SAFETY: registers only.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "2:", "mul {x}, {x}, {x}", "mul {x}, {x}, {x}", "mul {x}, {x}, {x}", "mul {x}, {x}, {x}",
                "subs {many}, {many}, #1", "b.ne 2b",
                x = inout(reg) x, many = inout(reg) many => _, options(nomem, nostack)
            );
        }
        x
    }};
}

/// Milliseconds, many times a sampling period: turns of about one period would be met at the same places again and again.
#[inline(never)]
fn top_test_hot(x: u64) -> u64 {
    turns!(x, 1_750_000)
}

#[inline(never)]
fn top_test_warm(x: u64) -> u64 {
    turns!(x, 750_000)
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
    assert_eq!(x, 1);
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
