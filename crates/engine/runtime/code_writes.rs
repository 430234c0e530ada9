//! Code that system calls write: no fault tells of it, so what was translated from there is dropped after
//! the call, and compared with the new bytes when it is executed again.
//!
//! Writes to memory by its file (`/proc/PID/mem`) and to files whose pages are executed are looked for once the
//! program has opened such a file, or executes pages that can be written elsewhere (*armed*): then every call
//! comes to the runtime, as with watched pages. A write to the memory of another process of the run is told to
//! that process by a signal that only the runtime sees. What it cannot tell it admits (`Header::unseen_writes`).

use crate::action::SIGILL;
use crate::engine::{self, Engine};
use crate::fault_signals::send_again;
use crate::frames::Info;
use crate::layout::{Context, RUNTIME_BASE, state as slot_state};
use crate::own_memory::is_engines;
use crate::pages::{arm, is_armed};
use crate::slots::{self, slot};
use crate::syscall_table as nr;
use crate::{cache, cache_file, program_memory, schedule, sys, unfollowed};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// Memory files that the program opened for writing: inode, process (0: not of this run, or unknown).
static MEMORY_FILES: [[AtomicU64; 2]; 16] = [const { [const { AtomicU64::new(0) }; 2] }; 16];
static MEMORY_COUNT: AtomicU64 = AtomicU64::new(0);

const O_ACCMODE: u64 = 3;
/// Inodes are compared as far as the list of mappings keeps them.
const INODE: u64 = (1 << 40) - 1;
const EFAULT: i64 = 14;
/// Whether a call opens memory by its file, for writing.
pub fn opens_memory(number: u64, a: [u64; 6]) -> bool {
    let (path, flags) = if number == nr::OPEN {
        (a[0], a[1])
    } else {
        (a[1], a[2])
    };
    if flags & O_ACCMODE == 0 {
        return false;
    }
    // "/proc/", at most twice a number and "task", "mem".
    let mut last = [0u8; 4];
    for at in 0..64u64 {
        match program_memory::read::<u8>(path.wrapping_add(at)) {
            Some(0) => break,
            Some(byte) => {
                last.rotate_left(1);
                last[3] = byte;
            }
            None => return false,
        }
    }
    last == *b"/mem" || last == *b"\0mem"
}

/// open and openat, after the kernel has opened `fd`.
pub fn opened(number: u64, a: [u64; 6], fd: i64) {
    /// Of `statfs`: the file system `proc`.
    const PROC: u64 = 0x9fa0;
    if fd < 0 || !opens_memory(number, a) {
        return;
    }
    let mut system = [0u64; 15];
    // SAFETY: fstatfs into struct statfs's 120 bytes.
    let known = unsafe {
        sys::call(
            nr::FSTATFS,
            [fd as u64, system.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    if known != 0 || system[0] != PROC {
        return;
    }
    let Some(inode) = inode_of(fd as u64) else {
        return;
    };
    let path = if number == nr::OPEN { a[0] } else { a[1] };
    let at = MEMORY_COUNT.fetch_add(1, AcqRel) as usize % MEMORY_FILES.len();
    let [place, process] = &MEMORY_FILES[at];
    process.store(u64::from(process_of(path)), Relaxed);
    place.store(inode, Release);
    arm();
}

/// The process in a path of `/proc`; 0: not known.
fn process_of(path: u64) -> u32 {
    let mut text = [0u8; 32];
    for (at, place) in text.iter_mut().enumerate() {
        match program_memory::read::<u8>(path.wrapping_add(at as u64)) {
            Some(byte) if byte != 0 => *place = byte,
            _ => break,
        }
    }
    let Some(rest) = text.strip_prefix(b"/proc/") else {
        return 0;
    };
    if rest.starts_with(b"self/") || rest.starts_with(b"thread-self/") {
        return sys::getpid();
    }
    let digits = rest.iter().take_while(|b| b.is_ascii_digit());
    let id = digits.fold(0u32, |id, digit| {
        id.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
    });
    owner_of(id).unwrap_or(0)
}

fn inode_of(fd: u64) -> Option<u64> {
    let mut stat = [0u64; 18];
    // SAFETY: fstat into struct stat's 144 bytes.
    let result = unsafe { sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then_some(stat[1] & INODE)
}

/// The descriptor that a call writes to.
fn written(number: u64, a: [u64; 6]) -> u64 {
    match number {
        nr::SPLICE | nr::COPY_FILE_RANGE => a[2],
        _ => a[0],
    }
}

/// What a call writes to, if that may be code.
enum Target {
    /// The memory of a process (0: unknown), by its file.
    Memory(u64),
    /// A file with this inode.
    File(u64),
}

fn target(number: u64, a: [u64; 6]) -> Option<Target> {
    if !is_armed() {
        return None;
    }
    let inode = inode_of(written(number, a))?;
    let memory = MEMORY_FILES
        .iter()
        .find(|[known, _]| known.load(Acquire) == inode && inode != 0);
    if let Some([_, process]) = memory {
        return Some(Target::Memory(process.load(Relaxed)));
    }
    let executed = engine::lock().pages.executes_file(inode);
    executed.then_some(Target::File(inode))
}

/// Whether a call that writes to a descriptor may write code.
pub fn concerns(number: u64, a: [u64; 6]) -> bool {
    target(number, a).is_some()
}

/// A write to a descriptor that may write code.
pub fn write(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    let target = target(number, a);
    let fd = written(number, a);
    let offset = match number {
        nr::PWRITE64 | nr::PWRITEV | nr::PWRITEV2 if a[3] != u64::MAX => a[3],
        // SAFETY: lseek asks for the position only.
        _ => unsafe { sys::call(nr::LSEEK, [fd, 0, 1, 0, 0, 0]) as u64 },
    };
    if let Some(Target::Memory(_)) = target
        && is_engines(offset, offset.saturating_add(1))
    {
        return -EFAULT;
    }
    // SAFETY: as the program made it.
    let result = unsafe { sys::call(number, a) };
    if result > 0 || number == nr::FTRUNCATE || number == nr::FALLOCATE {
        match target {
            Some(Target::Memory(process)) if process == u64::from(context.pid) => {
                changed(offset, result as u64);
            }
            Some(Target::Memory(process)) => elsewhere(context, owner_of(process as u32)),
            Some(Target::File(inode)) => {
                let mut engine = engine::lock();
                let Engine { cache, pages, .. } = &mut *engine;
                pages.file_written(cache, inode, cache_file::wrote);
                drop(engine);
                // Whoever else executes it cannot be told.
                if others() {
                    unseen();
                }
            }
            None => {}
        }
    }
    result
}

/// process_vm_writev, and ptrace.
pub fn remote(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    if number == nr::PTRACE {
        // SAFETY: as the program made it.
        let result = unsafe { sys::call(number, a) };
        // PTRACE_POKETEXT, PTRACE_POKEDATA
        if result == 0 && matches!(a[0], 4 | 5) && owner_of(a[1] as u32).is_some() {
            unseen();
        }
        // PTRACE_POKEUSR, PTRACE_SETREGS, PTRACE_SETFPREGS, PTRACE_SETREGSET, PTRACE_SET_SYSCALL_INFO
        let registers = matches!(a[0], 6 | 13 | 15 | 0x4205 | 0x4212);
        if result == 0 && registers && owner_of(a[1] as u32).is_some() {
            unfollowed::note(b"ptrace changed registers of a process of the run");
        }
        return result;
    }
    let own = a[0] as u32 == context.pid || owner_of(a[0] as u32) == Some(context.pid);
    let ranges = (0..a[4].min(1024))
        .map_while(|at| program_memory::read::<[u64; 2]>(a[3].wrapping_add(at * 16)));
    if own
        && ranges
            .clone()
            .any(|[at, len]| is_engines(at, at.saturating_add(len)))
    {
        return -EFAULT;
    }
    if own {
        ranges.clone().for_each(|[at, len]| {
            let mut engine = engine::lock();
            let Engine { cache, pages, .. } = &mut *engine;
            pages.open(cache, at, len);
        });
        // SAFETY: as the program made it; not our memory.
        let result = unsafe { sys::call(number, a) };
        ranges.for_each(|[at, len]| changed(at, len));
        return result;
    }
    // Its watched pages refuse the write: it opens them, but may watch them again if it executes them meanwhile.
    let wanted = ranges.fold(0u64, |sum, [_, len]| sum.saturating_add(len));
    let receiver = owner_of(a[0] as u32);
    let mut result = 0;
    for _ in 0..TRIES {
        elsewhere(context, receiver);
        // SAFETY: as the program made it.
        result = unsafe { sys::call(number, a) };
        let short = result == -EFAULT || (0..wanted as i64).contains(&result);
        if receiver.is_none() || !short {
            break;
        }
    }
    if result > 0 {
        elsewhere(context, receiver);
    }
    result
}

/// These bytes of the program may be others now.
fn changed(at: u64, len: u64) {
    let mut engine = engine::lock();
    let Engine { cache, pages, .. } = &mut *engine;
    pages.written(cache, at, at.saturating_add(len));
    cache_file::wrote(at, at.saturating_add(len));
}

/// Code may have been written that somebody goes on executing as it was.
fn unseen() {
    slots::header().unseen_writes.fetch_add(1, Relaxed);
}

/// Slots of live threads, but for the caller's process.
fn live() -> impl Iterator<Item = slots::Slot> {
    let end = slots::header().next_slot.load(Acquire);
    (1..end)
        .map(slot)
        .filter(|slot| slot.state().load(Acquire) == slot_state::LIVE)
}

/// The process of a live thread of the run that the engine executes.
fn owner_of(thread: u32) -> Option<u32> {
    live()
        .find(|slot| slot.tid() == thread || slot.pid() == thread)
        .map(slots::Slot::pid)
        .filter(|&pid| has_engine(pid))
}

/// Whether a process has the engine in its memory: a program that was executed while somebody traced it goes on natively,
/// under the number of one that had.
fn has_engine(pid: u32) -> bool {
    let mut word = 0u64;
    let here = [&raw mut word as u64, 8];
    let there = [RUNTIME_BASE, 8];
    let of = [&here, &there].map(|range| range.as_ptr() as u64);
    // SAFETY: process_vm_readv of one word into a local. Who may not read there may not write either.
    let got = unsafe { sys::call(nr::PROCESS_VM_READV, [pid.into(), of[0], 1, of[1], 1, 0]) };
    got == 8
}

/// Whether other processes of the run are there.
fn others() -> bool {
    let own = sys::getpid();
    live().any(|slot| slot.pid() != own)
}

/// `si_code` of the runtime's own message; the kernel's are none below -7.
const MESSAGE: i32 = -0x7463;
/// How often a write is made that the other process's watched pages refuse.
const TRIES: u32 = 4;
/// Tenths of a second that an answer is waited for.
const PATIENCE: u32 = 20;

/// Whether a process is stopped in an `execve`, as its tracer sees it there.
fn is_replaced(process: u32) -> bool {
    let threads = live().filter(|slot| slot.pid() == process);
    let mut calls = threads.map(cache::call_of);
    calls.any(|call| matches!(call, Some(nr::EXECVE | nr::EXECVEAT)))
}

/// The memory of another process was written: it drops what it translated from there.
fn elsewhere(context: &Context, process: Option<u32>) {
    let Some(process) = process else {
        // A program that runs natively, or unknown.
        return;
    };
    let Some(receiver) = live().find(|slot| slot.pid() == process) else {
        return;
    };
    // What it has in memory is over, and the message would end the program that follows, or be none of its own.
    if is_replaced(process) {
        return;
    }
    let seen = slots::slot(slots::slot_of(context)).told().load(Acquire);
    let info = Info::message(SIGILL, MESSAGE, u64::from(slots::slot_of(context)));
    let to = [
        u64::from(process),
        u64::from(receiver.tid()),
        u64::from(SIGILL),
    ];
    // SAFETY: rt_tgsigqueueinfo with a whole siginfo; the receiver's runtime takes it for itself.
    let sent = unsafe {
        sys::call(
            nr::RT_TGSIGQUEUEINFO,
            [to[0], to[1], to[2], core::ptr::from_ref(&info) as u64, 0, 0],
        )
    };
    let told = slots::slot(slots::slot_of(context)).told();
    // Its tracer has stopped it: it answers when that one lets it go on.
    let stands = matches!(schedule::kernel_state(process, receiver.tid()), b'T' | b't');
    for _ in 0..if stands { 0 } else { PATIENCE } {
        if sent != 0 || told.load(Acquire) != seen {
            break;
        }
        sys::futex_wait(told, seen, 100);
    }
    if sent != 0 || told.load(Acquire) == seen {
        unseen();
    }
}

/// Whether a signal is the message that this process's memory was written.
pub fn is_message(signal: u32, info: &Info) -> bool {
    signal == SIGILL && info.code == MESSAGE
}

/// A message came to the runtime, and is pending.
static PUT_OFF: AtomicBool = AtomicBool::new(false);

pub fn put_off() {
    PUT_OFF.store(true, Relaxed);
}

/// Takes the messages that are pending (all signals are blocked). Whether some were, and nothing else is that `mask` lets
/// in. (Without one nothing is asked: a filter may forbid it.)
pub fn take_pending(mask: u64) -> bool {
    if !PUT_OFF.swap(false, Relaxed) {
        return false;
    }
    let (set, no_time) = (1u64 << (SIGILL - 1), [0u64; 2]);
    let mut words = [0u64; 16];
    let arguments = [
        &raw const set as u64,
        &raw mut words as u64,
        &raw const no_time as u64,
        8,
        0,
        0,
    ];
    // SAFETY: rt_sigtimedwait without waiting; all three point to locals.
    while unsafe { sys::call(nr::RT_SIGTIMEDWAIT, arguments) } == i64::from(SIGILL) {
        // SAFETY: `Info` is as large, and any bytes are one.
        let info = unsafe { &*words.as_ptr().cast::<Info>() };
        if is_message(SIGILL, info) {
            take_message(info);
        } else {
            send_again(SIGILL, info);
            return false;
        }
    }
    let mut pending = 0u64;
    // SAFETY: rt_sigpending into a local.
    unsafe { sys::call(nr::RT_SIGPENDING, [&raw mut pending as u64, 8, 0, 0, 0, 0]) };
    pending & !mask == 0
}

/// Takes the message: everything is compared when it is executed again.
pub fn take_message(info: &Info) {
    {
        let mut engine = engine::lock();
        let Engine { cache, pages, .. } = &mut *engine;
        pages.open_all(cache);
        pages.written(cache, 0, 1 << 47);
        cache_file::wrote(0, 1 << 47);
    }
    let told = slots::slot(info.value() as u32).told();
    told.fetch_add(1, AcqRel);
    sys::futex_wake(told);
}
