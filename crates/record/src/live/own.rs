//! What this process costs.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use super::types::OwnCost;

/// Measures from one look to the next.
pub struct Own {
    since: Instant,
    cpu: Duration,
}

impl Own {
    pub fn new() -> Self {
        Self {
            since: Instant::now(),
            cpu: cpu_time(),
        }
    }

    /// The cost since the last look.
    pub fn look(&mut self) -> OwnCost {
        let (now, cpu) = (Instant::now(), cpu_time());
        let wall = now.duration_since(self.since).as_secs_f64();
        let used = cpu.saturating_sub(self.cpu).as_secs_f64();
        *self = Self { since: now, cpu };
        OwnCost {
            cpu: if wall > 0.0 { used / wall } else { 0.0 },
            memory: resident(),
        }
    }
}

/// CPU time of all threads, user and system.
pub fn cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: a valid place for the result, zeroed plain data; this clock always exists.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Gives freed memory back to the system; the resident memory that remains.
pub fn give_back() -> u64 {
    // The C library keeps what is freed between pieces that are in use.
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no requirements.
    unsafe {
        libc::malloc_trim(0);
    }
    resident()
}

/// Resident memory in bytes (`VmRSS` of proc(5)).
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs() {
        let mut own = Own::new();
        let start = cpu_time();
        while cpu_time() < start + Duration::from_millis(20) {}
        let cost = own.look();
        assert!(cost.cpu > 0.0 && cost.memory > 100_000);
    }
}
