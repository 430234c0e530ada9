//! Kinds that are no event of the PMU: differences of two events, clocks, and zero. They keep their names through
//! parsing and resolving; the `truecount` library counts them.

/// A kind that is not a plain perf event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Special {
    /// `instructions-minus-irqs:u`: user instructions minus hardware interrupts taken, because x86 counters add one
    /// instruction per interrupt. Unit: count.
    InstructionsMinusIrqs,
    /// `instructions-minus-exceptions:u`: user instructions minus interrupts and exceptions (AMD r0420). Unit: count.
    InstructionsMinusExceptions,
    /// `wall-time`: the monotonic clock, in ns.
    WallTime,
    /// `user-time`: CPU time in user mode, in ns.
    UserTime,
    /// `system-time`: CPU time in the kernel, in ns.
    SystemTime,
    /// `zero`: always 0; shows what reading costs.
    Zero,
}

/// Kind, names (the canonical one first), unit.
const ROWS: &[(Special, &[&str], &str)] = &[
    (
        Special::InstructionsMinusIrqs,
        &["instructions-minus-irqs"],
        "count",
    ),
    (
        Special::InstructionsMinusExceptions,
        &["instructions-minus-exceptions", "instructions-minus-r0420"],
        "count",
    ),
    // The second names are perf's tool events (perf-list(1)).
    (Special::WallTime, &["wall-time", "duration_time"], "ns"),
    (Special::UserTime, &["user-time", "user_time"], "ns"),
    (Special::SystemTime, &["system-time", "system_time"], "ns"),
    (Special::Zero, &["zero"], "count"),
];

impl Special {
    /// Looks a name (without modifiers) up.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        ROWS.iter()
            .find(|(_, names, _)| names.contains(&name))
            .map(|(kind, _, _)| *kind)
    }

    /// The canonical name, filter included: `instructions-minus-irqs:u`, `wall-time`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InstructionsMinusIrqs => "instructions-minus-irqs:u",
            Self::InstructionsMinusExceptions => "instructions-minus-exceptions:u",
            Self::WallTime => "wall-time",
            Self::UserTime => "user-time",
            Self::SystemTime => "system-time",
            Self::Zero => "zero",
        }
    }

    /// `count` or `ns`.
    #[must_use]
    pub fn unit(self) -> &'static str {
        ROWS.iter()
            .find(|(kind, _, _)| *kind == self)
            .map_or("count", |(_, _, unit)| unit)
    }

    /// Whether the kind is a difference of two hardware events in user mode.
    #[must_use]
    pub fn needs_pmu(self) -> bool {
        matches!(
            self,
            Self::InstructionsMinusIrqs | Self::InstructionsMinusExceptions
        )
    }

    /// All names, canonical ones first in their rows.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        ROWS.iter()
            .flat_map(|(_, names, _)| names.iter().copied())
            .collect()
    }
}
