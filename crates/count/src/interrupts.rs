//! The event that counts interrupts: chosen by CPU (the table is `truecount_events::irq`), and watched whether it
//! ticks and whether what it counts is what interrupts add to the instructions, because a table can be wrong for a new
//! CPU, and a hypervisor can leave an event out or count instructions otherwise.

use crate::arch::known_loop;
use crate::clocks::wall_ns;
use crate::core::Core;
use crate::error::Error;
use std::sync::{Mutex, PoisonError};
use truecount_events::irq::{self, IrqEvent};
use truecount_events::{Machine, Special};

/// How long to watch, in ms. The timer below interrupts every millisecond, so 300 chances.
const WATCH_MS: u64 = 300;

/// What was found for an event (by its configuration) in this process.
static FOUND: Mutex<Option<(u64, Verdict)>> = Mutex::new(None);

/// The event to subtract on this CPU.
pub(crate) fn event(special: Special, machine: &Machine) -> Result<IrqEvent, Error> {
    irq::subtracted(special, machine).map_err(|reason| Error::NothingToSubtract {
        event: special.name(),
        reason,
    })
}

/// Runs a loop of constant length again and again while timer interrupts come in, until enough of them fell into it:
/// the event must move, and the instructions counted must be one more for each of them.
pub(crate) fn verify(core: &Core, event: &'static str, config: u64) -> Result<(), Error> {
    const ITERATIONS: u64 = 20_000;
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, verdict)) = found().filter(|(of, _)| *of == config) {
        return verdict.judged(event, config);
    }
    let timer = Timer::every_millisecond();
    let begun = wall_ns();
    let mut trial = Trial::default();
    let verdict = loop {
        let (counted, subtracted) = core.pair()?;
        known_loop(ITERATIONS);
        let (counted_after, subtracted_after) = core.pair()?;
        trial.add(
            counted_after.wrapping_sub(counted),
            subtracted_after.wrapping_sub(subtracted),
        );
        let late = wall_ns().wrapping_sub(begun) > WATCH_MS * 1_000_000;
        if let Some(verdict) = trial.verdict(late) {
            break verdict;
        }
    };
    drop(timer);
    *found() = Some((config, verdict));
    verdict.judged(event, config)
}

impl Verdict {
    fn judged(self, event: &'static str, config: u64) -> Result<(), Error> {
        match self {
            Self::Right => Ok(()),
            Self::Silent => Err(Error::SilentInterrupts {
                config,
                watched_ms: WATCH_MS,
            }),
            Self::NotCounted => Err(Error::NothingToSubtract {
                event,
                reason: "this machine's counters do not count one more per interrupt: instructions:u is exact by itself",
            }),
            Self::Unclear => Err(Error::NothingToSubtract {
                event,
                reason: "what interrupts add to the count is not what the event for them counts",
            }),
        }
    }
}

/// Whether something must be subtracted from instruction counts, and may be: [`subtraction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subtraction {
    /// Each occurrence of the event adds one instruction: subtract it.
    Right,
    /// It adds nothing here (a virtual machine's counters, say): instructions are exact by themselves.
    NotNeeded,
}

/// Tries on this thread, once a process, whether what a difference subtracts is what was added. Whoever subtracts the
/// event elsewhere (around a command, on a CPU) must have asked: a table can be wrong for a CPU, and hypervisors count
/// otherwise.
///
/// # Errors
/// [`Error`]: it is neither, or cannot be tried (no counters, no such event).
pub fn subtraction(special: Special) -> Result<Subtraction, Error> {
    match crate::Counter::<crate::Fence>::open(special.name()) {
        Ok(_) => Ok(Subtraction::Right),
        Err(error) => {
            let found = *FOUND.lock().unwrap_or_else(PoisonError::into_inner);
            match found {
                Some((_, Verdict::NotCounted)) => Ok(Subtraction::NotNeeded),
                _ => Err(error),
            }
        }
    }
}

/// What loops of constant length counted while interrupts came in.
#[derive(Debug, Default)]
struct Trial {
    /// Least count of a loop that no interrupt fell into: what else disturbs only adds.
    quiet: Option<u64>,
    /// Counts and interrupts of loops that some fell into; a few are enough.
    disturbed: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// One more instruction for each interrupt.
    Right,
    /// The event never moved.
    Silent,
    /// Interrupts came, and the count is the same.
    NotCounted,
    /// Interrupts came, and the count is something else.
    Unclear,
}

impl Trial {
    /// Disturbed loops that agree and make it sure.
    const MIN_SAME: usize = 3;
    /// Disturbed loops after which the majority decides.
    const MAX_DISTURBED: usize = 64;

    fn add(&mut self, counted: u64, interrupts: u64) {
        if interrupts == 0 {
            self.quiet = Some(self.quiet.map_or(counted, |least| least.min(counted)));
        } else if self.disturbed.len() < Self::MAX_DISTURBED {
            self.disturbed.push((counted, interrupts));
        }
    }

    fn verdict(&self, late: bool) -> Option<Verdict> {
        let Some(quiet) = self.quiet else {
            return late.then_some(if self.disturbed.is_empty() {
                Verdict::Silent
            } else {
                Verdict::Unclear
            });
        };
        let count = |test: &dyn Fn(u64, u64) -> bool| {
            self.disturbed.iter().filter(|(c, i)| test(*c, *i)).count()
        };
        let right = count(&|counted, interrupts| counted.wrapping_sub(interrupts) == quiet);
        let same = count(&|counted, _| counted == quiet);
        if right >= Self::MIN_SAME && right > same.saturating_mul(4) {
            return Some(Verdict::Right);
        }
        if !late && self.disturbed.len() < Self::MAX_DISTURBED {
            return None;
        }
        Some(match (right, same) {
            _ if self.disturbed.is_empty() => Verdict::Silent,
            (right, same) if right > same => Verdict::Right,
            (_, 0) => Verdict::Unclear,
            _ => Verdict::NotCounted,
        })
    }
}

/// A timer whose expiry interrupts the CPU it was set on; nobody waits for it. It makes sure of interrupts where the
/// kernel's own tick is off (`nohz_full`). Source: timerfd_create(2).
struct Timer(libc::c_int);

impl Timer {
    fn every_millisecond() -> Option<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        let timer = Self(fd);
        let period = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let setting = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: the new setting is live, the old one is not asked for.
        unsafe { libc::timerfd_settime(fd, 0, &raw const setting, std::ptr::null_mut()) };
        Some(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this timer's.
        unsafe { libc::close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(samples: &[(u64, u64)], late: bool) -> Option<Verdict> {
        let mut trial = Trial::default();
        for &(counted, interrupts) in samples {
            trial.add(counted, interrupts);
        }
        trial.verdict(late)
    }

    #[test]
    fn one_more_per_interrupt_is_right() {
        let samples = [(1007, 0), (1000, 0), (1001, 1), (1002, 2), (1001, 1)];
        assert_eq!(judge(&samples, false), Some(Verdict::Right));
        assert_eq!(judge(&samples[..4], false), None);
        // Few, but nothing against it.
        assert_eq!(judge(&samples[..3], true), Some(Verdict::Right));
    }

    #[test]
    fn exceptions_in_the_loop_do_not_confuse() {
        let samples = [
            (1000, 0),
            (1003, 1),
            (1001, 1),
            (1009, 1),
            (1001, 1),
            (1001, 1),
        ];
        assert_eq!(judge(&samples, false), Some(Verdict::Right));
    }

    #[test]
    fn what_must_not_be_subtracted() {
        assert_eq!(
            judge(&[(1000, 0), (1000, 1), (1000, 1)], true),
            Some(Verdict::NotCounted)
        );
        assert_eq!(
            judge(&[(1000, 0), (1005, 1), (1010, 2)], true),
            Some(Verdict::Unclear)
        );
        assert_eq!(judge(&[(1000, 0)], true), Some(Verdict::Silent));
        assert_eq!(judge(&[(1000, 0)], false), None);
        assert_eq!(judge(&[], true), Some(Verdict::Silent));
        assert_eq!(judge(&[(1000, 3)], true), Some(Verdict::Unclear));
    }

    #[test]
    fn memory_is_bounded() {
        let mut trial = Trial::default();
        (0..10_000).for_each(|i| trial.add(i, 1 + i % 3));
        assert_eq!(trial.disturbed.len(), Trial::MAX_DISTURBED);
    }
}
