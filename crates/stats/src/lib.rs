//! Statistics for near-deterministic counts: order statistics, randomised schedules, comparisons
//! with intervals, change verdicts and gates.
//!
//! Counters are integers with additive positive noise, discrete modes and rare large outliers;
//! wall time is neither. One set of rank methods serves both. What each part rests on is said at
//! the head of its module; the tests hold it against values computed by SciPy.
//!
//! ```
//! use truecount_stats::{Floors, Options, Schedule, Summary, compare_paired, verdicts};
//!
//! let mut schedule = Schedule::new(2, 1);
//! let mut samples = [vec![], vec![]];
//! for _ in 0..10 {
//!     for run in schedule.next_round() {
//!         samples[run.command].push([95_533u64, 95_550][run.command]); // measure here
//!     }
//! }
//! assert!(Summary::of(&samples[0])?.exact);
//! let comparison = compare_paired(&samples[0], &samples[1], &Options::default())?;
//! let judged = verdicts([("instructions:u", comparison)], &Floors::default());
//! assert_eq!(judged[0].to_string(), "same (exact counts, 10 equal each)"); // +0.018 %: below the floor
//! # Ok::<(), truecount_stats::StatsError>(())
//! ```
#![forbid(unsafe_code)]

mod allowed;
mod change_points;
mod compare;
mod correlation;
mod dispersion;
mod error;
mod floors;
mod gate;
mod holm;
mod kinds;
mod mann_whitney;
mod modes;
mod normal;
mod order;
mod repeat;
mod rng;
mod schedule;
mod share;
mod signed_rank;
mod student;
mod summary;
mod value;
mod verdict;

pub use allowed::Allowed;
pub use change_points::{ChangeOptions, ChangePoint, change_points};
pub use compare::{
    Comparison, Design, Options, SIGNIFICANCE, compare_paired, compare_unpaired, smallest_n,
};
pub use correlation::{Correlation, correlation};
pub use dispersion::{median, runs_to_tell, varies_more};
pub use error::StatsError;
pub use floors::Floors;
pub use gate::{Gate, GateExit, Incomparable, Outcome, Provenance, incomparable};
pub use holm::holm;
pub use kinds::{Wording, Worse};
pub use mann_whitney::{MannWhitney, mann_whitney, shift, shift_interval};
pub use modes::Mode;
pub use repeat::{CONFIRMED, Differ, Looks, MAX_REPEATS, Repeats};
pub use rng::Rng;
pub use schedule::{Rotation, Run, Schedule, plan_batches};
pub use share::Share;
pub use signed_rank::{SignedRank, signed_rank, walsh_interval, walsh_median};
pub use summary::{EXACT_FROM, Summary};
pub use value::{Number, Value};
pub use verdict::{Judged, Verdict, described, verdicts};
