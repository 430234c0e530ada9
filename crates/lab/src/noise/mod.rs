//! What makes identical runs differ.
//!
//! Every factor that can be held constant is held constant; then one at a time is varied. Rounds visit every setting
//! once, shuffled, so that a drift of the machine reaches all of them alike.
//!
//! [`Counting`] says who counts, [`measure`] makes the runs, [`Findings`] says what they tell.

mod conditions;
mod counting;
mod measure;
mod paths;
mod regions;
mod spread;

pub use conditions::NotTested;
pub use counting::Counting;
pub use measure::{Outcome, measure};
pub use paths::PathDivergence;
pub use regions::Difference;
pub use spread::{Divergence, Findings, Spread};

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use truecount_run::determinism::{Factor, List, Machine};

/// What is to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Runs of each setting; `None`: as many as the number of factors asks for.
    pub runs: Option<u32>,
    /// Factors to vary.
    pub factors: &'a List,
    /// Seed of the order of runs and of what is drawn.
    pub seed: u64,
    /// Functions to name for each setting that varies, and paths of calls, where they are kept.
    pub functions: usize,
    /// Regions to name for each setting that varies.
    pub regions: usize,
    /// Where the program writes its region profiles; empty: the working directory.
    pub profile: &'a [PathBuf],
    /// What programs are shown where the machine is not varied.
    pub machine: Option<Machine>,
    /// A run ends after this time.
    pub timeout: Option<Duration>,
}

/// One setting: everything held constant, or with something varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The residual.
    Nothing,
    /// One factor.
    One(Factor),
    /// All of them.
    Everything,
}

/// What a run counted, or why not.
enum Count {
    Of(counting::Sample),
    None(String),
}
