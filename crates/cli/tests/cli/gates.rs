//! Verdicts and gates on recorded results: `bench --from`, with and without `--baseline`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{code, fails, run, stderr, stdout, unwrapped};

/// A recorded result in a file.
fn recorded(directory: &Path, name: &str, document: &Value) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, document.to_string()).unwrap();
    path
}

/// One metric as `--save` writes it.
fn metric(unit: &str, source: &str, samples: &[u64]) -> Value {
    let scale = if matches!(unit, "count" | "ns" | "bytes") {
        1.0
    } else {
        1e-6
    };
    json!({
        "unit": unit, "scale": scale, "source": source, "precision": "counted", "samples": samples,
        "distinct": 1, "mad": 0.0, "exact": false,
    })
}

/// A result of one command with one metric.
fn result(name: &str, metric: &Value) -> Value {
    json!({
        "schema": "truecount.bench/2", "seed": 1, "rounds": 12,
        "commands": [{"command": ["prog"], "name": "prog", "runs": 12, "metrics": {name: metric}}],
        "environment": {
            "truecount": "0.1.0", "arch": "x86_64", "cpu_model": "Some CPU", "kernel": "6.1.0",
            "env_count": 9, "env_bytes": 200, "env_hash": "0123456789abcdef", "argv_bytes": [5], "loader": [null],
        },
    })
}

/// Twelve values around one, all different.
fn around(centre: u64) -> Vec<u64> {
    (0..12).map(|i| centre + i * centre / 20_000).collect()
}

/// Status and text of a gate on `new` against `base`.
fn gate(base: &Value, new: &Value, limit: &str, more: &[&str]) -> (i32, String) {
    let directory = tempfile::tempdir().unwrap();
    let base = recorded(directory.path(), "base.json", base);
    let new = recorded(directory.path(), "new.json", new);
    let mut args = vec!["bench", "--from", new.to_str().unwrap()];
    args.extend(["--baseline", base.to_str().unwrap(), "--fail-above", limit]);
    args.extend(more);
    let output = run(&args);
    (
        code(&output),
        format!("{}{}", stdout(&output), stderr(&output)),
    )
}

#[test]
fn the_gate_knows_the_direction_of_ipc() {
    let ipc = |millionths| {
        let metric = metric("instructions per cycle", "hardware", &around(millionths));
        result("ipc:u", &metric)
    };
    let (low, high) = (ipc(1_000_000), ipc(2_800_000));
    for limit in ["ipc=1%", "ipc:u=5%"] {
        let (status, text) = gate(&high, &low, limit, &[]);
        assert_eq!(status, 3, "{text}");
        assert!(text.contains("regressed (lower"), "{text}");
        let (status, text) = gate(&low, &high, limit, &[]);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("passed (higher"), "{text}");
    }
}

/// Every resource and kind of count, and metrics of both directions: what is worse fails, the other way passes.
#[test]
fn the_gate_knows_the_direction_of_everything_that_is_measured() {
    for (name, unit, lower_is_worse) in [
        ("instructions:u", "count", false),
        ("cycles:u", "count", false),
        ("branches:u", "count", false),
        ("branch-misses:u", "count", false),
        ("cache-misses:u", "count", false),
        ("wall-time", "ns", false),
        ("user-time", "ns", false),
        ("system-time", "ns", false),
        ("cpu-time", "ns", false),
        ("max-rss", "bytes", false),
        ("page-faults", "count", false),
        ("minor-faults", "count", false),
        ("major-faults", "count", false),
        ("context-switches", "count", false),
        ("cpi", "cycles per instruction", false),
        ("ghz", "GHz", true),
        ("retiring", "%", true),
        ("frontend-bound", "%", false),
        ("branch-mpki", "per 1000 instructions", false),
    ] {
        let of = |centre| result(name, &metric(unit, "hardware", &around(centre)));
        let (less, more) = (of(1_000_000), of(1_500_000));
        let limit = format!("{name}=2%");
        let (worse, better) = if lower_is_worse {
            ((&more, &less), (&less, &more))
        } else {
            ((&less, &more), (&more, &less))
        };
        let (status, text) = gate(worse.0, worse.1, &limit, &[]);
        assert_eq!(status, 3, "{name}: {text}");
        let (status, text) = gate(better.0, better.1, &limit, &[]);
        assert_eq!(status, 0, "{name}: {text}");
    }
    let of = |centre| {
        result(
            "cpus-utilized",
            &metric("CPUs", "hardware", &around(centre)),
        )
    };
    let (status, text) = gate(&of(1_000_000), &of(2_000_000), "cpus-utilized=2%", &[]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("which direction is worse"), "{text}");
}

/// [−20 %, +1 %] at a limit of 2 % passes: it is unsure how much better it is, but not whether it is worse.
#[test]
fn an_interval_below_the_limit_passes() {
    let base = result("wall-time", &metric("ns", "software", &[1_000_000; 12]));
    let mixed: Vec<u64> = [800_000, 1_010_000].repeat(6);
    let new = result("wall-time", &metric("ns", "software", &mixed));
    let (status, text) = gate(&base, &new, "wall-time=2%", &[]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("-20.0 % … +1.0 %"), "{text}");
    let (status, text) = gate(&base, &new, "wall-time=0.5%", &[]);
    assert_eq!(status, 4, "{text}");
}

/// Equal counts of a run that takes something in may be chance: the gate says what came in.
#[test]
fn a_gate_says_what_came_into_an_open_run() {
    let count = |source| {
        let name = "instructions:u";
        result(name, &metric("count", source, &[1_000_000; 6]))
    };
    let outside = |closed: bool| {
        let input = json!({"source": "getrandom", "title": "getrandom", "times": 2});
        json!({"closed": closed, "inputs": if closed { json!([]) } else { json!([input]) }})
    };
    let mut closed = count("virtual");
    closed["commands"][0]["outside"] = outside(true);
    let mut open = closed.clone();
    open["commands"][0]["outside"] = outside(false);
    // A PMU's counts are not meant.
    let mut hardware = count("hardware");
    hardware["commands"][0]["outside"] = outside(false);
    let said = |base, new| {
        let (status, text) = gate(base, new, "instructions:u=1%", &[]);
        assert_eq!(status, 0, "{text}");
        let text = unwrapped(&text);
        text.contains("this count of prog may vary: getrandom 2 times")
    };
    assert!(!said(&closed, &closed));
    assert!(said(&closed, &open) && said(&open, &closed));
    assert!(!said(&hardware, &hardware));
}

/// Where counts of the virtual PMU differ, the gate says which inputs do, too.
#[test]
fn a_gate_says_which_inputs_differ() {
    let count = |value, libraries: &str| {
        let name = "instructions:u";
        let mut result = result(name, &metric("count", "virtual", &[value; 6]));
        let parts = json!({"program": "1", "libraries": libraries, "files": "3"});
        let identity = json!({"files": 3, "parts": parts});
        result["commands"][0]["outside"] =
            json!({"closed": true, "inputs": [], "identity": identity});
        result
    };
    let said = |base: &Value, new: &Value, status| {
        let (found, text) = gate(base, new, "instructions:u=1%", &[]);
        assert_eq!(found, status, "{text}");
        let text = unwrapped(&text);
        let at = text.find("inputs differ: ");
        at.map(|at| text[at..].split([';', ')']).next().unwrap().to_owned())
    };
    let before = count(1_000_000, "2");
    assert_eq!(said(&before, &before, 0), None);
    assert_eq!(said(&before, &count(1_000_000, "9"), 0), None);
    assert_eq!(said(&before, &count(1_100_000, "2"), 3), None);
    let named = said(&before, &count(1_100_000, "9"), 3).expect("the inputs");
    assert!(named.starts_with("inputs differ: libraries"), "{named}");
    assert!(!named.contains("program"), "{named}");
}

#[test]
fn a_scaled_count_on_either_side_decides_nothing() {
    let plain = result(
        "instructions",
        &metric("count", "hardware", &around(1_000_000)),
    );
    let mut scaled = result(
        "instructions",
        &metric("count", "hardware", &around(2_000_000)),
    );
    scaled["commands"][0]["metrics"]["instructions"]["precision"] = "scaled".into();
    for (base, new) in [(&plain, &scaled), (&scaled, &plain)] {
        let (status, text) = gate(base, new, "instructions=1%", &[]);
        assert_eq!(status, 4, "{text}");
        assert!(text.contains("scaled count decides nothing"), "{text}");
    }
}

#[test]
fn baselines_that_do_not_fit_are_refused_by_name() {
    let of = |source| {
        result(
            "instructions:u",
            &metric("count", source, &around(1_000_000)),
        )
    };
    let base = of("hardware");
    let changed = |pointer: &str, value: Value| {
        let mut new = base.clone();
        new["environment"][pointer] = value;
        new
    };
    let limit = "instructions:u=1%";
    assert_eq!(gate(&base, &base, limit, &[]).0, 0);
    let (machine, environment) = ("--ignore-machine", "--ignore-environment");
    for (pointer, value, name, override_with, other) in [
        (
            "cpu_model",
            json!("Other CPU"),
            "Other CPU",
            machine,
            environment,
        ),
        ("kernel", json!("2.6.32"), "2.6.32", machine, environment),
        (
            "governor",
            json!("powersave"),
            "powersave",
            machine,
            environment,
        ),
        ("env_bytes", json!(777), "777", environment, machine),
        ("aslr", json!(true), "aslr", environment, machine),
    ] {
        let new = changed(pointer, value);
        let (status, text) = gate(&base, &new, limit, &[]);
        assert_eq!(status, 4, "{text}");
        assert!(text.contains(name), "{text}");
        assert_eq!(gate(&base, &new, limit, &[other]).0, 4, "{pointer}");
        assert_eq!(gate(&base, &new, limit, &[override_with]).0, 0, "{pointer}");
    }
    let (status, text) = gate(&base, &of("virtual"), limit, &[machine, environment]);
    assert_eq!(status, 4, "{text}");
    assert!(text.contains("source: virtual, was hardware"), "{text}");
    // Another filter is another metric: the one that is gated has nothing to be compared with.
    let kernel = result(
        "instructions:k",
        &metric("count", "hardware", &around(1_000_000)),
    );
    let (status, text) = gate(&kernel, &base, limit, &[]);
    assert_eq!(status, 4, "{text}");
    // A command that the baseline does not have is not silently left out.
    let mut two = base.clone();
    two["commands"] = json!([base["commands"][0], base["commands"][0]]);
    two["commands"][1]["name"] = "new one".into();
    let (status, text) = gate(&base, &two, limit, &[]);
    assert_eq!(status, 4, "{text}");
    assert!(text.contains("new one"), "{text}");
}

/// Two equal runs show nothing: a program that throws one coin gives them half the time.
#[test]
fn two_equal_runs_decide_nothing_and_six_do() {
    let of = |count, runs| {
        result(
            "instructions:u",
            &metric("count", "virtual", &vec![count; runs]),
        )
    };
    for runs in 2..5 {
        let (status, text) = gate(&of(1000, runs), &of(1050, runs), "instructions:u=1%", &[]);
        assert_eq!(status, 4, "{text}");
        assert!(text.contains(&format!("{runs} of at least 5")), "{text}");
        let (status, text) = gate(&of(1000, runs), &of(1000, runs), "instructions:u=1%", &[]);
        assert_eq!(status, 4, "{text}");
    }
    let (status, text) = gate(&of(1000, 5), &of(1050, 5), "instructions:u=1%", &[]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("more (exact counts, 5 equal each)"), "{text}");
    let (status, text) = gate(&of(1000, 6), &of(1000, 6), "instructions:u=1%", &[]);
    assert_eq!(status, 0, "{text}");
}

/// Events that take turns have a value in every third round only: the rounds that are advised give values enough.
#[test]
fn advice_counts_the_rounds_of_batches() {
    let of = |centre: u64| {
        let values: Vec<u64> = (0..4).map(|i| centre + i * 1000).collect();
        result(
            "ipc:u",
            &metric("instructions per cycle", "hardware", &values),
        )
    };
    let (status, text) = gate(&of(2_000_000), &of(1_000_000), "ipc=1%", &[]);
    assert_eq!(status, 4, "{text}");
    let text = unwrapped(&text);
    assert!(text.contains("4 of at least 5 runs each: -n 15"), "{text}");
}

#[test]
fn what_can_be_known_before_measuring_is_checked_before() {
    // A command that would leave a mark if it ran.
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("ran");
    let touch = format!("touch '{}'", mark.display());
    let args = ["bench", "--fail-above", "instrutions=1%", &touch, &touch];
    fails(&args, 2, &["instrutions", "not measured", "wall-time"]);
    fails(
        &["bench", "--fail-above", "wall-time=1%", &touch],
        2,
        &["--baseline"],
    );
    assert!(!mark.exists());
}

/// A limit in counts is one of the metric's own unit, of both directions, of equal and of noisy samples, and of a base
/// of 0, of which there is no share.
#[test]
fn limits_are_shares_or_counts() {
    let equal = |count: u64| metric("count", "hardware", &[count; 12]);
    let noisy = |count: u64| metric("count", "hardware", &around(count));
    let ipc = |millionths| metric("instructions per cycle", "hardware", &around(millionths));
    for (name, base, new, limit, expected) in [
        ("instructions:u", equal(1000), equal(1010), "10", 0),
        ("instructions:u", equal(1000), equal(1010), "9", 3),
        ("instructions:u", equal(1000), equal(1010), "1%", 0),
        ("instructions:u", equal(1000), equal(1010), "0", 3),
        ("instructions:u", equal(1000), equal(1000), "0", 0),
        // ln(other / base) need not come to the limit's last digit.
        ("instructions:u", equal(3_333_333), equal(3_333_340), "7", 0),
        ("instructions:u", equal(3_333_333), equal(3_333_340), "6", 3),
        ("instructions:u", equal(0), equal(5), "5", 0),
        ("instructions:u", equal(0), equal(5), "4", 3),
        (
            "branches:u",
            noisy(1_000_000),
            noisy(1_500_000),
            "600000",
            0,
        ),
        (
            "branches:u",
            noisy(1_000_000),
            noisy(1_500_000),
            "400000",
            3,
        ),
        (
            "branches:u",
            noisy(1_000_000),
            noisy(1_500_000),
            "500000",
            4,
        ),
        ("ipc:u", ipc(2_800_000), ipc(1_500_000), "1", 3),
        ("ipc:u", ipc(2_800_000), ipc(2_500_000), "1", 0),
        ("ipc:u", ipc(800_000), ipc(500_000), "1", 0),
    ] {
        let (base, new) = (result(name, &base), result(name, &new));
        let limit = format!("{name}={limit}");
        let (status, text) = gate(&base, &new, &limit, &[]);
        assert_eq!(status, expected, "{limit}: {text}");
    }
    let (base, new) = (
        result("instructions:u", &equal(1000)),
        result("instructions:u", &equal(1010)),
    );
    let (_, text) = gate(&base, &new, "instructions=9", &[]);
    assert!(text.contains("gate instructions:u 9, "), "{text}");
    for (limit, why) in [
        ("instructions=0.5", "a share ends with %, counts are whole"),
        ("instructions=-1", "is not a percentage"),
        ("instructions=99999999999999999999", "it is too large"),
        ("instructions=", "is not a percentage"),
    ] {
        let (status, text) = gate(&base, &new, limit, &[]);
        assert!(status == 2 && text.contains(why), "{limit}: {text}");
    }
}
