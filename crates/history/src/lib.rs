//! Measured numbers over commits: what each commit costs, which commit changed it, and whether a change may pass.
//!
//! - [`record`]: one document for what was measured of one commit (schema `truecount.record/1`): the truth, which can be
//!   copied, merged and kept in a branch;
//! - [`store`]: an index of records, in SQLite or PostgreSQL;
//! - [`git`]: commits, their ancestors and their merge base, by the command `git`;
//! - [`identity`]: which numbers are of one series: by what was declared, never by measured speed;
//! - [`import`]: results of other tools;
//! - [`decide`]: what changed: exact counts by any difference, others by statistics; the gate is `truecount-stats`'.
#![forbid(unsafe_code)]

pub mod decide;
pub mod error;
pub mod git;
pub mod identity;
pub mod import;
pub mod record;
pub mod store;

pub use error::Error;
