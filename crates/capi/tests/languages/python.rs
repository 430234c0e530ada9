//! The Python package: built as a wheel, installed into a fresh environment, its own tests under the virtual PMU.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Runs a step; `None`, said as a skip, where it cannot be done here (no network, no headers).
fn step(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) if output.status.success() => Some(output),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            let lines: Vec<&str> = said.lines().rev().take(4).collect();
            truecount_testing::skip!("maturin", "{command:?}: {}", lines.join(" / "));
            None
        }
        Err(error) => {
            truecount_testing::skip!("maturin", "{command:?}: {error}");
            None
        }
    }
}

/// Where cargo builds what is not in the workspace: kept, so that it is built once.
fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.parent().unwrap().parent().unwrap();
    profile.parent().unwrap().join("python")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python")
}

/// Why a package's `Cargo.lock` does not follow its `Cargo.toml`; `None` where it does, or where cargo cannot tell.
fn stale(manifest: &Path) -> Option<String> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--locked",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(manifest)
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success() && said.contains("--locked")).then(|| {
        format!(
            "the dependencies have changed and Cargo.lock has not: cargo metadata --format-version 1 --manifest-path {} \
             writes it anew ({})",
            manifest.display(),
            said.trim().replace('\n', " / ")
        )
    })
}

#[test]
fn a_lock_file_that_does_not_follow_is_an_error_with_the_command_to_run() {
    let scratch = tempfile::tempdir().unwrap();
    let manifest = scratch.path().join("Cargo.toml");
    let write = |name: &str, text: &str| std::fs::write(scratch.path().join(name), text).unwrap();
    std::fs::create_dir(scratch.path().join("src")).unwrap();
    write("src/lib.rs", "");
    let package =
        "[package]\nname = \"one\"\nversion = \"0.2.0\"\nedition = \"2024\"\n[workspace]\n";
    write("Cargo.toml", package);
    let lock = |version: &str| {
        format!("version = 4\n\n[[package]]\nname = \"one\"\nversion = \"{version}\"\n")
    };
    write("Cargo.lock", &lock("0.2.0"));
    assert_eq!(stale(&manifest), None);
    write("Cargo.lock", &lock("0.1.0"));
    let Some(said) = stale(&manifest) else {
        let asked = Command::new("cargo").arg("--version").output();
        assert!(!asked.as_ref().is_ok_and(|asked| asked.status.success()));
        truecount_testing::skip!("rustc", "cargo: {asked:?}");
        return;
    };
    assert!(
        said.contains("cargo metadata --format-version 1 --manifest-path"),
        "{said}"
    );
}

#[test]
fn the_packages_own_lock_file_follows() {
    if let Some(said) = stale(&package().join("Cargo.toml")) {
        panic!("{said}");
    }
}

/// An environment with the wheel and pytest in it.
pub struct Environment {
    pub scratch: tempfile::TempDir,
    pub python: PathBuf,
    pub wheel: PathBuf,
}

impl Environment {
    /// Runs pytest; gives its status and what it says.
    fn pytest(&self, arguments: &[&str], more: &str) -> (Option<i32>, String) {
        let mut command = Command::new(&self.python);
        command
            .current_dir(self.scratch.path())
            .env_remove("PYTHONHASHSEED");
        // Where the tests run in the background SIGINT is ignored, and Python leaves that as it is.
        let begin = "import os, signal, sys\n\
            signal.signal(signal.SIGINT, signal.SIG_DFL)\n\
            os.execv(sys.executable, [sys.executable, '-m', 'pytest'] + sys.argv[1:])";
        command
            .args(["-c", begin, "-p", "no:cacheprovider", "-q"])
            .args(arguments)
            .env("MORE", more);
        let output = command.output().unwrap();
        (output.status.code(), text(&output))
    }
}

/// A fresh environment, which the tests that run at the same time share.
pub fn installed() -> Option<Arc<Environment>> {
    static SHARED: Mutex<Option<Weak<Environment>>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = shared.as_ref().and_then(Weak::upgrade) {
        return Some(environment);
    }
    let environment = Arc::new(install()?);
    *shared = Some(Arc::downgrade(&environment));
    Some(environment)
}

fn install() -> Option<Environment> {
    let package = package();
    let scratch = tempfile::tempdir().unwrap();
    let at = |path: &str| scratch.path().join(path);
    let run = |program: &Path| {
        let mut command = Command::new(program);
        command
            .current_dir(scratch.path())
            .env_remove("PYTHONHASHSEED");
        command
    };
    step(run(Path::new("python3")).args(["-m", "venv", "venv"]))?;
    let python = at("venv/bin/python");
    let quick = [
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--retries",
        "1",
        "--timeout",
        "20",
    ];
    step(run(&python).args(quick).args(["maturin", "pytest"]))?;
    let manifest = package.join("Cargo.toml");
    if let Some(said) = stale(&manifest) {
        panic!("{said}");
    }
    step(
        run(Path::new("cargo"))
            .args(["fetch", "--locked", "--manifest-path"])
            .arg(&manifest),
    )?;
    // What follows needs nothing from outside: it works or it is a failure.
    let built = run(&at("venv/bin/maturin"))
        .args([
            "build",
            "--offline",
            "--locked",
            "--profile",
            "dev",
            "--out",
            "wheels",
            "--manifest-path",
        ])
        .arg(&manifest)
        .arg("--interpreter")
        .arg(&python)
        .env("CARGO_TARGET_DIR", target())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let installed = run(&python)
        .args([
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--find-links",
            "wheels",
            "truecount",
        ])
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", text(&installed));
    let wheel = std::fs::read_dir(at("wheels")).unwrap().next();
    Some(Environment {
        wheel: wheel.unwrap().unwrap().path(),
        python,
        scratch,
    })
}

#[test]
fn the_wheel_counts_in_a_fresh_environment() {
    let Some(environment) = installed() else {
        return;
    };
    let scratch = environment.scratch.path();
    let package = package();
    let at = |path: &str| scratch.join(path);

    let pytest = |arguments: &[&str], more: &str| environment.pytest(arguments, more);
    let tests = package.join("tests");
    let own = tests.join("test_truecount.py");
    let (status, said) = pytest(&["--truecount=virtual", own.to_str().unwrap()], "0");
    if said.contains("ptrace") && status != Some(0) {
        truecount_testing::skip!("virtual", "{said}");
        return;
    }
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("passed") && !said.contains("skipped"),
        "{said}"
    );

    the_pages_example_counts(&environment);

    // Limits: too many fails; a change fails, and no change does not.
    let limits = tests.join("limits.py");
    let limits = limits.to_str().unwrap();
    let change = format!("{limits}::test_change");
    let (status, said) = pytest(
        &[
            "--truecount=virtual",
            limits,
            "--truecount-json",
            "base.json",
            "--truecount-pyperf",
            "pyperf.json",
        ],
        "0",
    );
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("instructions:u: more than 10") && said.contains("1 failed, 1 passed"),
        "{said}"
    );
    assert!(
        std::fs::read_to_string(at("pyperf.json"))
            .unwrap()
            .contains("\"version\": \"1.0\"")
    );
    let compare = [
        "--truecount=virtual",
        &change,
        "--truecount-compare",
        "base.json",
    ];
    let (status, said) = pytest(&compare, "0");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("+0.00%"), "{said}");
    let (status, said) = pytest(&compare, "100");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("more than the baseline's"), "{said}");
    let (status, said) = pytest(
        &[
            "--truecount=virtual",
            &change,
            "--truecount-compare",
            "wheels",
        ],
        "0",
    );
    assert_ne!(status, Some(0), "{said}");
    assert!(said.contains("is not a baseline"), "{said}");

    std::fs::create_dir(at("results")).unwrap();
    runs_leave_nothing_for_the_next(&environment, &tests);
    pytest_starts_as_it_was_started(&environment, &tests);
    marks_are_kept(&environment, &tests);
    files_are_whole_or_as_they_were(&environment, &tests);
    interrupts_end_the_tests(&environment, &tests);
    other_events_are_counted(&environment, &tests);
    pyperf_can_read_its_file(&environment, &tests);

    // Natively the same tests count by a PMU, or say why they are skipped.
    let (status, said) = pytest(&[limits, "-rs"], "0");
    assert!(
        status == Some(1) || said.contains("pytest --truecount=virtual counts without a PMU"),
        "{said}"
    );
}

/// In a directory where nothing ever ran, with pytest's cache and the result in it: the first run counts as later ones do.
/// What is random natively is not under the virtual PMU: the sets of two runs have their texts in the same places.
fn runs_leave_nothing_for_the_next(environment: &Environment, tests: &Path) {
    let clean = environment.scratch.path().join("clean");
    std::fs::create_dir(&clean).unwrap();
    std::fs::copy(tests.join("seeds.py"), clean.join("test_seeds.py")).unwrap();
    let run = || {
        let output = Command::new(&environment.python)
            .current_dir(&clean)
            .args(["-m", "pytest", "-q", "--truecount=virtual"])
            .args(["--truecount-json", "seeds.json"])
            .output()
            .unwrap();
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        std::fs::read_to_string(clean.join("seeds.json")).unwrap()
    };
    let first = run();
    for _ in 0..2 {
        assert_eq!(run(), first);
    }
    // Who asks for what failed before gets it.
    let output = Command::new(&environment.python)
        .current_dir(&clean)
        .args(["-m", "pytest", "-q", "--truecount=virtual", "--lf"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// `pytest` does not look for modules in the directory, `python -m pytest` does: under the virtual PMU, too.
fn pytest_starts_as_it_was_started(environment: &Environment, tests: &Path) {
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
fn marks_are_kept(environment: &Environment, tests: &Path) {
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
}

/// Counts that cannot be written cost no earlier ones, and a program's name need not be UTF-8.
fn files_are_whole_or_as_they_were(environment: &Environment, tests: &Path) {
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
fn interrupts_end_the_tests(environment: &Environment, tests: &Path) {
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
fn other_events_are_counted(environment: &Environment, tests: &Path) {
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
fn pyperf_can_read_its_file(environment: &Environment, tests: &Path) {
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

/// What the page shows, without a PMU.
fn the_pages_example_counts(environment: &Environment) {
    let page = include_str!("../../../../docs/languages/python.md");
    let code = page.split_once("```python\n").unwrap().1;
    std::fs::write(
        environment.scratch.path().join("program.py"),
        code.split_once("```").unwrap().0,
    )
    .unwrap();
    let mut command = Command::new(&environment.python);
    let output = command
        .current_dir(environment.scratch.path())
        .args(["-m", "truecount", "program.py"])
        .output()
        .unwrap();
    let said = text(&output);
    let count: u64 = said.trim().parse().expect(&said);
    assert!(output.status.success() && count > 1000, "{count}");
}
