//! Closed runs: one run says whether its count will repeat, or what came in from outside.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{self, code, json, run, stderr, stdout, truecount, virtual_pmu};
use truecount_testing::schemas::schema;

const HELD: &str = "--deterministic=aslr,at-random,getrandom";

/// Count, verdict and sources of one run.
fn ran(head: &[&str], command: &[&str]) -> (u64, bool, Vec<String>) {
    let output = truecount(&[&["run", "--json"][..], head, &["--"], command].concat())
        // It makes files where it is.
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    verdict(&serde_json::from_slice(&output.stdout).unwrap())
}

fn verdict(document: &Value) -> (u64, bool, Vec<String>) {
    let count = document["counters"][0]["value"].as_u64().expect("a count");
    let outside = &document["outside"];
    let inputs = outside["inputs"].as_array().expect("inputs");
    let names = inputs
        .iter()
        .map(|input| input["source"].as_str().unwrap().to_owned());
    let names: Vec<String> = names.collect();
    let closed = outside["closed"].as_bool().expect("a verdict");
    assert_eq!(closed, names.is_empty(), "{outside}");
    (count, closed, names)
}

/// The program of `tests/programs/inputs.c`, in a directory of its own; `None`: skipped.
fn program() -> Option<(tempfile::TempDir, String)> {
    support::program(include_str!("../../../../tests/programs/inputs.c"))
}

#[test]
fn what_takes_in_nothing_is_closed_and_counts_the_same_again() {
    let Some((_directory, program)) = program() else {
        return;
    };
    // Without the clock, which is not held here, and without the threads.
    for which in [
        "none",
        "file",
        "mapped",
        "environment",
        "malloc",
        "pair",
        "written",
        "own-socket",
    ] {
        let command = [program.as_str(), which];
        let head = [HELD];
        let (first, closed, names) = ran(&head, &command);
        assert!(closed, "{which}: {names:?}");
        let again = ran(&head, &command);
        assert_eq!(again, (first, closed, names), "{which}");
    }
}

#[test]
fn what_takes_in_something_names_it() {
    let Some((directory, program)) = program() else {
        return;
    };
    let fifo = directory.path().join("fifo");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.write_all(b"12345678").unwrap();
    });
    let both = [("fork", &["pid", "processes"][..])];
    let one = [
        ("getrandom", "getrandom", ""),
        ("urandom", "random-device", ""),
        ("time", "vdso-clock", ""),
        ("clock", "clock", ""),
        ("rdtsc", "time-stamp-counter", ""),
        ("pid", "pid", ""),
        ("thread", "threads", ""),
        ("proc", "kernel-file", ""),
        ("fifo", "named-pipe", fifo.to_str().unwrap()),
        ("socket", "socket", &port),
        ("alarm", "timer", ""),
        ("sysinfo", "memory-size", ""),
        ("cpu", "cpu-number", ""),
        ("statfs", "free-space", ""),
        ("times", "file-times", ""),
        ("cached", "system-call", "/etc/passwd"),
    ];
    for (which, source, argument) in one {
        let mut command = vec![program.as_str(), which];
        command.extend((!argument.is_empty()).then_some(argument));
        // The C library's allocator asks for random bytes in most programs.
        let held = match which {
            "getrandom" => "--deterministic=aslr,at-random",
            _ => HELD,
        };
        let (_, _, names) = ran(&[held], &command);
        assert_eq!(names, [source], "{which}");
    }
    server.join().unwrap();
    for (which, sources) in both {
        let (_, _, mut names) = ran(&[HELD], &[&program, which]);
        // Others may have taken a number meanwhile.
        names.retain(|name| name != "pid-order");
        assert_eq!(names, sources, "{which}");
    }
    // What is not held constant, before the program does anything.
    let (_, _, names) = ran(&[], &[&program, "none"]);
    assert_eq!(names, ["at-random"]);
    let (_, _, names) = ran(&["--aslr"], &[&program, "none"]);
    assert_eq!(names, ["at-random", "aslr"]);
}

#[test]
fn what_is_held_constant_is_not_named() {
    let Some((_directory, program)) = program() else {
        return;
    };
    let held = "--deterministic=aslr,at-random,getrandom,time,random,threads";
    for which in [
        "getrandom",
        "urandom",
        "time",
        "clock",
        "rdtsc",
        "thread",
        "alarm",
        "sleep",
    ] {
        let command = [program.as_str(), which];
        let (first, closed, names) = ran(&[held], &command);
        assert!(closed, "{which}: {names:?}");
        assert_eq!(ran(&[held], &command).0, first, "{which}");
    }
}

/// A process outside the run that has both kinds of locks on a file, until its input is closed.
fn holder(program: &str, file: &str) -> std::process::Child {
    use std::io::BufRead as _;
    let mut child = std::process::Command::new(program)
        .args(["hold", file])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "held\n");
    child
}

#[test]
fn locks_that_others_hold_are_waited_for() {
    let Some((directory, program)) = program() else {
        return;
    };
    let file = directory.path().join("lock");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let held = "--deterministic=aslr,at-random,getrandom,time,random,threads";
    for which in ["lock", "wait-lock"] {
        let command = [program.as_str(), which, file];
        let free = ran(&[held], &command);
        assert!(free.1, "{which}: {:?}", free.2);
        let mut other = holder(&program, file);
        let release = other.stdin.take();
        let later = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(1500));
            drop(release);
        });
        let taken = ran(&[held], &command);
        later.join().unwrap();
        other.wait().unwrap();
        assert_eq!(taken, free, "{which}");
    }
    // One of the run's own.
    let command = [program.as_str(), "own-lock", file];
    let with_pid = format!("{held},pid");
    let (first, closed, names) = ran(&[&with_pid], &command);
    let others = names.iter().any(|name| !name.starts_with("pid"));
    assert!(closed || !others, "{names:?}");
    assert_eq!(ran(&[&with_pid], &command).0, first);
}

#[test]
fn locks_that_others_keep_are_named() {
    use std::os::fd::AsRawFd as _;
    let Some((directory, program)) = program() else {
        return;
    };
    let path = directory.path().join("lock");
    std::fs::write(&path, "").unwrap();
    let name = path.to_str().unwrap();
    // By who started truecount, and waits for it.
    let file = std::fs::File::open(&path).unwrap();
    // SAFETY: a descriptor that is open.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    for head in [
        HELD,
        "--deterministic=aslr,at-random,getrandom,time,random,threads",
    ] {
        let begin = std::time::Instant::now();
        let (_, _, names) = ran(&[head], &[&program, "lock", name]);
        assert_eq!(names, ["file-lock"], "{head}");
        assert!(
            begin.elapsed() < std::time::Duration::from_secs(8),
            "{head}"
        );
    }
    drop(file);
    // By another program, for longer than one waits.
    let mut other = holder(&program, name);
    let (_, _, names) = ran(&[HELD], &[&program, "lock", name]);
    assert_eq!(names, ["file-lock"]);
    let held = "--deterministic=aslr,at-random,getrandom,time,random,threads";
    let (_, _, names) = ran(&[held], &[&program, "lock", name]);
    assert_eq!(names, ["file-lock"]);
    drop(other.stdin.take());
    other.wait().unwrap();
}

#[test]
fn standard_input_counts_where_it_is_read_and_no_file() {
    let Some((directory, program)) = program() else {
        return;
    };
    let file = directory.path().join("file");
    std::fs::write(&file, "12345678").unwrap();
    let taken = |which: &str, input: Stdio, bytes: &[u8]| {
        let head = ["run", "--json", HELD, "--"];
        let mut child = truecount(&[&head[..], &[&program, which]].concat())
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        if let Some(mut pipe) = child.stdin.take() {
            // A program that does not read may have ended.
            let _ = pipe.write_all(bytes);
        }
        let output = child.wait_with_output().unwrap();
        verdict(&serde_json::from_slice(&output.stdout).unwrap()).2
    };
    let pipe = || Stdio::piped();
    assert_eq!(
        taken("stdin", pipe(), b"12345678"),
        ["inherited-descriptor"]
    );
    assert!(taken("none", pipe(), b"").is_empty());
    // The same pipe with a high number, among more than are followed.
    let high = |open: &str| {
        let line = format!(
            "exec 40<&0 0</dev/null {open}; exec \"$0\" run --json {HELD} -- bash -c 'read x <&40'"
        );
        let mut child = std::process::Command::new("bash")
            .args(["-c", &line, env!("CARGO_BIN_EXE_truecount")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"12345678").unwrap();
        let output = child.wait_with_output().unwrap();
        verdict(&serde_json::from_slice(&output.stdout).unwrap()).2
    };
    let source = "inherited-descriptor".to_owned();
    assert!(high("").contains(&source));
    let many: Vec<String> = (41..60).map(|fd| format!("{fd}< <(:)")).collect();
    assert!(high(&many.join(" ")).contains(&source));
    let file = std::fs::File::open(&file).unwrap();
    assert!(taken("stdin", file.into(), b"").is_empty());
    assert!(taken("stdin", Stdio::null(), b"").is_empty());
}

#[test]
fn the_first_place_is_that_of_the_caller() {
    let Some((_directory, program)) = program() else {
        return;
    };
    let document = json(&["run", "--json", "--", &program, "getrandom"]);
    assert!(jsonschema::is_valid(&schema("run.json"), &document));
    let inputs = document["outside"]["inputs"].as_array().unwrap();
    let input = inputs
        .iter()
        .find(|input| input["source"] == "getrandom")
        .unwrap_or_else(|| panic!("{inputs:?}"));
    assert_eq!(input["times"], 1);
    assert_eq!(input["factor"], "getrandom");
    assert_eq!(input["first"]["function"], "main", "{input}");
    assert!(
        input["first"]["module"]
            .as_str()
            .unwrap()
            .ends_with("/program")
    );
    let head = ["stat", "--source", "virtual", "--"];
    let output = run(&[&head[..], &[&program, "getrandom"]].concat());
    let text = (stdout(&output) + &stderr(&output)).replace(['\n', ' '], "");
    for part in [
        "Thiscountmayvary:getrandom",
        "(firstinmain,program)",
        "--deterministic",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn bench_takes_one_run_of_a_closed_program_for_exact() {
    let Some((directory, program)) = program() else {
        return;
    };
    let file = directory.path().join("runs");
    let bench = |which: &str, output: &[&str]| {
        std::fs::write(&file, "").unwrap();
        let head = ["bench", "-n", "2", "--source", "virtual", HELD];
        let arguments = [&head[..], output, &["--", &program, which]].concat();
        let output = truecount(&arguments)
            .env("INPUTS_RUNS", &file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let runs = std::fs::read_to_string(&file).unwrap().lines().count();
        (runs, output)
    };
    let (kept, output) = bench("none", &["--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(jsonschema::is_valid(&schema("bench.json"), &document));
    let command = &document["commands"][0];
    let metric = &command["metrics"]["instructions:u"];
    assert_eq!(command["outside"]["closed"], true, "{command}");
    assert_eq!(metric["exact"], true);
    // What is kept may be compared with later results, and has samples for that.
    assert_eq!(metric["samples"].as_array().unwrap().len(), 5);
    let (shown, output) = bench("none", &[]);
    assert_eq!(kept - shown, 4, "{}", stdout(&output));
    assert!(
        stdout(&output).contains("will repeat"),
        "{}",
        stdout(&output)
    );
    // The clock is not held.
    let (open, _) = bench("clock", &[]);
    assert!(open >= kept, "{open} {kept}");
}

#[test]
fn stat_says_it_in_its_text() {
    if !virtual_pmu() {
        return;
    }
    let output = run(&["run", "--deterministic=aslr,at-random", "--", "true"]);
    let text = stdout(&output) + &stderr(&output);
    assert!(text.contains("This count will repeat"), "{text}");
}

#[test]
fn hidden_features_that_are_executed_all_the_same_are_named() {
    const SOURCE: &str = r#"
#include <stdlib.h>
int main(int argc, char **argv) {
    long n = argc;
    if (argc > 2) __asm__ volatile("vpxord %%zmm1, %%zmm1, %%zmm1; vzeroupper" ::: "xmm1");
    else if (argc > 1) __asm__ volatile("popcnt %0, %0" : "+r"(n));
    return 0;
}
"#;
    let Some((_directory, program)) = support::program(SOURCE) else {
        return;
    };
    let program = program.as_str();
    let hidden = |machine: &str, arguments: &[&str]| {
        let head = ["run", "--json", "--machine", machine, "--", program];
        let document = json(&[&head[..], arguments].concat());
        assert!(jsonschema::is_valid(&schema("run.json"), &document));
        let hidden = document["outside"]["hidden"].as_array().cloned();
        let names = hidden.unwrap_or_default().into_iter().map(|input| {
            assert_eq!(input["first"]["function"], "main", "{input}");
            input["title"].as_str().unwrap().to_owned()
        });
        names.collect::<Vec<_>>()
    };
    let has = |machine| {
        truecount_engine::machine::Machine::named(machine).is_ok_and(|m| m.lacking().is_none())
    };
    if !has("x86-64-v2") {
        truecount_testing::skip!("cpu-features", "this CPU has no x86-64-v2");
        return;
    }
    assert_eq!(hidden("x86-64-v1", &["1"]), ["POPCNT"]);
    assert!(hidden("x86-64-v2", &["1"]).is_empty());
    // In the same program, and not executed.
    assert!(hidden("x86-64-v1", &[]).is_empty());
    if !has("x86-64-v4") {
        truecount_testing::skip!("cpu-features", "this CPU has no x86-64-v4");
        return;
    }
    assert_eq!(hidden("x86-64-v3", &["1", "2"]), ["AVX-512"]);
    assert!(hidden("x86-64-v4", &["1", "2"]).is_empty());
}
