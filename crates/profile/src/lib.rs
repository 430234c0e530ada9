//! Region profiles (`.mm_profdata`, versions 8 and 9): read them without copying, summarize them,
//! say which interval varies between identical runs, compare two sides, export them.
//!
//! The format is the one that measureme defined and that rustc's `-Zself-profile` and truecount's
//! `Recorder` write. The reader maps the file and never panics, whatever the bytes: what cannot be
//! read at all is a [`ProfileError`] with file, offset and expectation; what was lost in part (a
//! process killed in mid-write, say) is listed by [`Profile::losses`].
//!
//! ```no_run
//! let profile = truecount_profile::Profile::open("syn-0022206")?;
//! let summary = truecount_profile::summarize(&profile);
//! for label in &summary.labels {
//!     println!("{} {} {}", label.label, label.self_time, summary.unit.name);
//! }
//! # Ok::<(), truecount_profile::ProfileError>(())
//! ```

pub mod aggregate;
mod align;
mod counterpart;
pub mod diff;
pub mod drill;
mod error;
mod event;
pub mod export;
mod file;
mod huge;
mod labels;
mod metadata;
pub mod noise;
mod pages;
mod sequence;
mod strings;
mod summarize;
mod threads;

pub use error::{Loss, ProfileError};
pub use event::{Event, Events, Payload};
pub use file::{Profile, find, resolve};
pub use labels::{Kind, Kinds, Labels};
pub use metadata::{Metadata, Overhead, Unit};
pub use strings::{EventText, StringTable};
pub use summarize::{Artifact, Counts, LabelSummary, Summary, ThreadSummary, summarize};
