//! What references came to on each path of functions, and what a model made of them.

use super::costs::{Simulated, place};
use super::step::{is_always_taken, is_taken, kind_of};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use truecount_engine::virt::NodeFacts;
use truecount_engine::virt::references::{Code, Elements, Executed};
use truecount_memory::{BesideMisses, Extent, Placed, Totals};

/// Facts about what a path of functions did itself, and what the model has beside Cachegrind's caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathFacts {
    /// References, their bytes, and how they lie.
    pub totals: Totals,
    /// Branches that were taken.
    pub taken: u64,
    /// Lines and pages that the run touched here first.
    pub extent: Extent,
    /// What the model missed beside its first and last levels.
    pub beside: BesideMisses,
}

/// What a path of functions came to itself, without what it called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCosts {
    /// Facts.
    pub facts: PathFacts,
    /// What the model made of it.
    pub simulated: Simulated,
}

impl PathCosts {
    /// Adds what the engine counted itself.
    pub(crate) fn add_counted(&mut self, counted: &NodeFacts) {
        let PathFacts {
            totals: sums,
            taken,
            ..
        } = &mut self.facts;
        for (sum, more) in [
            (&mut sums.loads, counted.loads),
            (&mut sums.stores, counted.stores),
            (&mut sums.load_bytes, counted.load_bytes),
            (&mut sums.store_bytes, counted.store_bytes),
            (taken, counted.taken),
        ] {
            *sum = sum.wrapping_add(more);
        }
    }

    /// Misses of the first level by data.
    pub(super) fn data_l1(&self) -> u64 {
        self.of(place::READ_L1) + self.of(place::WRITE_L1)
    }

    /// Of the first level by instructions.
    pub(super) fn fetch_l1(&self) -> u64 {
        self.of(place::FETCH_L1)
    }

    /// Of the last level.
    pub(super) fn last(&self) -> u64 {
        let first = [place::READ_L1, place::WRITE_L1, place::FETCH_L1];
        first
            .map(|first| self.of(first + place::TO_LAST))
            .iter()
            .sum()
    }

    /// Branches that were predicted wrongly.
    pub(super) fn wrong(&self) -> u64 {
        self.of(place::CONDITIONAL_WRONG) + self.of(place::INDIRECT_WRONG)
    }

    fn of(&self, place: usize) -> u64 {
        self.simulated.get(place).copied().unwrap_or(0)
    }
}

impl PathFacts {
    /// All that instruction `at` referenced.
    pub(super) fn references(&mut self, executed: &Executed<'_>, at: usize) {
        let mut placed = Placed::default();
        executed.references(at, |_, operand, run| {
            let kind = kind_of(operand.access);
            self.totals.made(run.size, kind, run.times);
            placed.count(run.address, run.size, run.times);
        });
        placed.add_to(&mut self.totals);
    }

    /// A block as it was executed.
    pub(super) fn block(&mut self, executed: &Executed<'_>) {
        for (at, instruction) in executed.instructions() {
            self.references(executed, at);
            let branch = instruction.branch;
            let always = at < executed.done && is_always_taken(branch);
            let taken = always || is_taken(at, branch, executed);
            self.taken += u64::from(taken);
        }
    }

    /// How a reference lies that is counted elsewhere.
    pub(super) fn lies(&mut self, code: &Code, (at, operand): (usize, usize), address: u64) {
        let mut placed = Placed::default();
        if let Some(operand) = code.operands(at).get(operand) {
            placed.count(address, operand.size, 1);
        }
        placed.add_to(&mut self.totals);
    }

    /// Elements that a mask chooses.
    pub(super) fn elements(&mut self, code: &Code, at: usize, elements: &Elements) {
        let Some(operand) = code.operands(at).first() else {
            return;
        };
        let many = u64::from(elements.mask.count_ones());
        let kind = kind_of(operand.access);
        self.totals.made(operand.size, kind, many);
        let mut placed = Placed::default();
        elements.each_run(|first, many| {
            let away = u64::from(first) * u64::from(operand.size);
            let address = elements.address.wrapping_add(away);
            placed.count(address, operand.size, many.into());
        });
        placed.add_to(&mut self.totals);
    }
}

/// What a thread missed in the model so far, and how much of its memory was touched, where somebody asks.
type Since = (BesideMisses, Option<Extent>);

/// What is counted for the node that a thread is in, where there are nodes.
pub(super) trait OfNode {
    /// Adds to what it met.
    fn meet(&mut self, node: Option<u32>, place: usize, times: u64);
    /// Its facts, where they are wanted.
    fn facts(&mut self, node: Option<u32>) -> Option<&mut PathFacts>;
    /// It is left: what came since then is its own.
    fn leave(&mut self, node: Option<u32>, since: &Since, now: &Since);
}

impl OfNode for Option<Paths> {
    #[inline]
    fn meet(&mut self, node: Option<u32>, place: usize, times: u64) {
        let sums = self.as_mut().zip(node);
        let sums = sums.and_then(|(paths, node)| paths.sums.get_mut(node as usize));
        if let Some(sum) = sums.and_then(|sums| sums.get_mut(place)) {
            *sum += times;
        }
    }

    #[inline]
    fn facts(&mut self, node: Option<u32>) -> Option<&mut PathFacts> {
        let (paths, node) = self.as_mut().zip(node)?;
        paths.facts.get_mut(node as usize)
    }

    fn leave(&mut self, node: Option<u32>, since: &Since, now: &Since) {
        let Some(facts) = self.facts(node) else {
            return;
        };
        facts.beside.add_since(&since.0, &now.0);
        if let (Some(before), Some(after)) = (&since.1, &now.1) {
            facts.extent.add_since(before, after);
        }
    }
}

/// Nodes found lately, chosen by bits of their addresses, which are multiples of 64.
const RECENT: usize = 1 << 12;

/// Sums by node of the tree of calls.
pub(super) struct Paths {
    numbers: FxHashMap<u64, u32>,
    recent: Box<[(u64, u32)]>,
    sums: Vec<Simulated>,
    /// As many, or none where nobody wants them.
    facts: Vec<PathFacts>,
    has_facts: bool,
}

impl Paths {
    pub(super) fn new(has_facts: bool) -> Self {
        Self {
            numbers: FxHashMap::default(),
            recent: vec![(u64::MAX, 0); RECENT].into_boxed_slice(),
            sums: Vec::new(),
            facts: Vec::new(),
            has_facts,
        }
    }

    /// The number of the node at an address.
    pub(super) fn number(&mut self, address: u64) -> u32 {
        let recent = self.recent.get_mut((address >> 6) as usize % RECENT);
        if let Some(&mut (known, number)) = recent
            && known == address
        {
            return number;
        }
        let next = self.sums.len() as u32;
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            self.sums.push(Simulated::default());
            if self.has_facts {
                self.facts.push(PathFacts::default());
            }
        }
        if let Some(place) = self.recent.get_mut((address >> 6) as usize % RECENT) {
            *place = (address, number);
        }
        number
    }

    /// Facts are wanted.
    pub(super) fn has_facts(&self) -> bool {
        self.has_facts
    }

    /// Adds to a node what was met since, which begins anew.
    pub(super) fn take(&mut self, number: u32, met: &mut Simulated) {
        if let Some(sums) = self.sums.get_mut(number as usize) {
            for (sum, met) in sums.iter_mut().zip(met) {
                *sum += std::mem::take(met);
            }
        }
    }

    /// What the model made of them, by address.
    pub(super) fn simulated(&self) -> HashMap<u64, Simulated> {
        let all = self.numbers.iter();
        all.filter_map(|(&address, &number)| Some((address, *self.sums.get(number as usize)?)))
            .collect()
    }

    /// All that was told, by address, where facts are wanted.
    pub(super) fn costs(&self) -> Option<HashMap<u64, PathCosts>> {
        let all = self.numbers.iter().filter_map(|(&address, &number)| {
            let costs = PathCosts {
                facts: *self.facts.get(number as usize)?,
                simulated: *self.sums.get(number as usize)?,
            };
            Some((address, costs))
        });
        self.has_facts.then(|| all.collect())
    }
}
