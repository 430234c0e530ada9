//! The example's suite, run as cargo runs one: counts, calibration, baselines, limits, mistakes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod files;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use truecount_testing::schemas::{follows, refuses};

/// The suite that cargo builds with the tests.
fn suite() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.parent().unwrap().parent().unwrap();
    let suite = profile.join("examples/suite");
    assert!(
        suite.exists(),
        "{} is not built: cargo test -p truecount-bench (or --examples beside --test)",
        suite.display()
    );
    suite
}

fn run(directory: &Path, arguments: &[&str], more: &str) -> (Option<i32>, String, String) {
    let output: Output = Command::new(suite())
        .args(["--bench", "--baseline-dir"])
        .arg(directory)
        .args(arguments)
        .env("MORE", more)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Whether the suite counts here, by whatever counts.
fn counts() -> bool {
    let directory = tempfile::tempdir().unwrap();
    let (status, _, said) = run(directory.path(), &["empty"], "");
    if status == Some(1) && said.contains("ptrace") {
        truecount_testing::skip!("virtual", "{said}");
        return false;
    }
    assert_eq!(status, Some(0), "{said}");
    true
}

/// A document follows its schema, which refuses what is wrong.
fn follows_its_schema(json: &str) -> serde_json::Value {
    let document = serde_json::from_str(json).unwrap();
    follows("benches.json", &document);
    refuses("benches.json", &document, |wrong| {
        wrong["benches"][0]["metrics"][0]["source"] = "guessed".into();
    });
    document
}

/// Name and count of each line.
fn lines(text: &str) -> Vec<(String, String)> {
    text.lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let mut next = || words.next().unwrap_or_default().to_owned();
            (next(), next())
        })
        .collect()
}

fn count<'a>(lines: &'a [(String, String)], name: &str) -> &'a str {
    &lines.iter().find(|(found, _)| found == name).unwrap().1
}

#[test]
fn counts_are_the_same_in_ten_runs_and_an_empty_benchmark_is_0() {
    if !counts() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (status, first, said) = run(directory.path(), &["--source", "virtual"], "");
    assert_eq!(status, Some(0), "{first}{said}");
    let found = lines(&first);
    assert_eq!(count(&found, "empty"), "0", "{first}");
    assert!(first.contains("(virtual, exact)"), "{first}");
    assert!(
        count(&found, "loop_of_known_length").starts_with("200,"),
        "{first}"
    );
    // What is prepared is not counted.
    assert_eq!(
        count(&found, "setup_is_not_counted/10"),
        count(&found, "setup_is_not_counted/1000"),
        "{first}"
    );
    assert!(
        first.contains("text::repeated") && first.contains("sort::stable/1000"),
        "{first}"
    );
    assert!(first.contains("allocated-bytes"), "{first}");
    for _ in 0..9 {
        let (_, again, _) = run(directory.path(), &["--source", "virtual"], "");
        assert_eq!(first, again);
    }
}

/// By the virtual PMU three equal runs are enough; what varies has as many as there are, and what was asked for stays.
#[test]
fn equal_counts_need_no_further_runs() {
    if !counts() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let taken = |arguments: &[&str], more: &str| -> Vec<u64> {
        let arguments = [&["repeated", "--source", "virtual", "--json"], arguments].concat();
        let (status, text, said) = run(directory.path(), &arguments, more);
        assert_eq!(status, Some(0), "{said}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let metric = &document["benches"][0]["metrics"][0];
        let counts = metric["counts"].as_array().unwrap();
        counts.iter().map(|count| count.as_u64().unwrap()).collect()
    };
    let equal = taken(&[], "");
    assert_eq!(equal.len(), 3);
    assert!(
        equal.iter().all(|count| *count == equal[0] && *count > 0),
        "{equal:?}"
    );
    // Twice as long in every run.
    let varying = taken(&[], "vary");
    assert_eq!(varying.len(), 5);
    assert!(
        varying.iter().any(|count| *count != varying[0]),
        "{varying:?}"
    );
    for more in ["", "vary"] {
        assert_eq!(taken(&["--runs", "8"], more).len(), 8);
        assert_eq!(taken(&["--runs", "1"], more).len(), 1);
    }
}

#[test]
fn baselines_and_limits() {
    if !counts() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (status, _, said) = run(directory, &["repeated", "--save-baseline", "main"], "");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("saved as baseline main"), "{said}");
    let compare = ["repeated", "--source", "virtual", "--baseline", "main"];
    let (status, said, _) = run(directory, &compare, "");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("no change"), "{said}");
    // Longer by some: a regression, unless a limit allows it.
    let (status, said, _) = run(directory, &compare, "longer");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("REGRESSION"), "{said}");
    let (_, json, _) = run(directory, &[&compare[..], &["--json"]].concat(), "longer");
    let document = follows_its_schema(&json);
    assert_eq!(
        document["benches"][0]["metrics"][0]["regression"],
        serde_json::Value::Bool(true),
        "{json}"
    );
    let limited = |limit: &str| {
        let arguments = [&compare[..], &["--limit", limit]].concat();
        run(directory, &arguments, "longer")
    };
    // (Of instructions: bytes that are allocated have a limit of their own.)
    let instructions = |said: &str| {
        let mut lines = said.lines();
        lines.any(|line| line.contains("instructions:u") && line.contains("REGRESSION"))
    };
    let (status, said, _) = limited("ir=0.01%");
    assert_eq!(status, Some(3), "{said}");
    assert!(instructions(&said), "{said}");
    let (_, said, _) = limited("ir=1000000");
    assert!(!instructions(&said), "{said}");
    // What is not there, or is no baseline.
    let (status, _, said) = run(directory, &["--baseline", "other"], "");
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("make one by --save-baseline other"), "{said}");
    let file = std::fs::read_dir(directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for broken in [
        "",
        "{}",
        "{\"schema\":\"truecount.bench/2\",\"benches\":[]}",
    ] {
        std::fs::write(&file, broken).unwrap();
        let (status, _, said) = run(directory, &compare, "");
        assert_eq!(status, Some(2), "{said}");
        assert!(
            said.starts_with("error: ") && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn lists_filters_json_and_tests() {
    let directory = tempfile::tempdir().unwrap();
    let (status, all, _) = run(directory.path(), &["--list"], "");
    assert_eq!(status, Some(0));
    assert!(
        all.contains("sort::stable/10: benchmark\nsort::stable/1000: benchmark\n"),
        "{all}"
    );
    let (_, one, _) = run(
        directory.path(),
        &["--list", "--exact", "sort::stable/10"],
        "",
    );
    assert_eq!(one, "sort::stable/10: benchmark\n");
    // As `cargo test --benches` runs it.
    let output = Command::new(suite()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("empty: ok\n"),
        "{said}"
    );
    if !counts() {
        return;
    }
    let (status, json, said) = run(
        directory.path(),
        &["sort", "--json", "-e", "ir", "-e", "branches"],
        "",
    );
    assert!(matches!(status, Some(0 | 1)), "{said}");
    assert!(
        json.contains("\"schema\": \"truecount.benches/1\"") && json.contains("branches:u"),
        "{json}"
    );
    follows_its_schema(&json);
    let (status, said, _) = run(
        directory.path(),
        &["empty", "-e", "cache-misses:u", "--source", "virtual"],
        "",
    );
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains('–') && said.contains("virtual PMU"), "{said}");
    let arguments = [
        "empty",
        "-e",
        "cache-misses:u",
        "--source",
        "virtual",
        "--json",
    ];
    let document = follows_its_schema(&run(directory.path(), &arguments, "").1);
    let metric = &document["benches"][0]["metrics"][0];
    assert!(metric["not_available"].is_string(), "{metric}");
    assert!(metric.get("count").is_none(), "{metric}");
}

#[test]
fn loads_stores_and_times_stand_beside_instructions() {
    if !counts() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let events = ["-e", "ir", "-e", "branches", "-e", "loads", "-e", "stores"];
    let arguments = [&["--source", "virtual", "--json"], &events[..]].concat();
    let (status, first, said) = run(directory.path(), &arguments, "");
    assert_eq!(status, Some(0), "{said}");
    let document: serde_json::Value = serde_json::from_str(&first).unwrap();
    let count = |name: &str, event: &str| {
        let benches = document["benches"].as_array().unwrap();
        let bench = benches.iter().find(|bench| bench["name"] == name).unwrap();
        let metrics = bench["metrics"].as_array().unwrap();
        let metric = metrics.iter().find(|metric| metric["event"] == event);
        let metric = metric.unwrap_or_else(|| panic!("no {event} of {name}: {first}"));
        assert_eq!(metric["exact"], true, "{metric}");
        metric["count"].as_u64().unwrap()
    };
    let events = ["instructions:u", "branches:u", "loads:u", "stores:u"];
    for event in events {
        assert_eq!(count("empty", event), 0, "{event}");
        assert!(count("sort::stable/1000", event) > 500, "{event}");
        assert!(count("sort::stable/1000", event) > count("sort::stable/10", event));
    }
    // 100,000 of two instructions, one of them a branch, none of which touches memory.
    let branches = count("loop_of_known_length", "branches:u");
    assert!((100_000..100_300).contains(&branches), "{branches}");
    for event in ["loads:u", "stores:u"] {
        assert!(count("loop_of_known_length", event) < 300, "{event}");
    }
    let (_, again, _) = run(directory.path(), &arguments, "");
    assert_eq!(first, again);

    // Times are the machine's own, and change no count (but of what depends on where memory lies: one argument more).
    let timed = [&arguments[..], &["--time"]].concat();
    let (status, timed, said) = run(directory.path(), &timed, "");
    assert_eq!(status, Some(0), "{said}");
    let mut timed: serde_json::Value = serde_json::from_str(&timed).unwrap();
    let placed = |document: &mut serde_json::Value| {
        let benches = document["benches"].as_array_mut().unwrap();
        let by_place = ["text::repeated", "loop_of_known_length"];
        benches.retain(|bench| !by_place.iter().any(|name| bench["name"] == *name));
    };
    let mut document = document;
    placed(&mut document);
    placed(&mut timed);
    for bench in timed["benches"].as_array_mut().unwrap() {
        let metrics = bench["metrics"].as_array_mut().unwrap();
        let time = metrics.pop().unwrap();
        assert_eq!(
            (&time["event"], &time["unit"]),
            (&"wall-time".into(), &"ns".into())
        );
        assert_eq!(
            (&time["source"], &time["exact"]),
            (&"software".into(), &false.into())
        );
        assert!(time["counts"].as_array().unwrap().len() >= 30, "{time}");
    }
    assert_eq!(timed, document);
}

#[test]
fn mistakes_are_one_line_and_status_2() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["--frobnicate"][..],
        &["--runs", "0"],
        &["--limit", "ir=1%"],
    ] {
        let (status, _, said) = run(directory.path(), arguments, "");
        if status == Some(1) && said.contains("ptrace") {
            continue;
        }
        assert_eq!(status, Some(2), "{arguments:?} {said}");
        assert!(
            said.starts_with("error: ") && said.lines().count() == 1,
            "{said}"
        );
    }
}

/// `cargo bench -- FILTER` asks every suite of a package, and ends at the first that fails.
#[test]
fn a_filter_of_another_suite_is_no_error_and_changes_no_baseline() {
    let directory = tempfile::tempdir().unwrap();
    let (status, text, said) = run(directory.path(), &["elsewhere", "--save-baseline", "b"], "");
    assert_eq!((status, text.as_str()), (Some(0), ""), "{said}");
    let wanted = "note: no benchmark of this suite has such a name (--list): nothing was counted\n";
    assert_eq!(said, wanted);
    // Nor where the baseline was never saved, since no benchmark of this suite would be in it.
    let (status, _, said) = run(directory.path(), &["elsewhere", "--baseline", "b"], "");
    assert_eq!((status, said.as_str()), (Some(0), wanted));
    if !counts() {
        return;
    }
    let saved = |filters: &[&str]| {
        let arguments = [filters, &["--save-baseline", "b", "--source", "virtual"]].concat();
        let (status, _, said) = run(directory.path(), &arguments, "");
        assert_eq!(status, Some(0), "{said}");
    };
    let compared = |filters: &[&str]| {
        let arguments = [filters, &["--baseline", "b", "--source", "virtual"]].concat();
        run(directory.path(), &arguments, "")
    };
    saved(&["sort"]);
    saved(&["empty"]);
    for filter in ["sort", "empty"] {
        let (status, text, said) = compared(&[filter]);
        assert_eq!((status, said.as_str()), (Some(0), ""), "{text}");
        assert!(
            text.lines().all(|line| line.ends_with("no change")),
            "{text}"
        );
    }
    // Without a filter it is the whole suite's.
    saved(&[]);
    let (_, text, _) = compared(&[]);
    assert!(text.contains("text::repeated"), "{text}");
}

/// cargo-nextest asks for a list of all benchmarks and for one of the ignored, and runs each in a process of its own.
#[test]
fn nextest_lists_and_runs() {
    let asked = |arguments: &[&str]| {
        let output = Command::new(suite()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = asked(&["--list", "--format", "terse"]);
    assert!(all.contains("empty: benchmark\n"), "{all}");
    assert_eq!(asked(&["--list", "--format", "terse", "--ignored"]), "");
    for line in all.lines() {
        let name = line.strip_suffix(": benchmark").unwrap();
        let said = asked(&[name, "--exact", "--nocapture"]);
        assert_eq!(said, format!("{name}: ok\n"));
    }
}

#[test]
fn a_panic_names_its_benchmark() {
    let directory = tempfile::tempdir().unwrap();
    let file = format!("--json={}", directory.path().join("out.json").display());
    let arguments = ["repeated", "--save-baseline", "b", &file];
    let (status, _, said) = run(directory.path(), &arguments, "panic");
    if status == Some(1) && said.contains("ptrace") {
        truecount_testing::skip!("virtual", "{said}");
        return;
    }
    assert_eq!(status, Some(101), "{said}");
    let wanted = "error: the benchmark text::repeated panicked: nothing was counted\n";
    assert!(said.ends_with(wanted), "{said}");
    assert!(
        std::fs::read_dir(directory.path())
            .unwrap()
            .next()
            .is_none()
    );
    // As a test, too.
    let output = Command::new(suite()).env("MORE", "panic").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.ends_with(wanted), "{said}");
    assert_eq!(output.status.code(), Some(101), "{said}");
}

/// An end that a benchmark chose is not the suite's: 0 would be taken for a result.
#[test]
fn a_benchmark_that_ends_the_process_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (status, text, said) = run(directory.path(), &["repeated"], "exit");
    if status == Some(1) && said.contains("ptrace") {
        truecount_testing::skip!("virtual", "{said}");
        return;
    }
    let wanted =
        "error: the benchmark text::repeated ended the process (exit): nothing was counted\n";
    assert_eq!((status, text.as_str()), (Some(1), ""), "{said}");
    assert!(said.ends_with(wanted), "{said}");
    // A child of its own may.
    let (status, _, said) = run(directory.path(), &["repeated"], "fork");
    assert_eq!((status, said.as_str()), (Some(0), ""));
    // Counts of two could not be told apart.
    let (status, _, said) = run(directory.path(), &["copied"], "twice");
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.starts_with("error: two cases are named text::copied/1: "),
        "{said}"
    );
}
