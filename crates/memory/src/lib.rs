//! Memory references: exact facts about them, and models of what they meet.
//!
//! Everything here is fed with what a program did, one reference or branch after the other, and knows nothing of who
//! tells it. Two things that are never mixed:
//!
//! - [`Totals`], [`Placed`], [`Touched`], [`Sharing`] and [`Locality`] are exact: bytes, references that crossed a line
//!   or a page, lines and pages that were touched, by which threads, and how soon again.
//! - [`Caches`] and [`Branches`] are *models*: what caches and branch predictors of a given geometry would have done
//!   with these references in this order. They follow Cachegrind's rules (Valgrind's manual, "Cachegrind: a
//!   high-precision tracing profiler", "Simulation details"), so that the same references give the same misses. What
//!   Cachegrind has not ([`Beside`]: a second level, translations of pages, a prefetcher, a predictor like TAGE) is only
//!   there where it is wanted.

#![forbid(unsafe_code)]

mod branches;
mod cache;
mod cpus;
mod facts;
mod geometry;
mod heap;
mod locality;
mod prefetch;
mod replacement;
mod sharing;
mod tage;

pub use branches::{Branches, Mispredicted, Predictor};
pub use cache::{BesideMisses, Cache, Caches, Level, Misses};
pub use cpus::Cpu;
pub use facts::{Extent, LineMisses, Placed, Totals, Touched, TouchedPage, aligned_bits};
pub use geometry::{Beside, Geometry, GeometryError, Machine};
pub use heap::{Heap, HeapLines, HeapSite, LARGE, Moment, Near};
pub use locality::{CLASSES, Locality, Stride, Strides, WorkingSet, class_range};
pub use prefetch::Prefetch;
pub use replacement::Replacement;
pub use sharing::{Shared, Sharing};

/// Bytes of the lines that facts are counted in: those of every x86-64 CPU.
pub const LINE: u64 = 64;
/// Bytes of the pages that facts are counted in.
pub const PAGE: u64 = 4096;

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads, and writes the same bytes.
    Modify,
}

impl Kind {
    /// Reads.
    pub fn loads(self) -> bool {
        self != Self::Store
    }

    /// Writes.
    pub fn stores(self) -> bool {
        self != Self::Load
    }
}

/// One reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u32,
    /// What it does.
    pub kind: Kind,
}

/// Who makes a reference: a prefetcher tells operands apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// Address of the instruction.
    pub pc: u64,
    /// Which of its operands.
    pub operand: u8,
}
