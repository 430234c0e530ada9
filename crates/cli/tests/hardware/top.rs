//! `top` on a machine with a PMU: which of two functions executes most instructions, and which most branches.
//!
//! The program that is looked at is this test itself, started with [`WORKLOAD`] set.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::record::text;
use super::{skip, truecount};

/// Set: run the two functions until killed, and nothing else.
const WORKLOAD: &str = "TRUECOUNT_TEST_TOP_HARDWARE";
const RUNNING: &str = "the two functions run";

/// 4,000 turns of 20 instructions, of which one is a branch.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn top_test_straight(mut x: u64) -> u64 {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            "2:", ".rept 9", "add {x}, 3", "xor {x}, 1", ".endr", "dec {n}", "jnz 2b",
            x = inout(reg) x, n = inout(reg) 4_000u64 => _,
        );
    }
    x
}

/// 10,000 turns of 4 instructions, of which 3 are taken branches.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn top_test_branchy(mut x: u64) -> u64 {
    // SAFETY: registers only; the jumps go to the next label.
    unsafe {
        std::arch::asm!(
            "2:", "jmp 3f", "3:", "jmp 4f", "4:", "dec {n}", "jnz 2b",
            n = inout(reg) 10_000u64 => _,
        );
    }
    x ^= 1;
    x
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
fn top_test_straight(x: u64) -> u64 {
    (0..20_000u64).fold(x, |x, i| std::hint::black_box(x.rotate_left(1) ^ i))
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
fn top_test_branchy(x: u64) -> u64 {
    x ^ 1
}

/// Not a test of its own: what is looked at.
#[test]
fn top_workload() {
    if std::env::var_os(WORKLOAD).is_none() {
        return;
    }
    println!("{RUNNING}");
    let mut x = 1u64;
    loop {
        for _ in 0..50 {
            x = top_test_branchy(top_test_straight(x));
        }
        if std::hint::black_box(x) == u64::MAX {
            break;
        }
    }
}

struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["top_workload", "--nocapture", "--test-threads=1"])
            .env(WORKLOAD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|l| l.contains(RUNNING)));
        Self(child)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One look at the program; `None` where this machine cannot.
fn once(arguments: &[&str]) -> Option<Value> {
    let busy = Busy::start();
    let output = truecount()
        .args(["top", "--once", "--json", "--seconds", "1", "-p"])
        .arg(busy.0.id().to_string())
        .args(arguments)
        .output()
        .unwrap();
    if !output.status.success() {
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{why}");
        skip(why.trim());
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Share of an event in a function.
fn share(document: &Value, function: &str, event: usize) -> f64 {
    let rows = document["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|r| r["name"].as_str().unwrap().contains(function));
    row.unwrap_or_else(|| panic!("no {function} in {document:#}"))["values"][event]["share"]
        .as_f64()
        .unwrap()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn instructions_and_branches_fall_into_the_right_functions() {
    // Of 120,000 instructions a turn 80,000 are in one function; of 34,000 branches 30,000 in the other.
    let straight = 80.0 / 120.0;
    let branchy = 30.0 / 34.0;
    let Some(document) = once(&["-e", "instructions:u", "-c", "10007"]) else {
        return;
    };
    assert_eq!(document["events"][0]["name"], "instructions:u");
    assert!(
        document["rows"][0]["name"]
            .as_str()
            .unwrap()
            .contains("top_test_straight")
    );
    let found = share(&document, "top_test_straight", 0);
    assert!((found - straight).abs() < 0.03, "{found}: {document:#}");
    let samples = document["events"][0]["samples"].as_u64().unwrap();
    assert_eq!(
        document["events"][0]["events"].as_u64().unwrap(),
        samples * 10_007
    );

    let Some(document) = once(&["-e", "branches:u", "-c", "10007"]) else {
        return;
    };
    assert!(
        document["rows"][0]["name"]
            .as_str()
            .unwrap()
            .contains("top_test_branchy")
    );
    let found = share(&document, "top_test_branchy", 0);
    assert!((found - branchy).abs() < 0.03, "{found}: {document:#}");

    // Both at once, and branches per instruction.
    let events = ["-e", "branches:u,instructions:u", "-c", "10007"];
    let Some(document) = once(&events) else {
        return;
    };
    let found = (
        share(&document, "top_test_branchy", 0),
        share(&document, "top_test_straight", 1),
    );
    assert!((found.0 - branchy).abs() < 0.03, "{found:?}: {document:#}");
    assert!((found.1 - straight).abs() < 0.03, "{found:?}: {document:#}");
    let rows = document["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|r| r["name"].as_str().unwrap().contains("top_test_branchy"));
    let ratio = row.unwrap()["ratio"].as_f64().unwrap();
    assert!((ratio - 0.75).abs() < 0.05, "{ratio}");
}

/// Without `-p`, every CPU is looked at, idle ones too, whatever the PMU thinks of `exclude_idle`.
#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "not tested in that rig")]
fn the_whole_machine_is_looked_at() {
    let busy = Busy::start();
    let output = truecount()
        .args([
            "top",
            "--once",
            "--json",
            "--seconds",
            "1",
            "--by",
            "process",
        ])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    if output.status.code() == Some(125) && said.contains("paranoid") {
        skip(said.trim());
        return;
    }
    assert!(output.status.success(), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["events"][0]["samples"].as_u64().unwrap() > 10);
    let name = document["events"][0]["name"].as_str().unwrap();
    if super::no_hardware().is_none() {
        assert!(name.starts_with("cycles"), "{document:#}");
    }
    // What is busy is found, however busy others are.
    let rows = document["rows"].as_array().unwrap();
    let pid = busy.0.id().to_string();
    let own = |row: &&Value| row["of"].as_str() == Some(pid.as_str());
    let row = rows.iter().find(own);
    let row = row.unwrap_or_else(|| panic!("{document:#}"));
    assert!(row["values"][0]["share"].as_f64().unwrap() > 0.0, "{row}");
}

#[test]
fn cycles_are_the_default() {
    let Some(document) = once(&["--by", "thread"]) else {
        return;
    };
    let name = document["events"][0]["name"].as_str().unwrap();
    if name.starts_with("cpu-clock") {
        skip(document["notes"][0].as_str().unwrap());
        return;
    }
    assert!(name.starts_with("cycles"), "{document:#}");
    assert!(document["events"][0]["samples"].as_u64().unwrap() > 10);
    assert_eq!(document["losses"]["records"], 0);
}
