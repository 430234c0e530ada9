//! Runs a command by `truecount_engine::virt`, with the user's signals and the time limit.
//!
//! The end is looked for with `waitid(WNOWAIT)`: the process stays a zombie until the engine
//! itself waits for it, so a signal never goes to a number that another process has got.

use std::collections::BTreeSet;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use truecount_engine::virt::{self, BeforeStart, LaunchError};

use super::{Refusal, cache};
use crate::closed::Closed;
use crate::determinism::pid::Chosen;
use crate::determinism::{Answers, Factor, Fixed, Missing, choose_pid};
use crate::error::{Error, ErrorKind};
use crate::result::{Ended, Executed, RunResult, Thread};
use crate::runner::wait::has_ended;
use crate::runner::{Exit, Launch, Signals, Stopping, exec_failure};
use crate::source::command::{self, Turns};

/// After a time limit, or when the user stops a program in a group of its own: how long the first signal may take before
/// SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// What the launch asks of the engine.
fn options(launch: &Launch<'_>) -> virt::Options {
    let holds = |factor| launch.fixed.is_some_and(|fixed| fixed.has(factor));
    virt::Options::default()
        .at_random(launch.fixed.and_then(Fixed::at_random))
        .hide_vdso(holds(Factor::Clock))
        .in_turn(holds(Factor::Threads) && !launch.fixed.is_some_and(Fixed::kernel_turns))
        .own_clock(holds(Factor::Time))
        .own_random(holds(Factor::Random))
        .pids(
            launch
                .fixed
                .and_then(Fixed::pid)
                .and_then(crate::determinism::pid::children),
        )
        .machine(launch.fixed.and_then(Fixed::machine))
        .cache(cache::directory())
        .code_cache(cache::code_bound())
}

pub(super) fn execute(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
    ask: impl FnOnce(virt::Options) -> virt::Options,
) -> Result<RunResult, Refusal> {
    let turns = match launch.fixed.is_some_and(Fixed::kernel_turns) {
        true => Turns::Kernel,
        false => Turns::Scheduler,
    };
    let (mut command, mut missing) =
        command::prepare(program, launch, turns).map_err(Refusal::Command)?;
    // First: a process of another number is to do nothing.
    let wanted = Arc::new(AtomicI32::new(0));
    has_number(&mut command, &wanted);
    die_with_us(&mut command);
    before_exec(&mut command, signals, launch);
    let answers = match launch.fixed {
        Some(fixed) => Answers::prepare(&mut command, fixed.wanted()).map_err(Refusal::Command)?,
        None => None,
    };
    let chosen = choose_pid(launch.fixed, None, &mut missing).map(Arc::new);
    let before = chosen.clone().map(|chosen| choosing(chosen, wanted));
    let start = Instant::now();
    let options = ask(options(launch)).before_start(before);
    let running = virt::launch(&mut command, &options).map_err(|error| {
        // Ctrl-C of a terminal reaches the program, too, and may kill it before it has begun.
        if let Some(signal) = signals.stop_requested() {
            let cause = "interrupted before the program had begun";
            return Refusal::Command(Error::new(ErrorKind::Interrupted(signal), cause));
        }
        match answers.as_ref().and_then(Answers::problem) {
            Some(problem) => Refusal::Command(problem),
            None => failure(&error, program),
        }
    })?;
    // Others may choose now.
    drop(options);
    if let Some(answers) = &answers {
        answers.started();
    }
    let pid = i32::try_from(running.id())
        .map_err(|_| Refusal::Command(Error::new(ErrorKind::Setup, "the PID is out of range")))?;
    let as_long = chosen
        .as_ref()
        .is_some_and(|chosen| chosen.difference(pid).is_none());
    let missed = chosen.and_then(|chosen| chosen.missed(pid));
    missing.extend(missed.clone());
    let aslr_refused = !launch.keep_aslr && randomised(pid);
    let stopped = until_end(pid, signals, launch).map_err(|error| {
        let cause = format!("cannot wait for the program: {error}");
        Refusal::Command(Error::new(ErrorKind::Setup, cause))
    })?;
    let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let running_id = running.id();
    let outcome = running.wait().map_err(|error| failure(&error, program))?;
    not_held_constant(&outcome.totals, &mut missing);
    missing.extend(answers.map(Answers::finish).unwrap_or_default());
    let whole = stopped.interrupted.is_none() && !stopped.timed_out;
    let aslr = launch.keep_aslr || aslr_refused;
    let mut closed = Closed::of(&outcome.totals, launch.fixed, &missing, aslr, whole);
    // Another number of as many digits is nothing to a program that asks for none.
    if as_long && !closed.asked_for(Factor::Pid) {
        missing.retain(|each| Some(each) != missed.as_ref());
    }
    let alive: BTreeSet<u32> = outcome
        .totals
        .threads
        .iter()
        // The program itself has ended, and somebody else may have its number by now.
        .filter(|thread| !thread.ended && thread.pid != running_id && is_running(thread.pid))
        .map(|thread| thread.pid)
        .collect();
    let killed = outcome.totals.threads.iter();
    let killed = killed.filter(|thread| !thread.whole && !alive.contains(&thread.pid));
    let cut = killed.count() + outcome.totals.retired_cut as usize;
    if whole {
        // A thread that waits when it is killed loses no count; it was killed all the same.
        let killed = usize::from(outcome.status.signal() == Some(libc::SIGKILL));
        closed.cut_short(cut.max(killed), alive.len());
    }
    Ok(RunResult {
        ended: Some(Ended {
            pid: Some(pid),
            exit: Exit {
                code: outcome.status.code(),
                signal: outcome.status.signal(),
            },
            timed_out: stopped.timed_out,
            aslr_refused,
        }),
        wall_ns,
        interrupted: stopped.interrupted,
        missing,
        executed: Executed {
            uncounted: outcome.totals.uncounted,
            left_out: outcome.totals.left_out.clone(),
            cut,
            unfollowed: outcome.totals.unfollowed,
            unfollowed_first: outcome.totals.unfollowed_first.clone(),
            unseen_writes: outcome.totals.unseen_writes,
            unseen_faults: outcome.totals.unseen_faults,
            outlived: alive.len(),
            closed: Some(closed),
            memory: None,
            noted: None,
            blocks: outcome.blocks,
            calls: outcome.calls,
            commands: outcome.commands,
            printed: outcome.totals.printed.clone(),
            unprinted: outcome.totals.unprinted,
            times: outcome.times,
            translated_blocks: sum(&outcome.totals, |thread| thread.translated),
            cached_blocks: sum(&outcome.totals, |thread| thread.cached),
            cache_problem: cache::problem(),
            threads: threads(&outcome.totals),
        },
        ..RunResult::default()
    })
}

/// Every thread, in order of appearance.
fn threads(totals: &virt::Totals) -> Vec<Thread> {
    let of = |thread: &virt::ThreadTotals| Thread {
        pid: thread.pid,
        tid: thread.tid,
        parent: thread.parent,
        program: thread.name.clone(),
        instructions: thread.instructions,
        counts: thread.events,
        events: serde_json::Map::new(),
        image: thread.leader,
        slot: thread.slot,
        ended: thread.ended,
    };
    totals.threads.iter().map(of).collect()
}

/// What the virtual PMU itself could not hold constant.
fn not_held_constant(totals: &virt::Totals, missing: &mut Vec<Missing>) {
    if totals.random_missed > 0 {
        let reason = format!(
            "{} time(s) a random device was the kernel's: the program could not open truecount's",
            totals.random_missed
        );
        missing.push(Missing::new(Factor::Random, reason));
    }
    if totals.clock_followed > 0 {
        let reason = format!(
            "the program waited for a time that its clock did not reach by itself; it was set on after the real one \
             {} times",
            totals.clock_followed
        );
        missing.push(Missing::new(Factor::Time, reason));
    }
    if let Some(reason) = not_in_turn(&totals.outside) {
        missing.push(Missing::new(Factor::Threads, reason));
    }
}

/// What the scheduler could not hold constant.
fn not_in_turn(outside: &[virt::Outside]) -> Option<String> {
    let causes: Vec<String> = outside
        .iter()
        .map(|each| format!("{} ({} times)", each.what, each.times))
        .collect();
    (!causes.is_empty()).then(|| format!("outside: {}", causes.join("; ")))
}

fn sum(totals: &virt::Totals, of: impl Fn(&virt::ThreadTotals) -> u64) -> u64 {
    totals.threads.iter().map(of).sum()
}

/// Addresses that are the same every time, and the signal mask that truecount was started with. On a machine that is shown
/// no signal is ignored or blocked at first, whoever started truecount (`nohup`, a shell's `&`): programs ask for that.
fn before_exec(command: &mut Command, signals: &Signals, launch: &Launch<'_>) {
    let mut mask = signals.original();
    let none = launch.fixed.is_some_and(|fixed| fixed.machine().is_some());
    if none {
        // SAFETY: fills our own set.
        unsafe { libc::sigemptyset(&raw mut mask) };
    }
    let keep_aslr = launch.keep_aslr;
    // SAFETY: system calls on values that the closure owns; all are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if !keep_aslr {
                let now = libc::personality(0xffff_ffff);
                // A kernel that refuses leaves randomisation on; the parent sees that.
                if now >= 0 {
                    libc::personality(
                        now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong,
                    );
                }
            }
            // Those that cannot be set (SIGKILL, SIGSTOP, the C library's own) are refused.
            for signal in 1..=if none { libc::SIGRTMAX() } else { 0 } {
                libc::signal(signal, libc::SIG_DFL);
            }
            if libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// The number is chosen just before a process is made, and again if somebody else was quicker, who starts programs at the
/// same time. Who has it for longer keeps it.
fn choosing(chosen: Arc<Chosen>, wanted: Arc<AtomicI32>) -> BeforeStart {
    BeforeStart::new(move |tries| {
        chosen.wait_for_it();
        let again = tries < BeforeStart::TRIES && chosen.again().is_ok();
        wanted.store(if again { chosen.number() } else { 0 }, Relaxed);
    })
}

/// A process that has another number than `wanted` ends; 0: any will do.
fn has_number(command: &mut Command, wanted: &Arc<AtomicI32>) {
    let wanted = Arc::clone(wanted);
    // SAFETY: getpid, and a word of our own.
    unsafe {
        command.pre_exec(move || match wanted.load(Relaxed) {
            0 => Ok(()),
            number if number == libc::getpid() => Ok(()),
            _ => Err(std::io::Error::from_raw_os_error(libc::ESTALE)),
        });
    }
}

/// The program does not go on unbeknown when truecount is killed by a signal that it cannot pass on:
/// the kernel kills it then. Its own children, and what it becomes by a set-user-id `execve`, are not
/// reached (`PR_SET_PDEATHSIG` in prctl(2)). To be called on the main thread, whose end it is about.
fn die_with_us(command: &mut Command) {
    let us = std::process::id();
    // SAFETY: prctl and getppid without memory arguments, async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // It ended before the call: nobody will send the signal.
            if u32::try_from(libc::getppid()).is_ok_and(|parent| parent != us) {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Whether the kernel says that the addresses of this process are randomised.
fn randomised(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/personality"))
        .ok()
        .and_then(|text| i64::from_str_radix(text.trim(), 16).ok())
        .is_some_and(|bits| bits & i64::from(libc::ADDR_NO_RANDOMIZE) == 0)
}

/// Whether a process is there and no zombie.
fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// Who ended the program, other than itself.
struct Stopped {
    interrupted: Option<i32>,
    timed_out: bool,
}

/// Waits until `pid` is a zombie. A first stopping signal is passed on to it, a second one kills.
fn until_end(pid: i32, signals: &Signals, launch: &Launch<'_>) -> std::io::Result<Stopped> {
    /// SIGCHLD wakes at once; this is for one that another wait has used up.
    const LOOK: Duration = Duration::from_millis(100);
    let start = Instant::now();
    let target = if launch.own_group { -pid } else { pid };
    let mut stopped = Stopped {
        interrupted: None,
        timed_out: false,
    };
    let mut stopping = Stopping::default();
    let mut killed = false;
    let mut kill_at = None;
    loop {
        if has_ended(pid)? {
            // What ended it reached us, too, and may not have been looked at yet.
            stopped.interrupted = stopped.interrupted.or_else(|| signals.stop_requested());
            return Ok(stopped);
        }
        if kill_at.is_some_and(|at| start.elapsed() >= at) {
            kill_at = None;
            send(target, libc::SIGKILL);
        }
        let limit = launch.timeout.filter(|_| !killed).map(|limit| {
            let at = if stopped.timed_out {
                limit.saturating_add(GRACE)
            } else {
                limit
            };
            at.saturating_sub(start.elapsed())
        });
        let arrived = signals.arrival(Some(limit.map_or(LOOK, |limit| limit.min(LOOK))))?;
        if let Some(arrived) = arrived.filter(|arrived| arrived.signal != libc::SIGCHLD) {
            let signal = stopping.pass_on(arrived, launch.own_group);
            stopped.interrupted = stopping.interrupted;
            if let Some(signal) = signal {
                send(target, signal);
            }
            if launch.own_group {
                kill_at = kill_at.or(Some(start.elapsed().saturating_add(GRACE)));
            }
        }
        if limit.is_some_and(|limit| limit.is_zero()) {
            killed = stopped.timed_out;
            stopped.timed_out = true;
            send(target, if killed { libc::SIGKILL } else { libc::SIGTERM });
        }
    }
}

fn send(target: i32, signal: i32) {
    // SAFETY: `target` is our child that has not been waited for, or its group.
    unsafe { libc::kill(target, signal) };
}

fn failure(error: &LaunchError, program: &Path) -> Refusal {
    let plain = |kind| Error::new(kind, error.to_string());
    match error {
        LaunchError::Spawn { error: source, .. } => Refusal::Command(match source.raw_os_error() {
            Some(errno) => exec_failure(program, errno),
            None => plain(ErrorKind::Setup),
        }),
        LaunchError::Machine { .. } => Refusal::Command(
            plain(ErrorKind::Unavailable).hint("name a lower level, such as --machine x86-64-v2"),
        ),
        LaunchError::Vanished { .. } => Refusal::Command(plain(ErrorKind::Setup)),
        LaunchError::NotX86_64 { .. } => Refusal::Engine(
            plain(ErrorKind::NotExecutable)
                .hint("count it with --source hardware where the CPU's counters answer"),
        ),
        LaunchError::Internal { report } => Refusal::Half(
            Error::new(
                ErrorKind::EngineCheck,
                format!(
                    "the virtual PMU ended the run, {}",
                    report
                        .lines()
                        .map(|line| line.trim_start_matches("truecount: "))
                        .collect::<Vec<_>>()
                        .join(" | ")
                ),
            )
            .hint("its counts and effects are void; use --source step or hardware, and report it"),
        ),
        _ => Refusal::Engine(plain(ErrorKind::Setup)),
    }
}
