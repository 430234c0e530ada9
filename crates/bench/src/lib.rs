//! Benchmarks that count instead of taking the time: the same number on every run, with a PMU and without.
//!
//! ```no_run
//! // benches/mine.rs; in Cargo.toml: [[bench]] name = "mine", harness = false
//! use truecount_bench::bench;
//!
//! #[bench]
//! fn addition() -> u64 {
//!     (0..1000).sum()
//! }
//!
//! #[bench(args = [10, 1000], setup = |n: usize| (0..n as u64).rev().collect::<Vec<_>>())]
//! fn sorting(mut data: Vec<u64>) -> Vec<u64> {
//!     data.sort();
//!     data // dropped uncounted
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     truecount_bench::main()
//! }
//! ```
//!
//! `cargo bench` counts by the machine's PMU, and where there is none the suite runs itself again under the virtual PMU.
//! `cargo bench -- --help` tells the flags.

mod alloc;
mod arguments;
mod aside;
mod baseline;
mod bencher;
mod ends;
mod report;
mod suite;

pub use alloc::Alloc;
pub use bencher::{Bencher, Benchmark};
pub use suite::main;
pub use truecount_bench_macros::bench;

#[doc(hidden)]
pub mod __private {
    pub use inventory::submit;
}
