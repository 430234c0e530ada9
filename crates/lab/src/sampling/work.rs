//! What a visit does: it watches the clock, then works.

use super::gaps::{Gap, now, watch};
use crate::loops::{self, Arena, framed};
use std::time::Duration;

/// How much work a visit does, undisturbed.
const WORK: Duration = Duration::from_millis(10);

/// CPU time of this thread, ns.
pub(super) fn cpu_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// How much work takes how long.
pub(super) struct Work {
    body: loops::Body,
    times: u64,
    arena: Arena,
}

impl Work {
    pub(super) fn new() -> std::io::Result<Self> {
        let plain = loops::named("plain").ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::Unsupported,
                "there are no loops of known length for this architecture",
            )
        })?;
        let mut work = Self {
            body: plain.body,
            times: plain.times,
            arena: Arena::new(16)?,
        };
        let least = (0..5).map(|_| work.run(0)).min().unwrap_or(1).max(1);
        let wished = WORK.as_nanos() as f64 / least as f64 * plain.times as f64;
        work.times = (wished as u64).clamp(1000, 1 << 32);
        Ok(work)
    }

    /// CPU time that it took, ns.
    fn run(&self, depth: u32) -> u64 {
        let start = cpu_time();
        framed(depth, &mut || {
            // SAFETY: the plain loop touches no memory.
            unsafe { (self.body)(self.times, self.arena.memory(), self.arena.stride()) };
        });
        cpu_time().saturating_sub(start)
    }
}

/// What a visit does: watch, then work.
pub(super) struct Inside<'a> {
    pub(super) gaps: &'a mut Vec<Gap>,
    pub(super) watch: Duration,
    pub(super) threshold: u64,
    pub(super) work: Option<&'a Work>,
    /// Frames above the code that is sampled: directly above, so that nothing between takes the frame pointer.
    pub(super) depth: u32,
    pub(super) work_ns: u64,
    pub(super) left_out: u64,
    /// Of the watch: wall time and CPU time, ns.
    pub(super) watched: (u64, u64),
    /// CPU time of all.
    pub(super) seconds: f64,
}

impl Inside<'_> {
    pub(super) fn go(&mut self) {
        let (begin, cpu) = (now(), cpu_time());
        let end = begin.saturating_add(self.watch.as_nanos() as u64);
        self.left_out = watch(end, self.threshold, self.gaps, self.depth);
        self.watched = (now().saturating_sub(begin), cpu_time().saturating_sub(cpu));
        self.work_ns = self.work.map_or(0, |work| work.run(self.depth));
        self.seconds = cpu_time().saturating_sub(cpu) as f64 / 1e9;
    }
}
