//! What a measured number is: its value or the reason why there is none, its unit, who counted it, how sure it is, and
//! in which mode of the CPU it was counted.
//!
//! Nothing is shown as 0 when it was not counted: a [`Reading`] holds either a value or a [`Reason`], never a
//! placeholder. The crate is a leaf: it depends on nothing, and on serde only with the feature of that name.
#![forbid(unsafe_code)]

pub mod number;
mod provenance;
mod reading;
mod reason;

pub use provenance::{Precision, SourceKind, split_filter};
pub use reading::{Measured, Reading, is_one};
pub use reason::Reason;
