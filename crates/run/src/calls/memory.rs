//! Memory references in a tree of calls: what each path referenced, and what a model made of that.

use super::{CallTree, EventCost};
use crate::references::{Memory, MemoryEvent, Noted, PathCosts};
use crate::result::RunResult;
use std::collections::HashMap;
use truecount_engine::virt::{CallNode, Calls};

/// What is known of the references of each path.
#[derive(Default)]
pub(super) struct OfMemory {
    events: Vec<MemoryEvent>,
    /// By the nodes' addresses.
    costs: HashMap<u64, PathCosts>,
}

impl OfMemory {
    /// What the run has; nothing where it noted no references by path.
    pub(super) fn of(ran: &RunResult) -> Self {
        let costs = ran.executed.noted.as_ref().and_then(Noted::path_costs);
        let (Some(memory), Some(costs)) = (&ran.executed.memory, costs) else {
            return Self::default();
        };
        let known = |event: &MemoryEvent| event.of(memory).is_some();
        Self {
            events: MemoryEvent::ALL.iter().copied().filter(known).collect(),
            costs,
        }
    }

    /// Names these events, behind the others that the tree has.
    pub(super) fn name(&self, tree: &mut CallTree) {
        for event in &self.events {
            let name = event.name().to_owned();
            let of_its_sort = match event.is_model() {
                true => &mut tree.modelled,
                false => &mut tree.facts,
            };
            of_its_sort.push(name.clone());
            tree.events.push(name);
        }
    }

    /// What a node has of them, none of it inclusive yet.
    pub(super) fn own(&self, node: &CallNode) -> impl Iterator<Item = EventCost> {
        let costs = (!self.events.is_empty()).then(|| self.costs_of(node));
        let events = costs.into_iter().flat_map(|costs| {
            let events = self.events.iter();
            events.map(move |event| event.of_path(&costs))
        });
        events.map(|own| EventCost { own, inclusive: 0 })
    }

    fn costs_of(&self, node: &CallNode) -> PathCosts {
        let mut costs = self.costs.get(&node.address).copied().unwrap_or_default();
        costs.add_counted(&node.facts);
        costs
    }

    /// Looks whether what all paths have is what the run has.
    ///
    /// # Errors
    /// One line: it is not.
    pub(super) fn check(&self, calls: &Calls, memory: &Memory) -> Result<(), String> {
        let mut sums = vec![0u64; self.events.len()];
        for node in &calls.nodes {
            let costs = self.costs_of(node);
            for (sum, event) in sums.iter_mut().zip(&self.events) {
                *sum = sum.wrapping_add(event.of_path(&costs));
            }
        }
        for (event, sum) in self.events.iter().zip(sums) {
            let whole = event.of(memory).unwrap_or(0);
            if sum != whole {
                return Err(format!(
                    "the tree of calls has {sum} {}, the run {whole}",
                    event.name()
                ));
            }
        }
        Ok(())
    }
}

impl CallTree {
    /// How many of its events follow from instructions; behind these are those of memory.
    pub fn counted(&self) -> usize {
        let of_memory = self.facts.len() + self.modelled.len();
        self.events.len().saturating_sub(of_memory)
    }
}
