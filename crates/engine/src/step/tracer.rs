//! The loop of a single-stepper: wait for any thread, see what it stopped for, go on.
//!
//! What retired is decided in `thread.rs`; here are the kernel's events: new threads, processes and
//! programs, signals, stops, ends.

use super::launch::Tracee;
use super::sys::{self, Register, Request, Wait};
use super::thread::Threads;
use super::watch::Watched;
use super::{Exit, Progress, StepError, StepOptions, StepTotals};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// `si_code` of a trap (`asm-generic/siginfo.h`): a system call that was stepped over has returned.
const TRAP_BRKPT: i32 = 1;
/// An instruction was stepped.
const TRAP_TRACE: i32 = 2;
/// Code segment of 64-bit user code (`asm/segment.h`, `__USER_CS`).
const USER_CS: u64 = 0x33;
/// The clock is looked at once in so many stops.
const STOPS_PER_LOOK: u32 = 256;
const REPORT_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Tracer<'a, 'w> {
    /// Until the program has started.
    tracee: Option<Tracee>,
    progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
    threads: Threads<'a>,
    watched: &'w Watched,
    root: i32,
    at_random: Option<[u8; 16]>,
    hide_vdso: bool,
    started: Instant,
    reported: (Instant, u64),
}

impl<'a, 'w> Tracer<'a, 'w> {
    pub(super) fn new(tracee: Tracee, options: StepOptions<'a>, watched: &'w Watched) -> Self {
        let now = Instant::now();
        let root = tracee.pid;
        let mut threads = Threads::new(options.retired);
        threads.add(root, root);
        watched.started(root);
        Self {
            tracee: Some(tracee),
            progress: options.progress,
            threads,
            watched,
            root,
            at_random: options.at_random,
            hide_vdso: options.hide_vdso,
            started: now,
            reported: (now, 0),
        }
    }

    /// Runs everything to its end. On an error nothing is left behind either.
    pub(super) fn run(mut self) -> Result<StepTotals, StepError> {
        if let Err(error) = self.follow() {
            self.abandon();
            return Err(error);
        }
        if let Some(tracee) = self.tracee.take() {
            return Err(tracee.why_not_started());
        }
        let exit = self.threads.processes.first().and_then(|p| p.exit);
        let exit = exit.ok_or_else(|| StepError::Trace {
            call: "waitpid",
            source: io::Error::other("the program's end was never reported"),
        })?;
        Ok(StepTotals {
            exit,
            processes: self.threads.processes,
            threads: self.threads.totals,
            elapsed: self.started.elapsed(),
            unfollowed: self.threads.unfollowed,
            cancelled: self.watched.cancelled.load(Ordering::Relaxed),
            timed_out: self.watched.timed_out.load(Ordering::Relaxed),
        })
    }

    fn follow(&mut self) -> Result<(), StepError> {
        let mut stops = 0u32;
        loop {
            match sys::wait() {
                Ok((tid, Wait::Stopped(signal, event))) => self.handle(tid, signal, event)?,
                Ok((tid, Wait::Exited(code))) => self.ended(tid, Exit::Code(code)),
                Ok((tid, Wait::Killed(signal))) => self.ended(tid, Exit::Signal(signal)),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
                Err(source) => {
                    return Err(StepError::Trace {
                        call: "waitpid",
                        source,
                    });
                }
            }
            stops = stops.wrapping_add(1);
            if stops.is_multiple_of(STOPS_PER_LOOK) && self.progress.is_some() {
                self.report();
            }
        }
    }

    fn report(&mut self) {
        let now = Instant::now();
        let (last, counted) = self.reported;
        let since = now - last;
        if since < REPORT_EVERY {
            return;
        }
        let instructions = self.threads.counted;
        self.reported = (now, instructions);
        if let Some(progress) = &mut self.progress {
            progress(Progress {
                instructions,
                elapsed: now - self.started,
                per_second: (instructions - counted) as f64 / since.as_secs_f64(),
                threads: self.threads.alive(),
            });
        }
    }

    /// Kills and reaps everything that is left.
    fn abandon(&mut self) {
        loop {
            for process in self.threads.processes.iter().filter(|p| p.exit.is_none()) {
                sys::kill(process.pid, libc::SIGKILL);
            }
            match sys::wait() {
                Ok((tid, Wait::Stopped(..))) => {
                    if !self.threads.knows(tid) {
                        sys::kill(tid, libc::SIGKILL);
                    }
                    // A thread that died meanwhile reports its end next.
                    let _ = sys::ptrace(Request::CONT, tid, 0, 0);
                }
                Ok((tid, Wait::Exited(code))) => self.ended(tid, Exit::Code(code)),
                Ok((tid, Wait::Killed(signal))) => self.ended(tid, Exit::Signal(signal)),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn handle(&mut self, tid: i32, signal: i32, event: i32) -> Result<(), StepError> {
        if !self.threads.knows(tid) {
            // A new thread can be seen before the event that announces it: /proc says whose it is.
            let pid = self.threads.forget_parent(tid);
            let pid = thread_group(tid).or(pid).unwrap_or(tid);
            if self.threads.add(tid, pid) {
                self.watched.started(pid);
            }
            if let Some(thread) = self.threads.get(tid) {
                thread.counting = true;
            }
        }
        match self.stopped(tid, signal, event) {
            // Killed between the wait and here: its end will be seen next.
            Err(StepError::Trace { source, .. }) if source.raw_os_error() == Some(libc::ESRCH) => {
                Ok(())
            }
            other => other,
        }
    }

    fn stopped(&mut self, tid: i32, signal: i32, event: i32) -> Result<(), StepError> {
        let trace = |call| move |source| StepError::Trace { call, source };
        let pc = sys::register(tid, Register::ProgramCounter).map_err(trace("PTRACE_PEEKUSER"))?;
        let code = sys::signal_code(tid);
        if is_over(code, event) {
            return Ok(());
        }
        let mut deliver = 0;
        match event {
            0 if signal == libc::SIGTRAP => match code {
                Some(TRAP_TRACE) => self.threads.stepped(tid, pc),
                Some(TRAP_BRKPT) => self.threads.system_call_done(tid, pc),
                // `ptrace_notify`: the first instruction of a signal handler comes next.
                Some(libc::SIGTRAP) => self.threads.entered_handler(tid, pc),
                _ => {
                    self.threads.before_signal(tid, pc, signal);
                    deliver = signal;
                }
            },
            0 => {
                self.threads.before_signal(tid, pc, signal);
                deliver = signal;
            }
            libc::PTRACE_EVENT_STOP => {
                self.threads.waits(tid, pc);
                // A group stop; else a new thread before its first instruction, or SIGCONT came.
                if matches!(
                    signal,
                    libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
                ) {
                    return sys::ptrace(Request::LISTEN, tid, 0, 0).map_err(trace("PTRACE_LISTEN"));
                }
            }
            libc::PTRACE_EVENT_EXEC => self.executed(tid, pc)?,
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                if let Ok(child) = sys::event_message(tid)
                    && let Ok(child) = i32::try_from(child)
                {
                    self.threads.announce(child, tid);
                }
            }
            libc::PTRACE_EVENT_EXIT => self.threads.exiting(tid, pc),
            _ => {}
        }
        let counting = self.threads.get(tid).is_some_and(|t| t.counting);
        let (call, request) = if counting && event != libc::PTRACE_EVENT_EXIT {
            ("PTRACE_SINGLESTEP", Request::SINGLESTEP)
        } else {
            ("PTRACE_CONT", Request::CONT)
        };
        let data = u64::try_from(deliver).unwrap_or(0);
        sys::ptrace(request, tid, 0, data).map_err(trace(call))
    }

    /// `execve` succeeded.
    fn executed(&mut self, tid: i32, pc: u64) -> Result<(), StepError> {
        // A thread that is not the leader takes the leader's id (ptrace(2), "execve(2) under ptrace").
        let former = sys::event_message(tid)
            .ok()
            .and_then(|t| i32::try_from(t).ok());
        self.threads.executed(tid, former.unwrap_or(tid), pc);
        if tid == self.root {
            self.tracee = None; // it has started
        }
        let segment = sys::register(tid, Register::CodeSegment);
        if segment.is_ok_and(|s| s != USER_CS) {
            let program = std::fs::read_link(format!("/proc/{tid}/exe"));
            let program = program.map_or_else(|_| tid.to_string(), |p| p.display().to_string());
            return Err(StepError::NotSixtyFourBit { program });
        }
        match self.change_stack(tid) {
            // One that is killed meanwhile needs no stack.
            Err(source) if source.raw_os_error() != Some(libc::ESRCH) => Err(StepError::Trace {
                call: "changing the new program's stack",
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Changes what the options ask for, before the program's first instruction.
    fn change_stack(&self, tid: i32) -> std::io::Result<()> {
        if self.at_random.is_none() && !self.hide_vdso {
            return Ok(());
        }
        let stack = sys::register(tid, Register::StackPointer)?;
        let keys = [libc::AT_RANDOM, libc::AT_SYSINFO_EHDR];
        let [random, vdso] = crate::auxv::entries(|at| sys::peek(tid, at), stack, keys)?;
        if let Some(bytes) = self.at_random
            && let Some((_, at)) = random
        {
            let [low, high] = [0, 8].map(|half| {
                let mut word = [0u8; 8];
                let from = bytes.iter().skip(half);
                word.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                u64::from_ne_bytes(word)
            });
            sys::poke(tid, at, low)?;
            sys::poke(tid, at.wrapping_add(8), high)?;
        }
        // Without one there is nothing to hide.
        if self.hide_vdso
            && let Some((entry, _)) = vdso
        {
            sys::poke(tid, entry, libc::AT_IGNORE)?;
        }
        Ok(())
    }

    fn ended(&mut self, tid: i32, exit: Exit) {
        if let Some(pid) = self.threads.ended(tid, exit) {
            self.watched.ended(pid);
        }
    }
}

/// Whether the stop that was waited for is over already: the thread was killed meanwhile (SIGKILL,
/// `exit_group` or `execve` of another thread) and is in its last stop, which will be reported. To go
/// on from here would lose that one, and with it the last instruction. The kernel describes a stop for
/// an event by `signal | event << 8`, one for a signal by the signal's code (ptrace(2)); a group stop
/// has no description.
fn is_over(code: Option<i32>, event: i32) -> bool {
    match code {
        Some(code) if code > 0xff => code >> 8 != event,
        Some(_) => event != 0,
        None => event != libc::PTRACE_EVENT_STOP,
    }
}

/// The process that a thread belongs to.
fn thread_group(tid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::is_over;

    #[test]
    fn a_stop_that_another_one_has_replaced_is_over() {
        let exit = libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8;
        let exec = libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8;
        assert!(is_over(Some(exit), 0) && is_over(Some(exit), libc::PTRACE_EVENT_CLONE));
        assert!(is_over(Some(exec), libc::PTRACE_EVENT_EXIT) && is_over(None, 0));
        assert!(!is_over(Some(exit), libc::PTRACE_EVENT_EXIT));
        assert!(!is_over(Some(exec), libc::PTRACE_EVENT_EXEC));
        // Signals: stepped, `tgkill`, of the kernel; group stops, with and without description.
        assert!(!is_over(Some(2), 0) && !is_over(Some(-6), 0) && !is_over(Some(0x80), 0));
        assert!(!is_over(None, libc::PTRACE_EVENT_STOP));
        let stop = libc::SIGTRAP | libc::PTRACE_EVENT_STOP << 8;
        assert!(!is_over(Some(stop), libc::PTRACE_EVENT_STOP));
    }
}
