//! What came into a run from outside, as launcher and runtime share it: how often, from which kind of source, and where
//! first. `core` only.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Bytes of a file's name.
pub const NAME: usize = 128;
/// Bytes of what else is known of the first time.
pub const DETAIL: usize = 96;

/// A place in code. All zero: not known.
#[repr(C)]
pub struct Place {
    /// Offset in the file.
    pub offset: AtomicU64,
    /// The mapped file, zero-terminated.
    pub file: [AtomicU8; NAME],
}

/// What came from one kind of source.
#[repr(C)]
pub struct Input {
    /// How often.
    pub times: AtomicU64,
    /// Not 0 once the rest is being written.
    pub claimed: AtomicU32,
    /// Not 0 once the rest is there.
    pub known: AtomicU32,
    /// What it was the first time.
    pub detail: [AtomicU8; DETAIL],
    /// Where: the instruction.
    pub place: Place,
    /// Who called the library that this is in.
    pub caller: Place,
}

macro_rules! kinds {
    ($($name:ident = $number:literal: $word:literal;)*) => {
        /// Kinds of sources: places in the table.
        pub mod kind {
            $(#[doc = $word] pub const $name: usize = $number;)*
        }
        /// Their names, as documents have them.
        pub const NAMES: &[&str] = &[$($word),*];
    };
}

kinds! {
    GETRANDOM = 0: "getrandom";
    RANDOM_DEVICE = 1: "random-device";
    RDRAND = 2: "rdrand";
    CLOCK = 3: "clock";
    VDSO = 4: "vdso-clock";
    TSC = 5: "time-stamp-counter";
    PID = 6: "pid";
    PID_GAP = 7: "pid-order";
    THREADS = 8: "threads";
    PROCESSES = 9: "processes";
    INHERITED = 10: "inherited-descriptor";
    DEVICE = 11: "device";
    KERNEL_FILE = 12: "kernel-file";
    NAMED_PIPE = 13: "named-pipe";
    SOCKET = 14: "socket";
    ACCEPTED = 15: "accepted-connection";
    SIGNAL = 16: "signal";
    TIMER = 17: "timer";
    MEMORY = 18: "memory-size";
    CPU = 19: "cpu-number";
    FREE_SPACE = 20: "free-space";
    FILE_TIMES = 21: "file-times";
    CALL = 22: "system-call";
    HIDDEN = 23: "hidden-feature";
}

/// The table.
#[repr(C)]
pub struct Inputs {
    /// By [`kind`].
    pub all: [Input; NAMES.len()],
    /// The PID that was given last in this run.
    pub last_pid: AtomicU32,
    /// The number of the next child, where numbers are held constant; 0: the kernel chooses …
    pub next_pid: AtomicU32,
    /// … from this number on.
    pub pid_limit: AtomicU32,
    /// Connections that the run made to its own sockets.
    pub connected: AtomicU32,
    /// Hashes of the addresses that the run's sockets have.
    pub addresses: [AtomicU64; 64],
    /// Descriptors that the first program found open and that can bring in something: device, inode and device that
    /// they are.
    pub inherited: [[AtomicU64; 3]; 8],
    /// How many.
    pub inherited_count: AtomicU32,
    /// When the run began, `CLOCK_REALTIME_COARSE` in nanoseconds: times of files are of this clock.
    pub started: AtomicU64,
    /// Not 0 once a program of the run restricts its own system calls: nothing is asked from then on.
    pub unseen: AtomicU32,
}
