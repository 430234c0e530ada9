//! PIDs: the next one of this namespace is chosen before the program starts (`kernel.ns_last_pid`,
//! kernel `Documentation/admin-guide/sysctl/kernel.rst`), so that it and its children have the same number of digits
//! every time, and mostly the same numbers. The kernel moves that place on with every process; it is put back once the
//! program has its number, so that those of other programs, which may live long, do not come to lie where ours are.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Factor, Missing};
use crate::runner::stop_pending;

const LAST: &str = "/proc/sys/kernel/ns_last_pid";

/// Numbers below are given at boot only (`RESERVED_PIDS` in kernel/pid.c).
const RESERVED: i32 = 300;

/// The first number with as many digits as leave room for many processes, for numbers below `limit`.
fn base(limit: i32) -> i32 {
    let mut base = 1000;
    while base < i32::MAX / 20 && base * 20 <= limit {
        base *= 10;
    }
    base
}

fn limit() -> i32 {
    fs::read_to_string("/proc/sys/kernel/pid_max")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(32768)
}

/// Numbers that are held constant are below the limit that the kernel has without a word of anybody's (up to 32 processors;
/// `PID_MAX_DEFAULT`), which is also what a reference machine shows: most systems have a larger one (systemd sets
/// 4,194,304), and each digit of a number that a program prints is instructions.
const EVERYWHERE: i32 = 32_768;

/// The number that programs get with numbers held constant.
pub fn held() -> i32 {
    held_below(limit())
}

fn held_below(limit: i32) -> i32 {
    base(limit.min(EVERYWHERE))
}

/// Where the numbers of a program's children begin and end that are held constant: they have as many digits as its own,
/// and are away from it, where the numbers of others come from meanwhile.
pub(crate) fn children(own: i32) -> Option<[u32; 2]> {
    children_below(own, limit())
}

fn children_below(own: i32, limit: i32) -> Option<[u32; 2]> {
    let limit = if own < EVERYWHERE {
        limit.min(EVERYWHERE)
    } else {
        limit
    };
    let digits = own.checked_ilog10()?;
    let (low, high) = (
        10i32.checked_pow(digits)?,
        10i32.saturating_pow(digits + 1).min(limit),
    );
    let width = high.checked_sub(low)? / 2;
    let first = if own < low.checked_add(width)? {
        low + width
    } else {
        low
    };
    let first = first.max(RESERVED);
    let range = [first, first.checked_add(width)?.min(high)];
    let [first, end] = range.map(|number| u32::try_from(number).unwrap_or(0));
    (end > first).then_some([first, end])
}

/// A number whose digits differ from one `draw` to the next: `draw` gives a number below its argument.
pub fn any(mut draw: impl FnMut(u64) -> u64) -> i32 {
    let limit = limit().max(RESERVED * 4);
    let digits = limit.checked_ilog10().unwrap_or(3);
    let exponent = u32::try_from(draw(u64::from(digits) - 1)).unwrap_or(0) + 2;
    let low = 10i32.saturating_pow(exponent).max(RESERVED);
    let high = 10i32.saturating_pow(exponent + 1).min(limit - RESERVED);
    let width = u64::try_from(high.saturating_sub(low)).unwrap_or(1).max(1);
    low.saturating_add(i32::try_from(draw(width)).unwrap_or(0))
}

/// Whoever else chooses numbers by this file locks it (CRIU does, too), but not for long.
const LOCKED_AT_MOST: Duration = Duration::from_secs(2);

/// Whoever has the number already is waited for so long.
const WAIT_AT_MOST: Duration = Duration::from_secs(1);

fn no_such_process() -> bool {
    io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// A number that was chosen. Until this is dropped, or [`unlock`](Self::unlock) is called in a copy of this process,
/// nobody who locks the file chooses another.
#[derive(Debug)]
pub struct Chosen {
    file: File,
    wanted: i32,
    /// The last number before.
    before: Option<i32>,
}

fn last(file: &File) -> Option<i32> {
    let mut text = [0u8; 16];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..length)?)
        .ok()?
        .trim()
        .parse()
        .ok()
}

impl Drop for Chosen {
    fn drop(&mut self) {
        // Who moved it elsewhere meanwhile did so on purpose.
        let moved = |last: i32| last.checked_sub(self.wanted).unwrap_or(-1);
        let ours = last(&self.file).is_some_and(|last| (-64..1024).contains(&moved(last)));
        if let Some(before) = self.before.filter(|_| ours) {
            // Nothing is wrong without it.
            let _ = self.file.write_all_at(before.to_string().as_bytes(), 0);
        }
    }
}

impl Chosen {
    /// Lets others choose. Async-signal-safe; copies of the process share the lock.
    pub fn unlock(&self) {
        // SAFETY: a plain call on a descriptor that is open as long as `self` is.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }

    /// The number.
    pub fn number(&self) -> i32 {
        self.wanted
    }

    /// Chooses it once more, for what is started next: others may have taken it since.
    ///
    /// # Errors
    /// As [`choose`].
    pub fn again(&self) -> io::Result<()> {
        let last = self.wanted.saturating_sub(1).to_string();
        self.file.write_all_at(last.as_bytes(), 0)
    }

    /// Waits a while for whoever has the number: another run's program, mostly, and most of them are short. Where that was in
    /// vain it is not done again, so that a row of runs beside a long one is not held up; nor does Ctrl-C wait for it.
    pub fn wait_for_it(&self) {
        static IN_VAIN: AtomicBool = AtomicBool::new(false);
        // SAFETY: signal 0 only asks.
        let is_free = || unsafe { libc::kill(self.wanted, 0) } != 0 && no_such_process();
        let begin = Instant::now();
        while !IN_VAIN.load(Relaxed) && !is_free() && !stop_pending() {
            std::thread::sleep(Duration::from_millis(2));
            IN_VAIN.store(begin.elapsed() > WAIT_AT_MOST, Relaxed);
        }
    }

    /// Another number than the chosen one, whatever its digits.
    pub fn missed(&self, pid: i32) -> Option<Missing> {
        let wanted = self.wanted;
        (pid != wanted).then(|| {
            let reason = format!("the PID is {pid}, not {wanted}, which somebody else has");
            Missing::new(Factor::Pid, reason)
        })
    }

    /// What differs for a program that got `pid`.
    pub fn difference(&self, pid: i32) -> Option<Missing> {
        let digits = |number: i32| number.checked_ilog10().map_or(1, |most| most + 1);
        let wanted = self.wanted;
        (digits(pid) != digits(wanted)).then(|| {
            let reason = format!(
                "the PID is {pid}, not {wanted}: other programs start and choose PIDs at the same time"
            );
            Missing::new(Factor::Pid, reason)
        })
    }
}

/// Makes `pid` the number of what starts after so many `threads`, if it is free; `None`: of what starts after
/// [`Chosen::again`], so that no thread of ours takes it before.
///
/// # Errors
/// EPERM without CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN, ENOENT in kernels without it, EROFS in containers.
pub fn choose(pid: i32, threads: Option<i32>) -> io::Result<Chosen> {
    let file = OpenOptions::new().read(true).write(true).open(LAST)?;
    let begin = Instant::now();
    // SAFETY: a plain call on a descriptor that is open.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0
        && begin.elapsed() < LOCKED_AT_MOST
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = last(&file);
    let last = match threads {
        Some(threads) => Some(pid.saturating_sub(threads).saturating_sub(1)),
        // Only to see whether we may.
        None => before,
    };
    if let Some(last) = last {
        file.write_all_at(last.to_string().as_bytes(), 0)?;
    }
    Ok(Chosen {
        file,
        wanted: pid,
        before,
    })
}

/// [`choose`]'s error in words.
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => format!("this kernel has no {LAST} (CONFIG_CHECKPOINT_RESTORE)"),
        _ => format!("{LAST}: {error}; it needs root (CAP_CHECKPOINT_RESTORE)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_room_below_the_limit() {
        assert_eq!(base(32_768), 10_000);
        assert_eq!(base(4_194_304), 1_000_000);
        assert_eq!(base(4_000), 1_000);
    }

    #[test]
    fn children_have_numbers_as_long_as_their_parents() {
        for own in [300, 999, 1000, 10_000, 29_000] {
            let [first, end] = children(own).unwrap();
            let digits = own.to_string().len();
            assert!(first >= 300 && end > first, "{own}: {first} {end}");
            assert_eq!(first.to_string().len(), digits);
            assert_eq!((end - 1).to_string().len(), digits);
            assert!(!(first..end).contains(&own.cast_unsigned()), "{own}");
        }
    }

    #[test]
    fn numbers_are_the_same_whatever_the_limit_of_the_machine() {
        for limit in [32_768, 65_536, 4_194_304] {
            let own = held_below(limit);
            let children = children_below(own, limit);
            assert_eq!((own, children), (10_000, Some([21_384, 32_768])), "{limit}");
        }
        let [first, end] = children_below(2_000_000, 4_194_304).unwrap();
        assert!(first >= 1_000_000 && end <= 4_194_304 && end > first);
    }

    #[test]
    fn varied_numbers_have_different_lengths() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let drawn: Vec<i32> = (0..200).map(|_| any(&mut draw)).collect();
        let digits = |n: &i32| n.to_string().len();
        assert!(drawn.iter().all(|&n| n >= RESERVED && n < limit()));
        let least = drawn.iter().map(digits).min();
        assert!(least < drawn.iter().map(digits).max());
        assert_eq!(least, Some(3));
    }
}
