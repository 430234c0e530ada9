//! `history`: records of commits in a temporary repository, comparisons, gates, changes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{code, stderr, stdout, truecount};
use truecount_testing::schemas::schema;

/// A repository with commits, and a store in it.
pub(crate) struct Project {
    directory: tempfile::TempDir,
}

impl Project {
    /// `None` without git.
    pub(crate) fn new() -> Option<Self> {
        if !Command::new("git")
            .arg("--version")
            .output()
            .is_ok_and(|o| o.status.success())
        {
            truecount_testing::skip!("git", "git is not installed");
            return None;
        }
        let new = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        new.git(&["init", "--quiet", "-b", "main", "."]);
        Some(new)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(self.path())
            .args([
                "-c",
                "user.name=A",
                "-c",
                "user.email=a@example.org",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", stderr(&output));
        stdout(&output).trim().to_owned()
    }

    /// A commit that writes the file `f`.
    pub(crate) fn commit(&self, subject: &str) -> String {
        std::fs::write(self.path().join("f"), subject).unwrap();
        self.git(&["add", "f"]);
        self.git(&["commit", "--quiet", "-m", subject]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = truecount(&[]);
        command.arg("history").args(args).current_dir(self.path());
        command.env_remove("TRUECOUNT_STORE").output().unwrap()
    }

    /// Runs it and expects this status.
    pub(crate) fn expect(&self, status: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let text = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(code(&output), status, "history {args:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
        text
    }

    pub(crate) fn write(&self, name: &str, document: &Value) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, document.to_string()).unwrap();
        path
    }

    /// Adds a result to HEAD.
    pub(crate) fn add(&self, document: &Value) -> String {
        let path = self.write("result.json", document);
        let text = self.expect(0, &["add", path.to_str().unwrap()]);
        std::fs::remove_file(path).unwrap();
        text
    }
}

/// Exact counts of one benchmark.
pub(crate) fn exact(value: u64) -> Value {
    json!({
        "unit": "count", "source": "virtual", "precision": "exact", "samples": [value, value, value, value, value],
        "min": value, "median": value, "max": value, "distinct": 1, "mad": 0.0, "exact": true,
    })
}

/// Times that vary around one.
pub(crate) fn times(around: u64) -> Value {
    let samples: Vec<u64> = (0..12)
        .map(|i| around + around / 1000 * (i * 7 % 12))
        .collect();
    json!({
        "unit": "ns", "source": "software", "precision": "counted", "samples": samples,
        "distinct": 12, "mad": 0.0, "exact": false,
    })
}

/// A result of bench with these benchmarks, each with its metrics.
pub(crate) fn result(benchmarks: &[(&str, Value)]) -> Value {
    let commands: Vec<Value> = benchmarks
        .iter()
        .map(|(name, metrics)| json!({"command": ["prog"], "name": name, "runs": 12, "metrics": metrics}))
        .collect();
    json!({
        "schema": "truecount.bench/2", "seed": 1, "rounds": 12, "commands": commands,
        "environment": {
            "truecount": "0.1.0", "arch": "x86_64", "cpu_model": "Some CPU", "kernel": "6.1.0",
            "env_count": 2, "env_bytes": 30, "env_hash": "0123456789abcdef", "argv_bytes": [5], "loader": [null],
        },
    })
}

pub(crate) fn one(value: u64) -> Value {
    result(&[("sort", json!({"instructions:u": exact(value)}))])
}

/// What `run --functions` tells, for one benchmark.
pub(crate) fn functions(all: &[(&str, u64)]) -> Value {
    let sum: u64 = all.iter().map(|(_, count)| count).sum();
    let functions: Vec<Value> = all
        .iter()
        .map(|(name, count)| {
            json!({"program": "prog", "module": "/usr/bin/prog", "function": name, "events": {"instructions:u": count}})
        })
        .collect();
    json!({
        "schema": "truecount.run/2", "command": ["prog"], "source": "virtual", "interrupted": null,
        "counters": [{"event": "instructions:u", "value": sum, "source": "virtual", "precision": "exact",
            "reason": null, "unit": "count"}],
        "functions": functions, "environment": {"truecount": "0.1.0", "arch": "x86_64", "cpu_model": "Some CPU"},
    })
}

#[test]
fn exact_counts_change_by_any_difference() {
    let Some(project) = Project::new() else {
        return;
    };
    let first = project.commit("First");
    assert!(
        project
            .add(&one(1_000_000))
            .contains("added 1 benchmark (1 value)  First")
    );
    project.commit("Only words");
    project.add(&one(1_000_000));
    let text = project.expect(0, &["compare", "--fail-above", "instructions=0"]);
    assert!(
        text.contains("1 benchmark: 0 worse, 0 better, 0 of 1 gate failed."),
        "{text}"
    );
    project.commit("A loop more");
    project.add(&one(1_001_000));
    let text = project.expect(3, &["compare", "--fail-above", "instructions=0"]);
    assert!(text.contains("+0.10 %  regressed  more (exact)"), "{text}");
    project.expect(0, &["compare", "--fail-above", "instructions=0.1%"]);
    project.expect(3, &["compare", "--fail-above", "instructions=0.09%"]);
    // The other way round it is better; without a gate it is only told.
    let text = project.expect(
        0,
        &[
            "compare",
            "HEAD",
            "HEAD~1",
            "--fail-above",
            "instructions=0",
        ],
    );
    assert!(text.contains("1 better"), "{text}");
    project.expect(0, &["compare"]);
    let text = project.expect(0, &["compare", &first[..9], "HEAD"]);
    assert!(text.contains("1 worse"), "{text}");
    let text = project.expect(0, &["changes"]);
    assert!(
        text.starts_with("1 change in 1 series over 3 commits.\n"),
        "{text}"
    );
    assert!(
        text.contains("A loop more") && !text.contains("Only words"),
        "{text}"
    );
    // What was accepted passes, and the reason is told.
    project.expect(0, &["bless", "HEAD", "--reason", "the fix needs it"]);
    let text = project.expect(0, &["compare", "--fail-above", "instructions=0"]);
    assert!(
        text.contains("blessed") && text.contains("the fix needs it"),
        "{text}"
    );
    project.expect(0, &["bless", "HEAD", "--undo"]);
    project.expect(3, &["compare", "--fail-above", "instructions=0"]);
}

#[test]
fn the_functions_that_moved_are_named() {
    let Some(project) = Project::new() else {
        return;
    };
    let add = |all: &[(&str, u64)], total: u64| {
        project.add(&one(total));
        let path = project.write("run.json", &functions(all));
        project.expect(0, &["add", "--name", "sort", path.to_str().unwrap()]);
        std::fs::remove_file(path).unwrap();
    };
    project.commit("First");
    add(&[("main", 100), ("sort", 900), ("gone", 50)], 1050);
    project.commit("Second");
    add(&[("main", 100), ("sort", 1900)], 2000);
    let text = project.expect(0, &["compare"]);
    let moved: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("(prog)"))
        .collect();
    assert_eq!(
        moved,
        [
            "  +1,000  sort (prog): 900 → 1,900",
            "  -50  gone (prog): 50 → 0"
        ],
        "{text}"
    );
    let text = project.expect(0, &["changes"]);
    assert!(text.contains("+1,000  sort (prog)"), "{text}");
}

#[test]
fn the_base_is_the_merge_base_or_its_nearest_ancestor_with_a_record() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("Measured");
    project.add(&one(1000));
    let shared = project.commit("Not measured");
    project.commit("Main goes on");
    project.add(&one(5000));
    project.git(&["switch", "--quiet", "-c", "topic", &shared]);
    project.commit("Topic");
    let text = project.expect(4, &["compare", "--fail-above", "instructions=0"]);
    assert!(
        text.contains("has no record") && text.contains("history add"),
        "{text}"
    );
    project.add(&one(1000));
    let text = project.expect(0, &["compare", "--fail-above", "instructions=0", "--all"]);
    assert!(
        text.contains("Measured") && text.contains("1 commit without"),
        "{text}"
    );
    assert!(!text.contains("5,000"), "{text}");
    let text = project.expect(
        4,
        &[
            "compare",
            "HEAD",
            "HEAD",
            "--suite",
            "none",
            "--fail-above",
            "x=0",
        ],
    );
    assert!(text.contains("has no record"), "{text}");
}

/// The commits that a change may be of are named: those without a record, and those of a merged branch.
#[test]
fn the_commits_of_a_change_are_named() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("first");
    project.add(&one(1000));
    let without = project.commit("second, not measured");
    project.git(&["checkout", "--quiet", "-b", "topic", "HEAD^"]);
    std::fs::write(project.path().join("g"), "x").unwrap();
    project.git(&["add", "g"]);
    project.git(&["commit", "--quiet", "-m", "on the branch"]);
    let branch = project.git(&["rev-parse", "HEAD"]);
    project.git(&["checkout", "--quiet", "main"]);
    project.git(&["merge", "--quiet", "--no-ff", "-m", "merged", "topic"]);
    project.add(&one(1001));
    let text = project.expect(0, &["changes"]);
    assert!(text.contains("or one of the 1 before it"), "{text}");
    for (hash, subject) in [
        (&without, "second, not measured"),
        (&branch, "on the branch"),
    ] {
        assert!(
            text.contains(&format!("{}  {subject}", &hash[..12])),
            "{text}"
        );
    }
    let document: Value = serde_json::from_str(&project.expect(0, &["changes", "--json"])).unwrap();
    let between = document["changes"][0]["between"].as_array().unwrap();
    assert_eq!(between.len(), 2, "{document}");
}

#[test]
fn what_was_measured_elsewhere_is_refused_by_name() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("First");
    project.add(&one(1000));
    project.commit("Second");
    let mut other = one(2000);
    other["environment"]["kernel"] = "6.6.0".into();
    other["environment"]["truecount"] = "9.9.9".into();
    project.add(&other);
    let gate = ["compare", "--fail-above", "instructions=0"];
    let text = project.expect(4, &gate);
    assert!(
        text.contains("kernel: 6.6.0, was 6.1.0") && text.contains("truecount: 9.9.9"),
        "{text}"
    );
    let accept =
        |facts: &str, status| project.expect(status, &[&gate[..], &["--accept", facts]].concat());
    accept("kernel", 4);
    accept("kernel,truecount", 3);
    accept("all", 3);
}

#[test]
fn times_need_statistics() {
    let Some(project) = Project::new() else {
        return;
    };
    let bench = |time: u64| result(&[("sort", json!({"wall-time": times(time)}))]);
    project.commit("First");
    project.add(&bench(1_000_000));
    project.commit("Second");
    project.add(&bench(1_001_000));
    project.expect(0, &["compare", "--fail-above", "wall-time=5%"]);
    project.commit("Third");
    project.add(&bench(1_500_000));
    let text = project.expect(3, &["compare", "--fail-above", "wall-time=5%"]);
    assert!(text.contains("slower"), "{text}");
    let text = project.expect(0, &["compare", "HEAD~2", "--fail-above", "wall-time=60%"]);
    assert!(text.contains("0 of 1 gate failed"), "{text}");
}

/// Every document against its schema, and against one that is wrong.
#[test]
fn documents_follow_their_schemas() {
    let Some(project) = Project::new() else {
        return;
    };
    let both = |count, time| {
        let metrics = json!({"instructions:u": exact(count), "wall-time": times(time)});
        result(&[("sort", metrics)])
    };
    project.commit("First");
    project.add(&both(1000, 1_000_000));
    project.commit("Second");
    project.add(&both(1001, 1_100_000));
    project.expect(0, &["bless", "HEAD", "--reason", "wanted"]);
    let gates = [
        "--fail-above",
        "instructions=0",
        "--fail-above",
        "wall-time=1%",
    ];
    for (name, args) in [
        ("history.json", vec!["show", "--json"]),
        (
            "history-compare.json",
            [&["compare", "--json"][..], &gates].concat(),
        ),
        ("history-changes.json", vec!["changes", "--json"]),
        ("record.json", vec!["show", "HEAD", "--json"]),
    ] {
        let document: Value = serde_json::from_slice(&project.run(&args).stdout).unwrap();
        let documents = match document {
            Value::Array(all) => all,
            one => vec![one],
        };
        let validator = jsonschema::validator_for(&schema(name)).unwrap();
        assert!(!documents.is_empty());
        for mut document in documents {
            let errors: Vec<String> = validator
                .iter_errors(&document)
                .map(|e| e.to_string())
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}");
            document["schema"] = "truecount.other/1".into();
            assert!(!validator.is_valid(&document), "{name} accepts {document}");
        }
    }
}

#[test]
fn mistakes_get_one_line() {
    let Some(project) = Project::new() else {
        return;
    };
    let line = |status: i32, args: &[&str], parts: &[&str]| {
        let output = project.run(args);
        let text = stderr(&output);
        assert_eq!(
            (code(&output), text.lines().count()),
            (status, 1),
            "{args:?}: {text}"
        );
        for part in parts {
            assert!(text.contains(part), "{args:?}: no `{part}` in {text}");
        }
    };
    project.commit("First");
    line(1, &["show"], &["there is no store at", "history add"]);
    let path = project.write("x.json", &json!({"schema": "truecount.noise/1"}));
    line(1, &["add", path.to_str().unwrap()], &["truecount.noise/1"]);
    line(1, &["add", "nowhere.json"], &["cannot read nowhere.json"]);
    project.add(&one(1));
    line(2, &["compare", "--fail-above", "instructions"], &["no `=`"]);
    line(1, &["compare"], &["is the first commit"]);
    line(2, &["compare", "nowhere"], &["`nowhere` is not a commit"]);
    line(1, &["show", "nothing"], &["nothing has no record"]);
    project.commit("Second");
    project.add(&one(2));
    line(
        2,
        &["compare", "--fail-above", "cycles=1%"],
        &["not measured", "instructions:u"],
    );
    std::fs::write(project.path().join("f"), "changed").unwrap();
    let path = project.write("y.json", &one(3));
    line(
        1,
        &["add", path.to_str().unwrap()],
        &["f has changes", "--commit"],
    );
    project.expect(0, &["add", "--commit", "HEAD", path.to_str().unwrap()]);
    let text = project.expect(0, &["add", "--commit", "HEAD", path.to_str().unwrap()]);
    assert!(text.contains("was there already"), "{text}");
}

/// Files that are no store, or a damaged one.
#[test]
fn a_foreign_or_damaged_store_gets_one_line() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("First");
    project.add(&one(1));
    let line = |store: &Path, parts: &[&str]| {
        let output = project.run(&["show", "--store", store.to_str().unwrap()]);
        let text = stderr(&output);
        assert_eq!((code(&output), text.lines().count()), (1, 1), "{text}");
        for part in parts {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
    };
    let text = project.path().join("text");
    std::fs::write(
        &text,
        "not a database at all, and long enough for a header of SQLite's, ".repeat(40),
    )
    .unwrap();
    line(&text, &["is not a store of truecount"]);
    let store = project.path().join(".truecount/history.db");
    let bytes = std::fs::read(&store).unwrap();
    // The tables of another program: the same file with another application_id.
    let foreign = project.path().join("foreign");
    let mut other = bytes.clone();
    other[68..72].copy_from_slice(b"othr");
    std::fs::write(&foreign, other).unwrap();
    line(&foreign, &["is a database of something else"]);
    let damaged = project.path().join("damaged");
    let mut other = bytes;
    let end = other.len();
    other[4096..end].fill(0x5a);
    std::fs::write(&damaged, other).unwrap();
    line(&damaged, &["is damaged", "backup"]);
    line(Path::new("/proc/version/x"), &["/proc/version"]);
}
