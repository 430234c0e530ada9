//! Names to encodings: event expressions as in perf, resolved against this machine (or a copy of another's sysfs).
//!
//! Two steps. [`parse`] reads the grammar and looks nothing up; [`resolve`] finds every name and gives plain numbers
//! for `perf_event_attr`, with the canonical name, filter, unit and scale to show beside a count.
//!
//! ```
//! use truecount_events::{Kind, Machine, resolve};
//! let machine = Machine::unknown(); // Machine::this() for the one this runs on
//! let resolved = resolve("{instructions,branch-misses}:u,wall-time", &machine).unwrap();
//! assert_eq!(resolved.groups.len(), 2);
//! let names: Vec<_> = resolved.events().map(|e| e.name.as_str()).collect();
//! assert_eq!(names, ["instructions:u", "branch-misses:u", "wall-time"]);
//!
//! let error = resolve("instrutions:u", &machine).unwrap_err();
//! assert_eq!(error.near, ["instructions"]);
//! ```
//!
//! Names come from the kernel's generic events ([`generic`]), `rNNN`, the PMU's `events/` and `format/` in sysfs,
//! tracefs, the kinds of this project ([`Special`]), and any [`Catalogue`] added. [`irq`] knows which event counts
//! interrupts on which CPU.

#![forbid(unsafe_code)]

mod ast;
mod cpu;
mod encoding;
mod error;
mod format;
pub mod generic;
pub mod irq;
mod machine;
#[cfg(feature = "metrics")]
pub mod metrics;
mod modifiers;
mod parse;
mod resolve;
mod special;
mod suggest;
mod sysfs;
#[cfg(feature = "tables")]
pub mod tables;
mod terms;

pub use ast::{EventExpr, Expression, GroupExpr, Head, Term, TermValue};
pub use cpu::{Cpu, Vendor, arm_core, arm_implementer};
pub use encoding::{Cpus, Encoding, Event, Group, Kind, Origin, Resolved};
pub use error::{Error, ErrorKind, MAX_LENGTH, Span};
pub use format::Format;
pub use machine::{Catalogue, Definition, Machine};
pub use modifiers::Modifiers;
pub use parse::{parse, parse_terms};
pub use resolve::{resolve, resolve_parsed};
pub use special::Special;
pub use suggest::did_you_mean;
pub use sysfs::{Pmu, PmuEvent, Sysfs, cpu_list};
