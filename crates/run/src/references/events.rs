//! Events of memory: facts, and what the model says.

use super::{Memory, Model, PathCosts, PathFacts};
use truecount_memory::{Beside, Cpu};

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
    /// Instructions and data that the second level has not.
    L2Misses = "l2-misses", true;
    /// What the last level has not.
    LlMisses = "ll-misses", true;
    /// Data whose pages are not among the translations.
    DtlbMisses = "dtlb-misses", true;
    /// Instructions whose pages are not among theirs.
    ItlbMisses = "itlb-misses", true;
    /// Branches predicted wrongly.
    Mispredicts = "mispredicts", true;
}

/// What nobody asks for of the facts and of the model, and is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// Lines and pages that are touched, and how references lie.
    pub lines: bool,
    /// References and their bytes.
    pub bytes: bool,
    /// How often branches are taken.
    pub taken: bool,
    /// With the model: data …
    pub data: bool,
    /// … and instructions …
    pub instructions: bool,
    /// … and branches.
    pub branches: bool,
}

impl Without {
    /// Everything but what these events need.
    pub fn all_but(events: impl Iterator<Item = MemoryEvent>) -> Self {
        let mut needed = [false; 6];
        for event in events {
            for (needed, needs) in needed.iter_mut().zip(event.needs().all()) {
                *needed |= needs;
            }
        }
        let [lines, bytes, taken, data, instructions, branches] = needed.map(|needed| !needed);
        Self {
            lines,
            bytes,
            taken,
            data,
            instructions,
            branches,
        }
    }

    fn all(self) -> [bool; 6] {
        let Self {
            lines,
            bytes,
            taken,
            data,
            instructions,
            branches,
        } = self;
        [lines, bytes, taken, data, instructions, branches]
    }
}

impl MemoryEvent {
    /// What cannot be left out where it is asked for.
    fn needs(self) -> Without {
        let mut needs = Without::default();
        match self {
            Self::LoadBytes | Self::StoreBytes => needs.bytes = true,
            Self::LinesTouched
            | Self::LinesWritten
            | Self::PagesTouched
            | Self::LineSplits
            | Self::PageSplits
            | Self::Unaligned => needs.lines = true,
            Self::TakenBranches => needs.taken = true,
            Self::L1iMisses | Self::ItlbMisses => needs.instructions = true,
            Self::L1dMisses | Self::DtlbMisses => needs.data = true,
            Self::L2Misses | Self::LlMisses => {
                (needs.data, needs.instructions) = (true, true);
            }
            Self::Mispredicts => needs.branches = true,
        }
        needs
    }

    /// Its value, where the run has it, and looked at it.
    pub fn of(self, memory: &Memory) -> Option<u64> {
        let mut parts = self.needs().all().into_iter().zip(memory.without.all());
        if parts.any(|(needed, left_out)| needed && left_out) {
            return None;
        }
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
            _ => return self.modelled(memory.model.as_ref()?),
        };
        Some(fact)
    }

    fn modelled(self, model: &Model) -> Option<u64> {
        Some(match self {
            Self::L1iMisses => model.instructions.l1_misses,
            Self::L1dMisses => model.reads.l1_misses + model.writes.l1_misses,
            Self::L2Misses => {
                let l2 = model.l2.as_ref()?;
                l2.instruction_misses + l2.data_misses
            }
            Self::LlMisses => {
                let data = model.reads.ll_misses + model.writes.ll_misses;
                model.instructions.ll_misses + data
            }
            Self::DtlbMisses => model.tlb.as_ref()?.data_misses,
            Self::ItlbMisses => model.itlb.as_ref()?.instruction_misses,
            _ => model.conditional.mispredicted + model.indirect.mispredicted,
        })
    }

    /// What a path of functions came to itself; lines and pages count where they were touched first.
    pub(crate) fn of_path(self, costs: &PathCosts) -> u64 {
        let PathFacts {
            totals,
            taken,
            extent,
            beside,
        } = &costs.facts;
        match self {
            Self::LoadBytes => totals.load_bytes,
            Self::StoreBytes => totals.store_bytes,
            Self::LinesTouched => extent.lines,
            Self::LinesWritten => extent.written,
            Self::PagesTouched => extent.pages,
            Self::LineSplits => totals.line_splits,
            Self::PageSplits => totals.page_splits,
            Self::Unaligned => totals.unaligned,
            Self::TakenBranches => *taken,
            Self::L1iMisses => costs.fetch_l1(),
            Self::L1dMisses => costs.data_l1(),
            Self::L2Misses => beside.l2_instructions + beside.l2_data,
            Self::LlMisses => costs.last(),
            Self::DtlbMisses => beside.tlb,
            Self::ItlbMisses => beside.itlb,
            Self::Mispredicts => costs.wrong(),
        }
    }

    /// Why a model with this beside its first and last levels does not say it.
    pub fn lacking(self, beside: &Beside) -> Option<&'static str> {
        match self {
            Self::L2Misses if beside.l2.is_none() => Some("the model has no second level"),
            Self::DtlbMisses if beside.tlb.is_none() => {
                Some("the model has no translations of data pages")
            }
            Self::ItlbMisses if beside.itlb.is_none() => {
                Some("the model has no translations of pages of instructions")
            }
            _ => None,
        }
    }

    /// Gives this CPU's model the translations that it is asked about, where the CPU is one whose are known.
    pub fn provide(self, beside: &mut Beside) {
        let known = || Some(Cpu::named(Cpu::name_of_this()?)?.beside);
        match self {
            Self::DtlbMisses if beside.tlb.is_none() => {
                beside.tlb = known().and_then(|known| known.tlb);
            }
            Self::ItlbMisses if beside.itlb.is_none() => {
                beside.itlb = known().and_then(|known| known.itlb);
            }
            _ => {}
        }
    }

    /// Nothing that it counts is missing.
    pub fn is_whole(self, memory: &Memory) -> bool {
        memory.lost == 0 && (self == Self::TakenBranches || memory.missing.is_empty())
    }
}
