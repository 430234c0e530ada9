//! The kinds that need no PMU: clocks of the kernel. Source: clock_gettime(2) (answered in the vdso, without a system
//! call), getrusage(2).

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub(crate) fn wall_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec. The clock always exists; were it not to, the time stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    nanoseconds(time.tv_sec, time.tv_nsec)
}

/// Nanoseconds of CPU time of this thread in user mode.
pub(crate) fn user_ns() -> u64 {
    let usage = thread_usage();
    nanoseconds(usage.ru_utime.tv_sec, microseconds(usage.ru_utime.tv_usec))
}

/// Nanoseconds of CPU time of this thread in the kernel.
pub(crate) fn system_ns() -> u64 {
    let usage = thread_usage();
    nanoseconds(usage.ru_stime.tv_sec, microseconds(usage.ru_stime.tv_usec))
}

fn thread_usage() -> libc::rusage {
    // SAFETY: rusage is plain integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage; RUSAGE_THREAD has existed since Linux 2.6.26.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage
}

/// Times are 32 or 64 bits wide, by target.
fn microseconds(value: impl Into<i64>) -> i64 {
    value.into().wrapping_mul(1000)
}

fn nanoseconds(seconds: impl Into<i64>, rest: impl Into<i64>) -> u64 {
    (seconds.into() as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(rest.into() as u64)
}
