//! What a scan has found so far: kept in a file, so that an interrupted scan goes on.

use super::Plan;
use super::open::Why;
use super::relate::{Envelope, Kind, Series, Sum, relate, sum};
use super::select::Selector;
use super::workload::Phase;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Selectors that were counted in the same runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Batch {
    /// Those that counted.
    pub counted: Vec<(Selector, Series)>,
    /// Those that did not.
    pub silent: Vec<Selector>,
    /// The references in the plan's order; `None` where one was not counted.
    pub references: Vec<Option<Series>>,
}

/// A selector without counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCounted {
    /// Which.
    pub selector: Selector,
    /// Why.
    #[serde(flatten)]
    pub why: Why,
}

/// Everything found so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// The workload's phases.
    pub phases: Vec<Phase>,
    /// What was counted.
    pub batches: Vec<Batch>,
    /// What the kernel refuses.
    pub not_opened: Vec<NotCounted>,
    /// What did not get onto a counter.
    pub not_counted: Vec<NotCounted>,
    /// Pairs of selectors that were compared with a reference, by its place.
    pub asked: Vec<(usize, Selector, Selector)>,
    /// Those that are the reference.
    pub sums: Vec<Sum>,
    /// Whether everything planned was tried.
    pub complete: bool,
}

impl State {
    pub(super) fn add(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// All that counted, with the references of the same runs.
    pub fn counted(&self) -> impl Iterator<Item = (Selector, &Series, &[Option<Series>])> {
        self.batches.iter().flat_map(|batch| {
            batch
                .counted
                .iter()
                .map(|(selector, own)| (*selector, own, batch.references.as_slice()))
        })
    }

    /// Event codes of which something has counted.
    #[must_use]
    pub fn counting_codes(&self) -> BTreeSet<u16> {
        self.counted().map(|(selector, ..)| selector.code).collect()
    }

    /// All that opened and never counted.
    pub fn silent(&self) -> impl Iterator<Item = Selector> + '_ {
        self.batches
            .iter()
            .flat_map(|batch| batch.silent.iter().copied())
    }

    /// All selectors that need not be tried again.
    #[must_use]
    pub fn tried(&self) -> BTreeSet<Selector> {
        let without = self.not_opened.iter().chain(&self.not_counted);
        self.counted()
            .map(|(selector, ..)| selector)
            .chain(self.silent())
            .chain(without.map(|each| each.selector))
            .collect()
    }

    /// The most selectors that were counted at once.
    #[must_use]
    pub fn at_once(&self) -> usize {
        let size = |batch: &Batch| batch.counted.len() + batch.silent.len();
        self.batches.iter().map(size).max().unwrap_or(0)
    }

    /// A reference, over all batches.
    #[must_use]
    pub fn reference(&self, index: usize) -> Series {
        let of_batch = |batch: &Batch| batch.references.get(index).cloned().flatten();
        Series(
            self.batches
                .iter()
                .filter_map(of_batch)
                .flat_map(|series| series.0)
                .collect(),
        )
    }

    /// Pairs of selectors whose sum may be a reference, by what each counted in its own runs; the most telling ones
    /// first.
    pub(super) fn possible_sums(&self) -> Vec<(usize, Selector, Selector)> {
        let count = self
            .batches
            .iter()
            .map(|b| b.references.len())
            .max()
            .unwrap_or(0);
        let mut found: Vec<(f64, (usize, Selector, Selector))> = Vec::new();
        for index in 0..count {
            let whole = self.reference(index);
            if !whole.counts() {
                continue;
            }
            let whole = Envelope::of(&whole);
            // What is equal to the reference by itself leaves nothing for another.
            let mut parts: BTreeMap<Selector, Envelope> = BTreeMap::new();
            for (selector, own, references) in self.counted() {
                let same = references
                    .get(index)
                    .and_then(Option::as_ref)
                    .is_some_and(|r| {
                        relate(own, "", r).is_some_and(|found| found.relation == Kind::Equal)
                    });
                if !same {
                    parts.insert(selector, Envelope::of(own));
                }
            }
            for (first, a) in &parts {
                for (second, b) in parts.range(first..).skip(1) {
                    if whole.may_be_sum_of(a, b) {
                        let vague = a.vagueness() + b.vagueness();
                        found.push((vague, (index, *first, *second)));
                    }
                }
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.into_iter().map(|(_, ask)| ask).collect()
    }

    /// Keeps what a run of a pair says of a reference.
    pub(super) fn add_sum(&mut self, plan: &Plan, reference: usize, batch: &Batch) {
        let (Some(told), Some(Some(whole))) = (
            plan.references.get(reference),
            batch.references.get(reference),
        ) else {
            return;
        };
        if let [(a, first), (b, second)] = batch.counted.as_slice() {
            let (a, b) = (plan.name(*a), plan.name(*b));
            let found = sum((&told.name, whole), (&a, first), (&b, second));
            self.sums.extend(found.filter(Sum::holds));
        }
    }
}
