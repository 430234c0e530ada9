//! Everything that was sampled, summed up: by row, and within a row by place, caller and function.

use std::time::Duration;

use super::By;
use super::collect::{Interval, Place};
use super::naming::{Key, Namer};
use super::tally::{Sums, Tally};

/// Rows that are told apart.
const MOST_ROWS: usize = 1 << 14;
/// Places, callers and functions of all rows together.
const MOST_DETAILS: usize = 1 << 16;

/// What a row is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// Of a function or line: its instructions.
    Place(Place),
    /// Of a function or line: who called the function.
    Caller(Key),
    /// Of a process, thread or CPU: what it executed.
    Function(Key),
}

/// The rows, and how they were obtained: all that the table on the screen needs.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    pub(super) by: By,
    pub(super) rows: Tally<Key>,
    /// The last interval, and all since the start.
    pub(super) time: (Duration, Duration),
    pub(super) lost: u64,
    pub(super) throttled: u64,
    pub(super) broken: u64,
}

/// The rows, and what they are made of.
#[derive(Debug)]
pub(super) struct Summed {
    pub(super) table: Sampled,
    parts: Tally<(Key, Part)>,
    events: usize,
}

impl Sampled {
    pub(super) fn new(by: By, events: usize) -> Self {
        Self {
            by,
            rows: Tally::new(events, MOST_ROWS),
            time: (Duration::ZERO, Duration::ZERO),
            lost: 0,
            throttled: 0,
            broken: 0,
        }
    }
}

impl Summed {
    pub(super) fn new(by: By, events: usize) -> Self {
        Self {
            table: Sampled::new(by, events),
            parts: Tally::new(events, MOST_DETAILS),
            events,
        }
    }

    /// Begins anew, with the losses that there were.
    pub(super) fn restart(&mut self, by: By) {
        let old = &self.table;
        let losses = (old.lost, old.throttled, old.broken);
        *self = Self::new(by, self.events);
        let table = &mut self.table;
        (table.lost, table.throttled, table.broken) = losses;
    }

    /// Adds an interval, which becomes the last. `named` is told how many of its places have their names.
    pub(super) fn add(&mut self, interval: &Interval, namer: &mut Namer, named: impl Fn(usize)) {
        let table = &mut self.table;
        table.rows.next();
        self.parts.next();
        table.time = (interval.time, table.time.1.saturating_add(interval.time));
        table.lost = table.lost.saturating_add(interval.lost);
        table.throttled = table.throttled.saturating_add(interval.throttled);
        table.broken = table.broken.saturating_add(interval.broken);
        for (event, weight) in interval.crowded.iter().enumerate() {
            table.rows.add_other(event, *weight);
        }
        for (done, (hit, weight)) in interval.hits.iter().enumerate() {
            named(done);
            let event = usize::from(hit.event);
            let key = namer.key(table.by, hit, interval);
            if matches!(table.by, By::Symbol | By::Line) {
                let caller = match &hit.caller {
                    Some(place) => namer.function(place),
                    None => Key::new("(no caller recorded)", ""),
                };
                let part = (key.clone(), Part::Caller(caller));
                self.parts.add(part, event, *weight);
                let part = (key.clone(), Part::Place(hit.place.clone()));
                self.parts.add(part, event, *weight);
            } else {
                let function = namer.function(&hit.place);
                let part = (key.clone(), Part::Function(function));
                self.parts.add(part, event, *weight);
            }
            table.rows.add(key, event, *weight);
        }
    }

    /// The parts of a row.
    pub(super) fn parts_of(&self, key: &Key) -> impl Iterator<Item = (&Part, &Sums)> {
        self.parts
            .rows()
            .filter(move |((of, _), _)| of == key)
            .map(|((_, part), sums)| (part, sums))
    }
}
