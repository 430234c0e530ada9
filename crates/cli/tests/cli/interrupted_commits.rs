//! Ctrl-C while commits are built, measured and served, and in a suite: it ends soon, and what was measured is kept.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

use crate::history::Project;
use crate::interrupts::{Long, all_end, available, long};
use crate::support::{truecount, until, virtual_pmu};

/// Those that want a repository.
const IN_A_REPOSITORY: &[Long] = &[
    long(
        "history backfill --store a.db --build|sleep 600|main|--|true",
        130,
        &["interrupted before a commit was measured"],
        "",
    ),
    // What is built does not want to end.
    long(
        "history bisect --repository other --store b.db --build|trap '' INT; while :; do sleep 600; done|main~1|main|--|true",
        130,
        &["interrupted before a commit was measured"],
        "",
    ),
    long(
        "history serve --store c.db --port 0 --token-file token",
        0,
        &["Ctrl-C ends it"],
        "",
    ),
    long("bench --suite=slow.toml", 130, &["interrupted"], "virtual"),
];

/// What is measured takes minutes.
const SLOW: &str = r#"
suite = "slow"
[[benchmark]]
name = "sleep"
command = ["sleep", "600"]
"#;

#[test]
fn ctrl_c_ends_what_builds_measures_and_serves_commits_at_every_moment() {
    let Some(project) = Project::new() else {
        return;
    };
    let directory = project.path();
    project.commit("one");
    project.commit("two");
    // One work tree a repository: the other has its own.
    project.git(&["clone", "--quiet", ".", "other"]);
    std::fs::write(directory.join("slow.toml"), SLOW).unwrap();
    std::fs::write(directory.join("token"), "0123456789abcdef\n").unwrap();
    let commands: Vec<&Long> = IN_A_REPOSITORY
        .iter()
        .filter(|long| available(long.needs))
        .collect();
    all_end(&commands, directory);
    for own in [".truecount", "other/.truecount"] {
        let owner = directory.join(own).join("work.lock");
        assert!(!owner.exists(), "{} is left", owner.display());
    }
}

/// The commits that were measured before Ctrl-C are in the store, and one line says so.
#[test]
fn ctrl_c_loses_no_commit_that_was_measured() {
    if !virtual_pmu() {
        return;
    }
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("zero");
    let first = project.commit("one");
    std::fs::write(project.path().join("slow"), "").unwrap();
    project.git(&["add", "slow"]);
    project.git(&["commit", "--quiet", "-m", "two"]);
    let build = "[ ! -e slow ] || sleep 600";
    let mut child = truecount(&["history", "backfill", "--build", build])
        .args(["main~2..main", "--", "true"])
        .current_dir(project.path())
        .env_remove("TRUECOUNT_STORE")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert!(said.contains("measured 1 benchmark"), "{said}");
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{error}");
    assert_eq!(
        error.trim(),
        "truecount: interrupted: 1 commit measured, and kept; the same command goes on from there"
    );
    let kept = project.expect(0, &["show", &first]);
    assert!(kept.contains("instructions:u"), "{kept}");
    let left = std::fs::read_dir(project.path().join(".truecount")).unwrap();
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().starts_with("work")),
        "{left:?}"
    );
}

/// Another process writes to the store, or its server hangs: Ctrl-C does not wait for that.
#[test]
fn ctrl_c_does_not_wait_for_the_store() {
    if !virtual_pmu() {
        return;
    }
    let Some(project) = Project::new() else {
        return;
    };
    let commit = project.commit("one");
    let program = "import sqlite3, sys\nstore = sqlite3.connect('.truecount/history.db', isolation_level=None)\n\
                   store.execute('BEGIN EXCLUSIVE')\nprint('held', flush=True)\nsys.stdin.read()";
    project.expect(0, &["backfill", &commit, "--", "true"]);
    let Ok(mut other) = Command::new("python3")
        .args(["-c", program])
        .current_dir(project.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        truecount_testing::skip!("python", "python3 is not installed");
        return;
    };
    let mut said = String::new();
    let mut lines = BufReader::new(other.stdout.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "held\n");
    let mut child = truecount(&["history", "backfill", "--again", &commit, "--"])
        .args(["sh", "-c", "echo > ../../measured"])
        .current_dir(project.path())
        .env_remove("TRUECOUNT_STORE")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once the commit is measured the store is asked for one thing: to add its record.
    let measured = project.path().join("measured");
    let threads = format!("/proc/{}/task", child.id());
    until("it waits for the store", || {
        let mut threads = std::fs::read_dir(&threads).unwrap().flatten();
        let waits = threads.any(|thread| {
            let name = std::fs::read_to_string(thread.path().join("comm"));
            name.is_ok_and(|name| name == "store\n")
        });
        waits && measured.exists()
    });
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let mut error = String::new();
    let mut pipe = child.stderr.take().unwrap();
    pipe.read_to_string(&mut error).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{error}");
    assert!(
        error.contains("interrupted before a commit was measured"),
        "{error}"
    );
    drop(other.stdin.take());
    other.wait().unwrap();
    assert!(!project.path().join(".truecount/work").exists());
}

/// The state of a process, `T` where it is stopped; `None`: it has ended.
fn state(pid: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit(") ").next()?.chars().next()
}

/// Ctrl-Z stops what is built, too, and it goes on with truecount.
#[test]
fn ctrl_z_stops_what_is_built() {
    let Some(project) = Project::new() else {
        return;
    };
    project.commit("one");
    let build = "echo $$ > ../../pid; exec sleep 600";
    let mut command = truecount(&[
        "history", "backfill", "--build", build, "HEAD", "--", "true",
    ]);
    let mut child = command
        .current_dir(project.path())
        .env_remove("TRUECOUNT_STORE")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // As a shell with job control starts it.
        .process_group(0)
        .spawn()
        .unwrap();
    let own = i32::try_from(child.id()).unwrap();
    let file = project.path().join("pid");
    let mut built = 0;
    until("the build", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        built = text.trim().parse().unwrap_or(0);
        built > 0 && text.ends_with('\n')
    });
    let tell = |signal| {
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(own, signal) };
    };
    for _ in 0..30 {
        tell(libc::SIGTSTP);
        until("both are stopped", || {
            state(own) == Some('T') && state(built) == Some('T')
        });
        tell(libc::SIGCONT);
        until("both go on", || {
            state(own) != Some('T') && state(built) != Some('T')
        });
    }
    tell(libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // Its number may be another process's by now.
    let at = std::fs::read_link(format!("/proc/{built}/cwd"));
    let ours = project.path().canonicalize().unwrap();
    assert!(!at.is_ok_and(|at| at.starts_with(ours)));
}

/// A server that takes the connection and says nothing: every subcommand that asks the store ends by Ctrl-C.
#[test]
fn ctrl_c_does_not_wait_for_a_server_that_says_nothing() {
    let Some(project) = Project::new() else {
        return;
    };
    for subject in ["one", "two"] {
        project.commit(subject);
    }
    let write = |name: &str, text: &str| std::fs::write(project.path().join(name), text).unwrap();
    write("bench.json", &crate::history::one(1).to_string());
    write(
        "hyperfine.json",
        r#"{"results": [{"command": "a", "times": [1.0, 1.1]}]}"#,
    );
    write("token", "0123456789abcdef0123\n");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("postgres://user@{address}/base");
    for line in [
        "add bench.json",
        "show",
        "compare",
        "changes",
        "bless HEAD --reason why",
        "backfill HEAD -- true",
        "bisect HEAD~1 HEAD -- true",
        "import hyperfine.json",
        "export --format csv",
        "page -o page.html",
        "serve --port 0",
        "serve --port 0 --token-file token",
        "push --token-file token http://127.0.0.1:1",
    ] {
        let mut command = truecount(&["history"]);
        command
            .args(line.split(' '))
            .current_dir(project.path())
            .env("TRUECOUNT_STORE", &url)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // SAFETY: one call that may be made there. Whoever started the tests may have it ignored.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        // Where it asks nobody the test would wait for ever: then it has ended by itself.
        listener.set_nonblocking(true).unwrap();
        let mut asked = None;
        until("it asks the store, or ends", || {
            asked = listener.accept().ok();
            asked.is_some() || child.try_wait().unwrap().is_some()
        });
        // SAFETY: our own child, not waited for where it still asks.
        unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
        let mut error = String::new();
        let mut pipe = child.stderr.take().unwrap();
        pipe.read_to_string(&mut error).unwrap();
        let status = child.wait().unwrap();
        assert!(asked.is_some(), "{line}: {status}: {error}");
        let ended = (status.signal(), status.code());
        assert!(
            matches!(ended, (Some(libc::SIGINT), _) | (_, Some(130))),
            "{line}: {status}: {error}"
        );
    }
}
