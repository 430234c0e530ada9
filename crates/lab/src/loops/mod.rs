//! Workloads whose instructions are known by construction: each is written in assembly, so nothing but the loop itself
//! stands between its first instruction and its `ret`.
//!
//! A loop is called as `body(times, memory, stride)`. Its length is counted from its first instruction to its return,
//! both included, as an architecture counts retired instructions: a `rep`-prefixed instruction is one, whatever its
//! repeat count; a system call is one; an instruction that faults retires once, when it completes. Sources: Intel SDM
//! vol. 3B, "Retired instructions"; Arm ARM, INST_RETIRED.

/// A table of workloads: `name, about, what a turn holds one of x turns: fixed + per turn instructions, the same of
/// branches, other fields; symbol [code]`. Each is a function in assembly, and a row of `LOOPS`.
macro_rules! workloads {
    ($($name:expr, $about:literal, $turn:literal x $times:literal: $fixed:literal + $each:literal instructions,
        $fixed_branches:literal + $branches:literal branches $(, $field:ident = $value:expr)*;
        $symbol:ident [$($code:literal),+])*) => {
        $(std::arch::global_asm!(
            ".pushsection .text.truecount_lab,\"ax\",@progbits",
            ".p2align 6",
            concat!(".globl ", stringify!($symbol)),
            concat!(".hidden ", stringify!($symbol)),
            concat!(stringify!($symbol), ":"),
            $($code,)+
            ".popsection",
        );)*

        unsafe extern "C" {
            $(fn $symbol(times: u64, memory: *mut u8, stride: u64);)*
        }

        pub(super) const LOOPS: &[Loop] = &[$(Loop {
            name: $name,
            about: $about,
            turn: $turn,
            times: $times,
            instructions: Length::new($fixed, $each),
            $($field: $value,)*
            ..plain(Length::new($fixed_branches, $branches), $symbol)
        }),*];
    };
}

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as arch;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use other as arch;

mod arena;
mod frames;

pub use arena::Arena;
pub use frames::framed;

/// A loop's code: turns, memory (of an [`Arena`]), bytes from one page to the next.
pub type Body = unsafe extern "C" fn(times: u64, memory: *mut u8, stride: u64);

/// How many of something a loop takes: `fixed + per_turn × turns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// Outside the loop, the return included.
    pub fixed: u64,
    /// In each turn.
    pub per_turn: u64,
}

impl Length {
    const fn new(fixed: u64, per_turn: u64) -> Self {
        Self { fixed, per_turn }
    }

    /// For this many turns; `None` where it does not fit 64 bits.
    #[must_use]
    pub fn of(self, times: u64) -> Option<u64> {
        self.per_turn.checked_mul(times)?.checked_add(self.fixed)
    }
}

/// What must be there around a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but the memory.
    Nothing,
    /// Pages that are not there yet: every turn faults.
    FreshPages,
    /// Another thread that writes to the same cache line all the time.
    Contender,
}

/// A workload of known length.
#[derive(Debug, Clone, Copy)]
pub struct Loop {
    /// Its name, as in the report.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// What a turn holds one of (a "page fault"), to which an excess per turn is ascribed.
    pub turn: &'static str,
    /// Turns of one measurement: some hundred microseconds.
    pub times: u64,
    /// Instructions retired in user mode.
    pub instructions: Length,
    /// Branch instructions retired in user mode, taken or not, calls and returns included; `None` where architectures
    /// differ (is a system call a branch?).
    pub branches: Option<Length>,
    /// Page faults.
    pub page_faults: Length,
    /// What must be there around it.
    pub needs: Needs,
    /// The code.
    pub body: Body,
    /// Why it cannot run on this CPU.
    pub unavailable: fn() -> Option<&'static str>,
}

/// The loop of nothing but a return: what a measurement costs itself.
#[must_use]
pub fn empty() -> Option<Loop> {
    arch::LOOPS.iter().find(|l| l.name == EMPTY).copied()
}

const EMPTY: &str = "empty";

/// All workloads of this architecture, but the empty one, in the order of the report.
pub fn all() -> impl Iterator<Item = &'static Loop> {
    arch::LOOPS.iter().filter(|l| l.name != EMPTY)
}

/// The loop that has one locked instruction a turn and nothing else of interest.
#[must_use]
pub fn locked() -> Option<&'static Loop> {
    all().find(|l| l.name == "contended")
}

/// The workload of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Loop> {
    arch::LOOPS.iter().find(|l| l.name == name)
}

fn always() -> Option<&'static str> {
    None
}

/// What most loops have in common: they neither fault nor move nor block.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn plain(branches: Length, body: Body) -> Loop {
    Loop {
        name: "",
        about: "",
        turn: "",
        times: 0,
        instructions: Length::new(0, 0),
        branches: Some(branches),
        page_faults: Length::new(0, 0),
        needs: Needs::Nothing,
        body,
        unavailable: always,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_do_not_overflow() {
        assert_eq!(Length::new(1, 2).of(10), Some(21));
        assert_eq!(Length::new(1, u64::MAX).of(2), None);
    }

    #[test]
    fn every_loop_runs_and_comes_back() {
        let mut arena = Arena::new(128).expect("memory");
        for each in arch::LOOPS {
            if let Some(why) = (each.unavailable)() {
                truecount_testing::skip!("cpu-features", "{}: {why}", each.name);
                continue;
            }
            for times in [1, 2, 100] {
                arena.prepare(each).expect("pages");
                // SAFETY: the arena is made for this loop and these turns.
                unsafe { (each.body)(times, arena.memory(), arena.stride()) };
            }
        }
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert!(empty().is_some() && locked().is_some() && all().count() >= 7);
            assert!(all().all(|l| named(l.name).is_some() && l.times <= 1 << 20));
        }
    }
}
