//! Threads and processes that execute in turn: the count, the output and the time are the same in every run.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used)] // tests

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{built, fixed_layout, launch};
use truecount_engine::virt::{Cache, CallOptions, Options, Outcome};

const RUNS: usize = 5;

/// One run; `None` where the machine forbids it.
fn once(program: &PathBuf, arguments: &[&str]) -> Option<(String, Outcome)> {
    with(program, arguments, Options::default())
}

/// One run with more options: translations of earlier ones, other ways to count.
fn with(program: &PathBuf, arguments: &[&str], options: Options) -> Option<(String, Outcome)> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    fixed_layout(&mut command);
    let options = options.in_turn(true).at_random(Some([7; 16]));
    let mut running = launch(&mut command, &options)?;
    let mut text = String::new();
    let mut output = running.child_mut().stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut output, &mut text).expect("text");
    Some((text, running.wait().expect("an outcome")))
}

/// Several runs, all alike, which nothing from outside decided, with and without translations of earlier ones; what the
/// first one wrote.
fn always_the_same(program: &PathBuf, arguments: &[&str]) -> Option<String> {
    let (text, first) = once(program, arguments)?;
    assert_eq!(first.status.code(), Some(0), "{text}");
    assert!(
        first.totals.outside.is_empty(),
        "{:?}",
        first.totals.outside
    );
    // A shell that keeps a PID as text takes an instruction or two more for another digit: what is compared has PIDs
    // of the same lengths, and as many runs are made as that takes.
    let digits = |outcome: &Outcome| -> Vec<u32> {
        let threads = outcome.totals.threads.iter();
        threads.map(|thread| thread.pid.ilog10()).collect()
    };
    let mut counts = BTreeMap::from([(digits(&first), first.totals.instructions())]);
    let mut compared = 1;
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "turns-{}-{}",
        program.file_name().expect("a name").display(),
        arguments.join("-").len()
    ));
    let _ = std::fs::remove_dir_all(&directory);
    let cache = Cache::open(&directory).expect("a directory of our own");
    for run in 0..4 * RUNS {
        let options = Options::default().cache(Some(cache.clone()).filter(|_| run != 1));
        // The clock goes by a running total, which there is beside counters of blocks, too.
        let options = match run % 4 {
            2 => options.per_block(true),
            3 => options.calls(Some(CallOptions::default())),
            _ => options,
        };
        let (again, outcome) = with(program, arguments, options)?;
        assert_eq!(again, text);
        assert!(outcome.totals.outside.is_empty());
        let count = outcome.totals.instructions();
        match counts.insert(digits(&outcome), count) {
            Some(before) => assert_eq!(count, before, "{text}"),
            None => continue,
        }
        compared += 1;
        if compared == RUNS {
            return Some(text);
        }
    }
    panic!("PIDs of other lengths each time: {counts:?}");
}

fn program(name: &str, source: &str) -> Option<PathBuf> {
    built(name, source, &["-O1", "-pthread"])
}

fn shell() -> PathBuf {
    PathBuf::from("/bin/bash")
}

/// A thread that joins the first one, which ends before it, does not wait for ever.
#[test]
fn the_first_thread_is_joined() {
    let source = "#include <pthread.h>\n#include <stdio.h>\n\
        static void *outlives(void *first) { pthread_join(*(pthread_t *)first, 0); puts(\"gone\"); return 0; }\n\
        int main(void) { static pthread_t own; own = pthread_self(); pthread_t other;\n\
        pthread_create(&other, 0, outlives, &own); pthread_exit(0); }\n";
    let Some(program) = program("turn_first.c", source) else {
        return;
    };
    for _ in 0..4 {
        let begin = Instant::now();
        let Some(text) = always_the_same(&program, &[]) else {
            return;
        };
        assert_eq!(text, "gone\n");
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}

/// Turns end in the middle of blocks, also of those that took over what an exit to them corrects: no instruction is
/// counted twice or not at all. (They were: some 10 of 75 million by sort, 100 of 90 million by sed.)
#[test]
fn turns_are_in_no_count() {
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join("turns-numbers");
    let numbers = (1..60_000u64).map(|n| format!("{} text\n", n * 7919 % 100_003));
    std::fs::write(&file, numbers.collect::<String>()).expect("a file");
    let file = file.to_str().expect("a name");
    let sum = "for i in {1..20000}; do x=$((x+i)); done";
    let programs: [&[&str]; 3] = [
        &["sort", file],
        &["sed", "-e", "s/1.*x/y/", file],
        &["bash", "-c", sum],
    ];
    for words in programs {
        let count = |options: Options| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env_clear().env("LC_ALL", "C");
            command.stdin(Stdio::null()).stdout(Stdio::null());
            fixed_layout(&mut command);
            let outcome = launch(&mut command, &options.at_random(Some([7; 16])))?.wait();
            let outcome = outcome.expect("an outcome");
            assert_eq!(outcome.status.code(), Some(0), "{words:?}");
            Some(outcome.totals.instructions())
        };
        let clock = Options::default().own_clock(true).own_getrandom(true);
        let Some(plain) = count(clock.clone()) else {
            return;
        };
        assert_eq!(count(clock.in_turn(true)), Some(plain), "{words:?}");
    }
}

/// What was translated is used again, and the threads' turns end where they did.
#[test]
fn translations_are_kept() {
    let Some(program) = program("turn_kept.c", include_str!("turns/spin.c")) else {
        return;
    };
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("turns-kept");
    let _ = std::fs::remove_dir_all(&directory);
    let cache = Cache::open(&directory).expect("a directory of our own");
    let mut runs = Vec::new();
    for _ in 0..3 {
        let Some((text, outcome)) =
            with(&program, &[], Options::default().cache(Some(cache.clone())))
        else {
            return;
        };
        let threads = &outcome.totals.threads;
        let translated: u64 = threads.iter().map(|thread| thread.translated).sum();
        let counts: Vec<u64> = threads.iter().map(|thread| thread.instructions).collect();
        runs.push((translated, text, counts));
    }
    let [(first, text, counts), later @ ..] = &runs[..] else {
        panic!("three runs")
    };
    for run in later {
        assert!(run.0 * 10 < *first, "{} blocks after {first}", run.0);
        assert_eq!((&run.1, &run.2), (text, counts));
    }
}

/// Mutexes and condition variables: who gets a lock decides what is done.
#[test]
fn threads_with_locks() {
    let Some(program) = program("turn_pool.c", include_str!("turns/pool.c")) else {
        return;
    };
    always_the_same(&program, &[]);
}

/// Locks that spin, with and without `pause`: only a quantum lets the owner go on.
#[test]
fn threads_that_spin() {
    let Some(program) = program("turn_spin.c", include_str!("turns/spin.c")) else {
        return;
    };
    let text = always_the_same(&program, &[]);
    assert!(text.is_none_or(|text| text == "80000 done\n"));
}

/// Loops in which flags are dead nowhere, or that jump indirectly, or that are one instruction.
#[test]
fn threads_that_spin_with_live_flags() {
    let Some(program) = program("turn_flags.c", include_str!("turns/flags.c")) else {
        return;
    };
    let start = Instant::now();
    let Some(text) = always_the_same(&program, &[]) else {
        return;
    };
    assert_eq!(
        text,
        "carry 1 overflow 1 zero 0\nindirectly\nstands still\n"
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

/// Turns go on where a thread waits: one that waits often is left elsewhere, too.
#[test]
fn threads_are_left_between_their_waits() {
    let Some(program) = program("turn_between.c", include_str!("turns/between.c")) else {
        return;
    };
    let text = always_the_same(&program, &[]);
    assert!(text.is_none_or(|text| text == "seen\n"));
}

/// Futexes of processes that have them at the same addresses are not the same.
#[test]
fn processes_wait_for_their_own_threads() {
    let Some(program) = program("turn_processes.c", include_str!("turns/processes.c")) else {
        return;
    };
    let text = always_the_same(&program, &[]);
    assert!(text.is_none_or(|text| text == "in the child\nchild 0\nparent\n"));
}

/// Processes that stop themselves and each other, and go on; a child that its parent traces.
#[test]
fn processes_that_are_stopped() {
    let Some(program) = program("turn_stops.c", include_str!("turns/stops.c")) else {
        return;
    };
    let expected = "itself: stopped by 19, continued 1, ended 3\n\
                    by its parent: stopped by 19, continued 1, ended 4\n\
                    by SIGTSTP: stopped by 20, continued 1, ended 5\n\
                    with threads: stopped by 19, continued 1, ended 6\n";
    let text = always_the_same(&program, &[]);
    assert!(
        text.as_deref().is_none_or(|text| text == expected),
        "{text:?}"
    );
    for way in ["traced", "seized", "vforked", "killed"] {
        let Some((text, outcome)) = once(&program, &[way]) else {
            return;
        };
        assert_eq!(outcome.status.code(), Some(0), "{way}: {text}");
        assert_eq!(text, format!("{way}: ended 7\n"));
        assert!(!outcome.totals.outside.is_empty(), "{way}");
    }
}

/// Calls that are errors, or have nothing to do, do not wait for what would never come.
#[test]
fn errors_do_not_wait() {
    let Some(program) = program("turn_errors.c", include_str!("turns/errors.c")) else {
        return;
    };
    let natively = std::process::Command::new(&program)
        .output()
        .expect("a run");
    let text = always_the_same(&program, &[]);
    assert!(text.is_none_or(|text| text.as_bytes() == natively.stdout));
}

/// Limits of waits end by the run's clock, which jumps when all wait: an hour's sleep takes no time.
#[test]
fn time_passes_when_all_wait() {
    let Some(program) = program("turn_time.c", include_str!("turns/time.c")) else {
        return;
    };
    let start = Instant::now();
    let Some(text) = always_the_same(&program, &[]) else {
        return;
    };
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(
        text,
        "slept 3600 s\ntimed out after 1000 s\nwoken after 500 s\npolled 0 after 60 s\nchild 7 after 100 s\n"
    );
}

/// Waits by several bits, requeued, and ended by their limit, in the order of arrival.
#[test]
fn futexes_wake_in_the_order_of_arrival() {
    let Some(program) = program("turn_futex.c", include_str!("turns/futex.c")) else {
        return;
    };
    let Some(text) = always_the_same(&program, &[]) else {
        return;
    };
    assert_eq!(
        text,
        "bits 1: 0 2 4\nmoved 3, woken: 1 3 5\nowner died: 1\n"
    );
}

/// Processes, pipes, `wait`, process ids that end.
#[test]
fn pipelines_and_background_jobs() {
    let script = "seq 1 20000 | sort -rn | uniq | tail -2; (sleep 2; echo late) & echo early; wait; \
        for i in 1 2 3; do echo $i; done | while read x; do echo $((x * 2)); done; yes | head -100000 | wc -c";
    let Some(text) = always_the_same(&shell(), &["-c", script]) else {
        return;
    };
    assert_eq!(text, "2\n1\nearly\nlate\n2\n4\n6\n200000\n");
}

/// A child that is killed or crashes is over, and its parent goes on.
#[test]
fn children_that_are_killed() {
    let script = "sleep 1000 & kill -9 $!; wait $!; echo $?; bash -c 'kill -SEGV $$'; echo $?";
    let Some((text, _)) = once(&shell(), &["-c", script]) else {
        return;
    };
    assert_eq!(text, "137\n139\n");
}

/// Timers of every kind go off by the run's clock, and interrupt who computes at the same place.
#[test]
fn timers_go_by_the_runs_clock() {
    let Some(program) = program("turn_timers.c", include_str!("turns/timers.c")) else {
        return;
    };
    let Some(text) = always_the_same(&program, &[]) else {
        return;
    };
    let is = |line: &str| assert!(text.contains(line), "{line}\n{text}");
    is("alarm 1 after 3600 s, left 0");
    is("by the one that executes: 5 of 5");
    is("made: 1 -1, value 42, code 1, left 49, overrun 0, Interrupted system call");
    is("thread: 1");
    is("descriptor: 1 after 100 s");
    is("read 8: 3 after 125 s");
    is("child 8: 1");
    is("off: 0, every 10 s");
}

/// FIFOs are opened as natively, and nobody outside is waited for.
#[test]
fn fifos_wait_for_their_other_ends() {
    let Some(program) = program("turn_fifos.c", include_str!("turns/fifos.c")) else {
        return;
    };
    let native = std::process::Command::new(&program).output();
    let native = native.expect("the program runs").stdout;
    let Some(text) = always_the_same(&program, &[]) else {
        return;
    };
    assert_eq!(text, String::from_utf8_lossy(&native));
    assert!(text.contains("restarted: 4, word"), "{text}");
}

/// Signals come in the order of sending, to the same threads at the same places.
#[test]
fn signals_inside_the_run_come_in_one_order() {
    let Some(program) = program("turn_signals.c", include_str!("turns/signals.c")) else {
        return;
    };
    let Some(text) = always_the_same(&program, &[]) else {
        return;
    };
    assert!(text.contains("ended 5, sum 10"), "{text}");
    assert!(text.contains("128: 10 from the child: 1"), "{text}");
    assert!(text.contains("128: 15 from the child: 1"), "{text}");
    assert!(text.ends_with("process: 0 1, killed by 9\n"), "{text}");
}

/// Signals that are ignored end no wait, also where they were sent while the thread waited (timeout(1) sends SIGTERM to its
/// own group, which it ignores).
#[test]
fn ignored_signals_end_no_wait() {
    let script = "timeout 0.2 sleep 5; echo $?; trap '' USR1 TERM; (kill -USR1 $$; kill -TERM $$; sleep 1; echo later) & wait $!; echo $?";
    // (Not the count: bash reads process ids, which are others in each run.)
    let Some((text, outcome)) = once(&shell(), &["-c", script]) else {
        return;
    };
    assert!(outcome.totals.outside.is_empty());
    assert_eq!(text, "124\nlater\n0\n");
}

/// A deadlock of the program stays one, can be ended, and is named.
#[test]
fn a_deadlock_is_reported() {
    let source = "#include <pthread.h>
        int main(void) { pthread_mutex_t m; pthread_mutex_init(&m, 0);
        pthread_mutex_lock(&m); pthread_mutex_lock(&m); }";
    let Some(program) = program("turn_deadlock.c", source) else {
        return;
    };
    let mut command = Command::new(program);
    let Some(running) = launch(&mut command, &Options::default().in_turn(true)) else {
        return;
    };
    let start = Instant::now();
    while running.totals().outside.is_empty() && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let outside = running.totals().outside;
    assert!(
        outside.iter().any(|each| each.what.contains("deadlock")),
        "{outside:?}"
    );
    let pid = libc::pid_t::try_from(running.id()).expect("a process id");
    // SAFETY: our own child.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let outcome = running.wait().expect("an outcome");
    assert!(!outcome.status.success());
}

/// What the outside decides is named.
#[test]
fn what_comes_from_outside_is_named() {
    let mut command = Command::new("/bin/cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let Some(mut running) = launch(&mut command, &Options::default().in_turn(true)) else {
        return;
    };
    let mut input = running.child_mut().stdin.take().expect("a pipe");
    std::thread::sleep(Duration::from_millis(300));
    std::io::Write::write_all(&mut input, b"text\n").expect("a reader");
    drop(input);
    let outcome = running.wait().expect("an outcome");
    assert!(outcome.status.success());
    let outside = outcome.totals.outside;
    assert!(
        outside.iter().any(|each| each.what.contains("came")),
        "{outside:?}"
    );
}

/// The first process has the random bytes of the run, other programs have some of their own, always the same ones.
#[test]
fn processes_have_random_bytes_of_their_own() {
    let source = "#include <stdio.h>\n#include <sys/auxv.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
        int main(int argc, char **argv) {\n\
          unsigned char *r = (unsigned char *)getauxval(AT_RANDOM);\n\
          for (int i = 0; i < 16; i++) printf(\"%02x\", r[i]);\n\
          puts(\"\"); fflush(stdout);\n\
          if (argc > 1) return 0;\n\
          for (int i = 0; i < 2; i++) {\n\
            if (fork() == 0) { execl(argv[0], argv[0], \"child\", (char *)0); _exit(9); }\n\
            wait(0); }\n\
          execl(argv[0], argv[0], \"again\", (char *)0); return 9; }\n";
    let Some(program) = program("random_bytes.c", source) else {
        return;
    };
    let Some(text) = always_the_same(&program, &[]) else {
        return;
    };
    let lines: Vec<&str> = text.lines().collect();
    let [first, one, two, last] = lines[..] else {
        panic!("{text}");
    };
    assert_eq!((first, last), (&*"07".repeat(16), first), "{text}");
    assert!(one != two && one != first && two != first, "{text}");
}
