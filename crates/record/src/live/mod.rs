//! Where samples fall, while they fall.
//!
//! From the kernel to the rows, each part knowing only the one before it: [`Live`] empties the rings, `collect` puts
//! records in order and counts them by place, `naming` finds names, `sampled` sums up (both on the thread of `work`).
//! What is shown of it, and where, is the caller's.

mod collect;
mod detail;
mod naming;
mod own;
mod running;
mod sampled;
mod tally;
mod types;
mod work;

pub use naming::Namer;
pub use own::cpu_time;
pub use running::Live;
pub use sampled::{Part, Sampled, Summed};
pub use tally::{Sums, Tally};
pub use types::{
    By, DetailLine, DetailRequest, Hit, Interval, Key, OwnCost, Place, Span, Tab, Weight,
};
pub use work::{Ask, Desk, Ready, Shown, Work, Worker};
