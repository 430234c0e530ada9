//! What this machine can do: files, CPUID, and trying.
//!
//! Everything from files takes a [`Root`], so that tests use made-up trees; everything that tries takes
//! a [`crate::Kernel`], so that tests use a scripted one.

pub mod cpu;
mod files;
mod pmu;
mod trial;

pub use files::Root;
pub use pmu::Pmu;
pub use trial::{
    BranchTrial, CountersFound, Fit, UserRead, branch_stack, counters_at_once, fit, silent,
    user_read,
};
