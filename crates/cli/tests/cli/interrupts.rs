//! Ctrl-C at ten moments of each long command: it ends soon, prints what it has, and with the status that the help says.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::pty::Pty;
use crate::support::{has_signal, truecount, until, virtual_pmu};

/// From the moment that signals are waited for: before the first round, in warm-up, in a measurement, late in it.
const MOMENTS: [u64; 10] = [0, 5, 10, 20, 50, 100, 200, 400, 800, 1500];

/// What a command may take after Ctrl-C, beside the time in which it would run and others have the CPUs: a second, or on a
/// slow machine twice what a whole short run takes, which works out as much at its end.
fn soon() -> Duration {
    static SOON: OnceLock<Duration> = OnceLock::new();
    *SOON.get_or_init(|| {
        let begun = Instant::now();
        let short = truecount(&["run", "--functions", "--", "true"]).output();
        assert!(short.is_ok(), "{short:?}");
        (2 * begun.elapsed()).clamp(Duration::from_secs(1), Duration::from_secs(5))
    })
}

/// Then it is killed; without Ctrl-C each command takes minutes.
const NEVER: Duration = Duration::from_secs(60);

/// A disk that others use, and a hypervisor that takes the CPU away, are seen by nobody: what takes too long is tried
/// again alone, so many times in all.
const TRIES: usize = 4;

/// How long a process, its threads and its descendants have waited for a CPU until now (/proc/PID/task/TID/schedstat,
/// the kernel's Documentation/scheduler/sched-stats.rst): on a loaded machine that is no time of theirs.
fn waited_for_a_cpu(pid: i32, seen: &mut std::collections::BTreeMap<i32, u64>) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return;
    };
    for thread in threads.flatten() {
        let Ok(tid) = thread.file_name().to_string_lossy().parse() else {
            continue;
        };
        let read =
            |name: &str| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let waited = read("schedstat")
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok());
        seen.insert(tid, waited.unwrap_or(0));
        for child in read("children").split_whitespace() {
            if let Ok(child) = child.parse() {
                waited_for_a_cpu(child, seen);
            }
        }
    }
}

/// A long command.
pub(crate) struct Long {
    line: &'static str,
    /// The status by Ctrl-C.
    status: i32,
    /// Of what it prints whenever it was interrupted, in the output or in the message: one of these.
    says: &'static [&'static str],
    /// What must work for it.
    pub(crate) needs: &'static str,
}

pub(crate) const fn long(
    line: &'static str,
    status: i32,
    says: &'static [&'static str],
    needs: &'static str,
) -> Long {
    Long {
        line,
        status,
        says,
        needs,
    }
}

const COMMANDS: &[Long] = &[
    long(
        "exactness --seconds 600 --no-save",
        130,
        &["Verdict", "interrupted", "stopped"],
        "virtual",
    ),
    long(
        "exactness --seconds 600 --no-save --json -e page-faults:u",
        130,
        &["\"interrupted\": 2"],
        "",
    ),
    long(
        "bench --source software -n 100000 -- true",
        130,
        &["interrupted"],
        "",
    ),
    long(
        "bench --source software --warmup 100000 -- true",
        130,
        &["interrupted before anything was measured"],
        "",
    ),
    long(
        "bench --source virtual -n 1 --exact-runs 100000 -- true",
        130,
        &["interrupted"],
        "virtual",
    ),
    long(
        "bench --source software --prepare|sleep 600|--|true",
        130,
        &["interrupted"],
        "",
    ),
    // The program does not want to end.
    long(
        "bench|--source|software|trap '' INT; while :; do sleep 600; done|--shell",
        130,
        &["interrupted"],
        "",
    ),
    long(
        "stat --source software -e page-faults -r 100000 -- true",
        130,
        &["page-faults", "interrupted"],
        "",
    ),
    long(
        "stat --source software -e page-faults -I 20 -- sleep 600",
        130,
        &["page-faults"],
        "",
    ),
    long(
        "stat --source virtual -r 100000 -- true",
        130,
        &["instructions:u", "interrupted"],
        "virtual",
    ),
    long(
        "noise --source virtual -n 10000 -- true",
        130,
        &["interrupted", "stopped", "runs"],
        "virtual",
    ),
    long(
        "overhead --seconds 600 --json",
        130,
        &["\"interrupted\": 2"],
        "",
    ),
    long(
        "overhead --seconds 600 --json -- sleep 600",
        130,
        &["\"interrupted\": 2"],
        "",
    ),
    long("run -- sleep 600", 130, &["interrupted"], "virtual"),
    long(
        "run --functions -- sleep 600",
        130,
        &["interrupted"],
        "virtual",
    ),
    long(
        "record -e cpu-clock:u -o /dev/null -- sleep 600",
        130,
        &["samples"],
        "software",
    ),
    long(
        "top --once --seconds 600 -e cpu-clock:u",
        130,
        &["truecount top"],
        "cpus",
    ),
    long(
        "latency main -- TRUECOUNT system -I 300",
        130,
        &["TIMED", "interrupted"],
        "virtual",
    ),
    // Until it has a PMU it says that it needs one, at once.
    long(
        "discover --runs 100000 -- true",
        130,
        &["interrupted"],
        "pmu",
    ),
    // Ctrl-C is how this one ends.
    long("system -I 300", 0, &[""], ""),
];

fn words(line: &'static str) -> Vec<&'static str> {
    // Words with spaces in them stand between bars.
    let Some((first, rest)) = line.split_once('|') else {
        // A program with symbols, which waits.
        let itself = |word| match word {
            "TRUECOUNT" => env!("CARGO_BIN_EXE_truecount"),
            word => word,
        };
        return line.split(' ').map(itself).collect();
    };
    first.split(' ').chain(rest.split('|')).collect()
}

pub(crate) fn available(needs: &str) -> bool {
    match needs {
        "virtual" => virtual_pmu(),
        "pmu" => crate::support::hardware(),
        "software" => {
            let works = truecount(&["record", "-e", "cpu-clock:u", "-o", "/dev/null", "--"])
                .arg("true")
                .output()
                .unwrap()
                .status
                .success();
            if !works {
                truecount_testing::skip!("software", "no sampling by the kernel's timer");
            }
            works
        }
        "cpus" => available("software") && crate::support::whole_cpus(),
        _ => true,
    }
}

/// Waits until Ctrl-C would not end it by itself any more, or until it has ended.
fn until_ready(child: &mut Child) -> bool {
    let pid = i32::try_from(child.id()).unwrap();
    let mut ended = false;
    until("signals are never waited for", || {
        ended = child.try_wait().unwrap().is_some();
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let waits = call.starts_with(&format!("{} ", libc::SYS_rt_sigtimedwait));
        ended || waits || has_signal(pid, "SigBlk:", libc::SIGINT)
    });
    !ended
}

/// One command at one moment; what is wrong with its end, and how long that took.
fn interrupted(
    long: &Long,
    number: usize,
    moment: u64,
    directory: &Path,
) -> (Duration, Option<String>) {
    let mut child = truecount(&words(long.line))
        .current_dir(directory)
        .env_remove("TRUECOUNT_STORE")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let what = format!("{} after {moment} ms", long.line);
    if !until_ready(&mut child) {
        let output = child.wait_with_output().unwrap();
        return (
            Duration::ZERO,
            Some(format!("{what}: it ended by itself: {output:?}")),
        );
    }
    std::thread::sleep(Duration::from_millis(moment));
    let begun = Instant::now();
    let pid = i32::try_from(child.id()).unwrap();
    // By turns as `kill` does it and as a terminal does, to the whole group.
    let target = if number.is_multiple_of(2) { pid } else { -pid };
    // SAFETY: our own child, or its group, not waited for yet.
    unsafe { libc::kill(target, libc::SIGINT) };
    let watch = std::thread::spawn(move || {
        let (mut before, mut after) = (
            std::collections::BTreeMap::new(),
            std::collections::BTreeMap::new(),
        );
        waited_for_a_cpu(pid, &mut before);
        while begun.elapsed() < NEVER {
            waited_for_a_cpu(pid, &mut after);
            std::thread::sleep(Duration::from_millis(5));
            // SAFETY: signal 0 asks whether it is there.
            if unsafe { libc::kill(pid, 0) } != 0 {
                break;
            }
        }
        // SAFETY: our own child, or nobody: it has had its time.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        let more = |(tid, after): (&i32, &u64)| {
            after.saturating_sub(before.get(tid).copied().unwrap_or(0))
        };
        Duration::from_nanos(after.iter().map(more).sum())
    });
    let output = child.wait_with_output().unwrap();
    let all = begun.elapsed();
    let took = all.saturating_sub(watch.join().unwrap());
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let shown: String = text.chars().take(400).collect();
    // What `latency` starts here may have got as far as ending by itself.
    let by_itself = long.line.starts_with("latency") && output.status.code() == Some(0);
    let wrong = if took >= soon() {
        Some(format!(
            "{what}: goes on for {took:?} ({all:?} with the waits for a CPU)"
        ))
    } else if output.status.code() != Some(long.status) && !by_itself {
        Some(format!("{what}: {}: {shown}", output.status))
    } else if text.contains("panicked") || !long.says.iter().any(|part| text.contains(part)) {
        Some(format!("{what}: says: {shown}"))
    } else {
        promise(&text).map(|promise| format!("{what}: promises {promise}: {shown}"))
    };
    (took, wrong)
}

/// As [`interrupted`], and again where it took too long.
fn interrupted_soon(
    long: &Long,
    number: usize,
    moment: u64,
    directory: &Path,
) -> (Duration, Option<String>) {
    let mut all: Vec<_> = Vec::new();
    for _ in 0..TRIES {
        let (took, wrong) = interrupted(long, number, moment, directory);
        if took < soon() {
            return (took, wrong);
        }
        all.extend(wrong);
    }
    (soon(), Some(all.join("\n")))
}

/// A promise of results where there are none.
fn promise(text: &str) -> Option<&'static str> {
    let promise = "what was measured until then is printed";
    let only = text.lines().filter(|line| !line.trim().is_empty()).count() == 1;
    (text.contains(promise) && only).then_some(promise)
}

#[test]
fn ctrl_c_ends_every_long_command_at_every_moment() {
    let commands: Vec<&Long> = COMMANDS
        .iter()
        .filter(|long| available(long.needs))
        .collect();
    assert!(commands.len() > 8);
    all_end(&commands, Path::new("."));
}

/// All of these commands in a directory, at every moment.
pub(crate) fn all_end(commands: &[&Long], directory: &Path) {
    let mut wrong = Vec::new();
    let mut slowest = (Duration::ZERO, "");
    for (number, &moment) in MOMENTS.iter().enumerate() {
        // Those that mostly wait may do so together; the machine still has to run them all.
        for some in commands.chunks(4) {
            let ends: Vec<_> = std::thread::scope(|scope| {
                let started: Vec<_> = some
                    .iter()
                    .map(|&long| {
                        (
                            long,
                            scope.spawn(move || interrupted(long, number, moment, directory)),
                        )
                    })
                    .collect();
                started
                    .into_iter()
                    .map(|(long, thread)| (long, thread.join().unwrap()))
                    .collect()
            });
            for (long, (mut took, mut trouble)) in ends {
                if took >= soon() {
                    (took, trouble) = interrupted_soon(long, number, moment, directory);
                }
                if took > slowest.0 {
                    slowest = (took, long.line);
                }
                wrong.extend(trouble);
            }
        }
    }
    eprintln!("slowest end: {:?} of {}", slowest.0, slowest.1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The live screen: Ctrl-C is a key there, and before it is on a signal. The terminal is as it was, however early.
#[test]
fn ctrl_c_ends_the_live_screen_at_every_moment() {
    if !available("cpus") {
        return;
    }
    let mut slowest = Duration::ZERO;
    for moment in MOMENTS {
        let arguments = ["top", "-e", "cpu-clock:u", "-I", "100"];
        let Some(mut top) = Pty::start(&mut truecount(&arguments)) else {
            return;
        };
        // One moment before there is a screen.
        if moment > 0 {
            until("no screen", || top.raw() || top.ended().is_some());
        }
        std::thread::sleep(Duration::from_millis(moment));
        top.press(b"\x03");
        let begun = Instant::now();
        let (status, shown) = top.end(NEVER);
        slowest = slowest.max(begun.elapsed());
        let status = status.unwrap_or_else(|| panic!("goes on for {NEVER:?}: {shown}"));
        // Before truecount looks at signals they end it as they end everything.
        let early = moment == 0 && status.signal() == Some(libc::SIGINT);
        assert!(
            early || [Some(0), Some(130)].contains(&status.code()),
            "{status}: {shown}"
        );
        let on = shown.matches("\x1b[?1049h").count();
        assert_eq!(
            on,
            shown.matches("\x1b[?1049l").count(),
            "{moment} ms: {shown}"
        );
        assert!(moment == 0 || on == 1, "{moment} ms: {shown}");
        assert!(!shown.contains("panicked"), "{shown}");
    }
    eprintln!("slowest end: {slowest:?}");
}

/// Nobody reads the pipe: truecount hangs in its own output, and Ctrl-C ends it there, too.
#[test]
fn ctrl_c_while_writing_ends_it() {
    for line in [
        "bench --source software -n 2 --json -- true",
        "stat --source software -e page-faults --json -- true",
        "system -I 20 --json",
        "bench --help",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        // The pipe is full from the start.
        let full = [b'\n'; 4096];
        // SAFETY: our own descriptor, which others inherit as it is.
        unsafe {
            use std::os::fd::AsRawFd as _;
            let size = libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096);
            assert_eq!(size, 4096);
            assert_eq!(
                libc::write(writer.as_raw_fd(), full.as_ptr().cast(), 4096),
                4096
            );
        }
        let mut child = truecount(&words(line))
            .stdout(writer)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        until("it does not wait for the pipe", || {
            let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            let number = call
                .split(' ')
                .next()
                .unwrap_or_default()
                .parse()
                .unwrap_or(-1);
            [libc::SYS_write, libc::SYS_poll, libc::SYS_ppoll].contains(&number)
        });
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let begun = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if begun.elapsed() > NEVER {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(ended.is_some(), "{line}: goes on for {NEVER:?}");
        drop(reader);
    }
}
