//! The virtual PMU as programs inside see it: what `perf_event_open` is asked
//! for, how events count, what `read` and the mapped page say. `core` only and
//! without system calls, so that the runtime and the tests here share it.
//!
//! Facts: `include/uapi/linux/perf_event.h`, `kernel/events/core.c` and
//! `arch/x86/events/core.c` of Linux 6.1 to 6.18; perf_event_open(2).

pub mod attr;
pub mod page;
pub mod reading;
pub mod table;

/// What an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Quantity {
    /// User-mode instructions retired.
    Instructions = 0,
    /// What never happens inside: interrupts, or instructions of modes that
    /// were all excluded.
    Nothing = 1,
    /// Branch instructions retired, taken or not: known with per-block counters.
    Branches = 2,
    /// Instructions that read data memory: known with per-block counters.
    Loads = 3,
    /// Instructions that write data memory: known with per-block counters.
    Stores = 4,
}

/// Raw configurations that no CPU has: what perf's names have no truthful number for. Their upper half is "true" in
/// ASCII, the lower half a [`Quantity`].
pub const OWN: u64 = 0x7472_7565_0000_0000;

/// The counter that `rdpmc` reads for [`Quantity::Instructions`]: past every
/// number that a CPU's own counters have (their numbers end below 64; Intel's
/// fixed ones have bit 30 set), so the two never mix.
pub const COUNTER: u32 = 64;

/// Bits of a counter, as on every x86 CPU with performance monitoring version 2.
pub const WIDTH: u16 = 48;

/// Linux error numbers that `perf_event_open`, `read` and `ioctl` answer with.
pub mod errno {
    /// No such process.
    pub const ESRCH: i64 = 3;
    /// No such event on this PMU.
    pub const ENOENT: i64 = 2;
    /// Bad file descriptor.
    pub const EBADF: i64 = 9;
    /// Not allowed to count this (the kernel, from an ordinary user).
    pub const EACCES: i64 = 13;
    /// Bad address.
    pub const EFAULT: i64 = 14;
    /// Invalid.
    pub const EINVAL: i64 = 22;
    /// Too many events.
    pub const ENFILE: i64 = 23;
    /// No such operation on this descriptor.
    pub const ENOTTY: i64 = 25;
    /// The buffer is too small for a reading.
    pub const ENOSPC: i64 = 28;
    /// Not a file with positions.
    pub const ESPIPE: i64 = 29;
    /// `perf_event_attr` of an unknown size.
    pub const E2BIG: i64 = 7;
    /// This PMU cannot do that (sampling, mode exclusion).
    pub const EOPNOTSUPP: i64 = 95;
}
