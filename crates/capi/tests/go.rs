//! The Go module: used from a module of somebody else's, its own tests and benchmarks under the virtual PMU.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

#[path = "support/mod.rs"]
mod support;

use support::{go, inside_of, text};

/// A test program of the package in `directory`; a skip where there is no Go.
fn built(directory: &Path, to: &Path) -> bool {
    let output = go(to.parent().unwrap())
        .args(["test", "-c", "-o"])
        .arg(to)
        .arg(".")
        .current_dir(directory)
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

/// What the benchmarks print, run under the virtual PMU.
fn printed(program: &Path, times: &str) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(["-test.v", "-test.bench=.", "-test.count=2"])
        .arg(format!("-test.benchtime={times}"))
        .env("TRUECOUNT_GO_INSIDE", "1");
    let output = inside_of(&mut command)?;
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("SKIP"), "{said}");
    Some(said)
}

/// The benchmarks' lines.
fn benchmarks(program: &Path, times: &str) -> Option<Vec<String>> {
    let said = printed(program, times)?;
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
    let Some(first) = benchmarks(&program, "100x") else {
        return;
    };
    assert_eq!(first.len(), 6, "{first:?}");
    assert_eq!(first[0], first[1], "{first:?}");
    assert!(
        first[0].starts_with("BenchmarkLoop") && first[0].contains(" 20"),
        "{first:?}"
    );
    assert!(
        first[5].starts_with("BenchmarkNothing") && first[5].ends_with(" 0"),
        "{first:?}"
    );
    // The same with one call: the one that the timer was reset before is not the only one that counts.
    let once = benchmarks(&program, "1x").unwrap();
    assert_eq!((&once[..2], &once[4..]), (&first[..2], &first[4..]));
    for _ in 0..4 {
        let again = benchmarks(&program, "100x").unwrap();
        assert_eq!((&again[..2], &again[4..]), (&first[..2], &first[4..]));
    }
    // What allocates varies by what the collector does meanwhile: only the least of several runs is compared.
    let least = |times: &str| -> f64 {
        let lines = (0..4).flat_map(|_| benchmarks(&program, times).unwrap());
        let allocates = lines.filter(|line| line.starts_with("BenchmarkAllocates"));
        let counts = allocates.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap());
        counts.fold(f64::INFINITY, f64::min)
    };
    let (once, many) = (least("1x"), least("100x"));
    assert!(once <= 1.2 * many, "{once} {many}");
}

/// benchstat of PATH, or where `go install golang.org/x/perf/cmd/benchstat@latest` puts it.
fn benchstat() -> Option<std::path::PathBuf> {
    let path = Command::new("go").args(["env", "GOPATH"]).output().ok()?;
    let path = String::from_utf8_lossy(&path.stdout).trim().to_owned();
    let places = ["benchstat".into(), Path::new(&path).join("bin/benchstat")];
    let found = places
        .into_iter()
        .find(|place| Command::new(place).arg("-h").output().is_ok());
    if found.is_none() {
        truecount_testing::skip!("benchstat", "benchstat is not installed");
    }
    found
}

#[test]
fn benchstat_reads_the_counts() {
    let Some(benchstat) = benchstat() else {
        return;
    };
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/go");
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    if !built(&module, &at("module.test")) {
        return;
    }
    let Some(first) = printed(&at("module.test"), "100x") else {
        return;
    };
    std::fs::write(at("old.txt"), first.repeat(3)).unwrap();
    // As much again in each count.
    let more: Vec<String> = first
        .lines()
        .map(|line| match line.strip_suffix(" instructions/op") {
            Some(head) => {
                let (head, count) = head.rsplit_once([' ', '\t']).unwrap();
                // Go prints small ones with places after the point.
                let twice = 2.0 * count.parse::<f64>().unwrap();
                format!("{head}\t{twice} instructions/op\n")
            }
            None => format!("{line}\n"),
        })
        .collect();
    std::fs::write(at("new.txt"), more.concat().repeat(3)).unwrap();
    let output = Command::new(benchstat)
        .args([at("old.txt"), at("new.txt")])
        .output()
        .unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{output:?}");
    let (_, table) = said.split_once("instructions/op").expect(&said);
    let row = table
        .lines()
        .find(|line| line.starts_with("Loop"))
        .expect(&said);
    assert!(row.contains("± 0%"), "{said}");
    assert!(row.contains("+100.00%"), "{said}");
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
    // Without a PMU and without the command nobody is left to wonder where the benchmarks are.
    let output = Command::new(&program)
        .args(["-test.bench=.", "-test.benchtime=10x"])
        .env("TRUECOUNT", "/nowhere/truecount")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let counted = text(&output).contains("instructions/op");
    assert!(output.status.success(), "{output:?}");
    assert!(
        counted || said.contains("/nowhere/truecount") && said.contains("are skipped"),
        "{said}"
    );
    let Some(counts) = benchmarks(&program, "100x") else {
        return;
    };
    assert!(counts.len() == 2 && counts[0] == counts[1], "{counts:?}");
    assert!(counts[0].starts_with("BenchmarkSum"), "{counts:?}");
}
