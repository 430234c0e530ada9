//! `stat` and `bench` with `--deterministic`: natively, and with the virtual PMU.

use std::path::Path;
use std::process::Command;
use truecount_testing::quoted;

use serde_json::Value;

use crate::support::{code, compiled, fails, json, run, stderr, stdout, truecount, virtual_pmu};
use truecount_testing::schemas::schema;

const PYTHON: &str = "/usr/bin/python3";

fn python() -> bool {
    let found = Path::new(PYTHON).exists();
    if !found {
        truecount_testing::skip!("python", "no {PYTHON}");
    }
    found
}

fn follows(document: &Value, file: &str) {
    let validator = jsonschema::validator_for(&schema(file)).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// What a native run prints with everything held constant; `None` where this machine cannot. The record says what was not.
fn natively(command: &[&str]) -> Option<(String, Value)> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.json");
    let path = file.to_str().unwrap();
    let head = ["stat", "--source", "software", "--deterministic", "--json"];
    let output = run(&[&head[..], &["-o", path, "--"], command].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    follows(&document, "stat.json");
    let environment = &document["environment"];
    let held = environment["deterministic"].as_array().unwrap();
    if let Some(refused) = environment["not_deterministic"].as_array() {
        assert!(held.len() + refused.len() == 10, "{environment}");
        let notes = document["notes"].to_string();
        for each in refused {
            assert!(!held.contains(&each["factor"]), "{environment}");
            assert!(notes.contains("Not held constant"), "{notes}");
        }
        truecount_testing::skip!("remedies", "this machine refuses {refused:?}");
        return None;
    }
    assert_eq!(held.len(), 10, "{environment}");
    assert_eq!(environment["aslr"], false);
    Some((stdout(&output), document))
}

#[test]
fn a_native_run_draws_the_same_random_numbers_again() {
    if !python() {
        return;
    }
    let code = "import os; print(hash('a'), os.getpid(), os.getrandom(8).hex(), id(object()))";
    let print = || natively(&[PYTHON, "-I", "-S", "-c", code]).map(|(text, _)| text);
    let Some(first) = print() else { return };
    let mut again = print().unwrap();
    // Another process of the machine may have taken the number.
    let number = |text: &str| text.split(' ').nth(1).unwrap().to_owned();
    again = again.replace(&number(&again), &number(&first));
    assert_eq!(first, again);
    let plain = || {
        stdout(&run(&[
            "stat", "--source", "software", "--", PYTHON, "-c", code,
        ]))
    };
    assert_ne!(plain(), plain());
}

#[test]
fn every_program_that_a_native_run_starts_finds_the_same_stack() {
    let directory = tempfile::tempdir().unwrap();
    // Prints what the kernel gave it, and executes itself: as a child, and from a thread.
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>
static char **words;
static void *again(void *none) {
    execl("/no-such-directory-of-truecount/program", "x", (char *)0);
    execl(words[0], words[0], "last", (char *)0);
    return none;
}
int main(int argc, char **argv) {
    unsigned char *r = (unsigned char *)getauxval(AT_RANDOM);
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    printf("random ");
    for (int i = 0; i < 16; i++) printf("%02x", r[i]);
    printf(" vdso %lu cpus %d personality %x heap %p digits %d\n", getauxval(AT_SYSINFO_EHDR), CPU_COUNT(&set),
           personality(0xffffffff), malloc(9), snprintf(0, 0, "%d", getpid()));
    fflush(stdout);
    words = argv;
    if (argc == 1) {
        if (vfork() == 0) { execl(argv[0], argv[0], "child", "x", (char *)0); _exit(9); }
        int status; wait(&status);
        pthread_t t; pthread_create(&t, 0, again, 0); pthread_join(t, 0);
        return 1;
    }
    return 0;
}
"#;
    let Some(program) = compiled(directory.path(), source) else {
        return;
    };
    let Some((text, _)) = natively(&[program.to_str().unwrap()]) else {
        return;
    };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    // The PIDs of children are the kernel's next ones, which others choose beside this run.
    let given = |line: &str| line.split(" digits ").next().map(str::to_owned);
    assert!(
        lines.iter().all(|line| given(line) == given(lines[0])),
        "{text}"
    );
    assert_eq!(lines[2], lines[0], "the same process");
    let fixed: String = b"truecount fixed!"
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert!(lines[0].contains(&format!("random {fixed} ")), "{text}");
    for part in ["vdso 0 ", "cpus 1 ", "personality 40000 "] {
        assert!(lines[0].contains(part), "no {part}: {text}");
    }
}

#[test]
fn signals_and_ends_are_as_without_it() {
    let of = |script: &str| {
        let head = ["stat", "--source", "software", "--deterministic", "--"];
        let output = run(&[&head[..], &["sh", "-c", script]].concat());
        (code(&output), stdout(&output))
    };
    assert_eq!(of("exit 7").0, 7);
    assert_eq!(of("kill -9 $$").0, 137);
    assert_eq!(of("exec /no-such-program-of-truecount 2>/dev/null").0, 127);
    assert_eq!(of("nonexistent 2>/dev/null; echo $?"), (0, "127\n".into()));
    let script = "trap 'echo got' USR1; for i in 1 2 3; do kill -USR1 $$; ls / >/dev/null; done; wait; echo end";
    assert_eq!(of(script), (0, "got\ngot\ngot\nend\n".into()));
    // Programs that are killed while they start must be seen to end.
    let script = "for i in 1 2 3 4 5 6 7 8; do (exec sleep 9) & kill -9 $!; wait $!; done 2>/dev/null; echo end";
    assert_eq!(of(script), (0, "end\n".into()));
}

#[test]
fn the_same_count_five_times_with_the_virtual_pmu() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let five = |command: &[&str]| {
        let head = [
            "stat",
            "--json",
            "--source",
            "virtual",
            "--deterministic",
            "-r",
            "5",
            "-o",
        ];
        let file = directory.path().join("five.json");
        let output = run(&[&head[..], &[file.to_str().unwrap(), "--"], command].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        follows(&document, "stat.json");
        let repeats = &document["repeats"];
        assert_eq!(repeats["runs"], 5);
        assert_eq!(repeats["events"][0]["event"], "instructions:u");
        assert_eq!(repeats["events"][0]["plus_minus"], 0.0, "{repeats}");
        let values = repeats["events"][0]["values"].as_array().unwrap();
        assert!(values.len() == 5 && values.iter().all(|v| *v == values[0] && v.is_u64()));
        assert_eq!(document["counters"][0]["value"], values[0]);
    };
    if python() {
        five(&[
            PYTHON,
            "-I",
            "-S",
            "-c",
            "d={str(i): i for i in range(200)}; print(len(set(d)))",
        ]);
    }
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    for (int i = 0; i < 40; i++) {
        void *p = malloc(1000);
        for (unsigned long b = (unsigned long)p >> 12; b; b >>= 1) if (b & 1) printf("%p", p);
    }
    return 0;
}
"#;
    if let Some(program) = compiled(directory.path(), source) {
        five(&[program.to_str().unwrap()]);
    }
}

#[test]
fn repeated_runs_tell_how_much_they_differ() {
    let directory = tempfile::tempdir().unwrap();
    let counter = directory.path().join("n");
    // Sleeps longer each time; the third fails.
    let script = format!(
        "n=$(cat {0} 2>/dev/null || echo 0); n=$((n+1)); echo $n >{0}; sleep 0.0$((n*2)); [ $n != 3 ]",
        quoted(counter)
    );
    let head = [
        "stat",
        "--source",
        "software",
        "-e",
        "wall-time,page-faults",
        "-r",
        "3",
    ];
    let output = run(&[&head[..], &["--json", "--", "sh", "-c", &script]].concat());
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    follows(&document, "stat.json");
    let repeats = &document["repeats"];
    assert_eq!(repeats["runs"], 3);
    assert_eq!(repeats["exits"]["exit status 0"], 2, "{repeats}");
    assert_eq!(repeats["exits"]["exit status 1"], 1, "{repeats}");
    let wall = repeats["events"]
        .as_array()
        .unwrap()
        .iter()
        .find(|each| each["event"] == "wall-time")
        .unwrap();
    let values: Vec<u64> = wall["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_u64().unwrap())
        .collect();
    let (min, max) = (values.iter().min().unwrap(), values.iter().max().unwrap());
    assert_eq!(
        (&wall["min"], &wall["max"]),
        (&(*min).into(), &(*max).into())
    );
    assert!(max > min);
    assert_eq!(
        wall["plus_minus"].as_f64().unwrap(),
        (max - min) as f64 / 2.0
    );
    let text = stderr(&run(&[&head[..], &["--", "true"]].concat()));
    assert!(
        text.contains("3 runs") && text.contains("varies by"),
        "{text}"
    );
}

#[test]
fn a_bench_records_what_was_held_constant() {
    let document = json(&[
        "bench",
        "--source",
        "software",
        "--deterministic=env,cpu,getrandom",
        "-n",
        "2",
        "--warmup",
        "0",
        "--json",
        "--",
        "sh",
        "-c",
        "[ ${#TRUECOUNT_PAD} -gt 0 ]",
    ]);
    follows(&document, "bench.json");
    let environment = &document["environment"];
    assert!(environment["pinned"].is_string(), "{environment}");
    let held = environment["deterministic"].to_string();
    assert!(held.contains("env") && held.contains("cpu"), "{held}");
    assert!(!held.contains("aslr"), "{held}");
    assert!(document["notes"].to_string().contains("predictable"));
}

#[test]
fn it_needs_a_command_and_known_factors() {
    let me = std::process::id().to_string();
    fails(
        &["stat", "--deterministic", "-p", &me],
        2,
        &["starts", "--"],
    );
    for wrong in ["--deterministic=moon", "--deterministic=cwd"] {
        let output = truecount(&["bench", wrong, "true"]).output().unwrap();
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("at-random"), "{}", stderr(&output));
    }
}

/// Of rustc's own profile nearly every interval has the same instructions in every run (natively, with hardware counters,
/// it was 95.6 of 100; 99.98 in the best report of others).
#[test]
fn rustcs_intervals_do_not_vary() {
    if !virtual_pmu() {
        return;
    }
    let root = Command::new("rustc").args(["--print", "sysroot"]).output();
    let Some(root) = root.ok().filter(|root| root.status.success()) else {
        truecount_testing::skip!("rustc", "no rustc");
        return;
    };
    let rustc = Path::new(String::from_utf8(root.stdout).unwrap().trim()).join("bin/rustc");
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let mut source = String::from("use std::collections::HashMap;\n");
    for n in 0..40 {
        source.push_str(&format!(
            "pub fn f{n}(m: &HashMap<u64, String>) -> usize {{ m.values().filter(|v| v.len() > {n}).count() }}\n"
        ));
    }
    std::fs::write(at.join("m.rs"), source).unwrap();
    let mut aggregate = vec![
        "profile".to_owned(),
        "aggregate".to_owned(),
        "--json".to_owned(),
    ];
    for number in 0..3 {
        let output = truecount(&["run", "--deterministic", "-o", "run.txt", "--"])
            .arg(&rustc)
            .args(["--crate-type", "lib", "--emit=metadata", "m.rs"])
            .args(["-Zself-profile=prof", "-Zself-profile-events=default"])
            .arg("-Zself-profile-counter=instructions:u")
            .env("RUSTC_BOOTSTRAP", "1")
            .current_dir(at)
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let made = std::fs::read_dir(at.join("prof")).unwrap().next();
        let kept = at.join(format!("{number}.mm_profdata"));
        std::fs::rename(made.unwrap().unwrap().path(), &kept).unwrap();
        aggregate.push(kept.to_str().unwrap().to_owned());
    }
    let words: Vec<&str> = aggregate.iter().map(String::as_str).collect();
    let document = json(&words);
    assert_eq!(document["unmatched"], 0, "{document:#}");
    let none = document["smallest"].as_array().unwrap().iter();
    let none = none.filter(|row| row["range"] == 0);
    let share: f64 = none.map(|row| row["share"].as_f64().unwrap()).sum();
    assert!(
        document["intervals"].as_u64() > Some(1000) && share > 0.998,
        "{document:#}"
    );
}

/// The first program has its number, whoever starts programs meanwhile; or the result says that it has another.
#[test]
fn the_first_program_has_its_number() {
    use std::sync::atomic::{AtomicBool, Ordering};
    if !virtual_pmu() {
        return;
    }
    let held = truecount_run::determinism::pid::held().to_string();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
        }
        let mut wrong = Vec::new();
        for _ in 0..8 {
            let head = "--deterministic=aslr,at-random,getrandom,pid";
            let words = [
                "run",
                "--json=/dev/stderr",
                head,
                "--",
                "sh",
                "-c",
                "echo $$",
            ];
            let output = run(&words);
            let document: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
            let text = document.to_string();
            let number = stdout(&output).trim().to_owned();
            let said = text.contains(&format!("the PID is {number}, not {held}"));
            let refused = text.contains("ns_last_pid");
            let closed = document["outside"]["closed"] == true;
            let right = (number == held) != said && !(said && closed);
            wrong.extend((!right && !refused).then_some((number, text)));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

/// Programs that choose numbers, too, and lock the file as everybody should, do not get in the way of a run, whoever
/// counts.
#[test]
fn others_that_choose_pids_wait_for_each_other() {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    let last = "/proc/sys/kernel/ns_last_pid";
    let open = || std::fs::OpenOptions::new().write(true).open(last);
    // The file's mode lets everybody open it; who may write is asked when it is written.
    let written = open().and_then(|mut file| file.write_all(b"500"));
    if let Err(error) = written {
        truecount_testing::skip!("remedies", "{last}: {error}");
        return;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let mut file = open().unwrap();
                // SAFETY: a plain call on an open descriptor.
                assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
                file.write_all(b"500").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
                drop(file);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let mut numbers = Vec::new();
        for source in ["software", "virtual", "step"] {
            if !truecount_testing::counts(env!("CARGO_BIN_EXE_truecount"), source) {
                continue;
            }
            // Single steps are slow.
            for _ in 0..if source == "step" { 1 } else { 4 } {
                let head = ["stat", "--source", source, "--deterministic=pid", "--"];
                let output = run(&[&head[..], &["sh", "-c", "echo $$"]].concat());
                assert_eq!(code(&output), 0, "{}", stderr(&output));
                numbers.push((source, stdout(&output), stderr(&output)));
            }
        }
        stop.store(true, Ordering::Relaxed);
        let digits = |text: &str| text.trim().len();
        let most = numbers.iter().map(|(_, number, _)| digits(number)).max();
        for each in &numbers {
            assert!(Some(digits(&each.1)) == most && most > Some(3), "{each:?}");
        }
    });
}
