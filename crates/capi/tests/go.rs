//! The Go module: used from a module of somebody else's, its own tests and benchmarks under the virtual PMU.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

#[path = "support/mod.rs"]
mod support;

use support::{inside_of, text};

/// A test program of the package in `directory`; a skip where there is no Go.
fn built(directory: &Path, to: &Path) -> bool {
    let output = Command::new("go")
        .args(["test", "-c", "-o"])
        .arg(to)
        .arg(".")
        .current_dir(directory)
        // Nothing comes from outside.
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .output();
    match output {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            true
        }
        Err(error) => {
            truecount_testing::skip!("go", "go: {error}");
            false
        }
    }
}

/// The benchmarks' lines, of tests that ran under the virtual PMU.
fn benchmarks(program: &Path) -> Option<Vec<String>> {
    let mut command = Command::new(program);
    command
        .args([
            "-test.v",
            "-test.bench=.",
            "-test.benchtime=100x",
            "-test.count=2",
        ])
        .env("TRUECOUNT_GO_INSIDE", "1");
    let output = inside_of(&mut command)?;
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("SKIP"), "{said}");
    let lines = said.lines().filter(|line| line.contains("instructions/op"));
    let counts = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words
            .iter()
            .position(|word| *word == "instructions/op")
            .unwrap();
        format!("{} {}", words[0], words[at - 1])
    });
    Some(counts.collect())
}

#[test]
fn go_counts_a_loop_of_known_length_the_same_every_time() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/go");
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join("module.test");
    if !built(&module, &program) {
        return;
    }
    let Some(first) = benchmarks(&program) else {
        return;
    };
    assert_eq!(first.len(), 4, "{first:?}");
    assert_eq!(first[0], first[1], "{first:?}");
    assert!(
        first[0].starts_with("BenchmarkLoop") && first[0].contains(" 20"),
        "{first:?}"
    );
    assert!(
        first[3].starts_with("BenchmarkNothing") && first[3].ends_with(" 0"),
        "{first:?}"
    );
    for _ in 0..4 {
        assert_eq!(benchmarks(&program).unwrap(), first);
    }
}

#[test]
fn a_module_of_somebody_elses_uses_it_by_replace() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/go");
    let scratch = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(scratch.path().join(name), text).unwrap();
    let replaced = format!(
        "module example\n\ngo 1.21\n\nrequire truecount v0.0.0\n\nreplace truecount => {}\n",
        module.canonicalize().unwrap().display()
    );
    write("go.mod", &replaced);
    write(
        "sum_test.go",
        "package example\n\nimport (\n\t\"testing\"\n\n\t\"truecount\"\n)\n\nfunc TestMain(m *testing.M) { truecount.Main(m) }\n\n\
         func BenchmarkSum(b *testing.B) {\n\tdata := make([]int, 1000)\n\ttruecount.Bench(b, func() {\n\t\tsum := 0\n\t\t\
         for _, n := range data {\n\t\t\tsum += n\n\t\t}\n\t\tdata[0] = sum\n\t})\n}\n",
    );
    let program = scratch.path().join("example.test");
    if !built(scratch.path(), &program) {
        return;
    }
    let Some(counts) = benchmarks(&program) else {
        return;
    };
    assert!(counts.len() == 2 && counts[0] == counts[1], "{counts:?}");
    assert!(counts[0].starts_with("BenchmarkSum"), "{counts:?}");
}
