//! Of which inputs a count is: hashes of what a run read, and what is said where they differ.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use truecount_testing::quoted;

use serde_json::{Value, json};

use crate::support::{compiled, json, stderr, truecount, virtual_pmu};
use truecount_testing::schemas::schema;

const HELD: &str = "--deterministic=aslr,at-random,getrandom";

/// The identity of one run's inputs, with a variable of the program's environment.
fn identity(variable: &str, command: &[&str]) -> Value {
    let output = truecount(&[&["run", "--json", HELD, "--"], command].concat())
        .env("INPUTS_VARIABLE", variable)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(jsonschema::is_valid(&schema("run.json"), &document));
    let identity = &document["outside"]["identity"];
    assert_eq!(identity["partial"], Value::Null, "{identity}");
    identity.clone()
}

/// The parts that differ.
fn differing(one: &Value, other: &Value) -> BTreeSet<String> {
    let all = one["parts"].as_object().unwrap();
    assert_eq!(all.len(), 7);
    let differs = all
        .iter()
        .filter(|(part, hash)| other["parts"][part.as_str()] != **hash);
    differs.map(|(part, _)| part.clone()).collect()
}

fn parts(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Until the clock of file times is past a file's last change: a run that begins then did not make it.
fn settle(path: &Path) {
    let metadata = fs::metadata(path).unwrap();
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    loop {
        // SAFETY: all zero is a time.
        let mut now: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: writes to a local.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
        if (now.tv_sec, now.tv_nsec) > changed {
            return;
        }
    }
}

#[test]
fn translations_of_earlier_runs_are_no_input() {
    if !virtual_pmu() {
        return;
    }
    for held in [HELD, "--deterministic=all,time,threads,random"] {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| {
            let output = truecount(&["run", "--json", held, "--", "true"])
                .env("XDG_CACHE_HOME", directory.path())
                .env_remove("TRUECOUNT_NO_CACHE")
                .output()
                .unwrap();
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        });
        assert_eq!(first["cached_blocks"], 0);
        if second["cached_blocks"] == 0 {
            truecount_testing::skip!(
                "aslr",
                "the kernel does not switch address randomisation off here"
            );
            return;
        }
        assert_eq!(
            first["outside"]["identity"], second["outside"]["identity"],
            "{held}"
        );
        assert_eq!(first["counters"], second["counters"], "{held}");
    }
}

#[test]
fn a_run_says_of_which_inputs_its_count_is() {
    let source = include_str!("../../../../tests/programs/inputs.c");
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), source) else {
        return;
    };
    let file = directory.path().join("file");
    fs::write(&file, "12345678").unwrap();
    let reads = [program.to_str().unwrap(), "file", file.to_str().unwrap()];
    let first = identity("a", &reads);
    // The program, the file, and the C library at least, if there is one.
    assert!(first["files"].as_u64().unwrap() >= 2, "{first}");
    assert_eq!(identity("a", &reads), first);
    // Written anew, the same.
    fs::write(&file, "12345678").unwrap();
    assert_eq!(differing(&first, &identity("a", &reads)), parts(&[]));
    fs::write(&file, "12345679").unwrap();
    assert_eq!(differing(&first, &identity("a", &reads)), parts(&["files"]));
    let second = identity("a", &reads);
    assert_eq!(
        differing(&second, &identity("b", &reads)),
        parts(&["environment"])
    );
    let other = directory.path().join("copy");
    fs::copy(&file, &other).unwrap();
    let elsewhere = identity("a", &[reads[0], "file", other.to_str().unwrap()]);
    assert_eq!(differing(&second, &elsewhere), parts(&["arguments"]));
    // Another program with the same name.
    let mut bytes = fs::read(&program).unwrap();
    bytes.extend([0; 16]);
    fs::remove_file(&program).unwrap();
    fs::write(&program, bytes).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, executable).unwrap();
    assert_eq!(
        differing(&second, &identity("a", &reads)),
        parts(&["program"])
    );
}

#[test]
fn names_and_times_of_files_are_inputs() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path().join("there");
    fs::create_dir(&there).unwrap();
    let file = there.join("file");
    let asks = ["sh", "-c", "test -e \"$0\"; :", file.to_str().unwrap()];
    let lists = ["ls", there.to_str().unwrap()];
    let (missing, empty) = (identity("", &asks), identity("", &lists));
    fs::write(&file, "x").unwrap();
    settle(&file);
    let exists = identity("", &asks);
    assert!(differing(&missing, &exists).contains("names"));
    assert_eq!(differing(&exists, &identity("", &asks)), parts(&[]));
    assert!(differing(&empty, &identity("", &lists)).contains("names"));
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000))
        .unwrap();
    drop(opened);
    settle(&file);
    assert_eq!(differing(&exists, &identity("", &asks)), parts(&["times"]));
}

/// Each of the runs takes in nothing but files, arguments and environment, and is closed by itself; yet their counts differ.
#[test]
fn runs_that_change_their_inputs_are_not_closed_together() {
    let source = include_str!("../../../../tests/programs/next.c");
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), source) else {
        return;
    };
    let file = directory.path().join("number");
    fs::write(&file, "100\n").unwrap();
    let command = [program.to_str().unwrap(), file.to_str().unwrap()];
    let one = |name: &str| {
        let document = json(&[&["run", "--json", HELD, "--"], &command[..]].concat());
        assert_eq!(document["outside"]["closed"], true, "{name}: {document}");
        document["outside"]["identity"].clone()
    };
    assert_eq!(differing(&one("first"), &one("second")), parts(&["files"]));
    let head = [
        "bench", "--json", "-n", "2", "--source", "virtual", HELD, "--",
    ];
    let document = json(&[&head[..], &command].concat());
    assert!(jsonschema::is_valid(&schema("bench.json"), &document));
    let outside = &document["commands"][0]["outside"];
    assert_eq!(outside["closed"], false, "{outside}");
    assert_eq!(outside["identity"]["parts"]["files"], "varied");
    let inputs = outside["inputs"].as_array().unwrap();
    let said: Vec<&Value> = inputs.iter().map(|input| &input["source"]).collect();
    assert_eq!(said, [&json!("changed-inputs")]);
    let title = inputs[0]["title"].as_str().unwrap();
    assert!(title.ends_with("every run: files that it reads"), "{title}");
    // One that starts every run with the same number is.
    let write = format!("echo 100 > {}", quoted(&file));
    let document = json(&[&head[..7], &["--prepare", &write, "--"], &command].concat());
    let command = &document["commands"][0];
    assert_eq!(command["outside"]["closed"], true, "{command}");
    assert_eq!(command["metrics"]["instructions:u"]["exact"], true);
}
