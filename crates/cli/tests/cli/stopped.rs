//! What becomes of the program when truecount is told to stop, or killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Child;
use std::time::Duration;

use crate::support::{first_line, has_signal, truecount, until, virtual_pmu};

fn skipped() -> bool {
    !virtual_pmu()
}

/// truecount with a shell inside that says its PID and then runs `rest`.
struct Run {
    child: Child,
    shell: i32,
}

impl Run {
    fn start(rest: &str) -> Self {
        let script = format!("echo $$; {rest}");
        let words = ["run", "--", "sh", "-c", &script];
        let (child, _, line) = first_line(&mut truecount(&words));
        let shell = line.trim().parse().unwrap();
        Self { child, shell }
    }

    /// Sends a signal to truecount.
    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).unwrap();
        // SAFETY: a signal to our own child.
        unsafe { libc::kill(pid, signal) };
    }

    /// How truecount ended, and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        let mut err = self.child.stderr.take().unwrap();
        err.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

/// Waits until a process has become `sleep` and sleeps: no `execve` is under way any more.
fn until_asleep(pid: i32) {
    until("the program does not sleep", || {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        // nanosleep, clock_nanosleep
        comm.trim() == "sleep" && (call.starts_with("35 ") || call.starts_with("230 "))
    });
}

/// Whether a process is there and no zombie.
fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        !state.starts_with(['Z', 'X'])
    })
}

#[test]
fn stopping_signals_end_the_program_and_show_the_count() {
    if skipped() {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let run = Run::start("exec sleep 1000");
        let shell = run.shell;
        until_asleep(shell);
        run.signal(signal);
        let (code, text) = run.end();
        assert_eq!(code, Some(128 + signal), "{text}");
        assert!(
            text.contains("interrupted") && text.contains("instructions:u"),
            "{text}"
        );
        assert!(!lives(shell));
    }
}

#[test]
fn a_program_may_handle_the_signal_and_a_second_one_kills() {
    if skipped() {
        return;
    }
    // A shell takes the trap between two commands.
    let run = Run::start("trap 'exit 7' TERM; while :; do sleep 0.1; done");
    until("the shell has no handler", || {
        has_signal(run.shell, "SigCgt:", libc::SIGTERM)
    });
    run.signal(libc::SIGTERM);
    let (code, text) = run.end();
    assert_eq!(code, Some(7), "{text}");
    let run = Run::start("trap '' TERM; exec sleep 1000");
    let shell = run.shell;
    until_asleep(shell);
    run.signal(libc::SIGTERM);
    // Two at once are one: the second comes when truecount has taken the first.
    let truecount = i32::try_from(run.child.id()).unwrap();
    until("truecount does not take the signal", || {
        !has_signal(truecount, "SigPnd:", libc::SIGTERM)
            && !has_signal(truecount, "ShdPnd:", libc::SIGTERM)
    });
    assert!(lives(shell));
    run.signal(libc::SIGTERM);
    let (code, text) = run.end();
    assert_eq!(code, Some(128 + libc::SIGKILL), "{text}");
    assert!(!lives(shell));
}

#[test]
fn a_program_does_not_outlive_a_killed_truecount() {
    if skipped() {
        return;
    }
    let run = Run::start("exec sleep 1000");
    let shell = run.shell;
    until_asleep(shell);
    run.signal(libc::SIGKILL);
    let (code, _) = run.end();
    assert_eq!(code, None);
    until("the program goes on", || !lives(shell));
}

#[test]
fn a_child_of_a_killed_truecount_can_still_execute() {
    if skipped() {
        return;
    }
    // The child waits until the shell is gone, then becomes another program. Nobody has waited for
    // truecount then, which is a zombie.
    let script = "(while kill -0 $$ 2>/dev/null; do sleep 0.05; done; exec sleep 1000) \
                  >/dev/null 2>&1 </dev/null & echo $! >&2; exec sleep 1000";
    let mut run = Run::start(script);
    let mut line = String::new();
    let mut err = BufReader::new(run.child.stderr.take().unwrap());
    err.read_line(&mut line).unwrap();
    let child: i32 = line.trim().parse().unwrap();
    until_asleep(run.shell);
    run.signal(libc::SIGKILL);
    until_asleep(child);
    // SAFETY: the child of our child, which nobody else waits for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    run.child.wait().unwrap();
    assert!(!lives(run.shell));
}

#[test]
fn children_that_go_on_are_counted_until_then_and_said() {
    if skipped() {
        return;
    }
    // The child holds none of truecount's streams, or their readers would wait for it.
    // It sleeps (nanosleep, clock_nanosleep) before the shell ends: between two programs nobody follows it.
    let run = Run::start(
        "sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >&2
        until grep -qE '^(35|230) ' /proc/$!/syscall; do sleep 0.02; done; exit 3",
    );
    let (code, text) = run.end();
    assert_eq!(code, Some(3), "{text}");
    let child: i32 = text.lines().next().unwrap().trim().parse().unwrap();
    let alive = lives(child);
    // SAFETY: the child of our child, which nobody else waits for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert!(alive, "it was ended with the program");
    assert!(
        text.contains("1 process(es) outlived the program"),
        "{text}"
    );
}

/// Starts a command as the leader of a session with a terminal of its own; the master's end comes back.
fn with_terminal(mut command: std::process::Command) -> (Child, fs::File) {
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: two descriptors into our variables; no name, settings or size are asked for.
    let made = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            none,
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: each is owned once.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    // SAFETY: two system calls, which are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command
        .stdin(slave.try_clone().unwrap())
        .stdout(slave.try_clone().unwrap())
        .stderr(slave)
        .spawn()
        .unwrap();
    (child, master.into())
}

/// Reads from the terminal until `text` has come.
fn shown(master: &mut fs::File, all: &mut String, text: &str) {
    let mut bytes = [0u8; 4096];
    until(text, || {
        if !all.contains(text) {
            let count = master.read(&mut bytes).unwrap();
            all.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        all.contains(text)
    });
}

/// The terminal interrupts the program itself: it is told once, and may live through any number of them.
#[test]
fn ctrl_c_of_a_terminal_reaches_the_program_once() {
    let script = "trap 'n=$((n+1)); echo told $n' INT; echo ready
        while [ ${n:-0} -lt 3 ]; do sleep 0.05; done; echo told $n in all; exit 9";
    let mut kinds = vec![("software", None)];
    if virtual_pmu() {
        // In turn, too; on any machine.
        let in_turn = Some("--deterministic=all,time,threads,random");
        kinds.extend([("virtual", None), ("virtual", in_turn)]);
    }
    for (source, held) in kinds {
        let mut command = truecount(&["stat", "--source", source]);
        command.args(held);
        command.args(
            (source == "software")
                .then_some(["-e", "page-faults"])
                .into_iter()
                .flatten(),
        );
        command.args(["--", "sh", "-c", script]);
        let (mut child, mut master) = with_terminal(command);
        let mut all = String::new();
        shown(&mut master, &mut all, "ready");
        for number in 1..=3 {
            master.write_all(b"\x03").unwrap();
            shown(&mut master, &mut all, &format!("told {number}"));
            // A second one of the same would come soon.
            std::thread::sleep(Duration::from_millis(300));
        }
        shown(&mut master, &mut all, "told 3 in all");
        shown(&mut master, &mut all, "interrupted");
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(9), "{source} {held:?}: {all}");
    }
}

/// The programs of a run that begin, and those that list directories, wait for truecount, however long it gets no time of a
/// busy machine: nobody else has their turn.
#[test]
fn threads_in_turn_wait_for_a_truecount_that_gets_no_time() {
    if skipped() {
        return;
    }
    let list = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do ls / > /dev/null; env true; done";
    let script = format!("({list}) & ({list}) & ({list}) & ({list}); wait");
    let held = "--deterministic=aslr,at-random,files,getrandom,time,random,threads";
    let words = ["run", "--json", held, "--", "sh", "-c", &script];
    let mut command = truecount(&words);
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let pause = |milliseconds| std::thread::sleep(Duration::from_millis(milliseconds));
    // SAFETY: a signal to our own child, which has not been waited for.
    let signal = |signal| unsafe { libc::kill(pid, signal) };
    pause(150);
    for length in [400, 400, 400, 400, 900, 900, 900] {
        signal(libc::SIGSTOP);
        pause(length);
        signal(libc::SIGCONT);
        pause(70);
    }
    let output = child.wait_with_output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let inputs = document["outside"]["inputs"].as_array().unwrap();
    let threads = inputs.iter().find(|input| input["source"] == "threads");
    assert!(threads.is_none(), "{threads:?}");
}
