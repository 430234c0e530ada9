//! What a run referenced of its memory, under the virtual PMU: exact facts, and a model of caches and branch
//! predictors where one is wanted.

mod costs;
mod data;
mod events;
mod gathering;
mod lines;
mod locality;
mod modelled;
mod paths;
mod quick;
mod shared;
mod site;
mod step;

use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use truecount_engine::virt::references::{References, Sink};
use truecount_memory::{Beside, Machine, Predictor, Totals, Touched};

pub(crate) use costs::EVERY_TIME;
pub use costs::{Costs, SIMULATED, Simulated};
pub use data::{AllocationSite, DataMemory, DataModel, DataPlace, HeapMemory};
pub use events::{MemoryEvent, Without};
use gathering::Gathering;
pub use gathering::Part;
pub(crate) use lines::Allocated;
pub(crate) use locality::Counted;
pub use locality::{FunctionLocality, Locality, OfCode, Reuse, StrideCounts, ThreadWorkingSet};
pub use paths::{PathCosts, PathFacts};

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Lines and pages that are touched.
    pub facts: bool,
    /// Whose data is touched: blocks of the heap are told by who allocated them.
    pub data: bool,
    /// Threads are kept apart.
    pub threads: bool,
    /// Caches and branch predictors of this machine are modelled.
    pub model: Option<Machine>,
    /// The name of the CPU that it has the sizes of.
    pub cpu: Option<&'static str>,
    /// What nobody asks for of all this.
    pub without: Without,
    /// With the model: a second level, translations of pages, a prefetcher, another predictor.
    pub beside: Beside,
    /// Lines that several threads use are looked for.
    pub sharing: bool,
    /// The order of references is looked at: distances of reuse, strides, the working set over time.
    pub locality: bool,
    /// What is noted is kept by path of functions, too, where the run keeps the tree of calls: facts, and what is modelled.
    pub paths: bool,
    /// Where regions switch counting on again, the model's caches are empty (its branch predictors are not), as with
    /// Callgrind.
    pub emptied: bool,
    /// Nothing is counted at first: references are told one by one then, which costs a third as much where nobody wants them,
    /// and more where somebody does.
    pub off_at_first: bool,
    /// In the model, an instruction that reads and writes the same data makes one reference that writes, as Callgrind has
    /// it; otherwise one that reads, as Cachegrind has it.
    pub modifies_as_store: bool,
}

/// Exact facts about a run's memory references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// References, their bytes, and what they cross.
    #[serde(flatten)]
    pub totals: Totals,
    /// Distinct lines (64 bytes) read or written; those of each process count.
    pub lines_touched: u64,
    /// Distinct lines read.
    pub lines_read: u64,
    /// Distinct lines written.
    pub lines_written: u64,
    /// Distinct pages (4,096 bytes) read or written.
    pub pages_touched: u64,
    /// Branches that were taken: jumps, calls, returns, conditional ones.
    pub taken_branches: u64,
    /// How many references had each size; 65 stands for all that are longer than 64 bytes.
    pub sizes: Vec<Size>,
}

/// References of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Bytes.
    pub bytes: u32,
    /// References.
    pub references: u64,
}

/// References that the facts lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// Of what.
    pub what: String,
    /// How many instructions.
    pub instructions: u64,
}

/// References and misses of one sort, as a model has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Level {
    /// References.
    pub references: u64,
    /// That missed the first level.
    pub l1_misses: u64,
    /// That missed the last level, too.
    pub ll_misses: u64,
}

/// Branches and wrong predictions, as a model has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Predicted {
    /// Branches.
    pub branches: u64,
    /// Predicted wrongly.
    pub mispredicted: u64,
}

/// What a model of caches and branch predictors made of the same references. No count of anything that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// Always `model`.
    pub source: &'static str,
    /// The CPU whose sizes these are, where it was named: `zen4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<&'static str>,
    /// Whose rules it follows.
    pub rules: &'static str,
    /// Instruction cache: bytes, ways, bytes of a line.
    pub i1: String,
    /// Data cache.
    pub d1: String,
    /// Last level.
    pub ll: String,
    /// The second level, where there is one in between, and what it had not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2: Option<SecondLevel>,
    /// The translations of data pages, where there are some, and which pages they had not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tlb: Option<Translations>,
    /// The translations of pages of instructions, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itlb: Option<InstructionTranslations>,
    /// What a prefetcher brought, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetched>,
    /// What predicts conditional branches.
    pub predictor: String,
    /// Instructions.
    pub instructions: Level,
    /// Data read (modified included).
    pub reads: Level,
    /// Data written.
    pub writes: Level,
    /// Conditional branches.
    pub conditional: Predicted,
    /// Indirect jumps and calls.
    pub indirect: Predicted,
    /// The formula of gungraun, iai and CodSpeed: references (instructions, data) that the first level has, 5 for each
    /// that the last has, 35 for each that it has not.
    pub estimated_cycles: u64,
}

/// A second level in a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecondLevel {
    /// Bytes, ways, bytes of a line.
    pub geometry: String,
    /// Instructions that it had not.
    pub instruction_misses: u64,
    /// Data that it had not.
    pub data_misses: u64,
}

/// Translations of pages in a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Translations {
    /// Bytes that they cover, ways, bytes of a page.
    pub geometry: String,
    /// References to data whose pages they had not.
    pub data_misses: u64,
}

/// Translations of pages of instructions in a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstructionTranslations {
    /// Bytes that they cover, ways, bytes of a page.
    pub geometry: String,
    /// Instructions whose pages they had not.
    pub instruction_misses: u64,
}

/// What a model's prefetcher did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Prefetched {
    /// Which one.
    pub prefetcher: String,
    /// Lines that it brought into the first level of data: none of them is a miss.
    pub lines: u64,
    /// Those of them that no level had.
    pub from_memory: u64,
}

/// A line that several threads use and one writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedLine {
    /// Slot of the first thread of its memory.
    #[serde(skip)]
    pub(crate) memory: u32,
    /// Whose data it is, where that was looked for.
    #[serde(flatten)]
    pub data: Option<DataPlace>,
    /// Address of its first byte.
    pub address: u64,
    /// The line is shared, the data is not (but for one reference in a hundred).
    pub false_sharing: bool,
    /// References of all threads.
    pub references: u64,
    /// What each thread did.
    pub threads: Vec<SharedBy>,
}

/// What a thread did with a shared line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedBy {
    /// Thread.
    pub tid: u32,
    /// Bytes that it read, a bit each.
    pub read: u64,
    /// Bytes that it wrote, a bit each.
    pub written: u64,
    /// References.
    pub references: u64,
}

/// Facts of a piece of code, and what the model made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodeMemory {
    /// Instructions executed.
    pub instructions: u64,
    /// References, their bytes, and what they cross.
    #[serde(flatten)]
    pub totals: Totals,
    /// See [`Facts`].
    pub taken_branches: u64,
    /// What the model made of it, where one was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<CodeModel>,
}

/// What a model made of a piece of code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodeModel {
    /// Misses of the first level by instructions.
    pub l1i_misses: u64,
    /// Of the first level by data.
    pub l1d_misses: u64,
    /// Of the last level by instructions.
    pub lli_misses: u64,
    /// Of the last level by data.
    pub lld_misses: u64,
    /// Branches predicted wrongly.
    pub mispredicted: u64,
}

impl CodeMemory {
    pub(crate) fn of(costs: &Costs, modelled: bool) -> Self {
        Self {
            instructions: costs.instructions,
            totals: costs.totals,
            taken_branches: costs.taken,
            model: modelled.then(|| CodeModel {
                l1i_misses: costs.fetch_l1,
                l1d_misses: costs.data_l1(),
                lli_misses: costs.fetch_ll,
                lld_misses: costs.data_ll(),
                mispredicted: costs.wrong(),
            }),
        }
    }
}

/// What a function did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionMemory {
    /// Path of the file with the code, or `[jit]`, `[vdso]`.
    pub module: String,
    /// Name of the symbol.
    pub function: String,
    /// Its own references and branches.
    #[serde(flatten)]
    pub of: CodeMemory,
}

/// What a source line did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineMemory {
    /// Path of the file with the code.
    pub module: String,
    /// The function that it was compiled into.
    pub function: String,
    /// Source file; empty: not known.
    pub file: String,
    /// Line; 0: not known.
    pub line: u32,
    /// Its references and branches.
    #[serde(flatten)]
    pub of: CodeMemory,
}

/// A run's memory references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Exact, but for what is missing.
    pub facts: Facts,
    /// Instructions whose references are not in the facts, by their sort.
    pub missing: Vec<Missed>,
    /// Parts of what threads noted that are missing; 0, or the facts are not whole.
    pub lost: u32,
    /// What was not looked at: it is 0 here.
    #[serde(skip)]
    pub without: Without,
    /// The model, where one was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Lines that threads share, those with the most references first, where they were wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Vec<SharedLine>>,
    /// How near references are to each other, where that was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality: Option<Locality>,
    /// By function, those with the most misses, or bytes, first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionMemory>,
    /// By whose data it is, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataMemory>,
    /// What is known of heaps, where that was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<HeapMemory>,
    /// By source line, or function where lines are not known, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineMemory>,
}

impl Memory {
    /// What a reader of these numbers must know.
    pub fn note(&self) -> Option<String> {
        let mut notes: Vec<String> = self.lack().into_iter().collect();
        if let Some(model) = &self.model {
            notes.push(format!(
                "Misses and mispredictions are a model's, after {} rules ({}): not what this CPU did.",
                model.rules,
                model.sizes()
            ));
        }
        (!notes.is_empty()).then(|| notes.join(" "))
    }

    /// What is not in these numbers.
    pub fn lack(&self) -> Option<String> {
        let missing: Vec<&str> = self.missing.iter().map(|one| one.what.as_str()).collect();
        let mut notes = Vec::new();
        if !missing.is_empty() {
            notes.push(format!(
                "Facts of memory lack {}: they are at least so many.",
                missing.join(", ")
            ));
        }
        if self.lost != 0 {
            notes.push(format!(
                "Facts of memory lack {} part(s) of what threads noted, which nobody could read.",
                self.lost
            ));
        }
        (!notes.is_empty()).then(|| notes.join(" "))
    }
}

impl Model {
    /// Its parameters, in a line.
    pub fn sizes(&self) -> String {
        let mut sizes = match self.cpu {
            Some(cpu) => format!("{cpu}: "),
            None => String::new(),
        };
        sizes += &format!("I1 {}, D1 {}, LL {}", self.i1, self.d1, self.ll);
        for (name, geometry) in [
            ("L2", self.l2.as_ref().map(|l2| &l2.geometry)),
            ("TLB", self.tlb.as_ref().map(|tlb| &tlb.geometry)),
            ("ITLB", self.itlb.as_ref().map(|itlb| &itlb.geometry)),
            (
                "prefetcher",
                self.prefetch.as_ref().map(|one| &one.prefetcher),
            ),
        ] {
            if let Some(geometry) = geometry {
                sizes += &format!(", {name} {geometry}");
            }
        }
        if self.predictor != Predictor::Cachegrind.to_string() {
            sizes += &format!(", predictor {}", self.predictor);
        }
        sizes
    }
}

impl Facts {
    /// Without lines, pages and sizes.
    fn of(costs: &Costs) -> Self {
        Self {
            totals: costs.totals,
            taken_branches: costs.taken,
            ..Self::default()
        }
    }
}

/// What is gathered while a program runs.
#[derive(Clone)]
pub struct Noted(Arc<Mutex<Gathering>>);

impl Noted {
    /// Nothing yet.
    pub fn new(wanted: Wanted) -> Self {
        Self(Arc::new(Mutex::new(Gathering::new(wanted))))
    }

    /// Where the engine gives references to.
    pub(crate) fn sink(&self) -> References {
        let gathering: Arc<Mutex<Gathering>> = Arc::clone(&self.0);
        let sink: Arc<Mutex<dyn Sink>> = gathering;
        let gathered = self.gathered();
        References::new(sink)
            .allocations(gathered.wants_data())
            .filtered(gathered.can_be_filtered().then(|| gathered.facts()))
            .recent(gathered.levels())
            .modifies_as_store(gathered.wanted().modifies_as_store)
    }

    fn gathered(&self) -> MutexGuard<'_, Gathering> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it came to; `tids` are the threads by their slots.
    pub fn finish(&self, tids: impl Fn(u32) -> u32) -> Memory {
        self.gathered().memory(&tids)
    }

    /// What every executed instruction cost: in which part of the run, its address, its costs.
    pub fn each(&self, see: &mut dyn FnMut(Part, u64, &Costs)) {
        self.gathered()
            .each(&mut |part, pc, costs, _| see(part, pc, costs));
    }

    /// What every operand's references came to, where their order was wanted: the slot of its thread, its instruction's
    /// address.
    pub(crate) fn each_order(&self, see: &mut dyn FnMut(u32, u64, &Counted)) {
        self.gathered().each_order(see);
    }

    /// What was touched of every memory: the slot of its first thread, its lines, its heap.
    pub(crate) fn each_touched(&self, see: &mut dyn FnMut(u32, &Touched, &Allocated)) {
        self.gathered().each_touched(see);
    }

    /// What was modelled on each path of functions, by [`CallNode::address`](truecount_engine::virt::CallNode); none
    /// where that was not wanted.
    pub fn paths(&self) -> Option<HashMap<u64, Simulated>> {
        self.gathered().paths()
    }

    /// All that is known of each path of functions but what the engine counted itself
    /// ([`CallNode::facts`](truecount_engine::virt::CallNode)), likewise; none where facts by path were not wanted.
    pub(crate) fn path_costs(&self) -> Option<HashMap<u64, PathCosts>> {
        self.gathered().path_costs()
    }

    /// There is a model.
    pub fn is_modelled(&self) -> bool {
        self.gathered().is_modelled()
    }
}
