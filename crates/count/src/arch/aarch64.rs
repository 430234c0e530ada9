//! `mrs` of the event counters. Facts: Arm ARM D13 (PMEVCNTR<n>_EL0, PMCCNTR_EL0), Linux
//! `Documentation/arch/arm64/perf.rst`: `index` of the page minus one is the counter, 31 the cycle counter; user
//! access needs `config1` bit 1 and `kernel.perf_user_access=1`.

use crate::policy::{Policy, PolicyKind};
use std::arch::{asm, naked_asm};

/// Counters can be read from user space where the kernel allows it.
pub(crate) const USER_READS: bool = true;

/// Every policy is `isb` or nothing here.
pub(crate) fn supports(_policy: PolicyKind) -> bool {
    true
}

macro_rules! counters {
    ($index:expr, $value:ident, $($n:literal)*) => {
        match $index {
            $($n => asm!(concat!("mrs {}, pmevcntr", $n, "_el0"), out(reg) $value, options(nostack, preserves_flags)),)*
            _ => asm!("mrs {}, pmccntr_el0", out(reg) $value, options(nostack, preserves_flags)),
        }
    };
}

/// Reads the counter `index`: its raw value, not sign-extended.
///
/// # Safety
/// The kernel has allowed user reads in this process (a mapped event with `cap_user_rdpmc` is kept mapped); otherwise
/// the instruction faults.
#[inline(always)]
pub(crate) unsafe fn read_one<P: Policy>(index: u32) -> u64 {
    let value: u64;
    // SAFETY: reads a system register that the caller knows to be readable.
    unsafe {
        if !matches!(P::KIND, PolicyKind::None) {
            asm!("isb", options(nostack, preserves_flags));
        }
        counters!(index, value, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30);
    }
    value
}

/// Two counters and no state: Arm counters do not count one more per interrupt, so nothing has to be subtracted.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    counter: u32,
    subtracted: u32,
}

impl Difference {
    pub(crate) fn new(counter: u32, subtracted: u32, _now: u64) -> Self {
        Self {
            counter,
            subtracted,
        }
    }

    pub(crate) fn counter(&self) -> u32 {
        self.counter
    }

    pub(crate) fn subtracted(&self) -> u32 {
        self.subtracted
    }
}

/// The difference of two counters, read one after the other.
///
/// # Safety
/// As [`read_one`], for both; `state` is valid.
#[inline(always)]
pub(crate) unsafe fn read_difference<P: Policy>(state: *mut Difference) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let (counter, subtracted) = ((*state).counter, (*state).subtracted);
        read_one::<P>(counter).wrapping_sub(read_one::<P>(subtracted))
    }
}

/// Runs a loop of exactly `2 × iterations` instructions and says so (`iterations` is at least 1).
#[inline(never)]
pub fn known_loop(iterations: u64) -> Option<u64> {
    let iterations = iterations.max(1);
    // SAFETY: registers and flags only.
    unsafe {
        asm!("2:", "subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) iterations => _, options(nomem, nostack));
    }
    iterations.checked_mul(2)
}

/// The thread pointer: another one in every thread.
#[must_use]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register of user mode.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// For every counter the instruction that reads it, and a return.
#[unsafe(naked)]
extern "C" fn readers() -> u64 {
    naked_asm!(
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30",
        "mrs x0, pmevcntr\\n\\()_el0",
        "ret",
        ".endr",
        "mrs x0, pmccntr_el0",
        "ret",
    )
}

/// What reads the counter `index` where a header of another language has the read inline: the address of `mrs x0, …` and
/// `ret`, which is called.
#[must_use]
pub fn inline_register(index: u32) -> u64 {
    readers as *const () as u64 + 8 * u64::from(index.min(31))
}

/// The clock of the page's times: the virtual counter.
#[inline(always)]
pub(crate) fn read_clock() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that Linux makes readable in user mode.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags)) };
    ticks
}
