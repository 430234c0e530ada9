//! A suite of gungraun's (`tests/gungraun`), unmodified, on `truecount valgrind`: library and binary benchmarks, entry
//! points, limits, Cachegrind beside Callgrind; and the second run finds the same counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{stderr, stdout, virtual_pmu};

/// The suite's version of gungraun (`tests/gungraun/Cargo.toml`), which a runner of another one refuses.
const VERSION: &str = "0.20.0";

/// gungraun's runner of that version, where it is installed (`cargo install gungraun-runner --version …`).
fn runner() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let directories = std::env::split_paths(&path).chain(home.map(|home| home.join("bin")));
    let mut files = directories.map(|directory| directory.join("gungraun-runner"));
    files.find(|file| {
        let said = Command::new(file).arg("--version").output();
        said.is_ok_and(|said| stdout(&said).split_whitespace().last() == Some(VERSION))
    })
}

/// A benchmark's name with what stands behind `Instructions:`.
fn instructions(text: &str) -> Vec<(String, String)> {
    let mut name = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        if line.contains("::") && !line.starts_with(' ') {
            name = line
                .split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ");
        } else if let Some(rest) = line.trim_start().strip_prefix("Instructions:") {
            found.push((name.clone(), rest.trim().to_owned()));
        }
    }
    found
}

#[test]
fn a_suite_runs_unmodified() {
    if !virtual_pmu() {
        return;
    }
    let Some(runner) = runner() else {
        truecount_testing::skip!("gungraun", "no gungraun-runner {VERSION} in PATH");
        return;
    };
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gungraun");
    let target = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("gungraun");
    let valgrind = target.join("valgrind");
    std::fs::create_dir_all(&target).unwrap();
    let _ = std::fs::remove_file(&valgrind);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_truecount"), &valgrind).unwrap();
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command
            .args(["bench", "--offline"])
            .args(arguments)
            .current_dir(&suite)
            .env("CARGO_TARGET_DIR", &target)
            .env("GUNGRAUN_RUNNER", &runner)
            .env("GUNGRAUN_VALGRIND_BIN", &valgrind)
            .env("GUNGRAUN_COLOR", "never")
            .env_remove("VALGRIND_OPTS");
        command.output().unwrap()
    };
    let built = cargo(&["--no-run"]);
    if !built.status.success() {
        truecount_testing::skip!("gungraun", "its crates are not here: {}", stderr(&built));
        return;
    }
    let _ = std::fs::remove_dir_all(target.join("gungraun"));
    let first = cargo(&[]);
    assert!(
        first.status.success(),
        "{}{}",
        stdout(&first),
        stderr(&first)
    );
    let found = instructions(&stdout(&first));
    // Four of recursion and sorting, one inside a function, one by two tools, two programs.
    assert_eq!(found.len(), 9, "{}", stdout(&first));
    let again = cargo(&[]);
    assert!(
        again.status.success(),
        "{}{}",
        stdout(&again),
        stderr(&again)
    );
    let same = instructions(&stdout(&again));
    assert_eq!(same.len(), found.len());
    for (name, text) in same {
        assert!(text.contains("No change"), "{name}: {text}");
    }
}
