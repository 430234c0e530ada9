//! How often an interrupt of each handler accesses registers.
//!
//! Classic, Linux 6.1 (its tracepoints `msr:write_msr`, `msr:read_msr` and `msr:rdpmc` in an emulated Skylake): counting is
//! switched off and on (2 WRMSR), the status is acknowledged (1) and the counter gets its next period (1); the status is
//! read before and after (2 RDMSR), the counter once (1 RDPMC). With a branch stack, which the hardware stops at the
//! interrupt: IA32_DEBUGCTL is read and written to start it again (1 RDMSR, 1 WRMSR), beside the registers of the stack
//! itself (`__intel_pmu_lbr_enable`). Written in 750 interrupts of a fixed period, by register: IA32_PERF_GLOBAL_CTRL 1,530,
//! IA32_FIXED_CTR1 760, IA32_PERF_GLOBAL_OVF_CTRL 750; with `-b` IA32_DEBUGCTL 766 more, in call-stack mode, which the
//! hardware does not stop, 10 more. Three writes more (IA32_DEBUGCTL twice, MSR_LBR_SELECT) are those of switching the
//! stack off and on anew: when the thread is scheduled, and when a frequency's period is adjusted (`-F`: 1.5 and 0.3 a
//! sample).
//! Freezing: the status is read once and acknowledged once, and the counter is read.

use super::{Handler, Stack};
use serde::{Deserialize, Serialize};

/// Register accesses of one interrupt, on average.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Accesses {
    /// WRMSR.
    pub wrmsr: f64,
    /// RDMSR.
    pub rdmsr: f64,
    /// RDPMC.
    pub rdpmc: f64,
}

/// Of the classic handler, and where the numbers are from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Classic {
    /// Without branch stack.
    pub plain: Accesses,
    /// What a branch stack of 32 entries of from, to and info adds.
    pub stack: Accesses,
    /// `measured: …` or `stated: …`.
    pub origin: String,
}

impl Classic {
    /// As Linux 6.1 has it.
    #[must_use]
    pub fn stated() -> Self {
        Self {
            plain: Accesses {
                wrmsr: 4.0,
                rdmsr: 2.0,
                rdpmc: 1.0,
            },
            stack: Accesses {
                wrmsr: 1.0,
                rdmsr: 1.0 + Stack::Info.reads() as f64,
                rdpmc: 0.0,
            },
            origin: "stated: as Linux 6.1's tracepoints of the group msr count them".to_owned(),
        }
    }

    /// By the tracepoints of the group msr: per interrupt without, and with a branch stack (`None`: not measured).
    #[must_use]
    pub fn measured(plain: Accesses, with_stack: Option<Accesses>) -> Self {
        let stack = with_stack.map_or(Self::stated().stack, |with| Accesses {
            wrmsr: (with.wrmsr - plain.wrmsr).max(0.0),
            rdmsr: (with.rdmsr - plain.rdmsr).max(0.0),
            rdpmc: (with.rdpmc - plain.rdpmc).max(0.0),
        });
        Self {
            plain,
            stack,
            origin: "measured: msr:write_msr, msr:read_msr and msr:rdpmc".to_owned(),
        }
    }

    /// Of one interrupt of a handler.
    #[must_use]
    pub fn of(&self, handler: Handler, stack: Stack) -> Accesses {
        let registers = stack.reads() as f64;
        match (handler, stack) {
            (Handler::Freezing, _) => Accesses {
                wrmsr: 1.0,
                rdmsr: 1.0 + registers,
                rdpmc: 1.0,
            },
            (Handler::Classic, Stack::None) => self.plain,
            (Handler::Classic, _) => {
                let without_info = Stack::Info.reads() as f64 - registers;
                Accesses {
                    wrmsr: self.plain.wrmsr + self.stack.wrmsr,
                    rdmsr: (self.plain.rdmsr + self.stack.rdmsr - without_info).max(0.0),
                    rdpmc: self.plain.rdpmc + self.stack.rdpmc,
                }
            }
        }
    }
}
