//! Starts a program and says who counts it.
//!
//! - [`runner`]: a launcher forked early, so that starting is cheap and memory figures are the program's own;
//! - [`source`]: who counts: the CPU's counters, the virtual PMU, single-stepping, the kernel's bookkeeping;
//! - [`request`]: what is to be measured, from event expressions; [`metrics`]: formulas over events;
//! - [`determinism`]: what makes identical runs differ, and the remedies; [`factor`] names them;
//! - [`result`]: what a run gave;
//! - [`functions`]: events of every function that ran under the virtual PMU;
//! - [`latency`]: how long each pass through chosen blocks took;
//! - [`closed`]: whether a count will repeat, from one run; [`identity`]: of which inputs it is;
//! - [`cgroup`]: control groups to count by;
//! - [`state`]: what is remembered of a machine between runs; [`exactness`]: its counters' known deviations;
//! - [`suite`]: `truecount.toml`, which names benchmarks and their limits;
//! - [`rounds`]: commands measured in interleaved rounds; [`compare`]: their verdicts and gates;
//! - [`input`]: files that a user names, read with a bound;
//! - [`env_record`]: what two results must share to be comparable.
//!
//! The library never prints, never exits and knows no exit status: an [`Error`] says its kind.

pub mod affinity;
pub mod calls;
pub mod cgroup;
pub mod closed;
pub mod compare;
pub mod determinism;
pub mod env_record;
mod error;
pub mod exactness;
pub mod factor;
pub mod functions;
pub mod identity;
pub mod input;
pub mod latency;
pub mod machine;
pub mod metrics;
pub mod references;
pub mod regions;
pub mod request;
pub mod result;
pub mod rounds;
pub mod runner;
pub mod session;
pub mod source;
pub mod state;
pub mod suite;

pub use error::{Error, ErrorKind};
