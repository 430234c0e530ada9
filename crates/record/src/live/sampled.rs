//! Everything that was sampled, summed up: by row, and within a row by place, caller and function.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::naming::Namer;
use super::tally::{Sums, Tally};
use super::types::{By, Hit, Interval, Key, Place, Weight};
use crate::names::base_name;

/// Rows that are told apart.
const MAX_ROWS: usize = 1 << 14;
/// Places, callers and functions of all rows together.
const MAX_DETAILS: usize = 1 << 16;

/// Different samples that wait for names; what is more is counted without a row.
const MAX_WAITING: usize = 1 << 16;

/// What a row is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// Of a function or line: its instructions.
    Place(Place),
    /// Of a function or line: who called the function.
    Caller(Key),
    /// Of a process, thread or CPU: what it executed.
    Function(Key),
}

/// The rows, and how they were obtained: all that the table on the screen needs.
#[derive(Debug, Clone)]
pub struct Sampled {
    /// What the rows are.
    pub by: By,
    /// The rows.
    pub rows: Tally<Key>,
    /// The last interval, and all since the start.
    pub time: (Duration, Duration),
    /// Records that were lost because a ring was full.
    pub lost: u64,
    /// How often the kernel throttled sampling.
    pub throttled: u64,
    /// Records that could not be understood.
    pub broken: u64,
    /// Places whose names are still to be found.
    pub waiting: usize,
}

/// The rows, and what they are made of.
#[derive(Debug)]
pub struct Summed {
    table: Sampled,
    parts: Tally<(Key, Part)>,
    /// What waits for names, with its row where that needs none; of the last interval, and in all.
    waiting: FxHashMap<(Hit, Option<Key>), (Weight, Weight)>,
}

impl Sampled {
    /// Without rows, for so many events.
    #[must_use]
    pub fn new(by: By, events: usize) -> Self {
        Self {
            by,
            rows: Tally::new(events, MAX_ROWS),
            time: (Duration::ZERO, Duration::ZERO),
            lost: 0,
            throttled: 0,
            broken: 0,
            waiting: 0,
        }
    }

    /// Without rows, with the losses that there were.
    pub fn anew(&self, by: By) -> Self {
        Self {
            by,
            rows: self.rows.anew(),
            time: (Duration::ZERO, Duration::ZERO),
            waiting: 0,
            ..*self
        }
    }
}

impl Summed {
    /// Without rows, for so many events.
    #[must_use]
    pub fn new(by: By, events: usize) -> Self {
        Self {
            table: Sampled::new(by, events),
            parts: Tally::new(events, MAX_DETAILS),
            waiting: FxHashMap::default(),
        }
    }

    /// Begins anew, with the losses that there were.
    pub fn restart(&mut self, by: By) {
        self.table = self.table.anew(by);
        self.parts = self.parts.anew();
        self.waiting = FxHashMap::default();
    }

    /// Adds an interval, which becomes the last. Only names that are known are used: the rest is for
    /// [`Summed::find_names`].
    pub fn add(&mut self, interval: &Interval, namer: &mut Namer) {
        let table = &mut self.table;
        table.rows.next();
        self.parts.next();
        self.waiting
            .values_mut()
            .for_each(|w| w.0 = Weight::default());
        table.time = (interval.time, table.time.1.saturating_add(interval.time));
        table.lost = table.lost.saturating_add(interval.lost);
        table.throttled = table.throttled.saturating_add(interval.throttled);
        table.broken = table.broken.saturating_add(interval.broken);
        for (event, weight) in interval.crowded.iter().enumerate() {
            table.rows.add_other(event, (*weight, *weight));
        }
        for (hit, weight) in &interval.hits {
            let event = usize::from(hit.event);
            let row = namer.row(self.table.by, hit, interval);
            if let Some(row) = &row {
                self.table.rows.add(row.clone(), event, *weight);
            }
            let weights = (*weight, *weight);
            if namer.knows(self.table.by, hit) {
                self.add_named(hit, row, weights, namer);
            } else if let Some(sum) = self.waiting.get_mut(&(hit.clone(), row.clone())) {
                sum.0.add(*weight);
                sum.1.add(*weight);
            } else if self.waiting.len() < MAX_WAITING {
                self.waiting.insert((hit.clone(), row), weights);
            } else if row.is_none() {
                self.table.rows.add_other(event, weights);
            }
        }
    }

    /// Finds names, those with most samples first, until it is that late, but (where the namer has no thread of its own)
    /// at least one; `true`: some were found.
    pub fn find_names(&mut self, namer: &mut Namer, until: Option<Instant>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        waiting.sort_unstable_by_key(|(_, w)| Reverse(w.1.samples));
        let mut found = false;
        for ((hit, row), weights) in waiting {
            // What became known meanwhile is not put off.
            let late = found && until.is_some_and(|until| Instant::now() >= until);
            let late = late && !namer.knows(self.table.by, &hit);
            if late || !namer.prepare(self.table.by, &hit, until) {
                self.waiting.insert((hit, row), weights);
            } else {
                found = true;
                self.add_named(&hit, row, weights, namer);
            }
        }
        found
    }

    /// Whether names are to be found.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn add_named(
        &mut self,
        hit: &Hit,
        row: Option<Key>,
        weights: (Weight, Weight),
        namer: &mut Namer,
    ) {
        let event = usize::from(hit.event);
        if let Some(row) = row {
            let part = (row, Part::Function(namer.function(&hit.place)));
            self.parts.add_pair(part, event, weights);
            return;
        }
        let key = namer.code(self.table.by == By::Line, &hit.place);
        let caller = match &hit.caller {
            Some(place) => namer.function(place),
            None => Key::new("(no caller recorded)", ""),
        };
        let part = (key.clone(), Part::Caller(caller));
        self.parts.add_pair(part, event, weights);
        let part = (key.clone(), Part::Place(hit.place.clone()));
        self.parts.add_pair(part, event, weights);
        self.table.rows.add_pair(key, event, weights);
    }

    /// The rows as they can be shown now: what waits for names is a row a file.
    pub fn table(&self) -> Sampled {
        let mut table = self.table.clone();
        let mut files: FxHashMap<&str, Key> = FxHashMap::default();
        for ((hit, row), weights) in &self.waiting {
            if let (None, Place::File(file, _)) = (row, &hit.place) {
                let name = base_name(&file.path);
                let key = files
                    .entry(name)
                    .or_insert_with(|| Key::new("(finding its name)", name));
                let event = usize::from(hit.event);
                table.rows.add_pair(key.clone(), event, *weights);
            }
        }
        table.waiting = self.waiting.len();
        table
    }

    /// The parts of a row.
    pub fn parts_of(&self, key: &Key) -> impl Iterator<Item = (&Part, &Sums)> {
        self.parts
            .rows()
            .filter(move |((of, _), _)| of == key)
            .map(|((_, part), sums)| (part, sums))
    }
}
