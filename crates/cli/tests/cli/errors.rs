//! Every way to fail: one clear line, the documented status, no panic.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use std::time::Duration;

use crate::support::{code, fails, interrupt, run, stderr, stdout, truecount, until};

#[test]
fn an_unknown_event_names_near_ones() {
    fails(
        &["stat", "-e", "instrutions:u", "--", "true"],
        2,
        &["instrutions", "instructions"],
    );
    fails(
        &["bench", "-e", "page-fualts", "--", "true"],
        2,
        &["page-faults"],
    );
    fails(
        &["stat", "-e", "instructions:zz", "--", "true"],
        2,
        &["modifier"],
    );
}

/// Names of the CPU's tables and of a vendor's directory are names for every command; what other CPUs have is said.
#[test]
fn events_of_tables_and_directories() {
    let directory = tempfile::tempdir().unwrap();
    let row = r#"[{"EventName":"OUR_OWN.EVENT","EventCode":"0xc0","UMask":"0x1"}]"#;
    std::fs::write(directory.path().join("own.json"), row).unwrap();
    let directory = directory.path().to_str().unwrap();
    if cfg!(target_arch = "x86_64") {
        let args = [
            "stat",
            "--event-dir",
            directory,
            "-e",
            "our_own.event:u",
            "--",
            "true",
        ];
        let text = stderr(&run(&args));
        assert!(text.contains("our_own.event:u"), "{text}");
    }
    for subcommand in ["stat", "bench", "record"] {
        let args = [
            subcommand,
            "--event-dir",
            "/no-such-directory-of-truecount",
            "-e",
            "x",
            "--",
            "true",
        ];
        fails(
            &args,
            1,
            &["--event-dir", "/no-such-directory-of-truecount"],
        );
        // No CPU has both.
        let names = ["MEM_LOAD_RETIRED.L1_HIT", "ls_int_taken"];
        let lines = names.map(|name| stderr(&run(&[subcommand, "-e", name, "--", "true"])));
        assert!(
            lines
                .iter()
                .any(|line| line.contains("this CPU has no event")
                    && (line.contains("skylake") || line.contains("amdzen2"))),
            "{lines:?}"
        );
    }
}

#[test]
fn a_missing_program_is_127_and_a_file_that_is_none_126() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "hello").unwrap();
    let plain = plain.to_str().unwrap();
    for subcommand in ["stat", "bench"] {
        fails(
            &[subcommand, "--", "no-such-program-here"],
            127,
            &["not found", "PATH"],
        );
        fails(&[subcommand, "--", "/no/such/program"], 127, &["not found"]);
        fails(
            &[subcommand, "--", plain],
            126,
            &["not executable", "chmod"],
        );
        fails(
            &[subcommand, "--", directory.path().to_str().unwrap()],
            126,
            &["directory"],
        );
    }
    std::fs::set_permissions(plain, std::fs::Permissions::from_mode(0o755)).unwrap();
    fails(&["stat", "--", plain], 126, &["not a format", "#!"]);
    std::fs::write(plain, "#!/no/such/interpreter\n").unwrap();
    fails(&["stat", "--", plain], 127, &["interpreter"]);
}

#[test]
fn a_program_killed_by_a_signal_gives_128_plus_n_and_its_counts() {
    for source in ["auto", "software"] {
        let output = run(&["stat", "--source", source, "--", "sh", "-c", "kill -9 $$"]);
        assert_eq!(code(&output), 137);
        let text = stderr(&output);
        assert!(text.contains("SIGKILL"), "{text}");
        assert!(source == "auto" || text.contains("page-faults"), "{text}");
    }
    fails(
        &["bench", "--", "sh", "-c", "kill -11 $$"],
        1,
        &["SIGSEGV", "--ignore-failure"],
    );
}

#[test]
fn a_closed_pipe_ends_quietly() {
    for args in [
        &["check"][..],
        &["stat", "--json", "--", "true"],
        &["bench", "-n", "2", "--", "true"],
    ] {
        let mut command = truecount(args);
        // The reader is gone before anything is written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        assert_eq!(stderr(&output), "", "{args:?}");
    }
    // What was asked for in a file is there all the same.
    let directory = tempfile::tempdir().unwrap();
    let saved = directory.path().join("saved.json");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = truecount(&["bench", "-n", "2", "--save"])
        .arg(&saved)
        .args(["--", "true"])
        .stdout(writer)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(
        std::fs::read_to_string(saved)
            .unwrap()
            .contains("truecount.bench/2")
    );
}

#[test]
fn a_full_disk_still_shows_the_results() {
    let output = run(&["bench", "-n", "2", "--save", "/dev/full", "--", "true"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("wall-time"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("/dev/full") && stderr(&output).contains("space"),
        "{}",
        stderr(&output)
    );
    for args in [
        &["stat", "-o", "/dev/full", "-e", "page-faults", "--", "true"][..],
        &[
            "stat",
            "-o",
            "/dev/full",
            "-e",
            "page-faults",
            "--json",
            "--",
            "true",
        ],
    ] {
        let output = run(args);
        assert_eq!(code(&output), 1, "{args:?}");
        let shown = stderr(&output);
        assert!(
            shown.contains("page-faults") && shown.contains("space"),
            "{shown}"
        );
    }
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = truecount(&["bench", "-n", "2", "--", "true"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("wall-time"), "{}", stderr(&output));
    fails(
        &["stat", "-o", "/no/such/directory/file", "--", "true"],
        1,
        &["directory"],
    );
    fails(
        &[
            "bench",
            "-n",
            "1",
            "--html",
            "/no/such/directory/x",
            "--",
            "true",
        ],
        1,
        &["directory"],
    );
}

#[test]
fn a_wrong_command_line_is_status_2() {
    fails(&["stat"], 2, &["no command"]);
    fails(&["bench"], 2, &["no command"]);
    fails(&["bench", "true | cat"], 2, &["--shell"]);
    fails(&["bench", "-P", "n", "1..x", "sleep {n}"], 2, &["1..8"]);
    fails(
        &["bench", "--fail-above", "wall-time=5%", "--", "true"],
        2,
        &["--baseline"],
    );
    fails(
        &["bench", "--fail-above", "wall-time", "true", "true"],
        2,
        &["="],
    );
    fails(&["bench", "--cpu", "x", "--", "true"], 2, &["--cpu"]);
    fails(&["check", "--require", "nothing"], 2, &["hardware"]);
    for wrong in [
        &["bench", "-n", "0", "--", "true"][..],
        &["stat", "-I", "0", "--", "true"],
        &["nothing"],
    ] {
        assert_eq!(code(&run(wrong)), 2, "{wrong:?}");
    }
}

#[test]
fn a_cpu_that_is_not_there_is_refused_before_the_run() {
    fails(
        &["bench", "--cpu", "1023", "--", "true"],
        2,
        &["--cpu", "CPU 1023 is not online"],
    );
}

#[test]
fn a_failing_command_shows_what_it_printed() {
    let output = run(&[
        "bench",
        "--",
        "sh",
        "-c",
        "echo out; echo reason >&2; exit 3",
    ]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("exit status 3") && stderr(&output).contains("reason"));
    let output = run(&[
        "bench",
        "--output",
        "keep",
        "--",
        "sh",
        "-c",
        "echo hello; exit 3",
    ]);
    assert!(stderr(&output).contains("hello"), "{}", stderr(&output));
    fails(
        &["bench", "--prepare", "echo why; exit 4", "--", "true"],
        125,
        &["--prepare", "exit status 4"],
    );
    let output = run(&[
        "bench",
        "-n",
        "2",
        "--ignore-failure=3",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("failed (ignored)"));
    fails(
        &[
            "bench",
            "-n",
            "2",
            "--ignore-failure=4",
            "--",
            "sh",
            "-c",
            "exit 3",
        ],
        1,
        &["exit status 3"],
    );
}

#[test]
fn a_run_over_its_time_is_124() {
    let output = run(&["stat", "--timeout", "100ms", "--", "sleep", "10"]);
    assert_eq!(code(&output), 124);
    assert!(stderr(&output).contains("--timeout"));
    fails(
        &["bench", "--timeout", "100ms", "--", "sleep", "10"],
        124,
        &["--timeout"],
    );
    // The children of a shell end as well.
    fails(
        &[
            "bench",
            "--timeout",
            "100ms",
            "--",
            "sh",
            "-c",
            "sleep 10; true",
        ],
        124,
        &[],
    );
}

#[test]
fn ctrl_c_stops_the_command_and_prints_what_was_measured() {
    // The runs say how many there were.
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let script = format!("echo >>'{}'; exec sleep", log.display());
    let runs = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let short = format!("{script} 0.05");
    let mut child = truecount(&[
        "bench", "--source", "software", "-n", "100000", "--warmup", "0", "--", "sh", "-c", &short,
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .process_group(0)
    .spawn()
    .unwrap();
    until("no run is complete", || runs() > 2);
    interrupt(&child, Duration::ZERO);
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{:?}", status.signal());
    assert!(text.contains("wall-time"), "{text}");

    let (before, long) = (runs(), format!("{script} 100"));
    let mut child = truecount(&["stat", "--source", "software", "--", "sh", "-c", &long])
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    until("the program does not run", || runs() > before);
    interrupt(&child, Duration::ZERO);
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(
        text.contains("interrupted") && text.contains("wall-time"),
        "{text}"
    );
}

#[test]
fn a_wrong_baseline_says_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("base.json");
    let path = file.to_str().unwrap();
    fails(
        &["bench", "--baseline", path, "--", "true"],
        1,
        &["cannot read"],
    );
    for (text, part) in [
        ("", "not a result"),
        ("{}", "schema"),
        ("{\"schema\":\"other/1\"}", "other/1"),
        ("{\"schema\":\"truecount.bench/2\"}", "missing field"),
        ("[1", "not a result"),
    ] {
        std::fs::write(&file, text).unwrap();
        fails(&["bench", "--baseline", path, "--", "true"], 1, &[part]);
    }
}

#[test]
fn help_has_examples_everywhere_and_exit_statuses() {
    let help = stdout(&run(&["--help"]));
    assert!(help.contains("EXIT STATUS"), "{help}");
    let man = stdout(&run(&["man"]));
    assert!(man.contains("EXIT STATUS") && man.contains(".TH"), "{man}");
    let commands = help
        .split("Commands:\n")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next();
    let names = commands.unwrap().lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then_some(name)
    });
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 10 && names.contains(&"stat"), "{names:?}");
    for subcommand in names {
        let help = stdout(&run(&[subcommand, "--help"]));
        assert!(help.contains("EXAMPLES"), "{subcommand}: {help}");
        assert!(
            stdout(&run(&["man", subcommand])).contains("EXAMPLES"),
            "{subcommand}"
        );
    }
    let nested = stdout(&run(&["man", "history", "add"]));
    assert!(
        nested.contains("truecount\\-history\\-add") || nested.contains("history add"),
        "{nested}"
    );
    fails(
        &["man", "history", "ad"],
        2,
        &["no subcommand `ad`", "truecount history --help"],
    );
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            stdout(&run(&["completions", shell])).contains("truecount"),
            "{shell}"
        );
    }
}

#[test]
fn colours_only_where_they_belong() {
    let plain = stdout(&run(&["check"]));
    assert!(!plain.contains('\x1b'));
    let coloured = truecount(&["check"])
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    assert!(stdout(&coloured).contains('\x1b'));
}

/// The lists of CPUs differ by machine, so this stands here and not among the golden mistakes.
#[test]
fn a_cpu_that_is_not_online_is_known_before_the_run() {
    for command in ["stat", "bench"] {
        let args = [command, "--cpu", "1000", "true"];
        fails(&args, 2, &["CPU 1000 is not online; there are 0"]);
    }
}
