//! pytest-codspeed, unmodified, on `truecount valgrind` as CodSpeed's runner starts Valgrind: a part of the profile for
//! each test, and nearly the same counts again.

use std::process::Command;

use crate::support::{code, stderr, stdout, truecount, virtual_pmu};
use crate::valgrind::line;

const TESTS: &str = r#"
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def test_fib(benchmark):
    benchmark(fib, 10)

def test_words(benchmark):
    @benchmark
    def words():
        counts = {}
        for i in range(100):
            word = f"w{i * 7919 % 101}"
            counts[word] = counts.get(word, 0) + i
        return counts
"#;

/// Whether the plug-in is there.
fn has_plugin() -> bool {
    let found = Command::new("python3")
        .args(["-c", "import pytest, pytest_codspeed"])
        .output();
    let found = found.is_ok_and(|found| found.status.success());
    if !found {
        truecount_testing::skip!("pytest-codspeed", "no pytest-codspeed for python3");
    }
    found
}

#[test]
fn python_tests_have_parts_of_their_own() {
    if !virtual_pmu() || !has_plugin() {
        return;
    }
    let run = || {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        std::fs::write(at.join("test_suite.py"), TESTS).unwrap();
        let output = truecount(&["valgrind", "-q", "--tool=callgrind", "--trace-children=yes"])
            .args([
                "--collect-systime=nsec",
                "--compress-strings=no",
                "--combine-dumps=yes",
            ])
            .args([
                "--dump-line=no",
                "--instr-atstart=no",
                "--callgrind-out-file=%p.out",
            ])
            .args([
                "python3",
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "test_suite.py",
            ])
            .current_dir(at)
            .env_remove("VALGRIND_OPTS")
            .envs([
                ("CODSPEED_ENV", "runner"),
                ("CODSPEED_RUNNER_MODE", "simulation"),
                ("PYTHONHASHSEED", "0"),
                ("PYTHONDONTWRITEBYTECODE", "1"),
            ])
            .env("CODSPEED_PROFILE_FOLDER", at)
            .output()
            .unwrap();
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(code(&output), 0, "{said}");
        assert!(said.contains("2 benchmarked"), "{said}");
        let files = std::fs::read_dir(at)
            .unwrap()
            .map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|end| end == "out"));
        let texts: Vec<String> = files
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        let parts: Vec<String> = texts
            .iter()
            .flat_map(|text| text.split("\npart: ").skip(1).map(str::to_owned))
            .collect();
        let part = |name: &str| {
            let part = parts
                .iter()
                .find(|part| line(part, "desc: Trigger:").ends_with(name));
            let part = part.unwrap_or_else(|| panic!("no part of {name}: {said}"));
            assert!(part.contains("cfn="), "{part}");
            line(part, "totals:").parse::<u64>().unwrap()
        };
        [
            part("test_suite.py::test_fib"),
            part("test_suite.py::test_words"),
        ]
    };
    let first = run();
    assert!(
        first
            .iter()
            .all(|&count| (10_000..10_000_000).contains(&count)),
        "{first:?}"
    );
    // Where the interpreter's objects lie decides a few hundred instructions.
    for (one, other) in first.into_iter().zip(run()) {
        assert!(one.abs_diff(other) * 50 < one, "{one} {other}");
    }
}
