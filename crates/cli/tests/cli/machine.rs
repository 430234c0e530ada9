//! `--machine`, `--deterministic=random` and `--reproducible`.

use crate::support::{compiled, fails, json, run, stderr, stdout, truecount, virtual_pmu};

/// Whether this machine can show `x86-64-v2` at least (and there is a virtual PMU).
fn skipped() -> bool {
    if !virtual_pmu() {
        return true;
    }
    let lacking =
        truecount_engine::machine::Machine::named("x86-64-v3").is_ok_and(|m| m.lacking().is_some());
    if lacking {
        truecount_testing::skip!("cpu-features", "this CPU has no x86-64-v3");
    }
    lacking
}

/// Instructions and the reference machine of one run.
fn counted(head: &[&str], command: &[&str]) -> (u64, Option<String>) {
    let all = [&["run", "--json"][..], head, &["--"], command].concat();
    let document = json(&all);
    let count = document["counters"][0]["value"].as_u64().expect("a count");
    let reference = document["environment"]["reference"].as_str();
    (count, reference.map(str::to_owned))
}

#[test]
fn the_machine_stands_in_the_document_and_decides_the_path() {
    if skipped() {
        return;
    }
    let command = ["sort", "/etc/passwd"];
    let (host, none) = counted(&[], &command);
    assert_eq!(none, None);
    assert_eq!(counted(&["--machine", "host"], &command), (host, None));
    let [v1, v3] = ["x86-64-v1", "x86-64-v3"].map(|name| counted(&["--machine", name], &command));
    assert_eq!(v1.1.as_deref(), Some("x86-64-v1/2"));
    assert_eq!(v3.1.as_deref(), Some("x86-64-v3/2"));
    assert_ne!(v1.0, v3.0, "other code is chosen");
}

#[test]
fn what_reads_random_devices_counts_the_same_again() {
    if skipped() {
        return;
    }
    // No shell: its start depends on how many digits its process ID has.
    const SOURCE: &str = r#"
#include <stdio.h>
int main(void) {
    unsigned short n = 0;
    FILE *file = fopen("/dev/urandom", "r");
    if (!file || fread(&n, sizeof n, 1, file) != 1) return 1;
    for (volatile int i = n % 500; i > 0; i--) { }
    return 0;
}
"#;
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = crate::support::compiled(directory.path(), SOURCE) else {
        return;
    };
    let command = [program.to_str().unwrap()];
    let counts = |head: &[&str]| [(); 3].map(|()| counted(head, &command).0);
    let [a, b, c] = counts(&["--deterministic=all,random"]);
    assert!(a == b && b == c, "{a} {b} {c}");
    let [a, b, c] = counts(&["--reproducible"]);
    assert!(a == b && b == c, "{a} {b} {c}");
    let [a, b, c] = counts(&["--deterministic"]);
    assert!(a != b || b != c, "the device itself is random: {a}");
}

/// Shells ask for the number of their parent, which is truecount: as any process it has any number.
#[test]
fn the_parents_number_is_held_constant_with_the_programs() {
    if skipped() {
        return;
    }
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        truecount_testing::skip!("root", "only root chooses PIDs");
        return;
    }
    let output = run(&[
        "run",
        "--reproducible",
        "--",
        "sh",
        "-c",
        "echo $$ $PPID; kill -0 $PPID && sh -c 'echo $PPID'",
    ]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let numbers: Vec<u32> = text
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    let [own, parent, of_child] = numbers[..] else {
        panic!("{text}{}", stderr(&output));
    };
    // A number beside its own, and a signal to it arrives; in the run parents are those that there are.
    assert_eq!((parent, of_child), (own ^ 1, own), "{}", stderr(&output));
}

/// Containers and sessions have limits of their own, and programs that close all descriptors count them.
#[test]
fn the_limit_of_open_files_is_not_inherited() {
    if skipped() {
        return;
    }
    let told = |soft: &str, head: &[&str]| {
        let line = "ulimit -Sn \"$0\"; exec \"$@\"";
        let command = ["run", "--json"]
            .iter()
            .chain(head)
            .chain(&["--", "sh", "-c"]);
        let output = std::process::Command::new("sh")
            .args(["-c", line, soft, env!("CARGO_BIN_EXE_truecount")])
            .args(command)
            .arg("i=$(ulimit -n); while [ $i -gt 0 ]; do i=$((i-1)); done; ulimit -n >&2")
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let count = document["counters"][0]["value"].as_u64().expect("a count");
        (
            stderr(&output)
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned(),
            count,
        )
    };
    let shown = told("300", &["--reproducible"]);
    assert_eq!(shown.0, "1024");
    assert_eq!(told("700", &["--reproducible"]), shown);
    assert_eq!(told("300", &[]).0, "300");
}

/// What is resident of a process depends on truecount and on other programs: programs that ask (rustc does) are told what
/// is mapped, and their runs are closed.
#[test]
fn the_size_of_memory_is_that_of_the_mappings() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("document");
    let json = format!("--json={}", file.display());
    let told = |flags: &[&str]| {
        // The shell reads it itself: the file is its own.
        let shell = "read -r all resident shared code rest < /proc/self/statm; echo $all $resident $shared $code $rest; read -r same < /proc/$$/statm; echo $same";
        let output = truecount(&[&["run", &json], flags, &["--", "sh", "-c", shell]].concat())
            .output()
            .unwrap();
        let text = stdout(&output);
        let document: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let lines: Vec<Vec<u64>> = text
            .lines()
            .map(|line| {
                line.split(' ')
                    .map(|number| number.parse().unwrap())
                    .collect()
            })
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        if !flags.is_empty() {
            assert_eq!(lines[0], lines[1]);
        }
        // Another run of truecount may have its PID at the same time.
        let missing = document["environment"]["not_deterministic"].to_string();
        let closed = document["outside"]["closed"] == true || missing.contains("the PID is");
        (lines[0].clone(), closed)
    };
    let (first, closed) = told(&["--reproducible"]);
    let [all, resident, shared, code, 0, data, 0] = first[..] else {
        panic!("{first:?}")
    };
    // A shell and its C library: some 2 to 40 MB.
    assert!((500..10_000).contains(&all) && all == resident, "{first:?}");
    assert!(
        shared > code && code > 100 && data > 20 && shared < all,
        "{first:?}"
    );
    assert!(closed);
    assert_eq!(told(&["--reproducible", "--no-cache"]).0, first);
    let (own, closed) = told(&[]);
    assert!(own[1] < own[0], "{own:?}");
    assert!(!closed);
}

/// The rings of io_uring let nobody say where they are mapped (Linux 6.5), and a machine places all mappings.
#[test]
fn files_that_choose_their_own_place_are_mapped() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = include_str!("../../../../tests/programs/io_uring.c");
    let Some(program) = compiled(directory.path(), source) else {
        return;
    };
    let natively = std::process::Command::new(&program).output().unwrap();
    let program = program.to_str().unwrap();
    let output = run(&[
        "run",
        "--reproducible",
        "--output",
        "/dev/null",
        "--",
        program,
    ]);
    assert_eq!(output.status.code(), natively.status.code());
    assert_eq!(stdout(&output), stdout(&natively));
}

/// The program's limit of the size of files is not one for what stands in for the kernel's: SIGXFSZ ended who read it.
#[test]
fn files_of_the_machine_are_read_whatever_the_limit_of_files() {
    if skipped() {
        return;
    }
    let script = "ulimit -f 0; cat /proc/cpuinfo | grep -c processor; cat /proc/self/statm | wc -w; \
        cat /proc/self/maps | grep -c stack";
    let output = run(&["run", "--reproducible", "--", "bash", "-c", script]);
    assert_eq!(
        stdout(&output).lines().take(3).collect::<Vec<_>>(),
        ["1", "7", "1"],
        "{output:?}"
    );
}

/// With a machine that is shown, every run of noise has it; named as a factor, it is varied, and found.
#[test]
fn noise_shows_the_machine_and_varies_it_where_it_is_named() {
    if skipped() {
        return;
    }
    let noise = |head: &[&str]| {
        let all = ["noise", "--json", "--source", "virtual", "--functions", "0"];
        let command = ["--", "sort", "/etc/passwd"];
        json(&[&all[..], head, &command].concat())
    };
    let document = noise(&["-n", "2", "--machine", "x86-64-v2", "--factors", "env"]);
    assert_eq!(document["environment"]["reference"], "x86-64-v2/2");
    // Drawn from some six machines: two of the same would show nothing.
    let document = noise(&["-n", "9", "--factors", "machine"]);
    let factors = document["factors"].as_array().expect("factors");
    assert_eq!(factors.len(), 1, "{document:#}");
    assert_eq!(factors[0]["factor"], "machine");
    assert_eq!(
        factors[0]["cause"], true,
        "other code is chosen: {document:#}"
    );
}

#[test]
fn what_cannot_be_shown_is_refused_before_anything_runs() {
    fails(
        &["run", "--machine", "x86-64-v9", "--", "true"],
        2,
        &["x86-64-v9", "x86-64-v3", "valgrind"],
    );
    fails(
        &["run", "--machine", "x86-64-v3,cpus=0", "--", "true"],
        2,
        &["cpus=N"],
    );
    for source in ["software", "step"] {
        let args = [
            "stat",
            "--source",
            source,
            "--machine",
            "x86-64-v1",
            "--",
            "true",
        ];
        fails(&args, 2, &["--machine", "--source virtual"]);
    }
    fails(
        &["run", "--reproducible", "--aslr", "--", "true"],
        2,
        &["--aslr"],
    );
    let missing =
        truecount_engine::machine::Machine::named("x86-64-v4").map(|machine| machine.lacking());
    if let Ok(Some(feature)) = missing {
        fails(
            &["run", "--machine", "x86-64-v4", "--", "true"],
            1,
            &[feature, "lower level"],
        );
    }
}

#[test]
fn bench_counts_on_the_machine_and_times_natively() {
    if skipped() {
        return;
    }
    let head = ["bench", "-n", "2", "--json", "--reproducible", "--", "true"];
    let document = json(&head);
    assert_eq!(document["environment"]["reference"], "x86-64-v3/2");
    let metrics = &document["commands"][0]["metrics"];
    assert_eq!(metrics["instructions:u"]["source"], "virtual");
    assert_eq!(metrics["instructions:u"]["distinct"], 1);
    assert!(
        metrics["wall-time"]["samples"]
            .as_array()
            .is_some_and(|all| all.len() == 2)
    );
    let missing = document["environment"]["not_deterministic"].to_string();
    assert!(
        !missing.contains("\"time\"") && !missing.contains("\"machine\""),
        "{missing}"
    );
}

#[test]
fn counts_of_different_machines_are_not_compared() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let saved = directory.path().join("base.json");
    let saved = saved.to_str().unwrap();
    let made = run(&[
        "bench",
        "-n",
        "2",
        "--machine",
        "x86-64-v3",
        "--save",
        saved,
        "--",
        "true",
    ]);
    assert!(made.status.success(), "{}", stderr(&made));
    let gate = |machine: &str| {
        let args = [
            "bench",
            "-n",
            "2",
            "--machine",
            machine,
            "--baseline",
            saved,
            "--ignore-machine",
            "--fail-above",
            "instructions:u=1%",
            "--",
            "true",
        ];
        let output = run(&args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let (same, text) = gate("x86-64-v3");
    assert_eq!(same, Some(0), "{text}");
    for other in ["x86-64-v2", "host"] {
        let (status, text) = gate(other);
        assert_ne!(status, Some(0), "{other}: {text}");
        assert!(
            text.contains("incomparable") && text.contains("x86-64-v3/2"),
            "{other}: {text}"
        );
    }
}
