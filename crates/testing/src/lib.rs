//! What the tests of all crates share: a skip is said, recorded, and a failure where the machine must have what is
//! missing.
//!
//! A test that needs something a machine may lack calls [`skip()`] (or the macro [`skip!`]) and returns.
//! - The reason is printed as `skipped: …` (`cargo test -- --nocapture` shows it).
//! - `TRUECOUNT_SKIPPED=FILE`: a line `need<TAB>test<TAB>reason` is added to FILE; `.ci/run` prints them at its end,
//!   since libtest hides what passing tests print.
//! - `TRUECOUNT_REQUIRE=virtual,step,cc`: the machine must have these, and a test that would be skipped for the lack of
//!   one fails instead.

#![forbid(unsafe_code)]

pub mod programs;
#[cfg(feature = "schemas")]
pub mod schemas;

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names of what a machine may lack, and what each is.
pub const NEEDS: &[(&str, &str)] = &[
    (
        "virtual",
        "the virtual PMU: x86-64 Linux where ptrace is permitted",
    ),
    ("step", "single-stepping: x86-64 where ptrace is permitted"),
    ("software", "perf software events (perf_event_open)"),
    ("pmu", "hardware counters"),
    ("cc", "a C compiler that links"),
    ("rustc", "rustc and cargo, as the tests were built with"),
    ("lld", "rustc's LLD"),
    ("clang", "clang"),
    ("catch2", "Catch2's header"),
    ("google-benchmark", "google-benchmark's library and headers"),
    ("libpfm", "a google-benchmark that was built with libpfm"),
    ("nanobench", "nanobench's header"),
    ("sanitizers", "the sanitizers of the C compiler"),
    ("pkg-config", "pkg-config"),
    ("go", "go"),
    ("benchstat", "Go's benchstat"),
    ("maturin", "maturin and pytest in a Python environment"),
    ("pythons", "CPython 3.9 to 3.13"),
    (
        "compilers",
        "c++, go, and the linkers and static libraries of C",
    ),
    ("packagers", "tools that read packages (dpkg-deb, rpm)"),
    ("chromium", "Chromium, to look at pages"),
    ("valgrind", "valgrind"),
    ("valgrind-headers", "valgrind's C headers"),
    ("gungraun", "gungraun's runner and crates"),
    ("pytest-codspeed", "pytest-codspeed for python3"),
    ("perf", "the command perf"),
    ("pyyaml", "Python's YAML library"),
    ("python", "python3"),
    ("tmux", "tmux, to drive the live screen"),
    ("root", "root's rights"),
    ("setpriv", "setpriv, and root to give up rights with it"),
    ("bash", "bash"),
    ("git", "git"),
    ("postgres", "PostgreSQL's server (initdb, postgres)"),
    (
        "tools",
        "a program of every Linux system (true, sh, cat, /dev/full …)",
    ),
    (
        "arm64-tools",
        "rustc's target aarch64-unknown-linux-musl and llvm-objdump",
    ),
    ("data", "recordings of other machines (TRUECOUNT_SHARED)"),
    ("rigs", "virtual machines with a PMU (TRUECOUNT_SHARED)"),
    (
        "aslr",
        "address randomisation that can be switched off and on",
    ),
    ("ia32", "a kernel that runs 32-bit programs"),
    (
        "idle",
        "a machine that is not too busy for shares of samples",
    ),
    (
        "known-pmu",
        "a PMU of which the test knows what it counts (a rig)",
    ),
    ("no-pmu", "a machine without a PMU"),
    ("x86-64", "the architecture x86-64"),
    ("counters", "hardware counters that this user may open"),
    ("rdpmc", "counters that programs may read themselves"),
    (
        "rig-setting",
        "a rig with the setting that the test is about (TRUECOUNT_RIG_SETTING)",
    ),
    ("privilege", "root, or CAP_PERFMON"),
    (
        "paranoid",
        "an ordinary user, at the level of kernel.perf_event_paranoid that the test is about",
    ),
    ("breakpoints", "hardware breakpoints"),
    (
        "cgroup",
        "control groups (v2) whose events the kernel counts",
    ),
    (
        "remedies",
        "all that --deterministic can hold constant: user namespaces, seccomp, real-time scheduling",
    ),
    (
        "no-subtraction",
        "an event that counts interrupts, to be subtracted",
    ),
    (
        "huge-pages",
        "a kernel that gives huge pages to who asks for them",
    ),
    ("cpu-features", "instructions of newer CPUs (AVX …)"),
    ("profiles", "big region profiles (TRUECOUNT_PROFILES)"),
];

fn known(need: &str) -> bool {
    NEEDS.iter().any(|(name, _)| *name == need)
}

/// Whether the environment says that this machine must have it.
///
/// # Panics
/// Where `TRUECOUNT_REQUIRE` names something that no test asks for: a slip of the pen there would turn every skip green.
#[must_use]
pub fn required(need: &str) -> bool {
    let list = std::env::var("TRUECOUNT_REQUIRE").unwrap_or_default();
    let names = list.split([',', ' ']).filter(|name| !name.is_empty());
    let mut found = false;
    for name in names {
        assert!(
            known(name),
            "TRUECOUNT_REQUIRE: no test knows `{name}`; there are {:?}",
            NEEDS.iter().map(|(name, _)| *name).collect::<Vec<_>>()
        );
        found |= name == need;
    }
    found
}

/// Says that the test is skipped because the machine lacks `need` (a name of [`NEEDS`]).
///
/// # Panics
/// Where `TRUECOUNT_REQUIRE` names it, where nobody knows the name, and where the file of `TRUECOUNT_SKIPPED` cannot be
/// written.
#[track_caller]
pub fn skip(need: &str, reason: impl Display) {
    assert!(known(need), "`{need}` is not in truecount_testing::NEEDS");
    let reason = reason.to_string();
    let reason = reason.trim().replace('\n', " / ");
    assert!(
        !required(need),
        "skipped, but TRUECOUNT_REQUIRE says that this machine has `{need}`: {reason}"
    );
    println!("skipped: {reason} [{need}]");
    let Some(path) = std::env::var_os("TRUECOUNT_SKIPPED") else {
        return;
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    // One write, so that lines of tests that run at the same time do not mix.
    let line = format!("{need}\t{test}\t{reason}\n");
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("TRUECOUNT_SKIPPED: {}: {error}", path.display());
    }
}

/// Whether this is a rig with the setting (`xtask/src/vm_test/plan.rs`) that a test is about; a skip where it is not.
#[must_use]
#[track_caller]
pub fn in_setting(name: &str) -> bool {
    let here = std::env::var("TRUECOUNT_RIG_SETTING").is_ok_and(|setting| setting == name);
    if !here {
        skip(
            "rig-setting",
            format!("only in a rig with the setting {name}"),
        );
    }
    here
}

/// [`skip()`] with a formatted reason: `skip!("cc", "no compiler: {error}")`.
#[macro_export]
macro_rules! skip {
    ($need:expr, $($reason:tt)+) => {
        $crate::skip($need, format_args!($($reason)+))
    };
}

/// Whether `truecount` (the command under test) counts by the source `need` (`virtual` or `step`) here; a skip where it
/// says why it cannot.
///
/// # Panics
/// Where it says that it can and then does not: that is a failure and no reason to skip.
#[must_use]
#[track_caller]
pub fn counts(truecount: &str, need: &str) -> bool {
    let output = |arguments: &[&str]| {
        let mut command = Command::new(truecount);
        let command = command.args(arguments).env("TRUECOUNT_NO_CACHE", "1");
        match command.output() {
            Ok(output) => output,
            Err(error) => panic!("{truecount}: {error}"),
        }
    };
    let check = output(&["check", "--require", need]);
    if !check.status.success() {
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(
            check.status.code() == Some(1),
            "check --require {need}: {} {said}",
            check.status
        );
        skip(need, said);
        return false;
    }
    let run = output(&["stat", "--source", need, "--", "true"]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success(),
        "check says that {need} works here, but `stat --source {need} -- true` fails: {} {said}",
        run.status
    );
    true
}

/// A process that computes until this is dropped: on an idle machine a timer of CPU time takes no sample.
#[derive(Debug)]
pub struct Spinning(Child);

impl Spinning {
    /// Starts it.
    ///
    /// # Panics
    /// There is no shell.
    #[must_use]
    pub fn start() -> Self {
        let mut shell = Command::new("sh");
        match shell.args(["-c", "while :; do :; done"]).spawn() {
            Ok(child) => Self(child),
            Err(error) => panic!("sh: {error}"),
        }
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A path as one word of a shell's command line, whatever spaces the directory of temporary files has.
#[must_use]
pub fn quoted(path: impl AsRef<Path>) -> String {
    let name = path.as_ref().display().to_string();
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// Where a test keeps what it makes between runs: `usual` (`CARGO_TARGET_TMPDIR`), or a directory of this user's among the
/// temporary ones where the tests were built by somebody else.
///
/// # Panics
/// Neither can be written.
#[must_use]
pub fn scratch(usual: &str) -> PathBuf {
    /// Tests run at the same time: one that met another's probe would think that it may not write.
    static PROBES: AtomicUsize = AtomicUsize::new(0);
    let usual = Path::new(usual);
    let number = PROBES.fetch_add(1, Ordering::Relaxed);
    let probe = usual.join(format!("probe-{}-{number}", std::process::id()));
    if std::fs::create_dir_all(usual).is_ok() && std::fs::create_dir(&probe).is_ok() {
        let _ = std::fs::remove_dir(&probe);
        return usual.to_path_buf();
    }
    let own = std::env::temp_dir().join("truecount-tests");
    if let Err(error) = std::fs::create_dir_all(&own) {
        panic!("{}: {error}", own.display());
    }
    own
}

/// Whether there is a C compiler that makes programs here; a skip where there is none.
#[must_use]
#[track_caller]
pub fn compiler(made: Result<std::process::Output, std::io::Error>) -> bool {
    match made {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            skip(
                "cc",
                format_args!("cc: {}", String::from_utf8_lossy(&output.stderr)),
            );
            false
        }
        Err(error) => {
            skip("cc", format_args!("cc: {error}"));
            false
        }
    }
}

/// A machine that is not at hand: its `sys/` and `proc/` from `tests/machines/NAME.tree` (a path and its content a
/// line), written into a directory of their own below `scratch`.
///
/// # Panics
/// There is no such machine, or it cannot be written.
#[must_use]
pub fn machine(name: &str, scratch: &Path) -> PathBuf {
    let trees = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines"));
    let file = trees.join(format!("{name}.tree"));
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let thread = format!("{:?}", std::thread::current().id());
    let root = scratch.join(format!("{name}-{thread}"));
    let _ = std::fs::remove_dir_all(&root);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((path, content)) = line.split_once(':') else {
            panic!("{}: `{line}` is not PATH: CONTENT", file.display());
        };
        let path = root.join(path);
        let content = content
            .trim_start()
            .replace("\\n", "\n")
            .replace("\\t", "\t");
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, content));
        if let Err(error) = written {
            panic!("{}: {error}", path.display());
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Output;

    /// This test program again, with the one test that skips, under these variables.
    fn child(variables: &[(&str, &str)]) -> Output {
        let own = std::env::current_exe().unwrap_or_default();
        let mut command = Command::new(own);
        command
            .args(["--exact", "tests::child_that_skips", "--nocapture"])
            .env_remove("TRUECOUNT_REQUIRE")
            .env_remove("TRUECOUNT_SKIPPED")
            .env("TRUECOUNT_TESTING_CHILD", "1")
            .envs(variables.iter().copied());
        command.output().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn child_that_skips() {
        if std::env::var_os("TRUECOUNT_TESTING_CHILD").is_some() {
            skip!("cc", "made up, {}", "on purpose");
        }
    }

    #[test]
    fn a_skip_passes_and_is_said() {
        let output = child(&[]);
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("skipped: made up, on purpose [cc]"), "{said}");
        // Another need is no matter.
        assert!(
            child(&[("TRUECOUNT_REQUIRE", "virtual,step")])
                .status
                .success()
        );
    }

    #[test]
    fn a_skip_of_what_is_required_fails() {
        for list in ["cc", "virtual,cc", "virtual cc"] {
            let output = child(&[("TRUECOUNT_REQUIRE", list)]);
            assert!(!output.status.success(), "{list}");
        }
    }

    #[test]
    fn a_name_that_nobody_knows_fails() {
        assert!(!child(&[("TRUECOUNT_REQUIRE", "virtaul")]).status.success());
    }

    #[test]
    fn skips_are_recorded() {
        let file = std::env::temp_dir().join(format!("truecount-skips-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let output = child(&[("TRUECOUNT_SKIPPED", file.to_str().unwrap_or_default())]);
        assert!(output.status.success());
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        assert_eq!(lines, "cc\ttests::child_that_skips\tmade up, on purpose\n");
        // Where the record cannot be kept the skip would be silent.
        assert!(
            !child(&[("TRUECOUNT_SKIPPED", "/nonexistent/file")])
                .status
                .success()
        );
    }
}
