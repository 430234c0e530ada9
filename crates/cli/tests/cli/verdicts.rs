//! What `bench` says of programs whose counts vary, what it says first, and how its output fits.

use std::path::Path;

use serde_json::Value;

use crate::support::{code, compiled, fails, json, run, stderr, stdout, truecount, virtual_pmu};

/// A program that takes argv[1] thousand turns, argv[2] thousand more if one random bit is set, and up to argv[3] more
/// by chance.
const COIN: &str = r#"
#include <stdlib.h>
#include <sys/random.h>
int main(int argc, char **argv) {
    unsigned random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) return 1;
    unsigned long turns = 1000 * strtoul(argv[1], 0, 10);
    turns += (random & 1) * (1000 * strtoul(argv[2], 0, 10));
    unsigned long most = argc > 3 ? strtoul(argv[3], 0, 10) : 0;
    if (most) turns += (random >> 8) % most;
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < turns; i++) sum += i;
    return 0;
}
"#;

pub(crate) fn comparison<'d>(document: &'d Value, metric: &str) -> &'d Value {
    let mut all = document["comparisons"].as_array().unwrap().iter();
    all.find(|compared| compared["metric"] == metric)
        .unwrap_or_else(|| panic!("no {metric} in {document:#}"))
}

fn samples(document: &Value, command: usize, metric: &str) -> usize {
    let metric = &document["commands"][command]["metrics"][metric];
    metric["samples"].as_array().unwrap().len()
}

/// A program that throws a coin is not exact, however equal two runs are: its runs are repeated, and against itself it
/// is neither more nor fewer.
#[test]
fn a_coin_is_not_exact() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), COIN) else {
        return;
    };
    if !virtual_pmu() {
        truecount_testing::skip!("virtual", "no virtual PMU");
        return;
    }
    let coin = format!("'{}' 100 5", program.display());
    let args = [
        "bench",
        "--source",
        "virtual",
        "--only",
        "-e",
        "instructions:u",
        "--json",
    ];
    // One of 512 comparisons has the same side ten times (two of five of them: once in 26,000), and is called the same.
    let mut same_side = 0;
    for _ in 0..5 {
        let document = json(&[&args[..], &[&coin, &coin]].concat());
        let compared = comparison(&document, "instructions:u");
        assert!(
            !matches!(compared["verdict"].as_str(), Some("more" | "fewer")),
            "{compared}"
        );
        if compared["exact"] == true {
            same_side += 1;
            assert_eq!(compared["verdict"], "same", "{compared}");
            continue;
        }
        assert!(samples(&document, 0, "instructions:u") > 5, "{document:#}");
        let one = |command: usize| &document["commands"][command]["metrics"]["instructions:u"];
        assert!(
            one(0)["exact"] == false || one(1)["exact"] == false,
            "{document:#}"
        );
    }
    assert!(same_side < 2, "{same_side} of 5");
    // What cannot differ is exact, after as many runs as that needs.
    let same = format!("'{}' 100 0", program.display());
    let document = json(&[&args[..], &[&same, &same]].concat());
    let compared = comparison(&document, "instructions:u");
    assert_eq!(compared["verdict"], "same", "{compared}");
    assert_eq!(compared["exact"], true, "{compared}");
    assert_eq!(samples(&document, 0, "instructions:u"), 5);
}

/// A program whose counts vary gets its verdict by default, and where the runs are too few the option is named.
#[test]
fn counts_that_vary_get_a_verdict_by_default() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), COIN) else {
        return;
    };
    if !virtual_pmu() {
        truecount_testing::skip!("virtual", "no virtual PMU");
        return;
    }
    let (less, more) = (
        format!("'{}' 100 0 1000", program.display()),
        format!("'{}' 104 0 1000", program.display()),
    );
    let args = [
        "bench",
        "--source",
        "virtual",
        "-n",
        "2",
        "--fail-above",
        "instructions:u=1%",
    ];
    let output = run(&[&args[..], &[&less, &more]].concat());
    assert_eq!(code(&output), 3, "{}", stdout(&output));
    let few = run(&[&args[..], &["--exact-runs", "2", &less, &more]].concat());
    let text = stdout(&few);
    assert_eq!(code(&few), 4, "{text}");
    assert!(text.contains("--exact-runs 5"), "{text}");
    let followed = run(&[&args[..], &["--exact-runs", "5", &less, &more]].concat());
    assert_eq!(code(&followed), 3, "{}", stdout(&followed));
}

/// Every line fits, at any width from 60 columns on, and notes are broken between words.
#[test]
fn tables_and_notes_fit_the_window() {
    for columns in ["60", "80", "100"] {
        let output = truecount(&[
            "bench",
            "-d",
            "-n",
            "3",
            "--source",
            "software",
            "-N",
            "one",
            "-N",
            "another command with a name of so many words that no line of sixty columns can hold it",
            "true",
            "sleep 0.001",
        ])
        .env("COLUMNS", columns)
        .output()
        .unwrap();
        let text = stdout(&output);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(
            text.contains("wall-time") && text.contains("relative"),
            "{text}"
        );
        let width: usize = columns.parse().unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{columns}: {line:?}\n{text}");
        }
    }
}

#[test]
fn the_sentence_comes_first_and_four_metrics_are_the_default() {
    let args = [
        "bench",
        "-n",
        "12",
        "--source",
        "software",
        "-N",
        "A",
        "-N",
        "B",
        "sleep 0.03",
        "sleep 0.001",
    ];
    let text = stdout(&run(&args));
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("B ran ") && first.contains(" times faster than A"),
        "{text}"
    );
    let document = json(&[&args[..], &["--json"]].concat());
    let metrics = document["commands"][0]["metrics"].as_object().unwrap();
    let mut names: Vec<&str> = metrics.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["cpu-time", "instructions:u", "max-rss", "wall-time"]
    );
    let detailed = json(&[&args[..], &["-d", "--json"]].concat());
    let metrics = detailed["commands"][0]["metrics"].as_object().unwrap();
    assert!(metrics.contains_key("context-switches") && metrics.contains_key("user-time"));
}

/// The CPU time of a program of a millisecond is neither 0 nor a whole tick.
#[test]
fn the_cpu_time_of_short_programs_is_not_ticks() {
    let document = json(&[
        "bench", "-n", "10", "--source", "software", "--json", "true",
    ]);
    let metric = &document["commands"][0]["metrics"]["cpu-time"];
    let samples: Vec<u64> = metric["samples"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    assert!(samples.iter().all(|&ns| ns > 10_000), "{samples:?}");
    assert!(
        samples.iter().any(|ns| !ns.is_multiple_of(1_000_000)),
        "{samples:?}"
    );
}

#[test]
fn hyperfines_names_write_hyperfines_forms() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let names = ["json", "csv", "markdown", "asciidoc", "orgmode"];
    let files: Vec<String> = names.iter().map(|name| file(name)).collect();
    let mut args: Vec<String> = [
        "bench",
        "--runs",
        "8",
        "--source",
        "software",
        "--time-unit",
        "millisecond",
    ]
    .map(str::to_owned)
    .to_vec();
    for (name, path) in names.iter().zip(&files) {
        args.extend([format!("--export-{name}"), path.clone()]);
    }
    args.extend(
        [
            "--sort",
            "mean-time",
            "-N",
            "slow",
            "-N",
            "fast",
            "sleep 0.02",
            "sleep 0.001",
        ]
        .map(str::to_owned),
    );
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = run(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap();
    let document: Value = serde_json::from_str(&read(&files[0])).unwrap();
    // Which of the two is the faster one is the machine's affair while others keep it busy.
    let median = |command: usize| {
        document["commands"][command]["metrics"]["wall-time"]["median"]
            .as_f64()
            .unwrap()
    };
    assert!(median(0) <= median(1), "sorted by time: {document:#}");
    let csv = read(&files[1]);
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    for name in [
        "base",
        "ratio",
        "low",
        "high",
        "p_adjusted",
        "verdict",
        "gate",
    ] {
        assert!(head.contains(&name), "{csv}");
    }
    assert!(
        csv.lines().any(|line| line.contains(",wall-time,")
            && ["faster", "slower", "undecided", "same"]
                .iter()
                .any(|verdict| line.contains(verdict))),
        "{csv}"
    );
    let markdown = read(&files[2]);
    assert!(
        markdown.contains("| command | wall-time | relative |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| `fast` |") && markdown.contains(" ms ±"),
        "{markdown}"
    );
    assert!(read(&files[3]).contains("|===\n| command | wall-time | relative"));
    assert!(read(&files[4]).contains("|--+--+"));
}

#[test]
fn until_decided_ends_when_it_is() {
    let args = [
        "bench",
        "--until",
        "decided",
        "--source",
        "software",
        "--only",
        "-e",
        "wall-time",
        "--json",
    ];
    let document = json(&[&args[..], &["sleep 0.02", "sleep 0.001"]].concat());
    let rounds = document["rounds"].as_u64().unwrap();
    assert!([10, 16, 26, 42].contains(&rounds), "{rounds}");
    let compared = comparison(&document, "wall-time");
    assert_eq!(compared["verdict"], "faster", "{compared}");
    // Every look is paid for.
    assert!(compared["p_adjusted"].as_f64() > compared["p"].as_f64());
    let capped = json(&[&args[..], &["--max-runs", "12", "true", "true"]].concat());
    assert!(capped["rounds"].as_u64().unwrap() <= 12);
    fails(
        &["bench", "--min-runs", "9", "--max-runs", "3", "true"],
        2,
        &["--min-runs 9"],
    );
}

/// Two checkouts in two directories with other variables: a baseline saved by one gates the other.
#[test]
fn a_baseline_is_good_in_another_directory_and_environment() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), COIN) else {
        return;
    };
    if !virtual_pmu() {
        truecount_testing::skip!("virtual", "no virtual PMU");
        return;
    }
    let (one, other) = (
        directory.path().join("one"),
        directory.path().join("another checkout"),
    );
    for place in [&one, &other] {
        std::fs::create_dir(place).unwrap();
        std::fs::copy(&program, place.join("program")).unwrap();
    }
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let in_directory = |place: &Path, more: &[&str], turns: &str, variables: &[(&str, &str)]| {
        let common = [
            "bench",
            "--source",
            "virtual",
            "--only",
            "-e",
            "instructions:u",
        ];
        let words = ["--", "./program", turns, "0"];
        let mut command = truecount(&[&common[..], more, &words[..]].concat());
        command.current_dir(place).env("PWD", place);
        command.envs(variables.iter().copied());
        command.output().unwrap()
    };
    let (clean, kept) = (file("clean.json"), file("kept.json"));
    let saved = in_directory(&one, &["--save", &clean], "1000", &[]);
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));
    assert!(stdout(&saved).contains("--keep-env"), "{}", stdout(&saved));
    let saved = in_directory(&one, &["--keep-env", "--save", &kept], "1000", &[]);
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));

    let elsewhere = [
        ("A_PIPELINE", "true"),
        ("ITS_RUNNER", "a name of some length"),
    ];
    let gate = |base: &str, turns: &str, more: &[&str]| {
        let limit = ["--baseline", base, "--fail-above", "instructions:u=0.1%"];
        let output = in_directory(&other, &[&limit[..], more].concat(), turns, &elsewhere);
        (code(&output), stdout(&output))
    };
    let (status, text) = gate(&clean, "1000", &[]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = gate(&clean, "1003", &[]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("+0.3"), "{text}");
    // What differs is listed by name, each with the option that ignores it.
    let (status, text) = gate(&kept, "1000", &[]);
    assert_eq!(status, 4, "{text}");
    let text = text.replace('\n', " ");
    assert!(text.contains("A_PIPELINE, ITS_RUNNER"), "{text}");
    assert!(
        text.contains("--clean-env") && text.contains("--ignore-environment"),
        "{text}"
    );
    let (status, text) = gate(&kept, "1000", &["--ignore-environment"]);
    assert_eq!(status, 0, "{text}");
}

/// The program sees the clean environment, and what is added to it by name.
#[test]
fn a_clean_environment_is_path_lang_and_what_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("env");
    let path = file.to_str().unwrap();
    let environment = |more: &[&str]| {
        let common = [
            "bench", "--source", "software", "-n", "1", "--warmup", "0", "--output", path,
        ];
        let words = ["--", "/usr/bin/env"];
        let output = truecount(&[&common[..], more, &words[..]].concat())
            .env("GIVEN", "by hand")
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = std::fs::read_to_string(&file).unwrap();
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    let clean = environment(&["--clean-env"]);
    assert_eq!(clean.len(), 2, "{clean:?}");
    assert!(
        clean[0] == "LANG=C" && clean[1].starts_with("PATH=/usr/"),
        "{clean:?}"
    );
    let more = environment(&["--env", "GIVEN", "--env", "A=b"]);
    assert_eq!(more.len(), 4, "{more:?}");
    assert!(more.contains(&"GIVEN=by hand".to_owned()) && more.contains(&"A=b".to_owned()));
    assert!(environment(&[]).contains(&"GIVEN=by hand".to_owned()));
    fails(
        &["bench", "--env", "NO_SUCH_VARIABLE_HERE", "true"],
        2,
        &["NO_SUCH_VARIABLE_HERE", "not set"],
    );
}

/// The change that is shown is not the ratio of the medians beside it: the row says what it is.
#[test]
fn a_change_that_is_not_that_of_the_medians_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let metric = |samples: &[u64]| {
        serde_json::json!({
            "unit": "count", "source": "software", "precision": "counted", "samples": samples,
            "distinct": 2, "mad": 0.0, "exact": false,
        })
    };
    let command = |name: &str, samples: &[u64]| {
        serde_json::json!({
            "command": [name], "name": name, "runs": samples.len(),
            "metrics": {"context-switches": metric(samples)},
        })
    };
    // Two and two in the middle; in most rounds one more.
    let (before, after) = (
        [2, 1, 2, 1, 2, 1, 2, 2, 2, 1, 2, 2, 2, 1, 2, 1],
        [2, 2, 2, 2, 2, 2, 2, 3, 3, 2, 3, 2, 3, 2, 2, 2],
    );
    let document = serde_json::json!({
        "schema": "truecount.bench/2", "seed": 1, "rounds": 16,
        "commands": [command("a", &before), command("b", &after)],
        "environment": {},
    });
    let file = directory.path().join("saved.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let text = stdout(&run(&["bench", "--from", file.to_str().unwrap()]));
    assert!(text.contains("of the medians +0.00 %"), "{text}");
}

#[test]
fn counts_by_the_virtual_pmu_alone_need_no_rounds_of_times() {
    if !virtual_pmu() {
        truecount_testing::skip!("virtual", "no virtual PMU");
        return;
    }
    let alone = [
        "bench",
        "--source",
        "virtual",
        "--only",
        "-e",
        "instructions:u",
        "--json",
        "true",
    ];
    let document = json(&alone);
    assert_eq!(document["rounds"], 1, "{document:#}");
    assert!(samples(&document, 0, "instructions:u") >= 5, "{document:#}");
    // What is asked for is done, and a time needs its rounds.
    let asked = json(&[&alone[..], &["-n", "3"]].concat());
    assert_eq!(asked["rounds"], 3);
    let timed = json(&[&alone[..], &["-e", "max-rss", "--max-runs", "12"]].concat());
    assert!(timed["rounds"].as_u64().unwrap() > 1, "{timed:#}");
}
