//! `truecount bench`.

use std::path::Path;

use crate::support::{STEPPED, code, fails, json, median, run, stderr, stdout, stepped};

/// Commands whose memory is known and does not depend on what else runs on the machine.
const SMALL: &str = "dd if=/dev/zero of=/dev/null bs=8M count=1";
const LARGE: &str = "dd if=/dev/zero of=/dev/null bs=32M count=1";

#[test]
fn three_arguments_are_three_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out");
    let path = file.to_str().unwrap();
    let args = [
        "bench", "--source", "software", "-n", "1", "--warmup", "0", "--output", path, "--",
        "printf", "<%s>", "ONE", "T W O", "THREE",
    ];
    assert_eq!(code(&run(&args)), 0);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "<ONE><T W O><THREE>"
    );
    let document = json(&[
        "bench",
        "-n",
        "1",
        "--json",
        "--",
        "/bin/echo",
        "ONE",
        "TWO",
        "THREE",
    ]);
    assert_eq!(
        document["commands"][0]["command"],
        serde_json::json!(["/bin/echo", "ONE", "TWO", "THREE"])
    );
}

#[test]
fn the_same_program_under_two_names_is_never_different() {
    // A comparison errs once in twenty times: two of five would be a fault.
    let mut wrong = Vec::new();
    for attempt in 0..5 {
        let seed = attempt.to_string();
        let document = json(&[
            "bench", "-n", "12", "--seed", &seed, "--json", "true", "true",
        ]);
        for compared in document["comparisons"].as_array().unwrap() {
            let verdict = compared["verdict"].as_str().unwrap();
            if !matches!(verdict, "same" | "undecided" | "described") {
                wrong.push((attempt, compared.clone()));
            }
        }
    }
    wrong.dedup_by_key(|(attempt, _)| *attempt);
    assert!(wrong.len() < 2, "{wrong:#?}");
}

#[test]
fn a_difference_is_found_and_has_an_interval() {
    let document = json(&["bench", "-n", "12", "-e", "max-rss", "--json", SMALL, LARGE]);
    let size = document["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .find(|compared| compared["metric"] == "max-rss")
        .unwrap();
    assert_eq!(size["verdict"], "larger", "{size}");
    assert!(size["interval"][0].as_f64().unwrap() > 2.0, "{size}");
}

#[test]
fn memory_is_that_of_the_command_itself() {
    // An earlier command of 200 MiB must not raise the next one's figure, nor must a large parent.
    let script = "import os,sys;x=b'x'*(200<<20);os.execv(sys.argv[1],sys.argv[1:])";
    let truecount = env!("CARGO_BIN_EXE_truecount");
    let output = std::process::Command::new("python3")
        .args([
            "-c",
            script,
            truecount,
            "bench",
            "-n",
            "2",
            "--json",
            "head -c 200m /dev/zero",
            "sort -S 200M /dev/null",
            "true",
        ])
        .output();
    let document: serde_json::Value = match output {
        Ok(output) if output.status.success() => serde_json::from_slice(&output.stdout).unwrap(),
        _ => {
            truecount_testing::skip!("python", "no python3");
            return;
        }
    };
    let rss = median(&document, 2, "max-rss").unwrap();
    assert!(rss < 8.0 * 1024.0 * 1024.0, "{rss}");
    let big = json(&[
        "bench",
        "-n",
        "2",
        "--json",
        "python3 -c 'x=b\"x\"*(200<<20)'",
        "true",
    ]);
    assert!(median(&big, 0, "max-rss").unwrap() > 200e6);
    assert!(median(&big, 1, "max-rss").unwrap() < 8.0 * 1024.0 * 1024.0);
}

#[test]
fn exact_counts_by_stepping_with_times_from_native_runs() {
    let Some((_directory, program)) = stepped() else {
        return;
    };
    let document = json(&[
        "bench",
        "-n",
        "2",
        "--source",
        "step",
        "--exact-runs",
        "5",
        "--json",
        &program,
    ]);
    let metrics = &document["commands"][0]["metrics"];
    assert_eq!(metrics["instructions:u"]["source"], "step");
    assert_eq!(metrics["instructions:u"]["exact"], true);
    assert_eq!(median(&document, 0, "instructions:u"), Some(STEPPED as f64));
    assert_eq!(metrics["wall-time"]["source"], "software");
    assert_eq!(metrics["wall-time"]["samples"].as_array().unwrap().len(), 2);
}

#[test]
fn hooks_run_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let say = |what: &str| format!("echo {what} >> '{}'", log.display());
    let args = [
        "bench",
        // Without the runs that only count.
        "--source",
        "software",
        "-n",
        "2",
        "--warmup",
        "1",
        "--setup",
        &say("setup"),
        "--prepare",
        &say("prepare"),
        "--conclude",
        &say("conclude"),
        "--cleanup",
        &say("cleanup"),
        "true",
    ];
    let output = run(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = std::fs::read_to_string(&log).unwrap();
    let words: Vec<&str> = text.lines().collect();
    assert_eq!(
        words,
        [
            "setup", "prepare", "conclude", "prepare", "conclude", "prepare", "conclude", "cleanup"
        ]
    );
    fails(
        &["bench", "--prepare", "a", "--prepare", "b", "true"],
        2,
        &["--prepare"],
    );
}

#[test]
fn parameters_make_commands() {
    let document = json(&[
        "bench",
        "-n",
        "1",
        "-P",
        "n",
        "1..2",
        "-L",
        "w",
        "a,b",
        "--json",
        "echo {n} {w}",
    ]);
    let names: Vec<&str> = document["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["echo 1 a", "echo 1 b", "echo 2 a", "echo 2 b"]);
    assert_eq!(document["commands"][3]["parameters"]["n"], "2");
}

#[test]
fn a_seed_repeats_the_order_of_runs() {
    let directory = tempfile::tempdir().unwrap();
    let order = |seed: &str, name: &str| {
        let log = directory.path().join(name);
        let command = |what: &str| format!("sh -c \"echo {what} >> '{}'\"", log.display());
        let args = [
            "bench",
            "-n",
            "8",
            "--warmup",
            "0",
            "--seed",
            seed,
            &command("a"),
            &command("b"),
            &command("c"),
        ];
        let output = run(&args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(stdout(&output).contains(&format!("seed {seed}")));
        std::fs::read_to_string(&log).unwrap()
    };
    let first = order("7", "x");
    assert_eq!(first, order("7", "y"));
    assert_ne!(first, order("8", "z"));
    for round in first.lines().collect::<Vec<_>>().chunks(3) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, ["a", "b", "c"]);
    }
}

#[test]
fn gates_have_their_statuses() {
    let gate = |limit: &str, a: &str, b: &str| {
        code(&run(&[
            "bench",
            "-n",
            "12",
            "--only",
            "-e",
            "max-rss",
            "--fail-above",
            limit,
            a,
            b,
        ]))
    };
    assert_eq!(gate("max-rss=5%", SMALL, LARGE), 3);
    assert_eq!(gate("max-rss=5%", LARGE, SMALL), 0);
    assert_eq!(gate("no-such-metric=5%", "true", "true"), 2);
    let few = code(&run(&[
        "bench",
        "-n",
        "2",
        "--fail-above",
        "max-rss=5%",
        "true",
        "true",
    ]));
    assert_eq!(few, 4);
}

#[test]
fn a_baseline_is_compared_and_another_environment_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("base.json");
    let path = file.to_str().unwrap();
    let common = ["bench", "-n", "10", "--only", "-e", "max-rss"];
    let with = |more: &[&str]| run(&[&common, more].concat());
    assert_eq!(code(&with(&["--save", path, SMALL])), 0);
    let slower = with(&["--baseline", path, "--fail-above", "max-rss=20%", LARGE]);
    assert_eq!(code(&slower), 3, "{}{}", stdout(&slower), stderr(&slower));
    let same = with(&["--baseline", path, "--fail-above", "max-rss=50%", SMALL]);
    assert_eq!(code(&same), 0, "{}{}", stdout(&same), stderr(&same));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["environment"]["kernel"] = "2.6.32".into();
    std::fs::write(&file, document.to_string()).unwrap();
    let other = with(&["--baseline", path, "--fail-above", "max-rss=50%", SMALL]);
    assert_eq!(code(&other), 4);
    assert!(stdout(&other).contains("2.6.32"), "{}", stdout(&other));
    let ignored = with(&[
        "--baseline",
        path,
        "--ignore-machine",
        "--fail-above",
        "max-rss=50%",
        SMALL,
    ]);
    assert_eq!(code(&ignored), 0);
}

#[test]
fn every_form_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (json, csv, markdown, html) = (file("j"), file("c"), file("m"), file("h"));
    let output = run(&[
        "bench",
        "-n",
        "6",
        &format!("--json={json}"),
        &format!("--csv={csv}"),
        &format!("--markdown={markdown}"),
        "--html",
        &html,
        "true",
        "echo '<b>&'",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap();
    let document: serde_json::Value = serde_json::from_str(&read(&json)).unwrap();
    assert_eq!(document["schema"], "truecount.bench/2");
    assert!(read(&csv).lines().count() > 8);
    assert!(read(&markdown).contains("| command | "));
    // The name of a language is no address that anything is fetched from.
    let page = read(&html).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(page.contains("<svg") && page.contains("&lt;b&gt;&amp;"));
    // Nothing from elsewhere: the only addresses allowed are none.
    assert!(!page.contains("://") && !page.contains("src=") && !page.contains("<b>&'"));
}

#[test]
fn a_budget_and_a_precision_end_a_bench() {
    let document = json(&["bench", "--budget", "300ms", "--json", "sleep 0.02"]);
    // None takes less than 20 ms, and none begins when the time is over.
    let rounds = document["rounds"].as_u64().unwrap();
    assert!((1..=15).contains(&rounds), "{rounds}");
    let document = json(&["bench", "--until", "20%", "--json", "sleep 0.005"]);
    assert!(document["rounds"].as_u64().unwrap() >= 10);
}

/// A metric has a sample of every run, from that run's counts; what cannot be counted says why.
#[test]
fn metrics_are_samples_of_every_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.toml");
    let text = "[[pack]]\nname = \"own\"\ncpus = [\"*\"]\nsource = \"test\"\n\
        events = { F = \"page-faults\" }\n\
        [[pack.metric]]\nname = \"dozens\"\nformula = \"F / 12\"\nunit = \"dozens\"\nabout = \"x\"\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let document = json(&[
        "bench",
        "-n",
        "7",
        "-e",
        "page-faults",
        "-M",
        "own,ipc",
        "--metrics-file",
        file,
        "--json",
        "true",
        "ls",
    ]);
    for command in document["commands"].as_array().unwrap() {
        let metrics = command["metrics"].as_object().unwrap();
        let (_, dozens) = metrics
            .iter()
            .find(|(n, _)| n.starts_with("dozens"))
            .unwrap();
        assert_eq!(dozens["samples"].as_array().unwrap().len(), 7, "{dozens}");
        let value = dozens["median"].as_f64().unwrap() * dozens["scale"].as_f64().unwrap();
        let faults = metrics["page-faults"]["median"].as_f64().unwrap();
        assert!(
            (1.0..faults / 11.0).contains(&value),
            "{value}, {faults} faults"
        );
        let (_, ipc) = metrics.iter().find(|(n, _)| n.starts_with("ipc")).unwrap();
        if ipc["samples"].as_array().unwrap().is_empty() {
            assert!(ipc["reason"].as_str().unwrap().contains("PMU"), "{ipc}");
        }
    }
    let compared = document["comparisons"].as_array().unwrap();
    assert!(
        compared
            .iter()
            .any(|c| c["metric"].as_str().unwrap().starts_with("dozens")),
        "{document}"
    );
    let args = [
        "bench",
        "-n",
        "2",
        "--only",
        "-M",
        "own",
        "--metrics-file",
        file,
    ];
    let text = stdout(&run(&[&args[..], &["true"]].concat()));
    assert!(
        text.contains("dozens") && !text.contains("wall-time"),
        "{text}"
    );
    fails(&["bench", "--only", "true"], 2, &["--only", "-M"]);
}
