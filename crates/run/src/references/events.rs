//! Events of memory: facts, and what the model says.

use super::Memory;

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $model:literal;)+) => {
        /// An event of memory that can be asked for by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum MemoryEvent {
            $($(#[$doc])* $variant,)+
        }

        impl MemoryEvent {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name, without a filter.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// A model says it; else it is a fact.
            pub fn is_model(self) -> bool {
                match self {
                    $(Self::$variant => $model,)+
                }
            }
        }
    };
}

events! {
    /// Bytes read.
    LoadBytes = "load-bytes", false;
    /// Bytes written.
    StoreBytes = "store-bytes", false;
    /// Distinct lines of 64 bytes.
    LinesTouched = "lines-touched", false;
    /// Those that were written.
    LinesWritten = "lines-written", false;
    /// Distinct pages of 4,096 bytes.
    PagesTouched = "pages-touched", false;
    /// References in two lines.
    LineSplits = "line-splits", false;
    /// References in two pages.
    PageSplits = "page-splits", false;
    /// References that are not aligned.
    Unaligned = "unaligned", false;
    /// Branches that were taken.
    TakenBranches = "taken-branches", false;
    /// Instructions that the first level has not.
    L1iMisses = "l1i-misses", true;
    /// Data that the first level has not.
    L1dMisses = "l1d-misses", true;
    /// What the last level has not.
    LlMisses = "ll-misses", true;
    /// Branches predicted wrongly.
    Mispredicts = "mispredicts", true;
}

impl MemoryEvent {
    /// Its value, where the run has it.
    pub fn of(self, memory: &Memory) -> Option<u64> {
        let facts = &memory.facts;
        let fact = match self {
            Self::LoadBytes => facts.totals.load_bytes,
            Self::StoreBytes => facts.totals.store_bytes,
            Self::LinesTouched => facts.lines_touched,
            Self::LinesWritten => facts.lines_written,
            Self::PagesTouched => facts.pages_touched,
            Self::LineSplits => facts.totals.line_splits,
            Self::PageSplits => facts.totals.page_splits,
            Self::Unaligned => facts.totals.unaligned,
            Self::TakenBranches => facts.taken_branches,
            Self::L1iMisses | Self::L1dMisses | Self::LlMisses | Self::Mispredicts => {
                let model = memory.model.as_ref()?;
                return Some(match self {
                    Self::L1iMisses => model.instructions.l1_misses,
                    Self::L1dMisses => model.reads.l1_misses + model.writes.l1_misses,
                    Self::LlMisses => {
                        let data = model.reads.ll_misses + model.writes.ll_misses;
                        model.instructions.ll_misses + data
                    }
                    _ => model.conditional.mispredicted + model.indirect.mispredicted,
                });
            }
        };
        Some(fact)
    }

    /// Nothing that it counts is missing.
    pub fn is_whole(self, memory: &Memory) -> bool {
        memory.lost == 0 && (self == Self::TakenBranches || memory.missing.is_empty())
    }
}
