//! The text of every command, compared with what is kept in `tests/golden/`: a feature or a word that gets lost shows.
//!
//! Numbers, times and paths are masked ([`mask::Mask`]). What depends on the machine is measured with a source that
//! does not (the virtual PMU, with a program of our own without a C library), or only its outline is compared. After an
//! intended change: `SNAPSHOTS=overwrite cargo test -p truecount-cli --test golden`, and read the difference.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "golden/cases.rs"]
mod cases;
#[path = "golden/mask.rs"]
mod mask;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mask::Mask;

/// One command line, and the name of the file that has its output.
struct Case {
    /// What must work for it.
    group: &'static str,
    name: &'static str,
    /// Words of the command line, separated by spaces (or by `|`, if it has one).
    line: &'static str,
    mask: Mask,
    /// The exit status.
    status: i32,
    /// Other machines may print more lines than the file has.
    at_least: bool,
    /// Fails for an ordinary user.
    privileged: bool,
}

/// Whether this user may count the kernel's part, choose PIDs and schedule in real time (capabilities(7)).
fn privileged() -> bool {
    const NEEDED: u64 = 1 << 21 | 1 << 23; // CAP_SYS_ADMIN, CAP_SYS_NICE
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & NEEDED == NEEDED)
}

fn kept(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    directory.join(format!("{name}.txt"))
}

fn run(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .env("TRUECOUNT_NO_CACHE", "1")
        .env("XDG_CACHE_HOME", directory)
        .env("XDG_STATE_HOME", directory)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("COLUMNS")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap()
}

/// Compares with the file, or writes it (`SNAPSHOTS=overwrite`); what differs, if anything.
fn compare(name: &str, text: &str, at_least: bool) -> Result<(), String> {
    let path = kept(name);
    if std::env::var("SNAPSHOTS").is_ok_and(|action| action == "overwrite") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return Ok(());
    }
    let expected = std::fs::read_to_string(&path).map_err(|error| {
        format!(
            "{}: {error} (SNAPSHOTS=overwrite writes it)\n{text}",
            path.display()
        )
    })?;
    if at_least {
        // What a key's value is, is a matter of the machine, too.
        fn key(line: &str) -> &str {
            let path = line.starts_with('.') || line.starts_with(": ");
            if path {
                line.split(": ").next().unwrap_or(line)
            } else {
                line
            }
        }
        let there: BTreeSet<&str> = text.lines().map(key).collect();
        let lost: Vec<&str> = expected
            .lines()
            .map(key)
            .filter(|line| !there.contains(line))
            // An ordinary user cannot hold everything constant.
            .filter(|line| privileged() || !line.starts_with("with everything held constant"))
            .collect();
        return if lost.is_empty() {
            Ok(())
        } else {
            Err(format!("{name} lost these lines: {lost:#?}"))
        };
    }
    snapbox::Assert::new()
        .normalize_paths(false)
        .try_eq(
            Some(&name),
            snapbox::Data::text(text).raw(),
            snapbox::Data::text(expected).raw(),
        )
        .map_err(|difference| difference.to_string())
}

fn output_of(directory: &Path, case: &Case) -> Result<String, String> {
    let separator = if case.line.contains('|') { '|' } else { ' ' };
    let words: Vec<&str> = case.line.split(separator).collect();
    let output = run(directory, &words);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if output.status.code() != Some(case.status) {
        return Err(format!("{}: {}\n{out}{err}", case.line, output.status));
    }
    let own = std::env::current_exe().unwrap();
    let own = own.file_name().unwrap().to_str().unwrap();
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpus
        .lines()
        .find_map(|line| Some(line.strip_prefix("model name")?.split_once(": ")?.1));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let named = |text: &str| {
        text.replace(directory.to_str().unwrap(), "[DIR]")
            .replace(env!("CARGO_BIN_EXE_truecount"), "[TRUECOUNT]")
            .replace(own, "[TEST]")
            .replace(cpu.unwrap_or("[CPU]"), "[CPU]")
            .replace(kernel.trim(), "[KERNEL]")
    };
    let mut text = format!(
        "$ truecount {}\n{}",
        case.line,
        case.mask.apply(&named(&out))
    );
    // Progress is shown of what takes longer than a second: a matter of the machine.
    let progress = |line: &str| line.starts_with("truecount ") && line.ends_with(" left");
    let err: String = (err
        .split_inclusive('\n')
        .filter(|line| !progress(line.trim_end())))
    .collect();
    if !err.is_empty() {
        // A note beside a document is text.
        let mask = match case.mask {
            Mask::Shape if !out.is_empty() => Mask::Numbers,
            Mask::Tags | Mask::Size => Mask::Headings,
            other => other,
        };
        text.push_str("--- stderr\n");
        text.push_str(&mask.apply(&named(&err)));
    }
    Ok(text)
}

fn all(directory: &Path, group: &str) {
    let privileged = privileged();
    let possible = |case: &&Case| {
        let possible = privileged || !case.privileged;
        if !possible {
            truecount_testing::skip!("privilege", "{}", case.name);
        }
        possible
    };
    let wrong: Vec<String> = cases::all()
        .iter()
        .filter(|case| case.group == group)
        .filter(possible)
        .filter_map(|case| {
            let text = output_of(directory, case);
            // To an ordinary user it says what it cannot hold constant or count.
            text.and_then(|text| compare(case.name, &text, case.at_least || !privileged))
                .err()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What can be measured where the engine and a C compiler work.
fn virtual_pmu() -> bool {
    truecount_testing::counts(env!("CARGO_BIN_EXE_truecount"), "virtual")
}

/// A program whose every instruction is in this file, so that counts and functions are the same everywhere.
fn program(directory: &Path) -> bool {
    let source = directory.join("prog.s");
    std::fs::write(&source, cases::PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    let _ = compiler
        .args(["-g", "-nostdlib", "-static", "-no-pie", "-o"])
        .arg(directory.join("prog"))
        .arg(&source);
    let made = compiler
        .output()
        .is_ok_and(|output| output.status.success());
    if !made {
        truecount_testing::skip!("cc", "no working C compiler");
    }
    made
}

/// `help` of the command and of every subcommand below it: their names are read from the help itself.
#[test]
fn help() {
    let directory = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    let mut left = vec![Vec::<String>::new()];
    while let Some(path) = left.pop() {
        let mut words: Vec<&str> = path.iter().map(String::as_str).collect();
        words.push("--help");
        let output = run(directory.path(), &words);
        let text = String::from_utf8(output.stdout).unwrap();
        let name = format!(
            "help/{}",
            if path.is_empty() {
                "truecount".to_owned()
            } else {
                path.join("-")
            }
        );
        if let Some((_, rest)) = text.split_once("\nCommands:\n") {
            let list = rest.split("\n\n").next().unwrap_or_default();
            for line in list.lines() {
                let command = line
                    .strip_prefix("  ")
                    .filter(|line| !line.starts_with(' '));
                let word = command.and_then(|line| line.split_whitespace().next());
                if let Some(word) = word.filter(|word| *word != "help") {
                    left.push([path.as_slice(), &[word.to_owned()]].concat());
                }
            }
        }
        wrong.extend(compare(&name, &text, false).err());
        let _ = names.insert(kept(&name));
    }
    assert!(names.len() > 20, "{names:?}");
    // A command that is gone leaves its file behind.
    for entry in std::fs::read_dir(kept("help/x").parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if !names.contains(&path) {
            wrong.push(format!(
                "{}: no command of this name is left",
                path.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What depends on neither the machine nor the time.
#[test]
fn fixed_outputs() {
    let directory = tempfile::tempdir().unwrap();
    cases::write_files(directory.path());
    all(directory.path(), "fixed");
}

/// Clocks, faults and switches.
#[test]
fn counted_by_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    if !run(directory.path(), &["check", "--require", "software"])
        .status
        .success()
    {
        truecount_testing::skip!("software", "the kernel counts nothing for this user");
        return;
    }
    all(directory.path(), "software");
}

/// What every machine answers, by its outline.
#[test]
fn every_machine() {
    let directory = tempfile::tempdir().unwrap();
    all(directory.path(), "anywhere");
}

#[test]
fn measured_by_the_virtual_pmu() {
    let directory = tempfile::tempdir().unwrap();
    if virtual_pmu() && program(directory.path()) {
        cases::write_files(directory.path());
        all(directory.path(), "virtual");
    }
}

#[test]
fn measured_by_single_steps() {
    let directory = tempfile::tempdir().unwrap();
    if !run(directory.path(), &["check", "--require", "step"])
        .status
        .success()
    {
        return;
    }
    if program(directory.path()) {
        all(directory.path(), "step");
    }
}

/// Region profiles that the `Recorder` writes.
#[test]
fn profiles() {
    let directory = tempfile::tempdir().unwrap();
    cases::write_profiles(directory.path());
    all(directory.path(), "profiles");
}

/// Sampling by the kernel's timer, of a program that spends its time in one function.
#[test]
fn recorded() {
    let directory = tempfile::tempdir().unwrap();
    if !program(directory.path()) {
        return;
    }
    let record = run(
        directory.path(),
        &[
            "record",
            "-e",
            "cpu-clock:u",
            "-c",
            "200000",
            "-o",
            "p.data",
            "--",
            "./prog",
            "spin",
        ],
    );
    if record.status.code() == Some(125) {
        truecount_testing::skip!(
            "software",
            "{}",
            String::from_utf8_lossy(&record.stderr).trim()
        );
        return;
    }
    // `top` looks at the whole machine, which may have nothing to do.
    let _spinning = truecount_testing::Spinning::start();
    all(directory.path(), "recorded");
}

/// Recordings of other machines, where they are at hand.
#[test]
fn recordings() {
    let shared = std::env::var_os("TRUECOUNT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let data = shared.join("data/perfdata");
    if !data.is_dir() {
        truecount_testing::skip!(
            "data",
            "no recordings at {} (set TRUECOUNT_SHARED)",
            data.display()
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    std::os::unix::fs::symlink(data.canonicalize().unwrap(), directory.path().join("data"))
        .unwrap();
    all(directory.path(), "recordings");
}

/// A file that belongs to no case would hide that the case is gone.
#[test]
fn every_file_has_its_case() {
    let cases = cases::all();
    let names: Vec<PathBuf> = cases.iter().map(|case| kept(case.name)).collect();
    let tested = [
        "fixed",
        "anywhere",
        "software",
        "virtual",
        "step",
        "profiles",
        "recorded",
        "recordings",
    ];
    for case in &cases {
        assert!(
            tested.contains(&case.group),
            "no test has the group {}",
            case.group
        );
    }
    let unique: BTreeSet<&PathBuf> = names.iter().collect();
    assert_eq!(unique.len(), names.len(), "two cases of one name");
    for group in std::fs::read_dir(kept("x").parent().unwrap()).unwrap() {
        let group = group.unwrap().path();
        if !group.is_dir() || group.ends_with("help") {
            continue;
        }
        for file in std::fs::read_dir(group).unwrap() {
            let file = file.unwrap().path();
            assert!(unique.contains(&file), "{} has no case", file.display());
        }
    }
}
