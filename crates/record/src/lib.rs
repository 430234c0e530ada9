//! Live sampling: events chosen and opened with a ring per CPU, their records into a `perf.data` file ([`Recorder`]) or
//! summed up while they come ([`live`]), and the names of places in code.
//!
//! Nothing here prints. Errors are those of `truecount-run`: a kind, a cause in one line, a hint.

pub mod choose;
mod description;
mod existing;
pub mod kallsyms;
pub mod listing;
pub mod live;
pub mod names;
pub mod procfs;
mod recorder;
mod rings;

pub use choose::{Chains, Chosen, ChosenEvent, Request, choose, choose_on};
pub use description::describe;
pub use recorder::{Recorder, Summary};
pub use rings::{Opened, Scope};
