//! Ctrl-C at several moments of commands that count with a PMU: they end, print what they have, and leave the terminal as
//! it was. How fast is for machines that are not emulated (`cli/interrupts.rs`).

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::pty::Pty;
use super::{no_hardware, skip, truecount};

/// From the moment that it waits for signals. Emulated machines are slow.
const MOMENTS: &[u64] = &[0, 300];

/// Then it would be killed; without Ctrl-C each command takes many minutes.
const NEVER: Duration = Duration::from_secs(100);

/// Arguments, and one of these is said whenever it was interrupted.
const COMMANDS: &[(&str, &[&str])] = &[
    ("discover -n 100 -- sleep 1", &["interrupted"]),
    ("stat -e instructions:u -r 100000 -- true", &["interrupted"]),
    (
        "record -e instructions:u -o /dev/null -- sleep 900",
        &["samples"],
    ),
    ("top --once --seconds 900 -e instructions:u", &["top"]),
];

fn waits_for_signals(pid: u32) -> bool {
    let read = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let waits = read("syscall").starts_with(&format!("{} ", libc::SYS_rt_sigtimedwait));
    let status = read("status");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let bits = blocked.and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
    waits || bits.is_some_and(|bits| bits >> (libc::SIGINT - 1) & 1 != 0)
}

#[test]
fn ctrl_c_ends_what_counts_with_a_pmu() {
    if let Some(reason) = no_hardware() {
        skip(&reason);
        return;
    }
    let mut wrong = Vec::new();
    let mut slowest = (Duration::ZERO, "");
    for &(line, says) in COMMANDS {
        for &moment in MOMENTS {
            let mut child = truecount()
                .args(line.split(' '))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let pid = child.id();
            println!("{line} after {moment} ms");
            let begun = Instant::now();
            while child.try_wait().unwrap().is_none() && !waits_for_signals(pid) {
                assert!(
                    begun.elapsed() < NEVER,
                    "{line}: signals are never waited for"
                );
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(moment));
            let begun = Instant::now();
            // Who has ended by itself is told below.
            let kill = |signal: &str| {
                let _ = Command::new("kill")
                    .args([signal, &pid.to_string()])
                    .status();
            };
            kill("-INT");
            while child.try_wait().unwrap().is_none() && begun.elapsed() < NEVER {
                std::thread::sleep(Duration::from_millis(2));
            }
            let took = begun.elapsed();
            if took >= NEVER {
                kill("-KILL");
            }
            if took > slowest.0 {
                slowest = (took, line);
            }
            let output = child.wait_with_output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            let said = says.iter().any(|part| text.contains(part));
            if took >= NEVER
                || output.status.code() != Some(130)
                || !said
                || text.contains("panicked")
            {
                let shown: String = text.chars().take(400).collect();
                wrong.push(format!(
                    "{line} after {moment} ms: {}: {shown}",
                    output.status
                ));
            }
        }
    }
    println!("slowest end: {slowest:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn ctrl_c_ends_the_live_screen() {
    if let Some(reason) = no_hardware() {
        skip(&reason);
        return;
    }
    for &moment in MOMENTS {
        let Some(mut top) = Pty::start(truecount().args(["top", "-I", "100"])) else {
            return;
        };
        let begun = Instant::now();
        while !top.raw() && top.ended().is_none() {
            assert!(begun.elapsed() < NEVER, "no screen");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(moment));
        top.press(b"\x03");
        let begun = Instant::now();
        let (status, shown) = top.end(NEVER);
        println!("{moment} ms: {status:?} after {:?}", begun.elapsed());
        let code = status.and_then(|status| status.code());
        assert_eq!(code, Some(0), "{shown}");
        // The second screen is left (xterm's control sequences).
        assert!(
            shown.contains("\x1b[?1049h") && shown.contains("\x1b[?1049l"),
            "{shown}"
        );
        assert!(!shown.contains("panicked"), "{shown}");
    }
}
