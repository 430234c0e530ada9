//! Linux system calls of x86-64: a row a call, with what it is about and who answers it when a
//! program runs under the virtual PMU. The translator, the runtime's dispatch and the table in
//! `docs/virtual-pmu.md` are made from these rows. `core` only: launcher and runtime compile this
//! same source.
//!
//! Numbers: arch/x86/entry/syscalls/syscall_64.tbl.

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Asks or sets something else of the process or the system.
    Plain,
    /// Paths and what they name.
    File,
    /// What is behind a descriptor: reads, writes, makes, closes.
    Descriptor,
    /// The address space.
    Memory,
    /// May wait for something.
    Wait,
    /// Tells or sets times and timers.
    Clock,
    /// Signals.
    Signal,
    /// Beginning, end and nature of threads and processes.
    Process,
    /// Replaces the program.
    Exec,
    /// Performance counters.
    Counter,
}

/// Who answers a call, and where in the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// The kernel, called by translated code; the runtime does not see it (but for watched pages, see
    /// `DESIGN.md`).
    Kernel,
    /// The runtime where the descriptor is an event of the engine's, else the kernel.
    Event,
    /// The runtime where the clock is the engine's own, else the kernel.
    Clock,
    /// The runtime where the program is shown another machine, else the kernel.
    Machine,
    /// The kernel; the runtime exchanges what is opened if it is the list of mappings, or tells of the machine.
    Open,
    /// The kernel; the runtime corrects what is said of that list.
    Status,
    /// The kernel, called by the runtime as the program made it.
    Forward,
    /// The kernel, called by the runtime, which then forgets translations that are stale.
    Mapping,
    /// The kernel; the runtime calls it where it may write code, and drops what was translated from there.
    Write,
    /// The kernel, called by the runtime, which tells the process whose code it may have written.
    Remote,
    /// The kernel, called by the runtime, which adds to limits of memory what the engine takes.
    Limit,
    /// The kernel, called by the runtime, which compares code from then on where the kernel may write it at any time.
    Later,
    /// The runtime, which locks the program's mappings one by one.
    Lock,
    /// The runtime: actions of signals.
    Action,
    /// The runtime: the mask of signals.
    Mask,
    /// The runtime: the end of a handler.
    Return,
    /// The kernel, called by the runtime, which does before what a filter may forbid.
    Confine,
    /// The kernel, called by the runtime, which leaves blocked signals to it.
    Signals,
    /// The runtime: the alternate signal stack.
    Stack,
    /// The kernel, called by the runtime, which gives the child a context.
    Clone,
    /// The kernel, called by the runtime once the launcher follows the thread.
    Exec,
    /// The kernel, called by the runtime after the last look at the counts.
    Exit,
    /// The runtime for GS, the kernel for the rest.
    Segments,
    /// The runtime for events it can count, the kernel for others.
    Counter,
    /// The kernel, called by the runtime; by ENOSYS for programs that it is no use to.
    Sequences,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: u64,
    /// Its name, in capitals.
    pub name: &'static str,
    /// What it is about.
    pub class: Class,
    /// Who answers it.
    pub answer: Answer,
}

/// Numbers from here on are no system calls of this architecture's table, or of a kernel not born yet:
/// the runtime looks at them and forwards them.
pub const END: u64 = 512;

/// Calls from here on came after Linux 6.1: the reference machines do not have them.
pub const NEWER: u64 = 451;

/// Who answers a call; one that the table does not have is the kernel's.
pub fn answer(number: u64) -> Answer {
    if number < END {
        ANSWERS[number as usize]
    } else {
        Answer::Forward
    }
}

/// What a call is about; one that the table does not have, something else.
pub fn class(number: u64) -> Class {
    if number < END {
        CLASSES[number as usize]
    } else {
        Class::Plain
    }
}

/// By number.
static CLASSES: [Class; END as usize] = {
    let mut classes = [Class::Plain; END as usize];
    let mut at = 0;
    while at < TABLE.len() {
        classes[TABLE[at].number as usize] = TABLE[at].class;
        at += 1;
    }
    classes
};

/// Whether translated code may make the call itself, where neither an event, nor the clock, nor watched
/// pages are concerned.
pub fn is_plain(number: u64) -> bool {
    matches!(
        answer(number),
        Answer::Kernel | Answer::Event | Answer::Clock | Answer::Write | Answer::Machine
    )
}

/// Whether a call may bring in something from outside beside what is behind a descriptor: the runtime looks at it (see
/// `runtime/outside.rs`).
pub fn brings_in(number: u64) -> bool {
    asks_outside(number) || is_followed(number)
}

/// Those of which the runtime only has to know that they are made.
fn asks_outside(number: u64) -> bool {
    matches!(
        number,
        GETRANDOM
            | CLOCK_GETTIME
            | GETTIMEOFDAY
            | TIME
            | TIMES
            | GETRUSAGE
            | GETPID
            | GETTID
            | GETPPID
            | KILL
            | GETPGRP
            | GETPGID
            | GETSID
            | SYSINFO
            | GETCPU
            | WAIT4
            | WAITID
            | SETITIMER
            | ALARM
            | TIMER_SETTIME
            | TIMERFD_SETTIME
            | SOCKET
            | CONNECT
            | ACCEPT
            | ACCEPT4
            | RECVFROM
            | RECVMSG
            | RECVMMSG
            | POLL
            | PPOLL
            | SELECT
            | PSELECT6
            | EPOLL_CTL
            | SENDFILE
            | SPLICE
            | TEE
            | SYSLOG
            | MINCORE
            | CACHESTAT
            | IO_SETUP
            | IO_URING_SETUP
            | INOTIFY_INIT
            | INOTIFY_INIT1
            | FANOTIFY_INIT
            | USERFAULTFD
            | SHMGET
            | MSGGET
            | SEMGET
            | MQ_OPEN
            | KEYCTL
            | NAME_TO_HANDLE_AT
            | FLOCK
            | FCNTL
    )
}

/// Those whose result it has to see. None of them waits.
pub fn is_followed(number: u64) -> bool {
    matches!(
        number,
        STAT | LSTAT
            | NEWFSTATAT
            | STATX
            | STATFS
            | FSTATFS
            | OPENAT2
            | ACCESS
            | FACCESSAT
            | FACCESSAT2
            | READLINK
            | READLINKAT
            | GETDENTS
            | GETDENTS64
            | MKDIR
            | MKDIRAT
            | RMDIR
            | UNLINK
            | UNLINKAT
            | BIND
            | LISTEN
    )
}

/// Which argument of a call is a path that may tell of the machine; `None`: the call asks for none.
pub fn path_argument(number: u64) -> Option<usize> {
    match number {
        OPEN | ACCESS | STAT | LSTAT | READLINK | STATFS => Some(0),
        OPENAT | NEWFSTATAT | FACCESSAT | FACCESSAT2 | READLINKAT | STATX => Some(1),
        _ => None,
    }
}

/// By number.
static ANSWERS: [Answer; END as usize] = {
    let mut answers = [Answer::Kernel; END as usize];
    let mut at = 0;
    while at < TABLE.len() {
        answers[TABLE[at].number as usize] = TABLE[at].answer;
        at += 1;
    }
    answers
};

/// Who answers, in words: for the documentation.
pub fn in_words(answer: Answer) -> &'static str {
    match answer {
        Answer::Kernel => "kernel, called by translated code",
        Answer::Event => "kernel; the runtime on the descriptor of a counter of the virtual PMU's",
        Answer::Clock => "kernel; the runtime where the clock is the virtual PMU's own",
        Answer::Machine => "kernel; the runtime where another machine is shown (`--machine`)",
        Answer::Open => {
            "kernel; the runtime exchanges `/proc/self/maps`, and files that tell the machine where another one is shown"
        }
        Answer::Status => "kernel; the runtime corrects what is said of `/proc/self/maps`",
        Answer::Forward => "kernel, called by the runtime",
        Answer::Mapping => {
            "kernel, called by the runtime, which forgets translations that are stale"
        }
        Answer::Write => "kernel; called by the runtime on a descriptor of executed memory",
        Answer::Remote => "kernel, called by the runtime, which sees to code that it changes",
        Answer::Limit => {
            "kernel, called by the runtime, which adds to limits of memory what the virtual PMU takes"
        }
        Answer::Later => {
            "kernel, called by the runtime, which compares code where the kernel may write it later"
        }
        Answer::Lock => "runtime, which locks the program's mappings, not the virtual PMU's",
        Answer::Action | Answer::Mask | Answer::Return | Answer::Stack => "runtime",
        Answer::Clone => "kernel, called by the runtime, which gives the child a context",
        Answer::Confine => {
            "kernel, called by the runtime, which does before what a filter may forbid; user dispatch is the runtime's"
        }
        Answer::Signals => "kernel, called by the runtime, which leaves blocked signals to it",
        Answer::Exec => "launcher, which follows the thread; then the kernel",
        Answer::Exit => "kernel, called by the runtime after the last look at the counts",
        Answer::Segments => "runtime for GS, kernel for the rest",
        Answer::Counter => "runtime for events that it can count, kernel for others",
        Answer::Sequences => {
            "kernel, called by the runtime; `ENOSYS` for programs with critical sections"
        }
    }
}

macro_rules! calls {
    ($($name:ident = $number:literal: $class:ident, $answer:ident;)*) => {
        $(#[doc = concat!("Number of ", stringify!($name), ".")]
        pub const $name: u64 = $number;)*
        /// Every call, by number.
        pub const TABLE: &[Call] = &[$(Call {
            number: $number,
            name: stringify!($name),
            class: Class::$class,
            answer: Answer::$answer,
        }),*];
    };
}

mod rows;
#[cfg(test)]
mod tests;

pub use rows::*;
