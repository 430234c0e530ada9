//! What comes into the run from outside: everything but the content of regular files, arguments and environment, and what
//! is held constant. A run into which nothing came is the same again, with the same files, arguments and environment, of
//! which hashes are kept; of another one the table says what came, how often, and where first.
//!
//! Facts: `inode(7)` (types of files), Documentation/admin-guide/devices.txt (numbers of devices), `statfs(2)` (types of
//! file systems), `stat(2)`, `statx(2)` (places of `st_ctim` and `stx_ctime`), `clone(2)`.

mod descriptors;
mod files;
mod identity;
pub mod locks;
pub mod names;
mod places;

pub use files::follows;

use crate::inputs::{Inputs, kind};
use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{clock, machine, pids, program_memory, report, slots, sys, turns};
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::*};
use descriptors::{
    Concat, add_address, address_at, connects, hash_of, is_followed_socket, note_inherited, polls,
    reads, selects,
};
use files::{STAT, STATX, asked_for, opened};
use places::{count, name_of, note};

const FIFO: u32 = 0o010_000;

const CHARACTERS: u32 = 0o020_000;

const DIRECTORY: u32 = 0o040_000;

const REGULAR: u32 = 0o100_000;

const SOCKET: u32 = 0o140_000;

const CLONE_THREAD: u64 = 0x1_0000;

const CLONE_NEWPID: u64 = 0x2000_0000;

/// More bytes than the code of the dynamic loader has.
const LOADER_BYTES: u64 = 0x4_0000;

/// Where it begins, and its bytes.
static VDSO: AtomicU64 = AtomicU64::new(0);

static VDSO_BYTES: AtomicU64 = AtomicU64::new(0);

static LOADER: AtomicU64 = AtomicU64::new(0);

fn inputs() -> &'static Inputs {
    &slots::header().inputs
}

/// The program is about to restrict its own system calls, and would end for what is asked here. The run counts as open.
pub fn ends(context: &Context, number: u64) {
    note(context, kind::CALL, name_of(number));
    inputs().unseen.store(1, Release);
    pids::give_up();
}

/// Nothing may be asked any more.
fn has_ended() -> bool {
    inputs().unseen.load(Acquire) != 0
}

/// A new image begins. `stack`: its initial stack pointer; `ours`: a descriptor that is the runtime's.
pub fn start(stack: u64, ours: u64) {
    const AT_BASE: u64 = 7;
    const AT_SYSINFO_EHDR: u64 = 33;
    let word = |at: u64| program_memory::read::<u64>(at).ok_or(());
    for (key, place) in [(AT_SYSINFO_EHDR, &VDSO), (AT_BASE, &LOADER)] {
        if let Ok(Some(address)) = vector_entry(word, stack, key) {
            place.store(address, Relaxed);
        }
    }
    // The section headers are the end of the file: their offset, size and number (elf(5)).
    let vdso = VDSO.load(Relaxed);
    if vdso != 0
        && let Some(offset) = program_memory::read::<u64>(vdso + 0x28)
        && let Some([size, number]) = program_memory::read::<[u16; 2]>(vdso + 0x3a)
    {
        let bytes = offset + u64::from(size) * u64::from(number);
        VDSO_BYTES.store(bytes.next_multiple_of(0x1000), Relaxed);
    }
    let inputs = inputs();
    let own = sys::getpid();
    if inputs
        .last_pid
        .compare_exchange(0, own, AcqRel, Relaxed)
        .is_ok()
    {
        note_inherited(inputs, ours);
    }
    if !has_ended() {
        identity::program(word, stack, LOADER.load(Relaxed));
    }
}

/// The value of an entry of the auxiliary vector.
fn vector_entry(
    word: impl Fn(u64) -> Result<u64, ()>,
    stack: u64,
    key: u64,
) -> Result<Option<u64>, ()> {
    let mut at = stack.wrapping_add(8 * (word(stack)? + 2));
    while word(at)? != 0 {
        at = at.wrapping_add(8);
    }
    at = at.wrapping_add(8);
    loop {
        match word(at)? {
            0 => return Ok(None),
            found if found == key => return word(at.wrapping_add(8)).map(Some),
            _ => at = at.wrapping_add(16),
        }
    }
}

/// `struct stat`, as words.
fn stat_of(fd: u64) -> Option<[u64; 18]> {
    let mut stat = [0u64; 18];
    // SAFETY: fstat into struct stat's 144 bytes.
    let result = unsafe { sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then_some(stat)
}

fn type_of(stat: &[u64; 18]) -> u32 {
    stat[3] as u32 & 0o170_000
}

/// What a device gives; `None`: always the same.
fn device(stat: &[u64; 18]) -> Option<usize> {
    // Minor numbers above 255 are elsewhere: none of these.
    match (stat[5] >> 8 & 0xfff, stat[5] & 0xff) {
        (1, 3 | 5 | 7) => None,
        (1, 8 | 9) => Some(kind::RANDOM_DEVICE),
        _ => Some(kind::DEVICE),
    }
}

/// A call that the program is about to make.
pub fn before(context: &Context, number: u64, a: [u64; 6]) {
    if has_ended() {
        return;
    }
    let own_clock = || clock::answers(number, &a);
    let which = match number {
        nr::GETRANDOM if !machine::own_getrandom() => kind::GETRANDOM,
        nr::CLOCK_GETTIME | nr::GETTIMEOFDAY | nr::TIME | nr::TIMES | nr::GETRUSAGE
            if !own_clock() =>
        {
            kind::CLOCK
        }
        // With the times of children.
        nr::WAIT4 if a[3] != 0 && !clock::on() => kind::CLOCK,
        nr::WAITID if a[4] != 0 && !clock::on() => kind::CLOCK,
        nr::GETPID | nr::GETTID | nr::GETPPID | nr::GETPGRP | nr::GETPGID | nr::GETSID => kind::PID,
        nr::SYSINFO if !machine::on() => kind::MEMORY,
        nr::GETCPU if !machine::on() => kind::CPU,
        nr::SETITIMER | nr::ALARM | nr::TIMER_SETTIME | nr::TIMERFD_SETTIME if !turns::on() => {
            kind::TIMER
        }
        nr::SOCKET if !is_followed_socket(a) => kind::SOCKET,
        nr::ACCEPT | nr::ACCEPT4 => kind::ACCEPTED,
        nr::CONNECT => return connects(context, a),
        nr::POLL | nr::PPOLL => return polls(context, number, a),
        nr::SELECT | nr::PSELECT6 => return selects(context, number, a),
        nr::EPOLL_CTL => return reads(context, number, a[2]),
        nr::SENDFILE => return reads(context, number, a[1]),
        nr::IOCTL if !matches!(a[1], 0x5413 | 0x541b) => return,
        nr::READ
        | nr::PREAD64
        | nr::READV
        | nr::PREADV
        | nr::PREADV2
        | nr::RECVFROM
        | nr::RECVMSG
        | nr::RECVMMSG
        | nr::SPLICE
        | nr::TEE
        | nr::IOCTL => {
            return reads(context, number, a[0]);
        }
        nr::SYSLOG
        | nr::MINCORE
        | nr::CACHESTAT
        | nr::IO_SETUP
        | nr::IO_URING_SETUP
        | nr::INOTIFY_INIT
        | nr::INOTIFY_INIT1
        | nr::FANOTIFY_INIT
        | nr::USERFAULTFD
        | nr::SHMGET
        | nr::MSGGET
        | nr::SEMGET
        | nr::MQ_OPEN
        | nr::KEYCTL
        | nr::NAME_TO_HANDLE_AT => kind::CALL,
        _ => return,
    };
    note(context, which, name_of(number));
}

/// A call that is not looked at: `name` is all that is told of it.
pub fn note_call(context: &Context, name: &[u8]) {
    note(context, kind::CALL, name);
}

/// What a call gave that [`nr::is_followed`], or that opens or makes something.
pub fn after(context: &Context, number: u64, a: [u64; 6], result: i64) {
    if has_ended() {
        return;
    }
    // What is answered here says nothing of this machine.
    let asked = nr::path_argument(number).is_some() && !machine::answers(number, &a);
    match number {
        nr::OPENAT2 if result >= 0 => opened(context, result as u64, 0),
        nr::OPEN | nr::OPENAT if result >= 0 && asked => {
            let flags = if number == nr::OPEN { a[1] } else { a[2] };
            opened(context, result as u64, flags);
        }
        nr::GETDENTS | nr::GETDENTS64 if result > 0 => {
            identity::entries(number, a[1], result as u64);
        }
        nr::ACCESS | nr::FACCESSAT | nr::FACCESSAT2 | nr::READLINK | nr::READLINKAT if asked => {
            identity::looked_up(number, a, result);
        }
        nr::MKDIR | nr::RMDIR | nr::UNLINK if result < 0 => identity::missed(a[0], result),
        nr::MKDIRAT | nr::UNLINKAT if result < 0 => identity::missed(a[1], result),
        _ if asked && result < 0 => identity::looked_up(number, a, result),
        nr::STAT | nr::LSTAT if result == 0 => asked_for(context, number, a[0], a[1], &STAT),
        nr::NEWFSTATAT if result == 0 && a[3] & 0x1000 == 0 => {
            asked_for(context, number, a[1], a[2], &STAT);
        }
        nr::STATX if result == 0 && a[2] & 0x1000 == 0 => {
            asked_for(context, number, a[1], a[4], &STATX);
        }
        // (What is answered here as a whole is an error.)
        nr::STATFS | nr::FSTATFS if result == 0 && !machine::shows_space(a[1]) => {
            note(context, kind::FREE_SPACE, name_of(number));
        }
        nr::FLOCK | nr::FCNTL if locks::is_asked_once(number, &a) => {
            locks::asked(context, number, a, result);
        }
        nr::BIND if result == 0 => {
            if let Some(hash) = address_at(a[1], a[2]) {
                add_address(hash);
            }
        }
        nr::LISTEN if result == 0 => {
            let (mut bytes, mut length) = ([0u64; 16], 128u32);
            let to = [bytes.as_mut_ptr() as u64, &raw mut length as u64];
            // SAFETY: getsockname into locals.
            let named = unsafe { sys::call(nr::GETSOCKNAME, [a[0], to[0], to[1], 0, 0, 0]) };
            if named == 0 {
                add_address(hash_of(&bytes.map(u64::to_ne_bytes).concat_bytes(), length));
            }
        }
        nr::CLONE | nr::CLONE3 | nr::FORK | nr::VFORK if result > 0 => {
            made(context, number, a, result as u32);
        }
        _ => {}
    }
}

/// An instruction of the program at `pc`: the time stamp counter.
pub fn stamp(context: &Context, pc: u64) {
    // The loader takes the time for LD_DEBUG=statistics, in every program; nothing else comes of it.
    let loader = LOADER.load(Relaxed);
    let by_the_loader = loader != 0 && pc.wrapping_sub(loader) < LOADER_BYTES;
    if clock::on() || by_the_loader {
        return;
    }
    let which = if in_vdso(pc) { kind::VDSO } else { kind::TSC };
    note(context, which, b"rdtsc");
}

/// `rdrand`, `rdseed`.
pub fn random(context: &Context) {
    if !machine::own_random() {
        note(context, kind::RDRAND, b"rdrand");
    }
}

/// An instruction that needs a feature which is hidden is about to be executed.
pub fn hidden(name: &str) {
    // SAFETY: this thread's context, where the program's state is.
    let context = unsafe { &*slots::current() };
    note(context, kind::HIDDEN, name.as_bytes());
}

/// Whether an address is in the vDSO, which reads the clock.
pub fn in_vdso(pc: u64) -> bool {
    let base = VDSO.load(Relaxed);
    base != 0 && pc.wrapping_sub(base) < VDSO_BYTES.load(Relaxed)
}

/// Code of the vDSO is about to be executed: some of it reads the time without the time stamp counter.
pub fn enters_vdso(context: &Context) {
    if inputs().all[kind::VDSO].times.load(Relaxed) == 0 {
        note(context, kind::VDSO, b"vDSO");
    }
}

/// A signal that is no fault is about to be handled. `code`: who sent it, `sender`: the sender's PID.
pub fn signalled(signal: u32, code: i32, sender: u32) {
    const SIGALRM: u32 = 14;
    const SIGCHLD: u32 = 17;
    const TIMERS: [u32; 3] = [SIGALRM, 26, 27];
    const SI_TIMER: i32 = -2;
    let own = matches!(code, 0 | -1 | -6) && sender == sys::getpid();
    // The others are told of where they come from.
    if turns::on() || own || signal == SIGCHLD || code == SI_TIMER || TIMERS.contains(&signal) {
        return;
    }
    let mut text = report::Text::new();
    let _ = write!(text, "signal {signal}");
    count(kind::SIGNAL, text.bytes(), None);
}

/// A number that was to be given has somebody else.
pub fn number_taken() {
    count(kind::PID_GAP, b"clone3", None);
}

/// A thread or a process was made.
fn made(context: &Context, number: u64, a: [u64; 6], pid: u32) {
    let flags = match number {
        nr::CLONE => a[0],
        nr::CLONE3 => program_memory::read::<u64>(a[0]).unwrap_or(0),
        _ => 0,
    };
    if flags & CLONE_NEWPID == 0 && !pids::given() {
        let last = inputs().last_pid.fetch_max(pid, AcqRel);
        if pid != last.wrapping_add(1) {
            note(context, kind::PID_GAP, name_of(number));
            inputs().last_pid.store(pid, Release);
        }
    }
    if flags & CLONE_THREAD == 0 {
        note(context, kind::PID, name_of(number));
    }
    if !turns::on() {
        let which = match flags & CLONE_THREAD {
            0 => kind::PROCESSES,
            _ => kind::THREADS,
        };
        note(context, which, name_of(number));
    }
}
