//! A value, or the reason why there is none.

use crate::{Precision, Reason, SourceKind};

/// A value with who counted it and how sure it is, or why there is none: never both, never neither.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured<T = u64> {
    /// It was counted.
    Value {
        /// The count.
        value: T,
        /// Who counted.
        source: SourceKind,
        /// How sure it is.
        precision: Precision,
    },
    /// It was not.
    Missing(Reason),
}

impl<T: Copy> Measured<T> {
    /// The value, where there is one.
    pub fn value(&self) -> Option<T> {
        match self {
            Self::Value { value, .. } => Some(*value),
            Self::Missing(_) => None,
        }
    }

    /// Who counted; `None` when nobody did.
    pub fn source(&self) -> Option<SourceKind> {
        match self {
            Self::Value { source, .. } => Some(*source),
            Self::Missing(_) => None,
        }
    }

    /// How sure it is; `None` when it was not counted.
    pub fn precision(&self) -> Option<Precision> {
        match self {
            Self::Value { precision, .. } => Some(*precision),
            Self::Missing(_) => None,
        }
    }

    /// Why there is no value.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Value { .. } => None,
            Self::Missing(reason) => Some(reason),
        }
    }

    /// Who counted, for a cell of a table: empty when nobody did.
    pub fn source_name(&self) -> &'static str {
        self.source().map_or("", SourceKind::name)
    }

    /// How sure it is, for a cell of a table: empty when it was not counted.
    pub fn precision_name(&self) -> &'static str {
        self.precision().map_or("", Precision::name)
    }

    /// Why there is no value, for a cell of a table: empty when there is one.
    pub fn cause(&self) -> &str {
        self.reason().map_or("", |reason| &reason.cause)
    }
}

/// All keys are there, null where they say nothing; `hint` only where something can be done.
#[cfg(feature = "serde")]
impl<T: Copy + serde::Serialize> serde::Serialize for Measured<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("value", &self.value())?;
        map.serialize_entry("source", &self.source())?;
        map.serialize_entry("precision", &self.precision())?;
        map.serialize_entry("reason", &self.reason().map(|reason| &reason.cause))?;
        if let Some(hint) = self.reason().and_then(|reason| reason.hint.as_ref()) {
            map.serialize_entry("hint", hint)?;
        }
        map.end()
    }
}

/// One event of one run.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Reading {
    /// Name with its filter, as `instructions:u`.
    pub event: String,
    /// The count with its provenance, or why there is none.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub result: Measured,
    /// What `value * scale` is in: `count`, `ns`, `bytes`, or what the PMU says (`Joules`).
    pub unit: String,
    /// Factor from `value` to `unit`; 1 nearly always, and then left out of documents.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_one"))]
    pub scale: f64,
    /// How long the counter was enabled, nanoseconds, where the source knows.
    pub enabled_ns: Option<u64>,
    /// How long it was really counting; less than `enabled_ns` when the kernel rotated counters.
    pub running_ns: Option<u64>,
}

impl Reading {
    /// A result in a unit.
    pub fn new(event: impl Into<String>, unit: &str, result: Measured) -> Self {
        Self {
            event: event.into(),
            result,
            unit: unit.to_owned(),
            scale: 1.0,
            enabled_ns: None,
            running_ns: None,
        }
    }

    /// A value of the kernel's bookkeeping.
    pub fn software(event: impl Into<String>, unit: &str, value: u64) -> Self {
        let (source, precision) = (SourceKind::Software, Precision::Counted);
        Self::new(
            event,
            unit,
            Measured::Value {
                value,
                source,
                precision,
            },
        )
    }

    /// An event that was not counted.
    pub fn missing(event: impl Into<String>, unit: &str, reason: impl Into<Reason>) -> Self {
        Self::new(event, unit, Measured::Missing(reason.into()))
    }

    /// The count, where there is one.
    pub fn value(&self) -> Option<u64> {
        self.result.value()
    }

    /// The part of the time that the counter ran, when it was less than all.
    pub fn scaled_share(&self) -> Option<f64> {
        match (self.result.precision(), self.enabled_ns, self.running_ns) {
            (Some(Precision::Scaled), Some(enabled), Some(running)) if enabled > 0 => {
                Some(running as f64 / enabled as f64)
            }
            _ => None,
        }
    }
}

impl Reason {
    /// The reading of a metric that was not counted for this reason.
    #[must_use]
    pub fn missing(&self, name: &str, unit: &str) -> Reading {
        Reading::missing(name, unit, self.clone())
    }
}

/// For serde: a scale of exactly 1 says nothing.
pub fn is_one(scale: &f64) -> bool {
    scale.to_bits() == 1.0f64.to_bits()
}
