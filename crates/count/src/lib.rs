//! Exact counters to embed: what a piece of code costs in the CPU's own counters.
//!
//! ```
//! use truecount::Counter;
//!
//! // Exact where the machine can; wall time, with the reason, where it cannot.
//! let best = Counter::open_or_best("instructions-minus-irqs:u");
//! let counter: Counter = best.counter;
//! if let Some(reason) = &best.instead_because {
//!     eprintln!("counting {} instead: {reason}", counter.name());
//! }
//! let start = counter.read();
//! let text = format!("{:?}", [1, 2, 3]);
//! let cost = counter.since(start);
//! println!("{} {} ({}) for {text}", cost, counter.unit(), counter.name());
//! ```
//!
//! * [`Counter`]: one event on the calling thread, read in a few instructions; [`Single`] and [`Difference`] are its
//!   bare readers.
//! * [`CounterSet`]: several events, counted together.
//! * [`PerThread`]: one handle, right on every thread.
//! * [`Options`]: inherit, insist on a way to read, choose a kernel.
//! * [`Recorder`]: nested regions of a program into a profile that `truecount profile` and measureme read.
//! * [`Reading`]: a count with its times and provenance, scaled where it must be.
//!
//! Reading never allocates, locks, logs or panics. The events, the `perf_event` boundary and its errors are
//! [`truecount_events`] and [`truecount_perf`].

/// The README's examples are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod arch;
mod clocks;
mod core;
mod counter;
mod error;
mod geometry;
mod interrupts;
mod lookup;
mod open;
mod parts;
pub mod policy;
mod reading;
pub mod recorder;
mod set;
mod stamp;
mod thread;
mod verify;

pub use core::Method;
pub use counter::{Best, Counter, Difference, Single};
pub use error::Error;
pub use interrupts::{Subtraction, subtraction};
pub use open::{Mode, Options};
pub use parts::VIRTUAL_MARK;
pub use policy::{Cpuid, Fence, Policy, PolicyKind, Serialize, Unordered};
pub use reading::Reading;
pub use recorder::{Label, Recorder, RecorderError, Region};
pub use set::{CounterSet, Points};
pub use stamp::Stamp;
pub use thread::PerThread;
pub use truecount_model::{Precision, SourceKind as Source};

/// A loop of exactly two instructions an iteration, for tests of counters; gives its length where that is known.
#[doc(hidden)]
pub use arch::known_loop;
#[doc(hidden)] // for the C interface's inline reads
pub use arch::{inline_register, thread_pointer};

pub use truecount_events as events;
pub use truecount_perf as perf;
