//! A value, or the reason why there is none.

use crate::{Precision, SourceKind};

/// One event of one run.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Reading {
    /// Name with its filter, as `instructions:u`.
    pub event: String,
    /// The count; `None` when it was not counted, and then `reason` is there.
    pub value: Option<u64>,
    /// What `value * scale` is in: `count`, `ns`, `bytes`, or what the PMU says (`Joules`).
    pub unit: String,
    /// Factor from `value` to `unit`; 1 nearly always, and then left out of documents.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_one"))]
    pub scale: f64,
    /// Who counted; `None` when nobody did.
    pub source: Option<SourceKind>,
    /// How sure it is; `None` when it was not counted.
    pub precision: Option<Precision>,
    /// How long the counter was enabled, nanoseconds, where the source knows.
    pub enabled_ns: Option<u64>,
    /// How long it was really counting; less than `enabled_ns` when the kernel rotated counters.
    pub running_ns: Option<u64>,
    /// Why there is no value.
    pub reason: Option<String>,
    /// What to do to get one, where something can be done.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub hint: Option<String>,
}

impl Reading {
    /// A value of the kernel's bookkeeping.
    pub fn software(event: impl Into<String>, unit: &str, value: u64) -> Self {
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
    pub fn missing(event: impl Into<String>, unit: &str, reason: impl Into<String>) -> Self {
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
    pub fn scaled_share(&self) -> Option<f64> {
        match (self.precision, self.enabled_ns, self.running_ns) {
            (Some(Precision::Scaled), Some(enabled), Some(running)) if enabled > 0 => {
                Some(running as f64 / enabled as f64)
            }
            _ => None,
        }
    }
}

/// For serde: a scale of exactly 1 says nothing.
pub fn is_one(scale: &f64) -> bool {
    scale.to_bits() == 1.0f64.to_bits()
}
