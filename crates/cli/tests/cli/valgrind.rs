//! `truecount valgrind`: Valgrind's command line, log and files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{code, compiled, fails, json, run, stderr, stdout, truecount, virtual_pmu};

const PROGRAM: &str = r#"
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static int work(int n) { volatile int x = 0; for (int i = 0; i < n; i++) x += i; return x; }
int main(int argc, char **argv) { return work(argc > 1 ? atoi(argv[1]) : 1000) == -1; }
"#;

fn program() -> Option<(tempfile::TempDir, PathBuf)> {
    if !virtual_pmu() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), PROGRAM)?;
    Some((directory, program))
}

/// A head of options, the program behind it.
pub(crate) fn front(directory: &Path, options: &[&str], command: &[&str]) -> std::process::Output {
    let all = [&["valgrind"][..], options, command].concat();
    truecount(&all)
        .current_dir(directory)
        .env_remove("VALGRIND_OPTS")
        .output()
        .unwrap()
}

/// The files whose names begin so, by the number behind.
fn files(directory: &Path, head: &str) -> BTreeMap<u32, String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.to_owned();
            let pid = name.strip_prefix(head)?.parse().ok()?;
            Some((pid, std::fs::read_to_string(path).unwrap()))
        })
        .collect()
}

/// The commands of all files, sorted: numbers of processes begin anew now and then.
fn commands(directory: &Path) -> Vec<String> {
    let files = files(directory, "out.");
    let mut commands: Vec<String> = files
        .values()
        .map(|out| line(out, "cmd:").to_owned())
        .collect();
    commands.sort();
    commands
}

pub(crate) fn line<'t>(text: &'t str, key: &str) -> &'t str {
    let found = text.lines().find_map(|line| line.strip_prefix(key));
    found.unwrap_or_else(|| panic!("no {key} in {text}")).trim()
}

/// A program of 3 * 1000 + 8 instructions, without a C library: its count depends on nothing.
const BARE: &str = r#"
    .globl _start, work
    .type _start, @function
_start: mov $1000, %edi
    call work
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type work, @function
work: mov %edi, %eax
1:  nop
    sub $1, %edi
    jnz 1b
    nop
    ret
    .size work, . - work
    .section .note.GNU-stack, "", @progbits
"#;

#[test]
fn the_files_total_is_the_exact_count() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("p.s"), directory.path().join("p"));
    std::fs::write(&file, BARE).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-nostdlib", "-static", "-o"])
        .arg(&program)
        .arg(&file);
    if !compiler.status().is_ok_and(|status| status.success()) {
        truecount_testing::skip!("cc", "no C compiler");
        return;
    }
    let program = program.to_str().unwrap();
    let options = [
        "--tool=callgrind",
        "--callgrind-out-file=out.%p",
        "--log-file=log.%p",
        "--dump-instr=yes",
        "--compress-pos=no",
    ];
    let output = front(directory.path(), &options, &[program, "5000"]);
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    let document = json(&["run", "--json", "--", program, "5000"]);
    let count = document["counters"][0]["value"]
        .as_u64()
        .unwrap()
        .to_string();
    assert_eq!(count, "3008");
    let (out, log) = (
        files(directory.path(), "out."),
        files(directory.path(), "log."),
    );
    assert_eq!((out.len(), log.len()), (1, 1));
    let (pid, out) = out.iter().next().unwrap();
    assert_eq!(line(out, "summary:"), count);
    assert_eq!(line(out, "totals:"), count);
    assert_eq!(line(out, "events:"), "Ir");
    assert_eq!(line(out, "pid:"), pid.to_string());
    assert_eq!(line(out, "cmd:"), format!("{program} 5000"));
    assert!(
        out.contains(" work\n") && out.contains(" _start\n"),
        "{out}"
    );
    // Addresses are those that the file says, not where its code is in it.
    let bytes = std::fs::read(program).unwrap();
    let entry = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
    assert!(out.contains(&format!("\n{entry:#x} ")), "{entry:#x} {out}");
    let log = &log[pid];
    assert_eq!(
        line(log, &format!("=={pid}== Command:")),
        format!("{program} 5000")
    );
    assert!(
        line(log, &format!("=={pid}== Parent PID:"))
            .parse::<u32>()
            .is_ok()
    );
    assert_eq!(line(log, &format!("=={pid}== Collected :")), count);
    assert!(
        log.lines()
            .all(|line| line.starts_with(&format!("=={pid}== "))),
        "{log}"
    );
}

#[test]
fn valgrinds_own_reader_finds_the_same_total() {
    let Some((directory, program)) = program() else {
        return;
    };
    let at = directory.path();
    for (tool, reader) in [
        ("callgrind", "callgrind_annotate"),
        ("cachegrind", "cg_annotate"),
    ] {
        let out = format!("--{tool}-out-file=out");
        let tool = format!("--tool={tool}");
        let options = [&*tool, "--branch-sim=yes", "--cache-sim=yes", &*out, "-q"];
        let output = front(at, &options, &[program.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = std::fs::read_to_string(at.join("out")).unwrap();
        let events = match tool.ends_with("callgrind") {
            true => "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim",
            false => "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim",
        };
        assert_eq!(line(&text, "events:"), events);
        let Ok(read) = Command::new(reader).arg("out").current_dir(at).output() else {
            truecount_testing::skip!("valgrind", "no {reader}");
            return;
        };
        let shown = stdout(&read);
        let totals = shown
            .lines()
            .find(|line| line.contains("PROGRAM TOTALS"))
            .unwrap_or_else(|| panic!("{shown}"));
        let theirs: Vec<String> = totals
            .split_whitespace()
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('%'))
            .map(|word| word.replace(',', ""))
            .collect();
        let ours: Vec<&str> = line(&text, "summary:").split(' ').collect();
        assert_eq!(theirs, ours, "{shown}");
        assert!(shown.contains("work"), "{shown}");
    }
}

#[test]
fn each_process_has_its_own_files() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let options = [
        "--tool=callgrind",
        "--callgrind-out-file=out.%p",
        "--log-file=log.%p",
    ];
    let command = ["sh", "-c", "(exit 0); /bin/true; exit 7"];
    let all = [&options[..], &["--trace-children=yes"]].concat();
    let output = front(at, &all, &command);
    assert_eq!(code(&output), 7, "{}", stderr(&output));
    let traced = commands(at);
    let shell = command.join(" ");
    assert_eq!(traced, ["/bin/true", shell.as_str(), shell.as_str()]);
    assert_eq!(files(at, "log.").len(), 3);
    for (pid, _) in files(at, "out.") {
        std::fs::remove_file(at.join(format!("out.{pid}"))).unwrap();
    }
    // A process is left where it executes another program.
    let output = front(at, &options, &command);
    assert_eq!(code(&output), 7);
    let traced = commands(at);
    assert_eq!(traced, [shell.as_str(), shell.as_str()]);
}

#[test]
fn it_ends_as_the_program_does() {
    use std::os::unix::process::ExitStatusExt as _;
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let output = front(at, &["--tool=none", "-q"], &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    let output = front(
        at,
        &["--tool=none", "--error-exitcode=9"],
        &["sh", "-c", "echo x; exit 3"],
    );
    assert_eq!((code(&output), stdout(&output).as_str()), (3, "x\n"));
    assert!(stderr(&output).contains("Nulgrind"), "{}", stderr(&output));
    assert_eq!(
        std::fs::read_dir(at).unwrap().count(),
        0,
        "no file without a profile"
    );
}

#[test]
fn the_name_valgrind_is_enough() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("valgrind");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_truecount"), &link).unwrap();
    let version = |command: &mut Command| stdout(&command.output().unwrap());
    let by_name = version(Command::new(&link).arg("--version"));
    assert!(by_name.starts_with("valgrind-3."), "{by_name}");
    assert_eq!(by_name, version(&mut truecount(&["valgrind", "--version"])));
    let help = stdout(&Command::new(&link).arg("--help").output().unwrap());
    assert!(help.contains("--callgrind-out-file"), "{help}");
    let wrong = Command::new(&link)
        .args(["--tool=callgrind", "--nonsense", "true"])
        .output()
        .unwrap();
    assert_eq!(code(&wrong), 1);
    assert!(stderr(&wrong).contains("--nonsense"));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_run() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let mark = mark.to_str().unwrap();
    let front = |options: &[&'static str]| {
        [&["valgrind"][..], options, &["touch", mark]]
            .concat()
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<String>>()
    };
    for (options, status, part) in [
        (&["--tool=callgrind", "--foo=1"][..], 1, "--foo=1"),
        (&["--tool=no-such-tool"], 1, "no-such-tool"),
        (
            &["--tool=callgrind", "--callgrind-out-file=/nonexistent/x"],
            1,
            "/nonexistent/x",
        ),
        (
            &["--tool=callgrind", "--callgrind-out-file=/"],
            1,
            "cannot write /",
        ),
        (
            &["--tool=callgrind", "--callgrind-out-file=%q{NO_SUCH_NAME}"],
            1,
            "NO_SUCH_NAME",
        ),
        (
            &["--tool=none", "--log-file=/nonexistent/y"],
            1,
            "/nonexistent/y",
        ),
        (&["--tool=none", "--xml=yes"], 1, "XML"),
    ] {
        let all = front(options);
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        fails(&words, status, &[part]);
        assert!(!Path::new(mark).exists(), "{options:?}");
    }
    fails(
        &["valgrind", "--tool=callgrind", "no-such-program-here"],
        127,
        &["no-such-program-here"],
    );
    fails(
        &["valgrind", "--tool=none", "/etc/passwd"],
        126,
        &["/etc/passwd"],
    );
    fails(&["valgrind", "--tool=none"], 1, &["no program"]);
    assert_eq!(code(&run(&["valgrind", "--help"])), 0);
}

#[test]
fn children_are_left_out_by_file_and_by_argument() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let script = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = at.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("outer.sh", "/bin/true; ./inner.sh x; cat /dev/null");
    script(
        "inner.sh",
        "/bin/true; (cat /dev/null; :); exec env printf hi",
    );
    let outer = "/bin/sh ./outer.sh";
    // What Callgrind 3.19 leaves out, too.
    for (option, left) in [
        (
            "--trace-children-skip=*/true,*/no-such",
            vec![outer, "cat /dev/null", "cat /dev/null", "printf hi"],
        ),
        // With its children, and what it executes.
        (
            "--trace-children-skip=./inner.?h",
            vec![outer, "/bin/true", "cat /dev/null"],
        ),
        (
            "--trace-children-skip-by-arg=x",
            vec![outer, "/bin/true", "cat /dev/null"],
        ),
        (
            "--trace-children-skip-by-arg=/dev/nu*",
            vec![outer, "/bin/true", "/bin/true", "printf hi"],
        ),
        // The command itself is profiled.
        (
            "--trace-children-skip=*outer.sh",
            vec![
                outer,
                "/bin/true",
                "/bin/true",
                "cat /dev/null",
                "cat /dev/null",
                "printf hi",
            ],
        ),
    ] {
        for (_, name) in files(at, "out.")
            .keys()
            .map(|pid| (pid, format!("out.{pid}")))
        {
            std::fs::remove_file(at.join(name)).unwrap();
        }
        let options = [
            "-q",
            "--tool=callgrind",
            "--trace-children=yes",
            "--callgrind-out-file=out.%p",
            option,
        ];
        let output = front(at, &options, &["./outer.sh"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let mut left: Vec<String> = left.into_iter().map(str::to_owned).collect();
        left.sort();
        let mut found = commands(at);
        // (The parentheses' process: as a fork that executes nothing else.)
        found.retain(|command| command != "/bin/sh ./inner.sh x");
        assert_eq!(found, left, "{option}");
    }
}

#[test]
fn a_log_without_a_descriptor_goes_to_stderr() {
    let Some((directory, program)) = program() else {
        return;
    };
    let options = ["--tool=none", "--log-fd=777"];
    let output = front(directory.path(), &options, &[program.to_str().unwrap()]);
    assert_eq!(code(&output), 0);
    let log = stderr(&output);
    assert!(log.contains("777") && log.contains("Command:"), "{log}");
}

#[test]
fn tools_of_valgrinds_alone_are_left_to_it() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let place = directory.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place
    };
    let (link, copy, other) = (place("link"), place("copy"), place("other"));
    let truecount_itself = env!("CARGO_BIN_EXE_truecount");
    symlink(truecount_itself, link.join("valgrind")).unwrap();
    std::fs::copy(truecount_itself, copy.join("valgrind")).unwrap();
    let script = other.join("valgrind");
    std::fs::write(&script, "#!/bin/sh\necho \"other: $*\"\nexit 7\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let run = |words: &[&str], path: &[&Path], named: Option<&Path>| {
        let mut command = truecount(&[&["valgrind"][..], words].concat());
        command.env("PATH", std::env::join_paths(path).unwrap());
        if let Some(named) = named {
            command.env("TRUECOUNT_VALGRIND", named);
        }
        command.output().unwrap()
    };
    // The next one that is not truecount by another name.
    let output = run(&["--tool=dhat", "ls", "-l"], &[&link, &other], None);
    assert_eq!(stdout(&output), "other: --tool=dhat ls -l\n");
    assert_eq!(code(&output), 7);
    let output = run(&["ls"], &[], Some(&script));
    assert_eq!(stdout(&output), "other: ls\n");
    // Without PATH: where Valgrind is installed, if it is.
    let mut command = truecount(&["valgrind", "--tool=drd", "./nonexistent"]);
    command.env_remove("PATH").env_remove("TRUECOUNT_VALGRIND");
    let output = command.output().unwrap();
    let installed = ["/usr/local/bin", "/usr/bin", "/bin"];
    let installed = installed.map(|place| Path::new(place).join("valgrind").exists());
    let sought = stderr(&output).contains("the tool drd needs Valgrind itself");
    assert_eq!(installed.contains(&true), !sought, "{}", stderr(&output));
    assert_ne!(code(&output), 0);
    for path in [&[&*link][..], &[&copy, &link]] {
        let output = run(&["--tool=drd", "ls"], path, None);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains("the tool drd needs Valgrind itself"));
    }
    let output = run(&["ls"], &[&other], Some(Path::new("/nonexistent")));
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("/nonexistent"),
        "{}",
        stderr(&output)
    );
}
