//! The same region in every language: a loop of known length, counted as a user of the language would, from outside the
//! workspace: headers and a library in a prefix, a wheel in a fresh environment, modules and crates by their paths.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "languages/python.rs"]
mod python;
#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Prefix, inside_of, text};

/// How often each program is run.
const RUNS: usize = 10;

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn program(name: &str) -> PathBuf {
    own("tests/programs/languages").join(name)
}

/// Counts beyond the loop's own length in ten runs of a program, which are all the same: one number for any length.
fn beyond(runs: usize, mut command: impl FnMut() -> Command) -> Option<i64> {
    let mut found = None;
    for _ in 0..runs {
        let mut command = command();
        let output = inside_of(&mut command)?;
        let said = text(&output);
        assert!(output.status.success(), "{command:?}: {said}");
        let counts: Vec<i64> = said
            .lines()
            .map(|line| line.strip_prefix("beyond ").expect(&said).parse().unwrap())
            .collect();
        assert_eq!(counts.len(), 4, "{command:?}: {said}");
        for count in counts {
            let first = *found.get_or_insert(count);
            assert_eq!(count, first, "{command:?}: {said}");
        }
    }
    found
}

/// The most that the page states for a language, whatever the build.
fn stated(language: &str, constant: i64) {
    println!("{language}: {constant}");
    let page = std::fs::read_to_string(own("../../docs/languages/same.md")).unwrap();
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| {language} |")));
    let row = row.unwrap_or_else(|| panic!("no row of {language} in docs/languages/same.md"));
    let most = row.split('|').nth(3).unwrap().trim().replace(',', "");
    let most: i64 = most.parse().expect(row);
    assert!((0..=most).contains(&constant), "{constant}, not {row}");
}

/// Python interpreters from 3.9 on beside the one of the environment: those of PATH, and pyenv's.
fn interpreters() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
    let versions = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let kept: Vec<PathBuf> = versions
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    let mut found = Vec::new();
    for minor in 9..=13 {
        let name = format!("python3.{minor}");
        let places =
            std::iter::once(PathBuf::from(&name)).chain(kept.iter().map(|bin| bin.join(&name)));
        let mut works = places.filter(|python| {
            let asked = Command::new(python).arg("--version").output();
            asked.is_ok_and(|asked| asked.status.success())
        });
        match works.next() {
            Some(python) => found.push(python),
            None => truecount_testing::skip!("pythons", "{name} is not here"),
        }
    }
    found
}

#[test]
fn c_and_cpp_count_the_same_region() {
    let Some(prefix) = Prefix::versioned() else {
        return;
    };
    let c = prefix.compile("cc", "languages/loop.c", &["-O2"]);
    let Some(constant) = beyond(RUNS, || Command::new(&c)) else {
        return;
    };
    stated("C", constant);
    match prefix.built("c++", "languages/loop.cpp", &["-O2", "-std=c++11"]) {
        Ok(cpp) => stated("C++", beyond(RUNS, || Command::new(&cpp)).unwrap()),
        Err(said) => truecount_testing::skip!("compilers", "c++: {said}"),
    }
}

#[test]
fn rust_outside_the_workspace_counts_the_same_region() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |path: &str| scratch.path().join(path);
    let count = own("../count").canonicalize().unwrap();
    std::fs::create_dir(at("src")).unwrap();
    std::fs::copy(program("loop.rs"), at("src/main.rs")).unwrap();
    std::fs::copy(own("../../Cargo.lock"), at("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         truecount = {{ path = {count:?} }}\n\n[profile.dev]\ndebug = false\nopt-level = 1\n",
    );
    std::fs::write(at("Cargo.toml"), manifest).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let cargo = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(scratch.path())
            .env("CARGO_TARGET_DIR", &target)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    };
    cargo(&["build", "--offline", "--quiet"]);
    // Elsewhere than its sources and what it was built from.
    let built = at("outside");
    std::fs::copy(target.join("debug/outside"), &built).unwrap();
    if let Some(constant) = beyond(RUNS, || Command::new(&built)) {
        stated("Rust", constant);
    }
}

#[test]
fn go_counts_the_same_region() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |path: &str| scratch.path().join(path);
    let module = own("../../bindings/go").canonicalize().unwrap();
    let text = format!(
        "module example\n\ngo 1.21\n\nrequire truecount v0.0.0\n\nreplace truecount => {}\n",
        module.display()
    );
    std::fs::write(at("go.mod"), text).unwrap();
    std::fs::copy(program("loop.go"), at("main.go")).unwrap();
    let built = support::go(scratch.path())
        .args(["build", "-o", "loop", "."])
        .current_dir(scratch.path())
        .output();
    match built {
        Ok(built) => assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        ),
        Err(error) => {
            truecount_testing::skip!("go", "go: {error}");
            return;
        }
    }
    if let Some(constant) = beyond(RUNS, || Command::new(at("loop"))) {
        stated("Go", constant);
    }
}

#[test]
fn python_counts_the_same_region() {
    let Some(environment) = python::installed() else {
        return;
    };
    let run = |python: &Path, libraries: Option<&Path>| {
        let mut command = Command::new(python);
        command
            .arg(program("loop.py"))
            .current_dir(environment.scratch.path())
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some(libraries) = libraries {
            command.env("PYTHONPATH", libraries);
        }
        command
    };
    let Some(constant) = beyond(RUNS, || run(&environment.python, None)) else {
        return;
    };
    stated("Python", constant);
    // One wheel for all versions.
    let libraries = environment.scratch.path().join("libraries");
    let installed = Command::new(&environment.python)
        .args([
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            "--target",
        ])
        .arg(&libraries)
        .arg(&environment.wheel)
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let all = std::env::var_os("TRUECOUNT_LONG").is_some();
    for python in interpreters() {
        let runs = if all { RUNS } else { 2 };
        let constant = beyond(runs, || run(&python, Some(&libraries))).unwrap();
        println!("{}", python.display());
        stated("Python", constant);
    }
}
