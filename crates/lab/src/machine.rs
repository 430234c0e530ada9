//! What an experiment needs of the machine: the timer's rate, interrupts of one CPU, staying on one CPU.

use std::io;

pub use truecount_run::affinity::Affinity;

/// Timer interrupts a second (the kernel's `CONFIG_HZ`): the resolution of the coarse clock is one of its ticks
/// (clock_getres(2); `KTIME_LOW_RES` in `kernel/time/posix-timers.c`).
#[must_use]
pub fn timer_hertz() -> Option<u32> {
    let mut tick = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the answer.
    if unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) } != 0 {
        return None;
    }
    (tick.tv_sec == 0 && tick.tv_nsec > 0)
        .then(|| (1e9 / tick.tv_nsec as f64).round() as u32)
        .filter(|&hertz| (24..=100_000).contains(&hertz))
}

/// Interrupts that one CPU has taken since boot: its column of `/proc/interrupts`, user and kernel mode alike.
#[must_use]
pub fn interrupts_of(cpu: usize) -> Option<u64> {
    sum_column(&std::fs::read_to_string("/proc/interrupts").ok()?, cpu)
}

/// The column of a CPU in the text of `/proc/interrupts`, summed up.
#[must_use]
pub fn sum_column(text: &str, cpu: usize) -> Option<u64> {
    let mut lines = text.lines();
    let name = format!("CPU{cpu}");
    let column = lines
        .next()?
        .split_whitespace()
        .position(|word| word == name)?;
    let mut sum = 0u64;
    for line in lines {
        // `name: count of each CPU, then words`; lines such as ERR have one count for all.
        let Some((_, rest)) = line.split_once(':') else {
            continue;
        };
        let count = rest.split_whitespace().nth(column);
        if let Some(count) = count.and_then(|word| word.parse::<u64>().ok()) {
            sum = sum.checked_add(count)?;
        }
    }
    Some(sum)
}

/// The interrupts whose line in `/proc/interrupts` holds one of these words, by their numbers.
#[must_use]
pub fn interrupt_lines(words: &[&str]) -> Vec<u32> {
    lines_with(
        &std::fs::read_to_string("/proc/interrupts").unwrap_or_default(),
        words,
    )
}

/// [`interrupt_lines`] in this text.
#[must_use]
pub fn lines_with(text: &str, words: &[&str]) -> Vec<u32> {
    text.lines()
        .filter(|line| words.iter().any(|word| line.contains(word)))
        .filter_map(|line| line.split_once(':')?.0.trim().parse().ok())
        .collect()
}

/// The CPU that the calling thread is on, and what it was allowed before it was kept there.
#[derive(Debug, Clone, Copy)]
pub struct Pinned {
    /// Where.
    pub cpu: usize,
    /// Where it might run before.
    pub before: Affinity,
}

impl Pinned {
    /// Keeps the calling thread on `cpu`, or on the last of its CPUs (the first ones serve most interrupts).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn to(cpu: Option<usize>) -> io::Result<Self> {
        let before = Affinity::now()?;
        let cpu = cpu
            .or_else(|| before.cpus().last())
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Affinity::only(cpu).apply()?;
        Ok(Self { cpu, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_column_of_proc_interrupts() {
        let text = "           CPU0       CPU2\n  1:   10   20  IO-APIC 1-edge i8042\nLOC: 5 7 Local timer\nERR:  3\n\
                    PMI:  1 x Performance\n";
        assert_eq!(sum_column(text, 2), Some(27));
        assert_eq!(sum_column(text, 0), Some(19));
        assert_eq!(sum_column(text, 1), None);
        assert_eq!(sum_column("", 0), None);
    }

    #[test]
    fn the_timer_ticks() {
        let hertz = timer_hertz();
        println!("{hertz:?} Hz");
        assert!(hertz.is_none_or(|h| h >= 24));
    }

    #[test]
    fn affinity_comes_back() {
        let pinned = Pinned::to(None).unwrap();
        let now = Affinity::now().unwrap();
        assert_eq!(now.cpus().collect::<Vec<_>>(), [pinned.cpu]);
        let others = pinned.before.without(pinned.cpu);
        assert!(others.cpus().next().is_some());
        pinned.before.apply().unwrap();
        assert_eq!(
            Affinity::now().unwrap().cpus().count(),
            pinned.before.cpus().count()
        );
    }
}
