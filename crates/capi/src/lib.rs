//! The C interface of truecount: `include/truecount.h` describes it, function by function.
//!
//! Whatever a caller does with a handle (another thread, a forked child, after closing) gives a status and a message,
//! never a crash: handles lead to memory that is never freed ([`slots`]), and what they stand for belongs to the thread
//! that opened it ([`counter`], [`group`]) or to the process ([`recorder`]).

pub mod counter;
pub mod error;
pub mod group;
pub mod recorder;
mod slots;
mod strings;

pub use slots::truecount_counter;
