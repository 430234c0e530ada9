//! The event that counts hardware interrupts taken, by CPU. x86 counters of `instructions:u` add one per interrupt
//! that arrives in user mode; subtracting this event makes them exact. Public event tables do not list it (or no
//! longer), so this one is written by hand, with a source beside each row. **Assumed rows must be verified at run
//! time** (does it count?), and the library verifies the others too.

use crate::cpu::{Cpu, Vendor};
use crate::{Machine, Special};

/// How sure a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Certainty {
    /// The vendor documents it for this model.
    Documented,
    /// Carried over from neighbouring models.
    Assumed,
}

/// An event to subtract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IrqEvent {
    /// `config` of a `PERF_TYPE_RAW` event.
    pub config: u64,
    /// The vendor's name.
    pub name: &'static str,
    /// How sure the row is.
    pub certainty: Certainty,
    /// Where it is from.
    pub source: &'static str,
}

struct Row {
    vendor: Vendor,
    /// First and last family.
    families: (u32, u32),
    /// Empty: every model.
    models: &'static [u32],
    event: IrqEvent,
}

const INTEL_DOCUMENTED: IrqEvent = IrqEvent {
    config: 0x01cb,
    name: "HW_INTERRUPTS.RECEIVED",
    certainty: Certainty::Documented,
    source: "Intel SDM vol. 3B (2019 and before), event tables of the core PMUs: CBH, umask 01H",
};

const INTEL_ASSUMED: IrqEvent = IrqEvent {
    config: 0x01cb,
    name: "HW_INTERRUPTS.RECEIVED",
    certainty: Certainty::Assumed,
    source: "as on Sandy Bridge to Cascade Lake; not in the tables of later models",
};

const AMD_OLD: IrqEvent = IrqEvent {
    config: 0x00cf,
    name: "Interrupts Taken",
    certainty: Certainty::Documented,
    source: "AMD BKDG of families 10h to 16h, PMCx0CF",
};

const AMD_ZEN: IrqEvent = IrqEvent {
    config: 0x002c,
    name: "LsIntTaken",
    certainty: Certainty::Documented,
    source: "AMD PPR of families 17h to 1Ah, PMCx02C",
};

const ROWS: &[Row] = &[
    Row {
        vendor: Vendor::Intel,
        families: (6, 6),
        // Sandy Bridge 2a 2d, Ivy Bridge 3a 3e, Haswell 3c 3f 45 46, Broadwell 3d 47 4f 56,
        // Skylake 4e 5e, Skylake-X and Cascade Lake 55, Kaby and Coffee Lake 8e 9e
        models: &[
            0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56, 0x4e, 0x5e,
            0x55, 0x8e, 0x9e,
        ],
        event: INTEL_DOCUMENTED,
    },
    Row {
        vendor: Vendor::Intel,
        families: (6, u32::MAX),
        models: &[],
        event: INTEL_ASSUMED,
    },
    Row {
        vendor: Vendor::Amd,
        families: (0x10, 0x16),
        models: &[],
        event: AMD_OLD,
    },
    Row {
        vendor: Vendor::Amd,
        families: (0x17, 0x1a),
        models: &[],
        event: AMD_ZEN,
    },
    Row {
        vendor: Vendor::Amd,
        families: (0x1b, u32::MAX),
        models: &[],
        event: IrqEvent {
            certainty: Certainty::Assumed,
            source: "as on Zen 1 to Zen 5 (PMCx02C)",
            ..AMD_ZEN
        },
    },
    Row {
        vendor: Vendor::Hygon,
        families: (0x18, u32::MAX),
        models: &[],
        event: AMD_ZEN,
    },
];

const AMD_EXCEPTIONS: IrqEvent = IrqEvent {
    config: 0x0420,
    name: "r0420 (undocumented)",
    certainty: Certainty::Assumed,
    source: "measured by others on Zen 1 and 2: one per interrupt or exception; not in AMD's documents",
};

const EXCEPTION_ROWS: &[Row] = &[
    Row {
        vendor: Vendor::Amd,
        families: (0x17, u32::MAX),
        models: &[],
        event: AMD_EXCEPTIONS,
    },
    Row {
        vendor: Vendor::Hygon,
        families: (0x18, u32::MAX),
        models: &[],
        event: AMD_EXCEPTIONS,
    },
];

/// The event that counts interrupts taken on this CPU. `None`: none is known (Arm counters need none: they do not
/// count one more per interrupt).
///
/// ```
/// use truecount_events::{irq, Cpu, Vendor};
/// let skylake = Cpu { vendor: Vendor::Intel, family: 6, model: 0x5e, stepping: 3 };
/// assert_eq!(irq::interrupts(skylake).unwrap().config, 0x01cb);
/// let zen5 = Cpu { vendor: Vendor::Amd, family: 0x1a, model: 2, stepping: 1 };
/// assert_eq!(irq::interrupts(zen5).unwrap().config, 0x002c);
/// ```
#[must_use]
pub fn interrupts(cpu: Cpu) -> Option<IrqEvent> {
    find(ROWS, cpu)
}

/// The event that counts interrupts and exceptions together: AMD Zen only (r0420).
#[must_use]
pub fn interrupts_and_exceptions(cpu: Cpu) -> Option<IrqEvent> {
    find(EXCEPTION_ROWS, cpu)
}

fn find(rows: &[Row], cpu: Cpu) -> Option<IrqEvent> {
    rows.iter()
        .find(|row| {
            row.vendor == cpu.vendor
                && (row.families.0..=row.families.1).contains(&cpu.family)
                && (row.models.is_empty() || row.models.contains(&cpu.model))
        })
        .map(|row| row.event)
}

/// SpecLockMapCommit on Zen: reads 0 where the work-around for rr's Zen problem is in force.
pub const ZEN_SPEC_LOCK_MAP_COMMIT: u64 = 0x0825;

/// The event that a difference such as `instructions-minus-irqs:u` subtracts on this machine.
///
/// # Errors
/// One line: why there is none.
pub fn subtracted(special: Special, machine: &Machine) -> Result<IrqEvent, &'static str> {
    let Some(cpu) = machine.cpu() else {
        return Err("this CPU is not known from /proc/cpuinfo");
    };
    let found = match special {
        Special::InstructionsMinusIrqs => interrupts(cpu),
        _ => interrupts_and_exceptions(cpu),
    };
    match (found, cpu.vendor) {
        (Some(event), _) => Ok(event),
        (None, Vendor::Arm(_)) => {
            Err("Arm counters do not count interrupts: instructions:u is exact by itself")
        }
        (None, Vendor::Intel) if special == Special::InstructionsMinusExceptions => Err(
            "no Intel event counts interrupts and exceptions together; use instructions-minus-irqs:u",
        ),
        (None, _) => Err("no event is known that counts interrupts on this CPU"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(vendor: Vendor, family: u32, model: u32) -> Cpu {
        Cpu {
            vendor,
            family,
            model,
            stepping: 0,
        }
    }

    #[test]
    fn rows() {
        let found = |c| interrupts(c).map(|e| (e.config, e.certainty));
        assert_eq!(
            found(cpu(Vendor::Intel, 6, 0x2a)),
            Some((0x01cb, Certainty::Documented))
        );
        assert_eq!(
            found(cpu(Vendor::Intel, 6, 0x8f)),
            Some((0x01cb, Certainty::Assumed))
        );
        assert_eq!(
            found(cpu(Vendor::Intel, 19, 1)),
            Some((0x01cb, Certainty::Assumed))
        );
        assert_eq!(found(cpu(Vendor::Intel, 5, 1)), None);
        assert_eq!(
            found(cpu(Vendor::Amd, 0x15, 2)),
            Some((0x00cf, Certainty::Documented))
        );
        assert_eq!(
            found(cpu(Vendor::Amd, 0x17, 1)),
            Some((0x002c, Certainty::Documented))
        );
        assert_eq!(
            found(cpu(Vendor::Amd, 0x1f, 1)),
            Some((0x002c, Certainty::Assumed))
        );
        assert_eq!(found(cpu(Vendor::Arm(0x41), 8, 0xd0c)), None);
    }

    #[test]
    fn exceptions_on_zen_only() {
        assert!(interrupts_and_exceptions(cpu(Vendor::Amd, 0x19, 1)).is_some());
        assert!(interrupts_and_exceptions(cpu(Vendor::Amd, 0x15, 1)).is_none());
        assert!(interrupts_and_exceptions(cpu(Vendor::Intel, 6, 0x5e)).is_none());
    }
}
