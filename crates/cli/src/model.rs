//! What a measured number is: its value, unit, source, how sure it is, and why it is missing.
//!
//! The invariant of the house: nothing is shown as 0 when it was not counted. So a reading holds
//! either a value or a reason, never a placeholder.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceKind {
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
    pub(crate) fn name(self) -> &'static str {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Precision {
    /// The true number, by the way it was obtained.
    Exact,
    /// A counter that ran the whole time; it may hold the counter's own errors.
    Counted,
    /// Extrapolated from the part of the time that the counter ran.
    Scaled,
}

impl Precision {
    /// The name in tables and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Counted => "counted",
            Self::Scaled => "scaled",
        }
    }
}

/// One event of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Reading {
    /// Name with its filter, as `instructions:u`.
    pub(crate) event: String,
    /// The count; `None` when it was not counted, and then `reason` is there.
    pub(crate) value: Option<u64>,
    /// What `value * scale` is in: `count`, `ns`, `bytes`, or what the PMU says (`Joules`).
    pub(crate) unit: String,
    /// Factor from `value` to `unit`; 1 nearly always, and then left out of documents.
    #[serde(skip_serializing_if = "is_one")]
    pub(crate) scale: f64,
    /// Who counted; `None` when nobody did.
    pub(crate) source: Option<SourceKind>,
    /// How sure it is; `None` when it was not counted.
    pub(crate) precision: Option<Precision>,
    /// How long the counter was enabled, nanoseconds, where the source knows.
    pub(crate) enabled_ns: Option<u64>,
    /// How long it was really counting; less than `enabled_ns` when the kernel rotated counters.
    pub(crate) running_ns: Option<u64>,
    /// Why there is no value.
    pub(crate) reason: Option<String>,
    /// What to do to get one, where something can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Reading {
    /// A value of the kernel's bookkeeping.
    pub(crate) fn software(event: impl Into<String>, unit: &str, value: u64) -> Self {
        Self {
            event: event.into(),
            value: Some(value),
            unit: unit.to_owned(),
            scale: 1.0,
            source: Some(SourceKind::Software),
            precision: Some(Precision::Counted),
            enabled_ns: None,
            running_ns: None,
            reason: None,
            hint: None,
        }
    }

    /// An event that was not counted.
    pub(crate) fn missing(event: impl Into<String>, unit: &str, reason: impl Into<String>) -> Self {
        Self {
            event: event.into(),
            value: None,
            unit: unit.to_owned(),
            scale: 1.0,
            source: None,
            precision: None,
            enabled_ns: None,
            running_ns: None,
            reason: Some(reason.into()),
            hint: None,
        }
    }

    /// The part of the time that the counter ran, when it was less than all.
    pub(crate) fn scaled_share(&self) -> Option<f64> {
        match (self.precision, self.enabled_ns, self.running_ns) {
            (Some(Precision::Scaled), Some(enabled), Some(running)) if enabled > 0 => {
                Some(running as f64 / enabled as f64)
            }
            _ => None,
        }
    }
}

/// For serde: a scale of exactly 1 says nothing.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde asks for"
)]
pub(crate) fn is_one(scale: &f64) -> bool {
    scale.to_bits() == 1.0f64.to_bits()
}
