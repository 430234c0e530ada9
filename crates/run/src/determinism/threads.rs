//! Thread scheduling: round robin on one CPU (`SCHED_RR`, sched(7)). A thread then runs until it waits, ends
//! or yields, or its time slice of 100 ms is over (`kernel.sched_rr_timeslice_ms`); whoever becomes ready goes to the end
//! of the queue. The usual policy preempts anywhere instead, by how long each has run. `SCHED_FIFO`, without time slices,
//! would never end programs that spin until another thread has done something.
//!
//! Threads and children inherit the policy. The kernel leaves 5 % of the time to others
//! (`kernel.sched_rt_runtime_us`), so that the program can be stopped on a machine of one CPU, too.

use std::io;

use crate::affinity::allowed_cpus;
use crate::factor::{Factor, Missing};

/// Only system calls, for the time between `fork` and `execve`; 0 or an errno.
pub fn set() -> i32 {
    // `struct sched_param`; the lowest priority above every program of the usual policy.
    let priority = 1i32;
    // SAFETY: the kernel reads one integer; errno is this thread's.
    unsafe {
        match libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_RR,
            &raw const priority,
        ) {
            0 => 0,
            _ => *libc::__errno_location(),
        }
    }
}

/// Why it cannot be done here, by trying in a thread that ends.
pub(super) fn refused() -> Option<Missing> {
    let limit = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    if limit.is_ok_and(|text| text.trim() == "-1") && allowed_cpus().len() < 2 {
        let reason = "there is one CPU, and kernel.sched_rt_runtime_us = -1 would leave it to the \
            program alone: it could not be stopped";
        return Some(Missing::new(Factor::Threads, reason));
    }
    match std::thread::spawn(set).join() {
        Ok(0) => None,
        Ok(errno) => Some(missing(errno)),
        Err(_) => Some(missing(libc::EIO)),
    }
}

/// The error of [`set`] in words.
pub fn missing(errno: i32) -> Missing {
    let error = io::Error::from_raw_os_error(errno);
    let hint = if errno == libc::EPERM {
        "; real-time scheduling needs root (CAP_SYS_NICE; docker run --cap-add SYS_NICE) or a limit \
         for it (ulimit -r 1), and a control group that may use it (cpu.rt_runtime_us)"
    } else {
        ""
    };
    Missing::new(Factor::Threads, format!("SCHED_RR: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_in_a_thread_of_its_own() {
        // SAFETY: asks for a number.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        if let Some(missing) = refused() {
            assert_eq!(missing.factor, Factor::Threads);
            truecount_testing::skip!("remedies", "{}", missing.reason);
            return;
        }
        assert_eq!(policy(), before);
        let in_turn = std::thread::spawn(move || {
            assert_eq!(set(), 0);
            std::thread::spawn(policy).join().unwrap()
        });
        assert_eq!(in_turn.join().unwrap(), libc::SCHED_RR);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let missing = missing(libc::EPERM);
        assert!(missing.reason.contains("ulimit -r 1"), "{}", missing.reason);
    }
}
