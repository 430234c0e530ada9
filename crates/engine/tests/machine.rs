//! Reference machines: a program that asks for the machine in every way finds the one that is shown.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use support::{built, fixed_layout, launch};
use truecount_engine::machine::Machine;
use truecount_engine::virt::Options;

/// Compiled once: tests run side by side.
fn asks() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let source = include_str!("machine/asks.c");
    PROGRAM
        .get_or_init(|| built("asks.c", source, &["-O1"]))
        .clone()
}

/// What it finds on a machine, by its words, and its count; `None` (a skip) where it cannot be tried.
fn answers(name: &str) -> Option<(BTreeMap<String, String>, u64)> {
    let machine = Machine::named(name).expect("a machine");
    if let Some(feature) = machine.lacking() {
        truecount_testing::skip!("cpu-features", "{name} has {feature}, which this CPU lacks");
        return None;
    }
    let mut command = Command::new(asks()?);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command.stdout(writer).stdin(Stdio::null());
    command.env_clear();
    fixed_layout(&mut command);
    let options = Options::default()
        .machine(Some(machine))
        .at_random(Some([7; 16]))
        .own_random(true);
    let running = launch(&mut command, &options)?;
    drop(command);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    let outcome = running.wait().expect("the engine ends well");
    assert!(
        outcome.status.success(),
        "{name}: {}\n{text}",
        outcome.status
    );
    let rows = text.lines().filter_map(|line| line.split_once(": "));
    let rows = rows.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Some((rows.collect(), outcome.totals.instructions()))
}

#[test]
fn every_way_to_ask_finds_the_machine_that_is_shown() {
    for name in [
        "x86-64-v1",
        "x86-64-v2",
        "x86-64-v3",
        "x86-64-v4",
        "valgrind",
    ] {
        let Some((found, count)) = answers(name) else {
            continue;
        };
        let is = |key: &str, value: &str| {
            assert_eq!(
                found.get(key).map(String::as_str),
                Some(value),
                "{name}: {key}"
            );
        };
        let (ecx, xcr0) = match name {
            "x86-64-v1" => ("0", None),
            "x86-64-v2" => ("982201", None),
            "x86-64-v3" => ("3cd83201", Some("7 0")),
            "x86-64-v4" => ("3cd83201", Some("e7 0")),
            _ => ("7ffafbff", Some("7 0")),
        };
        is("vendor", "GenuineIntel");
        let leaf = found["leaf 1"].split(' ').nth(2);
        assert_eq!(leaf, Some(ecx), "{name}");
        assert_eq!(found.get("xcr0").map(String::as_str), xcr0, "{name}");
        if name == "x86-64-v3" {
            is("leaf 7", "0 128 0 0");
            is("saved", "what is shown");
        }
        is("rdtscp", "0");
        is("auxv", "16 6 17 3 4 5 7 8 9 11 12 13 14 23 25 26 31 15 51");
        is("stack", "aligned");
        is("uname", "Linux localhost 6.1.0 x86_64");
        is("memory", "8192");
        is("processors", "1 1");
        is("bind", "0 0");
        is("bind to none", "-1");
        is("stack limit", "8388608");
        is("/proc/sys/kernel/osrelease", "6.1.0");
        is("/sys/devices/system/cpu/online", "0");
        is(
            "/sys/devices/system/cpu/cpu0/cache/index0/size",
            "No such file or directory",
        );
        is("/sys/fs/cgroup/memory.max", "No such file or directory");
        is("/proc/meminfo", "MemTotal:        8388608 kB");
        is("access", "-1");
        is("newer", "-1 ENOSYS");
        is("side by side", "1 1");
        is("moved", "1");
        is("file", "1");
        is("frame", "roomy");
        is("vdso", "0 0");
        assert!(
            found["maps"].ends_with("00:00 0                          [stack]"),
            "{name}: {}",
            found["maps"]
        );
        assert!(found["rdrand"].starts_with("1 "), "{name}");
        assert_ne!(found["/dev/urandom"], found["/dev/random"], "{name}");
        assert!(!found["/dev/urandom"].contains("error"), "{name}");
        let again = answers(name).expect("as before");
        assert_eq!(
            (&found, count),
            (&again.0, again.1),
            "{name}: the same again"
        );
    }
}

#[test]
fn a_machine_with_more_processors_says_so() {
    let Some((found, _)) = answers("x86-64-v2,cpus=3") else {
        return;
    };
    assert_eq!(found["processors"], "3 3");
    assert_eq!(found["/sys/devices/system/cpu/online"], "0-2");
}

/// Without a reference machine nothing is hidden.
#[test]
fn the_host_stays_what_it_is() {
    let Some(program) = asks() else { return };
    let run = |options: Option<Options>| -> Option<String> {
        let mut command = Command::new(&program);
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer).stdin(Stdio::null());
        fixed_layout(&mut command);
        let running = match options {
            Some(options) => launch(&mut command, &options)?,
            None => {
                let mut child = command.spawn().expect("it starts");
                drop(command);
                let mut text = String::new();
                reader.read_to_string(&mut text).expect("text");
                child.wait().expect("it ends");
                return Some(text);
            }
        };
        drop(command);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        running.wait().expect("the engine ends well");
        Some(text)
    };
    let Some(under) = run(Some(Options::default())) else {
        return;
    };
    let natively = run(None).expect("natively");
    // Random numbers differ, and which processor it was on (its number is in leaf 1).
    let same = |text: &str| -> Vec<String> {
        let keep = |line: &&str| {
            !["rd", "/dev/", "bind:", "leaf 1:"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        text.lines().filter(keep).map(str::to_owned).collect()
    };
    assert_eq!(same(&under), same(&natively));
}
