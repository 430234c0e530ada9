//! What an instruction's references and branches came to.

use truecount_memory::{Kind, Totals};

/// Sums; what only a model knows is 0 without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Executions.
    pub instructions: u64,
    /// References and bytes; an instruction's alone say nothing of lines and pages that are touched.
    pub totals: Totals,
    /// Branches that were taken.
    pub taken: u64,
    /// Model: misses of the first level by instructions …
    pub fetch_l1: u64,
    /// … and of the last.
    pub fetch_ll: u64,
    /// References that read, those that modify among them, as Cachegrind has it.
    pub reads: u64,
    /// Their misses of the first level …
    pub read_l1: u64,
    /// … and of the last.
    pub read_ll: u64,
    /// References that write only.
    pub writes: u64,
    /// Their misses of the first level …
    pub write_l1: u64,
    /// … and of the last.
    pub write_ll: u64,
    /// Conditional branches …
    pub conditional: u64,
    /// … and those that were predicted wrongly.
    pub conditional_wrong: u64,
    /// Indirect jumps and calls …
    pub indirect: u64,
    /// … and those that were predicted wrongly.
    pub indirect_wrong: u64,
}

/// What Cachegrind and Callgrind have beside instructions, by their names, in Callgrind's order.
pub const SIMULATED: [&str; 12] = [
    "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bc", "Bcm", "Bi", "Bim",
];

/// Places in [`Simulated`] of what an instruction has as often as it is executed: as a tree of calls counts it
/// ([`Calls::modelled`](truecount_engine::virt::Calls::modelled)).
pub(crate) const EVERY_TIME: [usize; 4] = [
    place::READS,
    place::WRITES,
    place::CONDITIONAL,
    place::INDIRECT,
];

/// The values of [`SIMULATED`].
pub type Simulated = [u64; SIMULATED.len()];

/// Places in [`Simulated`].
pub(super) mod place {
    pub const READS: usize = 0;
    pub const WRITES: usize = 1;
    pub const READ_L1: usize = 3;
    pub const FETCH_L1: usize = 2;
    pub const WRITE_L1: usize = 4;
    /// From a first level's place to the last level's.
    pub const TO_LAST: usize = 3;
    pub const CONDITIONAL: usize = 8;
    pub const CONDITIONAL_WRONG: usize = 9;
    pub const INDIRECT: usize = 10;
    pub const INDIRECT_WRONG: usize = 11;
}

impl Costs {
    /// As Callgrind has it.
    pub fn simulated(&self) -> Simulated {
        [
            self.reads,
            self.writes,
            self.fetch_l1,
            self.read_l1,
            self.write_l1,
            self.fetch_ll,
            self.read_ll,
            self.write_ll,
            self.conditional,
            self.conditional_wrong,
            self.indirect,
            self.indirect_wrong,
        ]
    }

    /// References of so many bytes together.
    pub(super) fn made(&mut self, bytes: u64, kind: Kind, times: u64) {
        self.totals.made_of(bytes, kind, times);
        match kind {
            Kind::Store => self.writes += times,
            Kind::Load | Kind::Modify => self.reads += times,
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        let Self {
            instructions,
            totals,
            taken,
            fetch_l1,
            fetch_ll,
            reads,
            read_l1,
            read_ll,
            writes,
            write_l1,
            write_ll,
            conditional,
            conditional_wrong,
            indirect,
            indirect_wrong,
        } = other;
        self.instructions += instructions;
        self.totals.add(totals);
        self.taken += taken;
        self.fetch_l1 += fetch_l1;
        self.fetch_ll += fetch_ll;
        self.reads += reads;
        self.read_l1 += read_l1;
        self.read_ll += read_ll;
        self.writes += writes;
        self.write_l1 += write_l1;
        self.write_ll += write_ll;
        self.conditional += conditional;
        self.conditional_wrong += conditional_wrong;
        self.indirect += indirect;
        self.indirect_wrong += indirect_wrong;
    }

    /// References that missed the first level.
    pub fn data_l1(&self) -> u64 {
        self.read_l1 + self.write_l1
    }

    /// References that missed the last level, too.
    pub fn data_ll(&self) -> u64 {
        self.read_ll + self.write_ll
    }

    /// What misses cost by the formula that gungraun, iai and CodSpeed use: 5 for what the last level has, 35 for what
    /// it has not, beside 1 for each reference.
    pub fn penalty(&self) -> u64 {
        let (first, last) = (
            self.fetch_l1 + self.data_l1(),
            self.fetch_ll + self.data_ll(),
        );
        4 * first.saturating_sub(last) + 34 * last
    }

    /// That formula's "estimated cycles": references of instructions and data, and what misses cost.
    pub fn estimated_cycles(&self) -> u64 {
        self.instructions + self.reads + self.writes + self.penalty()
    }

    /// Branches that were predicted wrongly.
    pub fn wrong(&self) -> u64 {
        self.conditional_wrong + self.indirect_wrong
    }
}
