//! The same region in every language: a loop of known length, counted as a user of the language would, from outside the
//! workspace: headers and a library in a prefix, a wheel in a fresh environment, modules and crates by their paths.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "languages/plugin.rs"]
mod plugin;
#[path = "languages/python.rs"]
mod python;
#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Prefix, inside_of, text};

/// How often each program is run.
const RUNS: usize = 10;

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn program(name: &str) -> PathBuf {
    own("tests/programs/languages").join(name)
}

/// Counts beyond the loop's own length in ten runs of a program, which are all the same: one number for any length.
fn beyond(runs: usize, mut command: impl FnMut() -> Command) -> Option<i64> {
    let mut found = None;
    for _ in 0..runs {
        let mut command = command();
        let output = inside_of(&mut command)?;
        let said = text(&output);
        assert!(output.status.success(), "{command:?}: {said}");
        let counts: Vec<i64> = said
            .lines()
            .map(|line| line.strip_prefix("beyond ").expect(&said).parse().unwrap())
            .collect();
        assert_eq!(counts.len(), 4, "{command:?}: {said}");
        for count in counts {
            let first = *found.get_or_insert(count);
            assert_eq!(count, first, "{command:?}: {said}");
        }
    }
    found
}

/// The most that the page states for a language, whatever the build.
fn stated(language: &str, constant: i64) {
    println!("{language}: {constant}");
    let page = std::fs::read_to_string(own("../../docs/languages/same.md")).unwrap();
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| {language} |")));
    let row = row.unwrap_or_else(|| panic!("no row of {language} in docs/languages/same.md"));
    let most = row.split('|').nth(3).unwrap().trim().replace(',', "");
    let most: i64 = most.parse().expect(row);
    assert!((0..=most).contains(&constant), "{constant}, not {row}");
}

/// Python interpreters from 3.9 on beside the one of the environment: those of PATH, and pyenv's.
fn interpreters() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
    let versions = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let kept: Vec<PathBuf> = versions
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    let mut found = Vec::new();
    for minor in 9..=13 {
        let name = format!("python3.{minor}");
        let places =
            std::iter::once(PathBuf::from(&name)).chain(kept.iter().map(|bin| bin.join(&name)));
        let mut works = places.filter(|python| {
            let asked = Command::new(python).arg("--version").output();
            asked.is_ok_and(|asked| asked.status.success())
        });
        match works.next() {
            Some(python) => found.push(python),
            None => truecount_testing::skip!("pythons", "{name} is not here"),
        }
    }
    found
}

#[test]
fn c_and_cpp_count_the_same_region() {
    let Some(prefix) = Prefix::versioned() else {
        return;
    };
    let c = prefix.compile("cc", "languages/loop.c", &["-O2"]);
    let Some(constant) = beyond(RUNS, || Command::new(&c)) else {
        return;
    };
    stated("C", constant);
    match prefix.built("c++", "languages/loop.cpp", &["-O2", "-std=c++11"]) {
        Ok(cpp) => stated("C++", beyond(RUNS, || Command::new(&cpp)).unwrap()),
        Err(said) => truecount_testing::skip!("compilers", "c++: {said}"),
    }
}

/// A package of somebody else's, with the crate as a dependency.
struct Outside {
    scratch: tempfile::TempDir,
    target: PathBuf,
}

/// A skip where this user has no cargo.
fn cargo_works() -> bool {
    let asked = Command::new(env!("CARGO")).arg("--version").output();
    let works = asked.as_ref().is_ok_and(|asked| asked.status.success());
    if !works {
        truecount_testing::skip!("rustc", "{}: {asked:?}", env!("CARGO"));
    }
    works
}

impl Outside {
    fn new(dependency: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        std::fs::create_dir(at("src")).unwrap();
        std::fs::copy(program("loop.rs"), at("src/main.rs")).unwrap();
        // The versions that the workspace was built with are those that can be had without a network.
        std::fs::copy(own("../../Cargo.lock"), at("Cargo.lock")).unwrap();
        let manifest = format!(
            "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             {dependency}\n\n[profile.dev]\ndebug = false\nopt-level = 1\n",
        );
        std::fs::write(at("Cargo.toml"), manifest).unwrap();
        let target = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("outside");
        Self { scratch, target }
    }

    fn cargo(&self, arguments: &[&str], home: Option<&Path>) {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(arguments)
            .current_dir(self.scratch.path())
            .env("CARGO_TARGET_DIR", &self.target);
        if let Some(home) = home {
            command.env("CARGO_HOME", home);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }

    /// The program, elsewhere than its sources and what it was built from.
    fn built(&self, home: Option<&Path>) -> PathBuf {
        self.cargo(&["build", "--offline", "--quiet"], home);
        let built = self.scratch.path().join("outside");
        std::fs::copy(self.target.join("debug/outside"), &built).unwrap();
        built
    }
}

#[test]
fn rust_outside_the_workspace_counts_the_same_region() {
    if !cargo_works() {
        return;
    }
    let count = own("../count").canonicalize().unwrap();
    let outside = Outside::new(&format!("truecount = {{ path = {count:?} }}"));
    let built = outside.built(None);
    if let Some(constant) = beyond(RUNS, || Command::new(&built)) {
        stated("Rust", constant);
    }
    by_git(&outside.target);
}

/// A repository with the workspace's files as they are now; a skip where this is not one of git's.
fn repository(at: &Path) -> Option<String> {
    let root = own("../..").canonicalize().unwrap();
    let git = |directory: &Path, arguments: &[&str]| {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=nobody",
                "-c",
                "user.email=nobody@localhost",
            ])
            .args(["-c", "commit.gpgsign=false", "-C"])
            .arg(directory)
            .args(arguments)
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(output.stdout),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    let listed = match git(
        &root,
        &["ls-files", "-z", "--", "Cargo.toml", "crates", "xtask"],
    ) {
        Ok(listed) => String::from_utf8(listed).unwrap(),
        Err(said) => {
            truecount_testing::skip!("git", "git ls-files: {said}");
            return None;
        }
    };
    for file in listed.split_terminator('\0') {
        let (from, to) = (root.join(file), at.join(file));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        // One that was removed and not yet committed is not there.
        if from.exists() {
            std::fs::copy(from, to).unwrap();
        }
    }
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-q", "-m", "all"],
    ] {
        git(at, arguments).unwrap();
    }
    Some(format!("file://{}", at.display()))
}

/// By its repository, as one that is not on crates.io is used: cargo finds the crate in the workspace there.
fn by_git(target: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let Some(url) = repository(&scratch.path().join("repository")) else {
        return;
    };
    // A home of its own for what cargo keeps of repositories, with the crates that are here already.
    let home = scratch.path().join("home");
    let users = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let users = users.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let users = users.unwrap();
    std::fs::create_dir(&home).unwrap();
    for part in ["registry", "config.toml"] {
        if users.join(part).exists() {
            std::os::unix::fs::symlink(users.join(part), home.join(part)).unwrap();
        }
    }
    // Without a network cargo fetches no repository either, so it is fetched before, with a crate that needs no other one.
    let first = Outside::new(&format!("truecount-testing = {{ git = {url:?} }}"));
    std::fs::remove_file(first.scratch.path().join("Cargo.lock")).unwrap();
    first.cargo(&["fetch", "--quiet"], Some(&home));
    let mut outside = Outside::new(&format!("truecount = {{ git = {url:?} }}"));
    outside.target = target.to_path_buf();
    let built = outside.built(Some(&home));
    if let Some(constant) = beyond(2, || Command::new(&built)) {
        stated("Rust", constant);
    }
}

#[test]
fn go_counts_the_same_region() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |path: &str| scratch.path().join(path);
    let module = own("../../bindings/go").canonicalize().unwrap();
    let text = format!(
        "module example\n\ngo 1.21\n\nrequire truecount v0.0.0\n\nreplace truecount => {}\n",
        module.display()
    );
    std::fs::write(at("go.mod"), text).unwrap();
    std::fs::copy(program("loop.go"), at("main.go")).unwrap();
    let built = support::go(scratch.path())
        .args(["build", "-o", "loop", "."])
        .current_dir(scratch.path())
        .output();
    match built {
        Ok(built) => assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        ),
        Err(error) => {
            truecount_testing::skip!("go", "go: {error}");
            return;
        }
    }
    if let Some(constant) = beyond(RUNS, || Command::new(at("loop"))) {
        stated("Go", constant);
    }
}

#[test]
fn python_counts_the_same_region() {
    let Some(environment) = python::installed() else {
        return;
    };
    let run = |python: &Path, libraries: Option<&Path>| {
        let mut command = Command::new(python);
        command
            .arg(program("loop.py"))
            .current_dir(environment.scratch.path())
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some(libraries) = libraries {
            command.env("PYTHONPATH", libraries);
        }
        command
    };
    let Some(constant) = beyond(RUNS, || run(&environment.python, None)) else {
        return;
    };
    stated("Python", constant);
    // One wheel for all versions.
    let libraries = environment.scratch.path().join("libraries");
    let installed = Command::new(&environment.python)
        .args([
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            "--target",
        ])
        .arg(&libraries)
        .arg(&environment.wheel)
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let all = std::env::var_os("TRUECOUNT_LONG").is_some();
    for python in interpreters() {
        let runs = if all { RUNS } else { 2 };
        let constant = beyond(runs, || run(&python, Some(&libraries))).unwrap();
        println!("{}", python.display());
        stated("Python", constant);
    }
}
