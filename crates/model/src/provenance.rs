//! Who counted a number, and how sure it is.

use std::fmt;

/// Who counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum SourceKind {
    /// The CPU's performance counters, through `perf_event`.
    Hardware,
    /// The virtual PMU: translated code that counts itself.
    Virtual,
    /// Single-stepping by `ptrace`.
    Step,
    /// The kernel's own bookkeeping: clocks, `rusage`, software events.
    Software,
}

impl SourceKind {
    /// The name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Virtual => "virtual",
            Self::Step => "step",
            Self::Software => "software",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How sure a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Precision {
    /// The true number, by the way it was obtained.
    Exact,
    /// A counter that ran the whole time; it may hold the counter's own errors.
    Counted,
    /// Extrapolated from the part of the time that the counter ran.
    Scaled,
}

impl Precision {
    /// The name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Counted => "counted",
            Self::Scaled => "scaled",
        }
    }
}
