//! The cells of the table: which event, how its period is set, what a sample carries, how often.

use serde::{Deserialize, Serialize};
use truecount_perf::EventAttr;
use truecount_perf::sys::bindings as abi;
use truecount_sample::abi::{branch as br, sample as st};

/// Stack copied per sample for unwinding, as perf does.
const STACK: u32 = 8192;

/// What is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The kernel's timer: exists everywhere.
    CpuClock,
    /// The CPU's cycle counter, whose overflow interrupts.
    Cycles,
}

/// How the period is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// So many samples a second: the kernel keeps adjusting the period.
    Frequency,
    /// So many events a sample.
    Period,
}

/// What a sample carries beside its place and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Nothing.
    None,
    /// The call chain by frame pointers.
    Fp,
    /// Registers and 8 KiB of stack, for unwinding by DWARF later.
    Dwarf,
    /// The branch stack of all branches, user mode and kernel where that may be seen: what the hardware records, and
    /// what `perf record -b` asks for.
    Lbr,
    /// The branch stack of user mode only: filtered, by the kernel where the hardware does not.
    LbrUser,
    /// The call chain by the branch stack's call-stack mode (`--call-graph lbr`).
    LbrStack,
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// What is sampled.
    pub event: Event,
    /// How the period is set.
    pub method: Method,
    /// What a sample carries.
    pub payload: Payload,
    /// Samples a second wished for.
    pub rate: u64,
}

impl Event {
    /// `cpu-clock`, `cycles`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuClock => "cpu-clock",
            Self::Cycles => "cycles",
        }
    }

    /// The event, counting the calling thread in user mode and kernel.
    #[must_use]
    pub fn attr(self) -> EventAttr {
        match self {
            Self::CpuClock => EventAttr::new(
                abi::PERF_TYPE_SOFTWARE,
                u64::from(abi::PERF_COUNT_SW_CPU_CLOCK),
            ),
            Self::Cycles => EventAttr::new(
                abi::PERF_TYPE_HARDWARE,
                u64::from(abi::PERF_COUNT_HW_CPU_CYCLES),
            ),
        }
    }
}

impl Method {
    /// `frequency`, `period`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Frequency => "frequency",
            Self::Period => "period",
        }
    }
}

impl Payload {
    /// As in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fp => "fp",
            Self::Dwarf => "dwarf",
            Self::Lbr => "lbr",
            Self::LbrUser => "lbr-user",
            Self::LbrStack => "lbr-stack",
        }
    }
}

impl Payload {
    /// Whether the branch registers are read at every sample.
    #[must_use]
    pub fn is_branch_stack(self) -> bool {
        matches!(self, Self::Lbr | Self::LbrUser | Self::LbrStack)
    }
}

impl Cell {
    /// The attribute. `per_second` is how often the event happens, for a fixed period; `kernel` whether it may see the
    /// kernel.
    #[must_use]
    pub fn attr(&self, per_second: f64, kernel: bool) -> EventAttr {
        let mut fields = st::IDENTIFIER | st::IP | st::TID | st::TIME | st::CPU | st::PERIOD;
        let mut attr = self.event.attr().exclude_kernel(!kernel).exclude_hv(true);
        match self.payload {
            Payload::None => {}
            Payload::Fp => {
                fields |= st::CALLCHAIN;
                attr = attr.exclude_callchain_kernel(!kernel);
            }
            Payload::Dwarf => {
                fields |= st::CALLCHAIN | st::REGS_USER | st::STACK_USER;
                attr = attr
                    .exclude_callchain_user(true)
                    .exclude_callchain_kernel(!kernel)
                    .sample_regs_user(truecount_sample::abi::user_registers())
                    .sample_stack_user(STACK);
            }
            Payload::Lbr => {
                fields |= st::BRANCH_STACK;
                // Without a privilege the kernel takes the event's own (perf_copy_attr in kernel/events/core.c).
                attr = attr.branch_sample_type(br::ANY);
            }
            Payload::LbrUser => {
                fields |= st::BRANCH_STACK;
                attr = attr.branch_sample_type(br::ANY | br::USER);
            }
            Payload::LbrStack => {
                fields |= st::CALLCHAIN | st::BRANCH_STACK;
                attr = attr
                    .branch_sample_type(br::USER | br::CALL_STACK | br::NO_CYCLES | br::NO_FLAGS)
                    .exclude_callchain_kernel(!kernel);
            }
        }
        attr = match self.method {
            Method::Frequency => attr.sample_frequency(self.rate),
            Method::Period => attr.sample_every(self.period(per_second)),
        };
        attr.sample_type(fields)
            .sample_id_all(true)
            .context_switch(true)
            .use_clockid(true)
            .clockid(libc::CLOCK_MONOTONIC)
            .disabled(true)
    }

    /// Events from one sample to the next, where the event happens `per_second` times a second.
    #[must_use]
    pub fn period(&self, per_second: f64) -> u64 {
        ((per_second / self.rate.max(1) as f64).round() as u64).max(1)
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} by {}, {}, {} a second",
            self.event.name(),
            self.method.name(),
            self.payload.name(),
            self.rate
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_an_attribute() {
        let cell = |method, payload| Cell {
            event: Event::CpuClock,
            method,
            payload,
            rate: 4000,
        };
        let fixed = cell(Method::Period, Payload::None).attr(1e9, true);
        assert!(!fixed.get_freq() && fixed.get_sample_period() == 250_000);
        let often = cell(Method::Frequency, Payload::Dwarf).attr(1e9, false);
        assert!(often.get_freq() && often.get_sample_period() == 4000);
        assert!(often.get_exclude_kernel() && often.get_sample_stack_user() == STACK);
        for (payload, branches) in [
            (Payload::Lbr, br::ANY),
            (Payload::LbrUser, br::ANY | br::USER),
            (
                Payload::LbrStack,
                br::USER | br::CALL_STACK | br::NO_CYCLES | br::NO_FLAGS,
            ),
        ] {
            let lbr = cell(Method::Period, payload).attr(1e9, true);
            assert_ne!(lbr.get_sample_type() & st::BRANCH_STACK, 0);
            assert_eq!(lbr.get_branch_sample_type(), branches);
        }
        assert_eq!(
            cell(Method::Period, Payload::None).to_string(),
            "cpu-clock by period, none, 4000 a second"
        );
    }
}
