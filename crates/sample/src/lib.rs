//! Samples and branch stacks of Linux `perf_event`: one parser for live rings and `perf.data` files, and
//! what a recording's branch stacks say about the time of every block of code.
//!
//! ```no_run
//! use truecount_sample::{Body, Recording};
//! let recording = Recording::open("perf.data".as_ref())?;
//! let mut samples = 0u64;
//! for record in recording.records() {
//!     if let Body::Sample(sample) = recording.decode(&record?)?.0 {
//!         samples += 1;
//!         let _ = (sample.ip, sample.branches);
//!     }
//! }
//! # Ok::<(), truecount_sample::Error>(())
//! ```
//!
//! The parser never panics and never trusts a length: what a recording claims and does not hold is an
//! [`Error`] with its offset.

#![deny(unsafe_code)]

pub mod abi;
mod attr;
pub mod blocks;
mod branch;
mod bytes;
pub mod code;
pub mod elf;
mod error;
mod file;
#[cfg(feature = "symbols")]
mod guard;
pub mod live;
#[cfg(feature = "symbols")]
pub mod profile;
mod record;
mod sample;
#[cfg(feature = "symbols")]
pub mod script;
pub mod spaces;
#[cfg(feature = "symbols")]
pub mod symbols;
#[cfg(feature = "symbols")]
pub mod unwind;
pub mod writer;

pub use attr::EventAttr;
pub use branch::{BranchEntry, BranchStack, SATURATED};
pub use bytes::U64s;
pub use error::{Error, Result};
pub use file::features::{BuildId, Features};
pub use file::tracing::names as tracepoint_names;
pub use file::{EventDesc, Losses, Record, RecordRange, Recording, Records};
pub use record::{Body, Comm, FrameError, Mmap, RawRecord, Task, split_record};
pub use sample::{ReadValues, Registers, Sample, SampleId, SampleLayout};
