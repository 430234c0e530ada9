//! `truecount noise`, and `--deterministic`: what makes runs differ is named, and held constant.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use truecount_testing::quoted;

use serde_json::Value;

use crate::support::{
    TWO_RUNS, code, compiled, fails, interrupt, json, run, stderr, stdout, truecount, virtual_pmu,
};
use truecount_testing::schemas::schema;

/// Strings whose order in a set depends on the hash seed, which Python takes from getrandom.
const STRINGS: &str =
    "d={str(i): i for i in range(500)}; print(next(i for i, k in enumerate(set(d)) if k == '7'))";

fn skipped() -> bool {
    !virtual_pmu()
}

/// Python itself: a wrapper script would add what a shell varies by.
fn python() -> Option<&'static str> {
    let path = "/usr/bin/python3";
    let found = Path::new(path).exists();
    if !found {
        truecount_testing::skip!("python", "no {path}");
    }
    found.then_some(path)
}

/// A program that prints addresses and takes branches by their bits.
fn addresses(directory: &Path) -> Option<PathBuf> {
    compiled(
        directory,
        "#include <stdio.h>\n#include <stdlib.h>\n\
         int main(void) { for (int i = 0; i < 40; i++) { void *p = malloc(1000);\n\
         for (unsigned long b = (unsigned long)p >> 12; b; b >>= 1) if (b & 1) printf(\"%p\", p);\n\
         } return 0; }\n",
    )
}

fn follows_schema(document: &Value) {
    let validator = jsonschema::validator_for(&schema("noise.json")).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// The document that it printed.
fn printed(output: &Output) -> Value {
    let document = serde_json::from_slice(&output.stdout).unwrap();
    follows_schema(&document);
    document
}

/// A schema that accepts anything would prove nothing.
fn refuses(document: &Value, spoils: &[fn(&mut Value)]) {
    for spoil in spoils {
        let mut wrong = document.clone();
        spoil(&mut wrong);
        assert!(!jsonschema::is_valid(&schema("noise.json"), &wrong));
    }
}

/// With everything held constant every run counted the same.
fn nothing_is_left(document: &Value) {
    assert_eq!(document["residual"]["plus_minus"], 0.0, "{document:#}");
}

/// Two runs with `--deterministic` count the same.
fn held_constant(command: &[&str]) {
    let count = || {
        let output = run(&[&["run", "--json", "--deterministic", "--"], command].concat());
        let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let notes = document["notes"].to_string();
        assert!(notes.contains("predictable"), "{notes}");
        let held = document["environment"]["deterministic"].as_array().unwrap();
        // PIDs and the threads of native runs are root's to hold constant.
        let missing = document["environment"]["not_deterministic"].as_array();
        assert_eq!(held.len() + missing.map_or(0, Vec::len), 10, "{held:?}");
        document["counters"][0]["value"].as_u64().unwrap()
    };
    assert_eq!(count(), count(), "{command:?}");
}

#[test]
fn hash_randomisation_of_python_is_named_and_held_constant() {
    let Some(python) = python().filter(|_| !skipped()) else {
        return;
    };
    let command = [python, "-I", "-S", "-c", STRINGS];
    let arguments = [
        "noise",
        "--json",
        "--source",
        "virtual",
        "-n",
        "3",
        "--factors",
        "getrandom",
        "--",
    ];
    let document = json(&[&arguments[..], &command].concat());
    follows_schema(&document);
    assert_eq!(document["dominant_factor"], "getrandom", "{document:#}");
    let factor = document["factors"].as_array().unwrap().iter();
    let factor = factor
        .clone()
        .find(|each| each["factor"] == "getrandom")
        .unwrap();
    assert!(
        !factor["functions"].as_array().unwrap().is_empty(),
        "{factor}"
    );
    nothing_is_left(&document);
    held_constant(&command);
}

#[test]
fn aslr_is_named_for_a_program_that_prints_addresses_and_held_constant() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = addresses(directory.path()) else {
        return;
    };
    let program = program.to_str().unwrap();
    let document = json(&[
        "noise",
        "--json",
        "-n",
        "3",
        "--source",
        "virtual",
        "--factors",
        "aslr,getrandom,clock,env,malloc",
        "--seed",
        "3",
        "--functions",
        "100",
        "--",
        program,
    ]);
    follows_schema(&document);
    assert_eq!(document["dominant_factor"], "aslr", "{document:#}");
    nothing_is_left(&document);
    for each in document["factors"].as_array().unwrap() {
        // The loader's string functions take branches by the alignment of what is on the stack.
        if each["factor"] != "env" {
            assert_eq!(each["cause"], each["factor"] == "aslr", "{each}");
        }
        let names = each["functions"].to_string();
        assert_eq!(names.contains("main"), each["factor"] == "aslr", "{each}");
    }
    held_constant(&[program]);
    refuses(
        &document,
        &[
            |d| d["dominant_factor"] = "moon".into(),
            |d| d["factors"][0]["cause"] = "yes".into(),
            |d| d["residual"]["counts"] = Value::Null,
        ],
    );
}

/// Names of an array's objects.
fn names<'d>(list: &'d Value, field: &str) -> Vec<&'d str> {
    let list = list.as_array().unwrap().iter();
    list.map(|each| each[field].as_str().unwrap()).collect()
}

/// Whoever varies PIDs moves the place where everybody's next one comes from.
static NUMBERS: Mutex<()> = Mutex::new(());

#[test]
fn what_a_program_prints_of_its_surroundings_is_named() {
    if skipped() {
        return;
    }
    let _alone = NUMBERS.lock();
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <unistd.h>\n\
         static void each(const char *s) { while (*s) putchar(*s++); putchar('\\n'); }\n\
         int main(int argc, char **argv) { char b[4096], n[20]; (void)argc; each(argv[0]);\n\
         if (getcwd(b, sizeof b)) each(b); sprintf(n, \"%d\", getpid()); each(n); return 0; }\n";
    if compiled(directory.path(), source).is_none() {
        return;
    }
    let (page, picture) = (
        directory.path().join("n.html"),
        directory.path().join("n.svg"),
    );
    let output = truecount(&[
        "noise",
        "--json",
        "--source",
        "virtual",
        "-n",
        "4",
        "--seed",
        "1",
        "--factors",
        "path,cwd,pid,getrandom",
        "--html",
        page.to_str().unwrap(),
        "--svg",
        picture.to_str().unwrap(),
        "--",
        "./program",
    ])
    .current_dir(directory.path())
    .output()
    .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = printed(&output);
    nothing_is_left(&document);
    let tried = names(&document["factors"], "factor");
    let not_tested = names(&document["not_tested"], "name");
    let asked = not_tested.iter().filter(|name| **name != "threads");
    assert_eq!(tried.len() + asked.count(), 4, "{document:#}");
    for each in &document["not_tested"].as_array().unwrap()[..] {
        truecount_testing::skip!("remedies", "{}: {}", each["name"], each["reason"]);
    }
    for each in document["factors"].as_array().unwrap() {
        assert_eq!(each["cause"], each["factor"] != "getrandom", "{each}");
        // Under whatever name the program saw itself, its symbols are found.
        let functions = each["functions"].to_string();
        assert!(!functions.contains("truecount-noise"), "{functions}");
        if each["factor"] == "cwd" {
            assert!(
                names(&each["functions"], "function").contains(&"each"),
                "{functions}"
            );
        }
    }
    for (file, start) in [(&page, "<!doctype html>"), (&picture, "<svg ")] {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.starts_with(start), "{text}");
        assert_eq!(text.matches("<circle").count(), 4 * (tried.len() + 2));
        assert!(text.contains("length of the program") && text.contains("every run the same"));
        // What the program is called reaches the page as text.
        assert!(!text.contains("<script"));
    }
}

#[test]
fn what_is_not_tested_is_listed_with_the_reason() {
    if skipped() {
        return;
    }
    let alone = NUMBERS.lock();
    let head = ["noise", "--source", "virtual", "-n", "2", "--json"];
    let document = json(&[&head[..], &["--", "true"]].concat());
    drop(alone);
    follows_schema(&document);
    let listed = names(&document["not_tested"], "name");
    let tried = names(&document["factors"], "factor");
    assert!(
        tried.contains(&"time") && tried.contains(&"random"),
        "{tried:?}"
    );
    assert!(
        !tried.contains(&"machine"),
        "only where it is named: {tried:?}"
    );
    for name in ["aslr", "cpu", "pid", "cwd", "files", "threads"] {
        assert!(tried.contains(&name) != listed.contains(&name), "{name}");
    }
    fails(
        &["noise", "--source", "software", "--", "true"],
        2,
        &["--source"],
    );
}

#[test]
fn getrandom_gives_the_same_bytes_and_the_whole_length() {
    let Some(python) = python().filter(|_| !skipped()) else {
        return;
    };
    let code = "import os; a=os.getrandom(100000); b=os.getrandom(100000); \
        print(len(a), len(b), a==b, len(set(a)), hash('x'), a[:8].hex())";
    let print = |flags: &[&str]| {
        let output = run(&[&["run"], flags, &["--", python, "-I", "-S", "-c", code]].concat());
        stdout(&output)
    };
    let flag = ["--deterministic=getrandom"];
    let (first, again) = (print(&flag), print(&flag));
    assert!(first.starts_with("100000 100000 False 256 "), "{first}");
    assert_eq!(first, again);
    assert_ne!(print(&[]), print(&[]));
}

#[test]
fn ctrl_c_prints_what_there_is_and_mistakes_are_told() {
    fails(
        &["noise", "--", "no-such-program-anywhere"],
        127,
        &["not found"],
    );
    let wrong = run(&["noise", "--factors", "moon", "--", "true"]);
    assert_eq!(code(&wrong), 2);
    assert!(stderr(&wrong).contains("at-random"), "{}", stderr(&wrong));
    if skipped() {
        return;
    }
    let child = truecount(&[
        "noise",
        "--json",
        "--source",
        "virtual",
        "--factors",
        "env,cpu",
        "-n",
        "5000",
        "--",
        "true",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    interrupt(&child, Duration::from_millis(300));
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130);
    let document = printed(&output);
    assert_eq!(document["interrupted"], libc::SIGINT);
}

/// The program's run of this number, the warm-up included, takes longer than any time limit.
const SLOW: &str =
    r#"n=0; [ -s count ] && read n < count; echo $((n+1)) > count; [ $n -lt LAST ] || sleep 60"#;

#[test]
fn a_run_that_takes_too_long_costs_only_itself() {
    if skipped() {
        return;
    }
    let slow = |runs: &str, json: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        let head = [
            "noise",
            "--source",
            "virtual",
            "-n",
            "50",
            "--factors",
            "env",
        ];
        let tail = ["--timeout", "2s", "--", "sh", "-c"];
        truecount(&[&head[..], json, &tail].concat())
            .arg(SLOW.replace("LAST", runs))
            .current_dir(directory.path())
            .output()
            .unwrap()
    };
    // Three settings a round: the run after the warm-up and three rounds; less where runs were repeated, because others
    // moved PIDs.
    let output = slow("10", &["--json"]);
    let told = stderr(&output);
    assert_eq!(code(&output), 124, "{told}");
    assert!(told.contains("--timeout"), "{told}");
    let document = printed(&output);
    assert!(document["stopped"].as_str().unwrap().contains("--timeout"));
    for spread in [
        &document["residual"],
        &document["factors"][0],
        &document["together"],
    ] {
        let rounds = spread["counts"].as_array().unwrap().len();
        assert!((1..=3).contains(&rounds), "{document:#}");
    }
    let output = slow("8", &[]);
    assert_eq!(code(&output), 124, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("stopped: what was measured until then"),
        "{text}"
    );
    assert!(text.contains("environment size"), "{text}");
    // Not one whole round: nothing can be compared.
    let output = slow("3", &[]);
    assert_eq!((code(&output), stdout(&output).as_str()), (124, ""));
    assert_eq!(stderr(&output).matches("truecount: ").count(), 1);
}

#[test]
fn a_full_disk_does_not_cost_the_result() {
    if skipped() {
        return;
    }
    if !Path::new("/dev/full").exists() {
        truecount_testing::skip!("tools", "no /dev/full");
        return;
    }
    let head = [&TWO_RUNS[..], &["--factors", "env"]].concat();
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("kept.svg");
    std::fs::write(&kept, "x".repeat(100_000)).unwrap();
    let kept = kept.to_str().unwrap();
    let files = ["--html", "/dev/full", "--svg", kept, "--json", "--", "true"];
    let output = run(&[&head[..], &files].concat());
    assert_eq!(code(&output), 1);
    let told = stderr(&output);
    assert!(told.contains("cannot write /dev/full"), "{told}");
    printed(&output);
    let picture = std::fs::read_to_string(kept).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>"));
    // The result itself: it stands on stderr, and the picture is drawn all the same.
    std::fs::remove_file(kept).unwrap();
    let files = ["--svg", kept, "-o", "/dev/full", "--", "true"];
    let output = run(&[&head[..], &files].concat());
    assert_eq!(code(&output), 1);
    let told = stderr(&output);
    assert!(
        told.contains("environment size") && told.contains("/dev/full"),
        "{told}"
    );
    assert!(Path::new(kept).exists());
    // What a file held is not lost before there is something better.
    let wrong = ["--svg", kept, "--timeout", "1s", "--", "sleep", "60"];
    let before = std::fs::read(kept).unwrap();
    assert_eq!(code(&run(&[&head[..], &wrong].concat())), 124);
    assert_eq!(std::fs::read(kept).unwrap(), before);
}

#[test]
fn what_rustc_tells_of_itself_is_used() {
    if skipped() {
        return;
    }
    let root = Command::new("rustc").args(["--print", "sysroot"]).output();
    let Some(root) = root.ok().filter(|root| root.status.success()) else {
        truecount_testing::skip!("rustc", "no rustc");
        return;
    };
    let rustc = Path::new(String::from_utf8(root.stdout).unwrap().trim()).join("bin/rustc");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("m.rs"), "pub fn one() -> u32 { 1 }\n").unwrap();
    let head = [&TWO_RUNS[..], &["--factors", "aslr", "--json"]].concat();
    // Its profiler takes a counter that rdpmc reads, or none.
    let output = truecount(&[&head[..], &["--profile", "prof", "--"]].concat())
        .arg(rustc)
        .args([
            "--crate-type",
            "lib",
            "--emit=metadata",
            "-Zself-profile=prof",
        ])
        .args(["-Zself-profile-counter=instructions:u", "m.rs"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = printed(&output);
    let notes = document["notes"].to_string();
    assert!(notes.contains("no functions are listed"), "{notes}");
    let aslr = &document["factors"][0];
    assert_eq!(aslr["region_counter"], "instructions:u", "{aslr:#}");
    assert!(aslr["diverging_regions"].as_u64() > Some(0), "{aslr:#}");
    refuses(
        &document,
        &[
            |d| d["factors"][0]["regions"][0]["region"] = 7.into(),
            |d| d["residual"]["diverging_regions"] = Value::Null,
        ],
    );
}

/// Where runs differ with everything held constant a test decides, and too few runs could never pass it.
#[test]
fn too_few_runs_become_as_many_as_can_tell() {
    if skipped() {
        return;
    }
    // Nothing holds the content of files constant.
    let directory = tempfile::tempdir().unwrap();
    let script = r#"n=0; [ -s F ] && read n < F; n=$((n*7+3)); n=$((n%101)); echo $n > F; while [ $n -gt 0 ]; do n=$((n-1)); done"#;
    let script = script.replace('F', &quoted(directory.path().join("kept")));
    let head = [
        &TWO_RUNS[..],
        &["--factors", "env", "--functions", "0", "--json", "--"],
    ]
    .concat();
    let document = json(&[&head[..], &["sh", "-c", &script]].concat());
    assert_eq!(document["runs"], 5, "{document:#}");
    assert_eq!(document["residual"]["counts"].as_array().unwrap().len(), 5);
    let notes = document["notes"].to_string();
    assert!(notes.contains("5 were made"), "{notes}");
    // Where nothing differs the number asked for is enough.
    let document = json(&[&head[..], &["true"]].concat());
    assert_eq!(document["runs"], 2, "{document:#}");
}
