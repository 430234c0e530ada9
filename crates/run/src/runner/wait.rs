//! Waits for the command: its end, the user's wish to stop, the time limit, regular ticks.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::signals::Arrived;
use super::{Exit, Launch, Signals, Stopping, Usage};

/// Something to do at a regular interval while the command runs.
pub struct Ticker<'t> {
    every: Duration,
    tick: &'t mut dyn FnMut(Duration),
    done: u32,
}

impl<'t> Ticker<'t> {
    /// `tick` is called with the time since the start.
    pub fn new(every: Duration, tick: &'t mut dyn FnMut(Duration)) -> Self {
        Self {
            every,
            tick,
            done: 0,
        }
    }

    /// How long it is until the next one, of a run that is so old.
    fn due_in(&self, elapsed: Duration) -> Duration {
        let next = self.every.saturating_mul(self.done.saturating_add(1));
        next.saturating_sub(elapsed)
    }

    fn tick_if_due(&mut self, elapsed: Duration) {
        if self.due_in(elapsed).is_zero() {
            (self.tick)(elapsed);
            self.done = self.done.saturating_add(1);
        }
    }
}

/// What waiting found.
pub(super) struct Waited {
    pub(super) exit: Exit,
    pub(super) ended_ns: u64,
    pub(super) usage: Usage,
    pub(super) timed_out: bool,
    pub(super) interrupted: Option<i32>,
}

/// After a time limit, or when the user stops a program that runs in a group of its own (the terminal does not reach it,
/// nobody talks to it): how long the first signal may take before SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: a valid place for the result; this clock always exists.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    nanoseconds(&time)
}

/// A time of a clock that counts up from 0.
pub(super) fn nanoseconds(time: &libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Waits until `pid` has ended. `began` is when its program started (0: not yet): intervals are timed from there, as the
/// whole run is. A first stopping signal is passed on to the command, a second one kills it; the terminal's own reach it
/// without that.
pub(super) fn until_exit(
    pid: i32,
    signals: &Signals,
    launch: &Launch<'_>,
    mut ticker: Option<Ticker<'_>>,
    began: &AtomicU64,
) -> io::Result<Waited> {
    let start = Instant::now();
    let ran = || match began.load(Ordering::Acquire) {
        0 => Duration::ZERO,
        began => Duration::from_nanos(now_ns().saturating_sub(began)),
    };
    let target = if launch.own_group { -pid } else { pid };
    let mut timed_out = false;
    let mut killed = false;
    let mut stopping = Stopping::default();
    let mut stop_at: Option<Duration> = None;
    loop {
        let elapsed = start.elapsed();
        let tick = ticker.as_ref().map(|ticker| ticker.due_in(ran()));
        let limit_at = launch
            .timeout
            .filter(|_| !killed)
            .map(|limit| if timed_out { limit + GRACE } else { limit });
        let kill_at = stop_at.filter(|_| !killed);
        let [limit, kill] = [limit_at, kill_at].map(|at| at.map(|at| at.saturating_sub(elapsed)));
        match signals.arrival([tick, limit, kill].into_iter().flatten().min())? {
            Some(Arrived {
                signal: libc::SIGCHLD,
                ..
            }) => {
                if let Some((status, rusage)) = reap(pid)? {
                    return Ok(Waited {
                        ended_ns: now_ns(),
                        exit: Exit::from_wait(status),
                        usage: Usage::from_rusage(&rusage),
                        timed_out,
                        interrupted: stopping.interrupted,
                    });
                }
            }
            Some(arrived) => {
                if let Some(signal) = stopping.pass_on(arrived, launch.own_group) {
                    send(target, signal);
                }
                if launch.own_group {
                    stop_at = stop_at.or(Some(start.elapsed() + GRACE));
                }
            }
            None => {}
        }
        if let Some(ticker) = &mut ticker {
            ticker.tick_if_due(ran());
        }
        let elapsed = start.elapsed();
        if kill_at.is_some_and(|at| elapsed >= at) {
            killed = true;
            send(target, libc::SIGKILL);
        }
        if let Some(at) = limit_at
            && elapsed >= at
        {
            if timed_out {
                killed = true;
                send(target, libc::SIGKILL);
            } else {
                timed_out = true;
                send(target, libc::SIGTERM);
            }
        }
    }
}

fn send(target: i32, signal: i32) {
    // SAFETY: `target` is our child that has not been waited for, or its group.
    unsafe { libc::kill(target, signal) };
}

/// The status and the resources of `pid`, if it has ended.
fn reap(pid: i32) -> io::Result<Option<(i32, libc::rusage)>> {
    if !has_ended(pid)? {
        return Ok(None);
    }
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both places are valid for writing.
    let found = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    match found {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: zero-initialised plain data, filled by wait4.
        _ => Ok(Some((status, unsafe { usage.assume_init() }))),
    }
}

/// Whether our child has ended; its status is left for who waits for it.
pub fn has_ended(pid: i32) -> io::Result<bool> {
    let id = libc::id_t::try_from(pid).map_err(io::Error::other)?;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: a valid place for the result, zeroed before.
    unsafe {
        if libc::waitid(libc::P_PID, id, info.as_mut_ptr(), flags) != 0 {
            return Err(io::Error::last_os_error());
        }
        let info = info.assume_init();
        // While a thread of truecount follows it through an `execve`, its ptrace stop is reported here, too.
        let ended = matches!(
            info.si_code,
            libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED
        );
        Ok(ended && info.si_pid() == pid)
    }
}

/// Waits until the user stops truecount, or until `process` has gone; the signal, if one came.
pub fn wait_without_command(
    signals: &Signals,
    process: Option<i32>,
    mut ticker: Option<Ticker<'_>>,
) -> io::Result<Option<i32>> {
    /// How often a process that is not our child is looked for.
    const LOOK: Duration = Duration::from_millis(50);
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        let tick = ticker.as_ref().map(|ticker| ticker.due_in(elapsed));
        let look = process.map(|_| LOOK);
        match signals.wait(tick.into_iter().chain(look).min())? {
            Some(libc::SIGCHLD) | None => {}
            Some(signal) => return Ok(Some(signal)),
        }
        let elapsed = start.elapsed();
        if let Some(ticker) = &mut ticker {
            ticker.tick_if_due(elapsed);
        }
        if let Some(pid) = process {
            // SAFETY: signal 0 only asks whether the process exists.
            let found = unsafe { libc::kill(pid, 0) };
            if found != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
                return Ok(None);
            }
        }
    }
}
