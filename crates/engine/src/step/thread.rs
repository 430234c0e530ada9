//! What each thread has retired: the rules of counting, and the ledger.

use super::decode::{Kind, classify, may_stay};
use super::sys::{self, Register};
use super::{Exit, ProcessTotals, ThreadTotals};
use std::collections::HashMap;

/// Called with the thread id and the address of every retired instruction.
pub(super) type Observer<'a> = Option<&'a mut (dyn FnMut(i32, u64) + Send)>;

/// The trap flag in RFLAGS, which stepping sets and `pushf` would show.
const TRAP_FLAG: u64 = 1 << 8;
/// Addresses known to hold nothing special, per process (direct-mapped).
const PLAIN_SLOTS: usize = 1 << 14;

/// What is known of one thread.
pub(super) struct Thread {
    pub(super) pid: i32,
    /// Its place in the totals, and its process's.
    slot: usize,
    process: usize,
    /// The next instruction, not retired yet.
    pc: u64,
    /// It has not been seen stopped since it was created, so `pc` is not known.
    born: bool,
    /// The next report of a finished system call is that of the `execve` that started this program.
    executing: bool,
    /// The next system call is one that the kernel runs again because of a signal that, untraced,
    /// would have been thrown away.
    forgiven: bool,
    /// Address of the repeated string instruction it is in.
    repeating: u64,
    /// It runs the program (not the launcher's code before `execve`).
    pub(super) counting: bool,
}

/// All threads and their counts.
pub(super) struct Threads<'a> {
    live: HashMap<i32, Thread>,
    /// Which process made a thread that has not been seen yet, by thread id.
    parents: HashMap<i32, i32>,
    pub(super) totals: Vec<ThreadTotals>,
    pub(super) processes: Vec<ProcessTotals>,
    /// For each process, addresses whose instructions are plain.
    plain: Vec<Vec<u64>>,
    pub(super) counted: u64,
    /// Children that were made so that nobody may trace them.
    pub(super) unfollowed: u32,
    observer: Observer<'a>,
}

impl<'a> Threads<'a> {
    pub(super) fn new(observer: Observer<'a>) -> Self {
        Self {
            live: HashMap::new(),
            parents: HashMap::new(),
            totals: vec![],
            processes: vec![],
            plain: vec![],
            counted: 0,
            unfollowed: 0,
            observer,
        }
    }

    pub(super) fn knows(&self, tid: i32) -> bool {
        self.live.contains_key(&tid)
    }

    pub(super) fn get(&mut self, tid: i32) -> Option<&mut Thread> {
        self.live.get_mut(&tid)
    }

    pub(super) fn alive(&self) -> usize {
        self.live.len()
    }

    /// A thread will come that `parent` has made.
    pub(super) fn announce(&mut self, tid: i32, parent: i32) {
        if let (false, Some(parent)) = (self.knows(tid), self.live.get(&parent)) {
            self.parents.insert(tid, parent.pid);
        }
    }

    /// Whose thread was announced by this id, if any was.
    pub(super) fn forget_parent(&mut self, tid: i32) -> Option<i32> {
        self.parents.remove(&tid)
    }

    /// A new thread; says whether its process is new too.
    pub(super) fn add(&mut self, tid: i32, pid: i32) -> bool {
        let known = self
            .processes
            .iter()
            .rposition(|p| p.pid == pid && p.exit.is_none());
        let process = known.unwrap_or_else(|| {
            self.processes.push(ProcessTotals {
                pid,
                instructions: 0,
                exit: None,
            });
            self.plain.push(vec![]);
            self.processes.len() - 1
        });
        self.totals.push(ThreadTotals {
            pid,
            tid,
            instructions: 0,
        });
        let thread = Thread {
            pid,
            slot: self.totals.len() - 1,
            process,
            pc: 0,
            born: true,
            executing: false,
            forgiven: false,
            repeating: 0,
            counting: false,
        };
        self.live.insert(tid, thread);
        known.is_none()
    }

    /// A plain step: the instruction at the old program counter retired, unless that is where the thread still is and
    /// the instruction cannot lead to itself: a repeated string instruction or a gather on its way.
    pub(super) fn stepped(&mut self, tid: i32, next: u64) {
        let Some(thread) = self.live.get(&tid) else {
            return;
        };
        let old = thread.pc;
        if old == next && thread.repeating == next {
            return;
        }
        match self.kind(tid, old, old != next) {
            Kind::RepeatedString if old == next => {
                if let Some(thread) = self.live.get_mut(&tid) {
                    thread.repeating = next;
                }
                return;
            }
            Kind::Plain | Kind::PushFlags | Kind::LoadStack(_) if old == next => {
                let (bytes, length) = sys::code(tid, old);
                if !may_stay(bytes.get(..length).unwrap_or(&[])) {
                    return;
                }
            }
            Kind::PushFlags => hide_trap_flag(tid),
            // Its trap came after the instruction behind it, unless that one is still repeating.
            Kind::LoadStack(length) if next != old.wrapping_add(length) => {
                self.count(tid, old.wrapping_add(length));
            }
            _ => {}
        }
        self.count(tid, next);
        self.before_call(tid, next);
    }

    /// The system calls that stepping must know beforehand; a thread killed meanwhile makes none.
    fn before_call(&mut self, tid: i32, next: u64) {
        if self.live.get(&tid).is_none_or(|thread| !thread.counting)
            || self.kind(tid, next, true) != Kind::SystemCall
        {
            return;
        }
        let Ok(number) = sys::register(tid, Register::Result) else {
            return;
        };
        match i64::try_from(number) {
            // A restartable sequence would be aborted at every step (`rseq_handle_notify_resume` in
            // `kernel/rseq.c`) and never end: programs that have some find a kernel without, as under the virtual PMU.
            Ok(libc::SYS_rseq) if crate::restartable::has_sequences(tid) => {
                drop(sys::make_unknown_call(tid));
            }
            Ok(call @ (libc::SYS_clone | libc::SYS_clone3)) => {
                let flags = sys::register(tid, Register::Argument).and_then(|first| match call {
                    libc::SYS_clone => Ok(first),
                    _ => sys::peek(tid, first), // struct clone_args begins with them
                });
                let untraced = u64::from(libc::CLONE_UNTRACED.cast_unsigned());
                self.unfollowed += u32::from(flags.is_ok_and(|flags| flags & untraced != 0));
            }
            _ => {}
        }
    }

    /// A step over a system call is reported when the call returns: it retired, also when a signal
    /// makes it run again (it retires again then).
    pub(super) fn system_call_done(&mut self, tid: i32, next: u64) {
        let Some(thread) = self.live.get_mut(&tid) else {
            return;
        };
        let old = thread.pc;
        if std::mem::take(&mut thread.executing) || std::mem::take(&mut thread.forgiven) {
            thread.pc = next;
            return;
        }
        if old == next {
            // Run again by the kernel, which moved the program counter back over it.
            thread.pc = old.wrapping_sub(2);
        } else if let Kind::LoadStack(length) = self.kind(tid, old, true) {
            self.count(tid, old.wrapping_add(length));
        }
        self.count(tid, next);
    }

    /// The program counter changed without an instruction: a signal handler was entered. It may
    /// have blocked SIGTRAP; the next step would then force the signal through and reset what the
    /// program does on it (`force_sig_info_to_task` in `kernel/signal.c`).
    pub(super) fn entered_handler(&mut self, tid: i32, pc: u64) {
        if let Some(thread) = self.live.get_mut(&tid) {
            thread.pc = pc;
            thread.forgiven = false;
            thread.born = false;
        }
        // A thread killed meanwhile has no mask to repair.
        let _ = sys::unblock_trap(tid);
    }

    /// Stopped for a signal: the instruction at the program counter has not run. What has moved it
    /// there without a report of its own is a trap instruction, or a load of `ss` whose follower
    /// faulted.
    pub(super) fn before_signal(&mut self, tid: i32, pc: u64, signal: i32) {
        self.waits(tid, pc);
        let Some(thread) = self.live.get_mut(&tid) else {
            return;
        };
        let old = thread.pc;
        thread.forgiven = will_restart(tid) && is_ignored(thread, tid, signal);
        if thread.counting
            && old != pc
            && let Kind::Trap(length) | Kind::LoadStack(length) = self.kind(tid, old, true)
            && old.wrapping_add(length) == pc
        {
            self.count(tid, pc);
        }
    }

    /// Stopped for something else. Before a thread's first step, that is where it begins.
    pub(super) fn waits(&mut self, tid: i32, pc: u64) {
        if let Some(thread) = self.live.get_mut(&tid)
            && (thread.born || !thread.counting)
        {
            thread.pc = pc;
            thread.born = false;
        }
    }

    /// `execve` succeeded. In the former program its `syscall` retired; in the new one nothing has.
    /// The thread that called it was `former`, and has its process's id now.
    pub(super) fn executed(&mut self, tid: i32, former: i32, pc: u64) {
        if former != tid
            && let Some(thread) = self.live.remove(&former)
        {
            self.live.insert(tid, thread);
        }
        if self.live.get(&tid).is_some_and(|t| t.counting) {
            self.count(tid, pc);
        }
        if let Some(thread) = self.live.get_mut(&tid) {
            thread.counting = true;
            thread.executing = true;
            thread.born = false;
            thread.pc = pc;
            if let Some(plain) = self.plain.get_mut(thread.process) {
                plain.clear();
            }
        }
    }

    /// Last stop of a thread. The exiting (or interrupted) system call moved the program counter
    /// past itself and retired; a thread killed between instructions did not move.
    pub(super) fn exiting(&mut self, tid: i32, pc: u64) {
        let moved = |t: &Thread| t.counting && !t.born && !t.executing && t.pc != pc;
        if self.live.get(&tid).is_some_and(moved) {
            self.count(tid, pc);
        }
    }

    /// A thread is gone; gives its process when that is gone with it.
    pub(super) fn ended(&mut self, tid: i32, exit: Exit) -> Option<i32> {
        self.parents.remove(&tid);
        let thread = self.live.remove(&tid)?;
        if thread.pid != tid {
            return None;
        }
        if let Some(plain) = self.plain.get_mut(thread.process) {
            *plain = vec![];
        }
        self.processes
            .get_mut(thread.process)?
            .exit
            .get_or_insert(exit);
        Some(tid)
    }

    /// The instruction at the thread's program counter retired; `next` is the next one.
    fn count(&mut self, tid: i32, next: u64) {
        let Some(thread) = self.live.get_mut(&tid) else {
            return;
        };
        let retired = std::mem::replace(&mut thread.pc, next);
        thread.repeating = 0;
        if let Some(total) = self.totals.get_mut(thread.slot) {
            total.instructions += 1;
        }
        if let Some(total) = self.processes.get_mut(thread.process) {
            total.instructions += 1;
        }
        self.counted += 1;
        if let Some(observer) = &mut self.observer {
            observer(tid, retired);
        }
    }

    /// What is special about the instruction at an address. Plain ones are remembered and believed
    /// `from_memory`; a program that rewrites one into `mov ss`, `pushf` or a trap is not noticed.
    fn kind(&mut self, tid: i32, address: u64, from_memory: bool) -> Kind {
        let Some(thread) = self.live.get(&tid) else {
            return Kind::Plain;
        };
        let Some(plain) = self.plain.get_mut(thread.process) else {
            return Kind::Plain;
        };
        if plain.is_empty() {
            plain.resize(PLAIN_SLOTS, 0);
        }
        let slot = plain.get_mut((address ^ address >> 14) as usize % PLAIN_SLOTS);
        if from_memory && address != 0 && slot.as_ref().is_some_and(|s| **s == address) {
            return Kind::Plain;
        }
        let (bytes, length) = sys::code(tid, address);
        let kind = classify(bytes.get(..length).unwrap_or(&[]));
        if let (Kind::Plain, Some(slot), true) = (kind, slot, length > 0) {
            *slot = address;
        }
        kind
    }
}

/// Clears the trap flag in the flags that `pushf` has just stored: the program did not set it.
fn hide_trap_flag(tid: i32) {
    // A thread killed meanwhile has no stack to repair.
    if let Ok(sp) = sys::register(tid, Register::StackPointer)
        && let Ok(word) = sys::peek(tid, sp)
        && word & TRAP_FLAG != 0
    {
        let _ = sys::poke(tid, sp, word & !TRAP_FLAG);
    }
}

/// Whether the thread is on its way out of a system call that the kernel will run again
/// (`-ERESTARTSYS` and its kin, `linux/errno.h`).
fn will_restart(tid: i32) -> bool {
    let read = |r| sys::register(tid, r).map(u64::cast_signed);
    matches!(read(Register::Result), Ok(-516 | -514 | -513 | -512))
        && read(Register::SystemCall).is_ok_and(|n| n >= 0)
}

/// Whether a signal would have been thrown away if nobody were tracing: it is ignored, or its
/// default is to do nothing (`sig_kernel_ignore` in `linux/signal.h`).
fn is_ignored(thread: &Thread, tid: i32, signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/task/{tid}/status", thread.pid))
    else {
        return false;
    };
    let bit = 1u64
        .checked_shl(signal.wrapping_sub(1).cast_unsigned())
        .unwrap_or(0);
    let has = |name: &str| {
        let mask = status.lines().find_map(|l| l.strip_prefix(name))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? & bit != 0)
    };
    let by_default = matches!(
        signal,
        libc::SIGCONT | libc::SIGCHLD | libc::SIGWINCH | libc::SIGURG
    );
    has("SigIgn:").unwrap_or(false) || by_default && has("SigCgt:") == Some(false)
}
