//! The plug-in of pytest, in the environment of [`super::python`]: what runs leave, marks, files, interrupts, events.

use super::python::{Environment, text};
use std::path::Path;
use std::process::Command;
use truecount_testing::schemas::{follows, refuses};

/// In a directory where nothing ever ran, with pytest's cache and the result in it, or the result in another: the first run
/// counts as later ones do. What is random natively is not under the virtual PMU: the sets of two runs have their texts in the same places.
pub fn runs_leave_nothing_for_the_next(environment: &Environment, tests: &Path) {
    let outer = environment.scratch.path().join("outer");
    let clean = outer.join("clean");
    std::fs::create_dir_all(&clean).unwrap();
    std::fs::copy(tests.join("seeds.py"), clean.join("test_seeds.py")).unwrap();
    for (places, file) in [(&[][..], "seeds.json"), (&["."], "../seeds.json")] {
        let run = || {
            let output = Command::new(&environment.python)
                .current_dir(&clean)
                .args(["-m", "pytest", "-q", "--truecount=virtual"])
                .args(places)
                .args(["--truecount-json", file])
                .output()
                .unwrap();
            let said = text(&output);
            assert!(output.status.success(), "{said}");
            std::fs::read_to_string(clean.join(file)).unwrap()
        };
        let first = run();
        for _ in 0..2 {
            assert_eq!(run(), first, "{file}");
        }
    }
    // Where the result lies is no place of tests, whether it is there or not.
    assert!(!outer.join(".pytest_cache").exists());
    // Who asks for what failed before gets it.
    let output = Command::new(&environment.python)
        .current_dir(&clean)
        .args(["-m", "pytest", "-q", "--truecount=virtual", "--lf"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// `pytest` does not look for modules in the directory, `python -m pytest` does: under the virtual PMU, too.
pub fn pytest_starts_as_it_was_started(environment: &Environment, tests: &Path) {
    let script = environment.scratch.path().join("venv/bin/pytest");
    for (started, places) in [
        (&["-m", "pytest"][..], "1"),
        (&[script.to_str().unwrap()], "0"),
    ] {
        for counter in ["virtual", "native"] {
            let output = Command::new(&environment.python)
                .current_dir(environment.scratch.path())
                .args(started)
                .args(["-q", "-p", "no:cacheprovider"])
                .arg(format!("--truecount={counter}"))
                .arg(tests.join("paths.py"))
                .env("MORE", places)
                .output()
                .unwrap();
            let said = text(&output);
            // Natively it is skipped where there is no PMU.
            assert!(
                output.status.success() && (counter == "native" || said.contains("1 passed")),
                "{started:?}: {said}"
            );
        }
    }
}

/// Marks that ask for what does not exist are no green tests; those that can be counted are, each case for itself.
pub fn marks_are_kept(environment: &Environment, tests: &Path) {
    let marks = tests.join("marks.py");
    let asked = [
        "--truecount=virtual",
        marks.to_str().unwrap(),
        "--truecount-json",
        "results/marks.json",
    ];
    let (status, said) = environment.pytest(&asked, "0");
    assert_eq!(status, Some(1), "{said}");
    for wanted in [
        "the mark truecount has no max_instrucions: it takes event,",
        "the mark truecount has no 10: it takes event,",
        "max_instructions='many': a number of counts",
        "max_change='-1%': a share",
        "instructions:u: more than 10",
        "6 failed, 4 passed, 1 error",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    // Where CI is set pytest repeats whole messages in its summary.
    assert!(said.matches("nothing was measured").count() >= 2, "{said}");
    let results =
        std::fs::read_to_string(environment.scratch.path().join("results/marks.json")).unwrap();
    for case in [
        "test_sizes[10]",
        "test_sizes[1000]",
        "test_a_fixture_measures",
    ] {
        assert_eq!(results.matches(case).count(), 1, "{case}: {results}");
    }
    let document = serde_json::from_str(&results).unwrap();
    follows("pytest.json", &document);
    refuses("pytest.json", &document, |wrong| {
        wrong["results"][0]["counts"] = serde_json::Value::Array(Vec::new());
    });
}

/// Counts that cannot be written cost no earlier ones, and a program's name need not be UTF-8.
pub fn files_are_whole_or_as_they_were(environment: &Environment, tests: &Path) {
    use std::os::unix::ffi::OsStrExt as _;
    let limits = tests.join("limits.py");
    let change = format!("{}::test_change", limits.display());
    let results = environment.scratch.path().join("results");
    std::fs::write(results.join("kept.json"), "earlier").unwrap();
    // Where the new file is made nothing can be written.
    std::fs::create_dir(results.join("kept.json.new")).unwrap();
    for (file, why) in [
        ("/dev/full", "No space left on device"),
        ("results/kept.json", "Is a directory"),
    ] {
        let file = format!("--truecount-json={file}");
        let (status, said) = environment.pytest(&["--truecount=virtual", &change, &file], "0");
        assert_eq!(status, Some(4), "{said}");
        assert!(
            said.contains("cannot write the counts: [Errno ")
                && said.contains(why)
                && !said.contains("Traceback"),
            "{said}"
        );
    }
    let kept = std::fs::read_to_string(results.join("kept.json")).unwrap();
    assert_eq!(kept, "earlier");

    let name = std::ffi::OsStr::from_bytes(b"n\xffme.py");
    std::fs::write(environment.scratch.path().join(name), "print(7)\n").unwrap();
    let output = Command::new(&environment.python)
        .current_dir(environment.scratch.path())
        .args(["-m", "truecount"])
        .arg(name)
        .output()
        .unwrap();
    assert_eq!(text(&output), "7\n");
}

/// Ctrl-C ends the tests, under the virtual PMU too, and a part of the counts is no baseline.
pub fn interrupts_end_the_tests(environment: &Environment, tests: &Path) {
    let interrupted = tests.join("interrupted.py");
    let interrupted = [
        interrupted.to_str().unwrap(),
        "--truecount-json=results/part.json",
    ];
    for counter in ["--truecount=virtual", "--truecount=native"] {
        let (status, said) = environment.pytest(&[&interrupted[..], &[counter]].concat(), "0");
        assert_eq!(status, Some(2), "{said}");
        assert!(
            said.contains("KeyboardInterrupt") && !said.contains("Traceback"),
            "{said}"
        );
        assert!(
            said.contains("not written, since the tests did not run to their end"),
            "{said}"
        );
        assert!(
            !environment
                .scratch
                .path()
                .join("results/part.json")
                .exists()
        );
    }
}

/// Branches are counted by the virtual PMU where they are asked for before it starts; and it starts once.
pub fn other_events_are_counted(environment: &Environment, tests: &Path) {
    let events = tests.join("events.py");
    let events = events.to_str().unwrap();
    let json = "--truecount-json=results/events.json";
    let (status, said) = environment.pytest(&["--truecount=virtual", events, "-rs"], "0");
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("1 passed, 1 skipped") && said.contains("--truecount-event=branches:u"),
        "{said}"
    );
    for (asked, branches) in [("branches:u", 2), ("instructions:u, branches:u", 1)] {
        let asked = format!("--truecount-event={asked}");
        let (status, said) =
            environment.pytest(&["--truecount=virtual", &asked, events, json], "0");
        assert_eq!(status, Some(0), "{said}");
        let counted =
            std::fs::read_to_string(environment.scratch.path().join("results/events.json"))
                .unwrap();
        assert_eq!(
            counted.matches("\"branches:u\"").count(),
            branches,
            "{counted}"
        );
    }
    let output = Command::new(&environment.python)
        .current_dir(environment.scratch.path())
        .args(["-m", "truecount", "-e", "branches:u", "-c"])
        .arg("import truecount; print(truecount.counter('branches:u').source)")
        .output()
        .unwrap();
    assert_eq!(text(&output), "virtual\n");
    // Who is under the virtual PMU already is counted by that one.
    let mut command = Command::new(&environment.python);
    command
        .current_dir(environment.scratch.path())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .args(["--truecount=virtual", events]);
    if let Some(output) = crate::support::inside_of(&mut command) {
        let said = text(&output);
        assert!(said.contains("1 passed, 1 skipped"), "{said}");
    }
}

/// Pyperf reads no file with a value of 0, or with a name twice.
pub fn pyperf_can_read_its_file(environment: &Environment, tests: &Path) {
    let zero = tests.join("zero.py");
    let asked = [
        "--truecount=virtual",
        zero.to_str().unwrap(),
        "--truecount-pyperf=results/zero.json",
    ];
    let (status, said) = environment.pytest(&asked, "0");
    assert_eq!(status, Some(0), "{said}");
    let file = environment.scratch.path().join("results/zero.json");
    let written = std::fs::read_to_string(file).unwrap();
    let lines = || {
        written
            .lines()
            .map(|line| line.trim().trim_end_matches(','))
    };
    assert!(lines().all(|line| line != "0.0"), "{written}");
    let names: Vec<&str> = lines()
        .filter_map(|line| line.strip_prefix("\"name\": \""))
        .collect();
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), names.len(), "{written}");
    let has = |end: &str| names.iter().any(|name| name.ends_with(end));
    assert!(has("test_two\"") && has("test_two (2)\""), "{written}");
    let left_out = said.contains("since pyperf knows no 0");
    assert_ne!(has("test_nothing\""), left_out, "{said}");
}
