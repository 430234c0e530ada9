//! The Python package: built as a wheel, installed into a fresh environment, its own tests under the virtual PMU.

use super::plugin;
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

pub fn text(output: &Output) -> String {
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
    pub fn pytest(&self, arguments: &[&str], more: &str) -> (Option<i32>, String) {
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
    // (Hashes of strings differ from process to process, and with them how long names are looked up.)
    assert!(said.contains("+0.0") || said.contains("-0.0"), "{said}");
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
    plugin::runs_leave_nothing_for_the_next(&environment, &tests);
    plugin::pytest_starts_as_it_was_started(&environment, &tests);
    plugin::marks_are_kept(&environment, &tests);
    plugin::files_are_whole_or_as_they_were(&environment, &tests);
    plugin::interrupts_end_the_tests(&environment, &tests);
    plugin::other_events_are_counted(&environment, &tests);
    plugin::pyperf_can_read_its_file(&environment, &tests);

    // Natively the same tests count by a PMU, or say why they are skipped.
    let (status, said) = pytest(&[limits, "-rs"], "0");
    assert!(
        status == Some(1) || said.contains("pytest --truecount=virtual counts without a PMU"),
        "{said}"
    );
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
