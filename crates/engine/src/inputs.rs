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
    FILE_LOCK = 24: "file-lock";
    TAKEN_NAME = 25: "taken-name";
}

/// What of a run's inputs is told apart: places in [`Identity::parts`].
pub mod part {
    /// Content of the programs.
    pub const PROGRAM: usize = 0;
    /// Their arguments.
    pub const ARGUMENTS: usize = 1;
    /// Their environments.
    pub const ENVIRONMENT: usize = 2;
    /// Content of shared libraries.
    pub const LIBRARIES: usize = 3;
    /// Content of other regular files that were opened to be read.
    pub const FILES: usize = 4;
    /// What was looked for and what came of it, and the names in directories that were read.
    pub const NAMES: usize = 5;
    /// Times of files that were asked for by their paths.
    pub const TIMES: usize = 6;
}

/// Their names, as documents have them.
pub const PARTS: [&str; 7] = [
    "program",
    "arguments",
    "environment",
    "libraries",
    "files",
    "names",
    "times",
];

/// Places of the first part of [`Identity::known`]: a page is all that most runs touch.
pub const NEAR: usize = 256;

/// Files that can be known at the same time.
pub const KNOWN: usize = 16_384;

/// Which inputs a run had: runs of the same inputs have the same hashes. Sums, so that the order does not matter.
#[repr(C)]
pub struct Identity {
    /// By [`part`].
    pub parts: [AtomicU64; PARTS.len()],
    /// Different contents of files in it.
    pub files: AtomicU32,
    /// Not 0: something was not read, or there were too many files.
    pub partial: AtomicU32,
    /// Hashes of what is in it already, 0: a free place.
    pub known: [AtomicU64; NEAR + KNOWN],
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
    /// How long the run has waited for locks of files that others have, nanoseconds.
    pub lock_waited: AtomicU64,
    /// How long it has waited for names of new files that others have, nanoseconds.
    pub names_waited: AtomicU64,
    /// Hashes of temporary files that the run has made, by device and inode; 0: a free place.
    pub made: [AtomicU64; 4096],
    /// Not 0 once a program of the run restricts its own system calls: nothing is asked from then on.
    pub unseen: AtomicU32,
    /// Which inputs the run had.
    pub identity: Identity,
}
