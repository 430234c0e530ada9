//! What the whole machine does: per CPU, core, socket and node the utilisation, interrupts, context switches, faults,
//! instructions per cycle, frequency, cache misses, top-down shares, memory traffic and energy.
//!
//! Three steps, apart from each other so that each can be tested by itself:
//!
//! | module | what it does |
//! |---|---|
//! | [`proc`], [`topology`], [`domains`] | read files below a root: `/proc`, `/sys`, or a recorded tree |
//! | [`plan`], [`counters`] | which perf events are counted, opened on every CPU through any [`truecount_perf::Kernel`] |
//! | [`snapshot`], [`rates`] | all of it at one moment; and pure: what happened between two moments |
//! | [`view`] | pure: the amounts of CPUs summed to rows, and rows to cells with values or reasons |
//!
//! Nothing here writes to the machine, touches an MSR or takes a counter from anybody: perf schedules these events
//! like any others, and what had to share is labelled scaled. A value that is not available is a reason, never 0.
//!
//! ```
//! use truecount_system::{Monitor, Scope};
//! // The machine this runs on, whatever it offers.
//! let mut monitor = Monitor::this();
//! std::thread::sleep(std::time::Duration::from_millis(20));
//! let interval = monitor.step();
//! let view = monitor.view(&interval, Scope::Cpu);
//! assert_eq!(view.rows[0].scope, Scope::Machine);
//! for (column, cell) in view.columns.iter().zip(&view.rows[0].cells) {
//!     match cell.value() {
//!         Some(value) => assert!(value.is_finite(), "{}", column.name),
//!         None => assert!(!cell.cause().is_empty(), "{}", column.name),
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

mod columns;
pub mod counters;
pub mod domains;
mod files;
mod monitor;
pub mod plan;
pub mod proc;
pub mod rates;
mod server;
pub mod snapshot;
pub mod topology;
pub mod view;

pub use columns::Column;
pub use monitor::Monitor;
pub use rates::{Amount, Interval};
pub use server::{Server, status_of};
pub use snapshot::Snapshot;
pub use topology::Topology;
pub use view::{Row, Scope, View};
