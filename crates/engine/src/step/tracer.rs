//! The loop of a single-stepper: wait for any thread, decide whether an instruction retired, go on.

use super::launch::Tracee;
use super::sys::{self, Wait};
use super::{Exit, ProcessTotals, StepError, StepOptions, StepTotals, ThreadTotals, decode};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// `si_code` of a single step (`asm-generic/siginfo.h`).
const TRAP_BRKPT: i32 = 1;
const TRAP_TRACE: i32 = 2;

/// What is known of one thread.
struct Thread {
    pid: i32,
    /// Its place in the totals.
    slot: usize,
    /// The next instruction, not retired yet.
    pc: u64,
    /// It has not run since it was created (or since its program was started): the trap that
    /// reports the end of the system call that made it is not its own.
    fresh: bool,
    /// It runs the program (not the launcher's code before `execve`).
    counting: bool,
}

pub(super) struct Tracer<'a> {
    tracee: Option<Tracee>,
    options: StepOptions<'a>,
    threads: HashMap<i32, Thread>,
    /// Which process made a thread that has not been seen yet, by thread id.
    parents: HashMap<i32, i32>,
    totals: StepTotals,
    counted: u64,
    started: Instant,
    reported: Instant,
    root: i32,
    ending: bool,
}

impl<'a> Tracer<'a> {
    pub(super) fn new(tracee: Tracee, options: StepOptions<'a>) -> Self {
        let root = tracee.pid;
        let now = Instant::now();
        let mut tracer = Self {
            tracee: Some(tracee),
            options,
            threads: HashMap::new(),
            parents: HashMap::new(),
            totals: StepTotals {
                exit: Exit::Code(0),
                processes: Vec::new(),
                threads: Vec::new(),
                cancelled: false,
                timed_out: false,
            },
            counted: 0,
            started: now,
            reported: now,
            root,
            ending: false,
        };
        tracer.add(root, root, false);
        tracer
    }

    fn add(&mut self, tid: i32, pid: i32, counting: bool) {
        if !self
            .totals
            .processes
            .iter()
            .any(|p| p.pid == pid && p.exit.is_none())
        {
            self.totals.processes.push(ProcessTotals {
                pid,
                instructions: 0,
                exit: None,
            });
        }
        self.totals.threads.push(ThreadTotals {
            pid,
            tid,
            instructions: 0,
        });
        let slot = self.totals.threads.len() - 1;
        self.threads.insert(
            tid,
            Thread {
                pid,
                slot,
                pc: 0,
                fresh: true,
                counting,
            },
        );
    }

    pub(super) fn run(mut self) -> Result<StepTotals, StepError> {
        let mut ticks = 0_u32;
        loop {
            match sys::wait() {
                Ok((tid, what)) => self.handle(tid, what)?,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                Err(source) => {
                    return Err(StepError::Trace {
                        call: "waitpid",
                        source,
                    });
                }
            }
            ticks = ticks.wrapping_add(1);
            self.look_up(ticks);
        }
        if let Some(tracee) = self.tracee.take() {
            return Err(tracee.why_not_started());
        }
        for process in &mut self.totals.processes {
            process.instructions = 0;
        }
        // A process id can come back: a thread belongs to the newest process of its id so far.
        for i in 0..self.totals.threads.len() {
            let thread = self.totals.threads[i];
            if let Some(p) = self
                .totals
                .processes
                .iter_mut()
                .rev()
                .find(|p| p.pid == thread.pid)
            {
                p.instructions += thread.instructions;
            }
        }
        if let Some(exit) = self.totals.processes.first().and_then(|p| p.exit) {
            self.totals.exit = exit;
        }
        Ok(self.totals)
    }

    /// Cancellation, time limit and progress, looked at now and then.
    fn look_up(&mut self, ticks: u32) {
        if !self.ending
            && self
                .options
                .cancel
                .is_some_and(|c| c.load(Ordering::Relaxed))
        {
            self.totals.cancelled = true;
            self.kill_all();
        }
        if !ticks.is_multiple_of(1024) {
            return;
        }
        let now = Instant::now();
        if !self.ending
            && self
                .options
                .timeout
                .is_some_and(|limit| now - self.started > limit)
        {
            self.totals.timed_out = true;
            self.kill_all();
        }
        if now - self.reported > Duration::from_millis(100) {
            self.reported = now;
            if let Some(progress) = &mut self.options.progress {
                progress(self.counted);
            }
        }
    }

    fn kill_all(&mut self) {
        self.ending = true;
        for process in self.totals.processes.iter().filter(|p| p.exit.is_none()) {
            sys::kill(process.pid, libc::SIGKILL);
        }
    }

    fn handle(&mut self, tid: i32, what: Wait) -> Result<(), StepError> {
        let Wait::Stopped(signal, event) = what else {
            self.ended(tid, what);
            return Ok(());
        };
        if !self.threads.contains_key(&tid) {
            // A new thread can be seen before the event that announces it: /proc says whose it is.
            let pid = thread_group(tid)
                .or_else(|| self.parents.remove(&tid))
                .unwrap_or(tid);
            self.add(tid, pid, true);
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
        let pc = sys::program_counter(tid).map_err(trace("PTRACE_PEEKUSER"))?;
        let mut deliver = 0;
        match event {
            0 if signal == libc::SIGTRAP => match sys::signal_code(tid) {
                Some(TRAP_TRACE) => self.stepped(tid, pc),
                Some(TRAP_BRKPT) => self.system_call_done(tid, pc),
                // `ptrace_notify`: the first instruction of a signal handler comes next.
                Some(libc::SIGTRAP) => self.moved(tid, pc),
                _ => {
                    self.before_signal(tid, pc);
                    deliver = signal;
                }
            },
            0 => {
                self.before_signal(tid, pc);
                deliver = signal;
            }
            libc::PTRACE_EVENT_STOP => {
                // Ordered before its first instruction, or a group stop.
                self.before_signal(tid, pc);
                if matches!(
                    signal,
                    libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
                ) {
                    sys::ptrace(libc::PTRACE_LISTEN, tid, 0, 0).map_err(trace("PTRACE_LISTEN"))?;
                    return Ok(());
                }
            }
            libc::PTRACE_EVENT_EXEC => self.executed(tid, pc),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                if let (Ok(child), Some(thread)) = (sys::event_message(tid), self.threads.get(&tid))
                    && let Ok(child) = i32::try_from(child)
                {
                    self.parents.insert(child, thread.pid);
                }
            }
            libc::PTRACE_EVENT_EXIT => self.exiting(tid, pc),
            _ => {}
        }
        let counting = self.threads.get(&tid).is_some_and(|t| t.counting);
        let (call, request) = if counting && event != libc::PTRACE_EVENT_EXIT {
            ("PTRACE_SINGLESTEP", libc::PTRACE_SINGLESTEP)
        } else {
            ("PTRACE_CONT", libc::PTRACE_CONT)
        };
        let data = usize::try_from(deliver).unwrap_or(0);
        sys::ptrace(request, tid, 0, data).map_err(trace(call))?;
        Ok(())
    }

    /// A plain step: the instruction at the old program counter retired, unless it is a repeated
    /// string instruction on its way.
    fn stepped(&mut self, tid: i32, pc: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if thread.pc == pc && !thread.fresh {
            let mut bytes = [0; 15];
            let n = sys::read_memory(tid, pc, &mut bytes);
            if decode::is_repeated_string(bytes.get(..n).unwrap_or(&[])) {
                return;
            }
        }
        thread.fresh = false;
        self.count(tid, pc);
    }

    /// A step over a system call is reported when the call returns: it retired, also when a signal
    /// makes it run again (it retires again then). In a new thread or program the call was not its own.
    fn system_call_done(&mut self, tid: i32, pc: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if thread.fresh {
            thread.fresh = false;
            thread.pc = pc;
        } else {
            self.count(tid, pc);
        }
    }

    /// The program counter changed without an instruction: a signal handler was entered.
    fn moved(&mut self, tid: i32, pc: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.pc = pc;
        }
    }

    /// Stopped for a signal: the instruction at the program counter has not run. Before a thread's
    /// first step, that is where it begins.
    fn before_signal(&mut self, tid: i32, pc: u64) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && (thread.fresh || !thread.counting)
        {
            thread.pc = pc;
        }
    }

    /// `execve` succeeded. In the former program its `syscall` retired; in the new one nothing has.
    fn executed(&mut self, tid: i32, pc: u64) {
        // A thread that is not the leader takes the leader's id (ptrace(2), "execve(2) under ptrace").
        let former = sys::event_message(tid)
            .ok()
            .and_then(|t| i32::try_from(t).ok())
            .unwrap_or(tid);
        if former != tid
            && let Some(thread) = self.threads.remove(&former)
        {
            self.threads.insert(tid, thread);
        }
        let counting = self.threads.get(&tid).is_some_and(|t| t.counting);
        if counting {
            self.count(tid, pc);
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.counting = true;
            thread.fresh = true;
            thread.pc = pc;
        }
        if tid == self.root {
            self.tracee = None; // it has started
        }
    }

    /// Last stop of a thread. The exiting (or interrupted) system call moved the program counter
    /// past itself and retired; a thread killed between instructions did not move.
    fn exiting(&mut self, tid: i32, pc: u64) {
        if self
            .threads
            .get(&tid)
            .is_some_and(|t| t.counting && !t.fresh && t.pc != pc)
        {
            self.count(tid, pc);
        }
    }

    fn count(&mut self, tid: i32, next: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let retired = std::mem::replace(&mut thread.pc, next);
        if let Some(total) = self.totals.threads.get_mut(thread.slot) {
            total.instructions += 1;
        }
        self.counted += 1;
        if let Some(observer) = &mut self.options.retired {
            observer(tid, retired);
        }
    }

    fn ended(&mut self, tid: i32, what: Wait) {
        self.threads.remove(&tid);
        let exit = match what {
            Wait::Exited(code) => Exit::Code(code),
            Wait::Killed(signal) => Exit::Signal(signal),
            Wait::Stopped(..) => return,
        };
        if let Some(process) = self
            .totals
            .processes
            .iter_mut()
            .rev()
            .find(|p| p.pid == tid)
        {
            process.exit.get_or_insert(exit);
        }
    }
}

/// The process that a thread belongs to.
fn thread_group(tid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}
