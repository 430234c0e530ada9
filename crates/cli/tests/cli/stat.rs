//! `truecount stat`.

use crate::support::{
    STEPPED, code, fails, hardware, json, run, stderr, stdout, stepped, truecount, virtual_pmu,
};

fn counter<'d>(document: &'d serde_json::Value, event: &str) -> &'d serde_json::Value {
    document["counters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|counter| counter["event"] == event)
        .unwrap_or_else(|| panic!("no {event} in {document}"))
}

#[test]
fn what_cannot_be_counted_is_a_row_with_its_reason() {
    let events = "cycles:u,page-faults";
    let document = json(&["stat", "--json", "-e", events, "--", "true"]);
    let cycles = counter(&document, "cycles:u");
    if hardware() {
        assert!(cycles["value"].as_u64().unwrap() > 1000);
    } else {
        assert!(cycles["value"].is_null(), "{cycles}");
        assert!(
            cycles["reason"].as_str().unwrap().contains("PMU"),
            "{cycles}"
        );
        assert!(cycles["source"].is_null());
        let text = stderr(&run(&["stat", "-e", events, "--", "true"]));
        assert!(
            text.contains("not counted") && text.contains("PMU"),
            "{text}"
        );
    }
    assert!(counter(&document, "page-faults")["value"].as_u64().unwrap() > 10);
}

#[test]
fn single_stepping_gives_the_same_count_each_time() {
    let Some((_directory, program)) = stepped() else {
        return;
    };
    for _ in 0..3 {
        let document = json(&["stat", "--source", "step", "--json", "--", &program]);
        let instructions = counter(&document, "instructions:u");
        assert_eq!(instructions["precision"], "exact");
        assert_eq!(instructions["source"], "step");
        assert_eq!(instructions["value"], STEPPED);
    }
}

#[test]
fn the_status_is_that_of_the_program() {
    assert_eq!(code(&run(&["stat", "--", "sh", "-c", "exit 7"])), 7);
    assert_eq!(code(&run(&["stat", "--", "false"])), 1);
    let document = run(&["stat", "--json", "--", "sh", "-c", "exit 7"]);
    let document: serde_json::Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(document["exit"]["code"], 7);
}

#[test]
fn arguments_and_streams_reach_the_program_untouched() {
    let output = run(&["stat", "--", "printf", "%s|", "a b", "", "-x", "*", "$HOME"]);
    assert_eq!(stdout(&output), "a b||-x|*|$HOME|");
    let output = run(&["stat", "--", "sh", "-c", "echo $0 $#", "name", "1", "2"]);
    assert_eq!(stdout(&output), "name 2\n");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in");
    std::fs::write(&file, "hello").unwrap();
    let output = run(&["stat", "--input", file.to_str().unwrap(), "--", "cat"]);
    assert_eq!(stdout(&output), "hello");
}

#[test]
fn the_program_gets_the_signals_that_truecount_got() {
    // SIGPIPE is back to its default, nothing is blocked: `yes` ends when its reader does.
    let output = truecount(&[
        "stat",
        "--",
        "sh",
        "-c",
        "yes | head -1; grep -E 'Sig(Blk|Ign)' /proc/self/status",
    ])
    .output()
    .unwrap();
    let text = stdout(&output);
    assert!(text.starts_with("y\n"), "{text}");
    assert!(text.contains("SigBlk:\t0000000000000000"), "{text}");
}

#[test]
fn addresses_are_not_randomised_unless_asked() {
    // /proc/self/personality: ADDR_NO_RANDOMIZE is 0x40000.
    let off = stdout(&run(&["stat", "--", "cat", "/proc/self/personality"]));
    let on = stdout(&run(&[
        "stat",
        "--aslr",
        "--",
        "cat",
        "/proc/self/personality",
    ]));
    if !off.starts_with("0004") {
        truecount_testing::skip!("aslr", "personality(2) is refused here");
        return;
    }
    assert!(on.starts_with("0000"), "{on}");
}

#[test]
fn csv_has_a_heading_and_one_record_an_event() {
    let text = stdout(&run(&[
        "stat",
        "--csv",
        "-e",
        "page-faults,max-rss",
        "--",
        "true",
    ]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("event,value,unit"), "{text}");
    assert!(
        lines.iter().any(|line| line.starts_with("page-faults,")),
        "{text}"
    );
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("max-rss,"))
            .count(),
        1,
        "{text}"
    );
}

/// Also where counting begins later: the last interval ends with the run, not with the time that was counted.
#[test]
fn intervals_are_printed_while_it_runs() {
    for delay in [&[][..], &["-D", "600"]] {
        let options = ["stat", "--json", "-I", "50", "-e", "task-clock,page-faults"];
        let output = run(&[&options[..], delay, &["--", "sleep", "1"]].concat());
        let text = stdout(&output);
        let ends: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["since_ns"].as_u64().unwrap())
            .collect();
        assert!(ends.len() >= 4, "{text}");
        assert!(ends.is_sorted_by(|one, next| one < next), "{ends:?}");
        assert!(*ends.last().unwrap() > 900_000_000, "{ends:?}");
    }
}

#[test]
fn a_running_process_and_the_machine() {
    let spinning = truecount_testing::Spinning::start();
    let pid = spinning.pid().to_string();
    let output = run(&[
        "stat",
        "--json",
        "-e",
        "task-clock",
        "-p",
        &pid,
        "--",
        "sleep",
        "0.2",
    ]);
    drop(spinning);
    if code(&output) != 0 {
        truecount_testing::skip!("software", "{}", stderr(&output));
        return;
    }
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let clock = &document["counters"][0];
    match clock["value"].as_u64() {
        Some(value) => assert!(value > 1_000_000, "{clock}"),
        None => truecount_testing::skip!("software", "{clock}"),
    }
    let output = run(&["stat", "-p", "2147483646"]);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("no process"),
        "{}",
        stderr(&output)
    );
    let document = json(&["stat", "-a", "--json", "-e", "cpu-clock", "--", "true"]);
    assert_eq!(document["target"], "machine");
}

/// A metric of what every kernel counts, from a user's file, and one that needs the CPU's counters.
#[test]
fn metrics_have_values_or_reasons() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.toml");
    let text = "[[pack]]\nname = \"own\"\ncpus = [\"*\"]\nsource = \"test\"\n\
        events = { F = \"page-faults\", T = \"task-clock\" }\n\
        [[pack.metric]]\nname = \"faults-per-ms\"\nformula = \"1e6 * F / T\"\nunit = \"per ms\"\n\
        above = 0.000001\nabout = \"Faults.\"\nnext = \"what allocates\"\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let args = ["stat", "-M", "own,IPC", "--metrics-file", file];
    let document = json(&[&args[..], &["--json", "--", "true"]].concat());
    let [faults, ipc] = document["metrics"].as_array().unwrap().as_slice() else {
        panic!("{document}");
    };
    let count = |event: &str| {
        let rows = document["counters"].as_array().unwrap().iter();
        let mut named = rows.filter(|c| c["event"].as_str().unwrap().starts_with(event));
        named.next().unwrap()["value"].as_f64().unwrap()
    };
    let expected = 1e6 * count("page-faults") / count("task-clock");
    let value = faults["value"].as_f64().unwrap();
    assert!((value / expected - 1.0).abs() < 1e-9, "{faults}");
    assert_eq!(faults["threshold"], 0.000001);
    assert_eq!(faults["next"], "what allocates");
    assert_eq!(faults["source"], "software");
    if hardware() {
        assert!(ipc["value"].as_f64().unwrap() > 0.0, "{ipc}");
    } else {
        assert!(ipc["value"].is_null(), "{ipc}");
        assert!(ipc["reason"].as_str().unwrap().contains("PMU"), "{ipc}");
    }
    let text = stderr(&run(&[&args[..], &["--", "true"]].concat()));
    assert!(
        text.contains("faults-per-ms") && text.contains("> 0.000001: what allocates"),
        "{text}"
    );
    let csv = stdout(&run(&[&args[..], &["--csv", "--", "true"]].concat()));
    assert!(
        csv.lines().any(|line| line.starts_with("faults-per-ms")),
        "{csv}"
    );
    let lines = stdout(&run(&[
        &args[..],
        &["-I", "30", "--json", "--", "sleep", "1"],
    ]
    .concat()));
    assert!(lines.lines().count() >= 3, "{lines}");
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let metric = line["metrics"][0]["metric"].as_str().unwrap();
        assert!(metric.starts_with("faults-per-ms"), "{line}");
    }
    crate::support::fails(
        &["stat", "-M", "ipcc", "--", "true"],
        2,
        &["no metric ipcc", "ipc"],
    );
}

#[test]
fn a_later_run_that_fails_does_not_cost_the_earlier_ones() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    // The second run removes it: there is nothing to execute in the third.
    let text = "#!/bin/sh\nif [ -e \"$0.mark\" ]; then rm \"$0\"; fi\n: >\"$0.mark\"\nexit 0\n";
    let mark = directory.path().join("script.mark");
    let program = script.to_str().unwrap();
    let source = directory.path().join("source");
    std::fs::write(&source, text).unwrap();
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).unwrap();
    for form in [&["--json"][..], &[]] {
        // By a process of its own: what another test starts meanwhile would hold it open, too (ETXTBSY).
        let mut copy = std::process::Command::new("cp");
        copy.arg("-p").args([&source, &script]);
        assert!(copy.status().unwrap().success());
        let _ = std::fs::remove_file(&mark);
        let args = [
            "stat",
            "--source",
            "software",
            "-e",
            "page-faults",
            "-r",
            "5",
        ];
        let output = run(&[&args, form, &["--", program]].concat());
        let told = stderr(&output);
        assert_eq!(code(&output), 127, "{told}");
        let last = told.lines().last().unwrap();
        assert!(
            last.starts_with("truecount: ") && last.contains("script"),
            "{told}"
        );
        if form.is_empty() {
            assert!(
                told.contains("2 runs; run") && told.contains("Run 3 of 5 failed"),
                "{told}"
            );
        } else {
            let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(document["repeats"]["runs"], 2);
            assert_eq!(
                document["repeats"]["events"][0]["values"]
                    .as_array()
                    .unwrap()
                    .len(),
                2
            );
            assert!(counter(&document, "page-faults")["value"].as_u64().unwrap() > 10);
        }
    }
}

/// The first thing that a user of perf types.
#[test]
fn bare_instructions_are_answered_in_user_mode() {
    if !virtual_pmu() {
        return;
    }
    for command in ["stat", "run"] {
        let output = run(&[
            command,
            "-e",
            "instructions",
            "--source",
            "virtual",
            "--",
            "true",
        ]
        .into_iter()
        .filter(|word| command == "stat" || !matches!(*word, "--source" | "virtual"))
        .collect::<Vec<_>>());
        let text = stderr(&output);
        assert_eq!(code(&output), 0, "{text}");
        assert!(text.contains("instructions:u"), "{command}: {text}");
        assert!(!text.contains("not counted"), "{command}: {text}");
    }
}

/// The fields of perf stat -x: value, unit, event, the error of the mean with -r, time, share, and two more.
#[test]
fn perfs_fields_stand_in_perfs_order() {
    let lines = |args: &[&str]| -> Vec<Vec<String>> {
        let output = run(&[
            &[
                "stat",
                "--source",
                "software",
                "-e",
                "page-faults,task-clock",
            ],
            args,
        ]
        .concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = stderr(&output);
        let rows = text
            .lines()
            .map(|line| line.split(';').map(str::to_owned).collect());
        rows.collect()
    };
    for (args, fields, event) in [
        (&["-x", ";", "--", "true"][..], 7, 2),
        (&["-x;", "-r", "3", "--", "true"], 8, 2),
        (&["-x;", "-I", "50", "--", "sleep", "0.2"], 8, 3),
    ] {
        let rows = lines(args);
        assert!(
            rows.len() >= 2 && rows.iter().all(|row| row.len() == fields),
            "{args:?}: {rows:?}"
        );
        let named = |name: &str| {
            // An ordinary user's may be those of user mode.
            let named = |row: &&Vec<String>| row[event].trim_end_matches(":u") == name;
            rows.iter().find(named).unwrap()
        };
        assert!(
            named("page-faults")[event - 2]
                .trim()
                .parse::<u64>()
                .is_ok(),
            "{rows:?}"
        );
        let clock = named("task-clock");
        assert_eq!(clock[event - 1], "msec", "{rows:?}");
        assert!(
            clock[event - 2].trim().parse::<f64>().unwrap() > 0.0,
            "{rows:?}"
        );
    }
}

/// One thread of a process, and one CPU of the machine.
#[test]
fn a_thread_and_a_cpu_are_counted() {
    // The thread of ours that spins, and the one that waits.
    let spins = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let goes_on = spins.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // SAFETY: without arguments.
        tell.send(unsafe { libc::gettid() }).unwrap();
        while goes_on.load(std::sync::atomic::Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let spinning = told.recv().unwrap();
    let clock = |args: &[&str]| {
        let head = ["stat", "--source", "software", "-e", "task-clock", "--json"];
        let document = json(&[&head[..], args, &["--", "sleep", "0.3"]].concat());
        let target = document["target"].as_str().unwrap().to_owned();
        (document["counters"][0]["value"].as_u64(), target)
    };
    let busy = clock(&["-t", &spinning.to_string()]);
    // SAFETY: without arguments.
    let mine = clock(&["-t", &unsafe { libc::gettid() }.to_string()]);
    spins.store(false, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
    if busy.0.is_none() {
        truecount_testing::skip!(
            "software",
            "the kernel counts no task-clock of other threads here"
        );
        return;
    }
    assert_eq!(busy.1, "thread");
    assert!(busy.0.unwrap() > 10_000_000, "{busy:?}");
    assert!(
        mine.0.is_none_or(|mine| mine < busy.0.unwrap() / 4),
        "{mine:?} {busy:?}"
    );
    let cpu = clock(&["-C", "0"]);
    if cpu.0.is_some() {
        assert_eq!(cpu.1, "cpus");
    }
    fails(
        &["stat", "-C", "1023", "--", "true"],
        2,
        &["CPU 1023 is not online"],
    );
}
