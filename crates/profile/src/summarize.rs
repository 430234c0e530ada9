//! The self-time table: one pass over the events in reverse, the same numbers as measureme's.
//!
//! Facts: the semantics of measureme 12 (`analyzeme::analysis`), checked label by label against the
//! `analyzeme` crate in this crate's tests. A parent ends after what is nested in it, so it comes
//! first in reverse; nesting is containment of intervals on one thread. `time` of a label that
//! recurses is the sum of all its intervals (measureme 12.0.3), so it can exceed the total.

use crate::error::Loss;
use crate::event::Payload;
use crate::file::Profile;
use crate::labels::{Kind, Kinds, Labels};
use crate::metadata::{Overhead, Unit};
use crate::threads::Threads;
use serde::Serialize;

/// What one label cost. Times are in the counter's unit ([`Summary::unit`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LabelSummary {
    /// The label.
    pub label: String,
    /// Time in it but not in what is nested in it. Below zero only where intervals cross.
    pub self_time: i64,
    /// Time in it, what is nested included; intervals of a recursing label count each.
    pub time: u64,
    /// How often it ran (cache hits and blocked waits are not runs).
    pub count: u64,
    /// Runs of a query or an activity of rustc.
    pub cache_misses: u64,
    /// Hits of the query cache.
    pub cache_hits: u64,
    /// Time that it waited for another thread to compute the same.
    pub blocked: u64,
    /// Time to load results of an earlier compilation.
    pub incremental_load: i64,
    /// Time to hash results for a later compilation.
    pub incremental_hashing: i64,
    /// Intervals directly nested in it.
    pub children: u64,
}

/// Sizes of what was produced, added up per label, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// What was produced.
    pub label: String,
    /// Bytes.
    pub bytes: u64,
}

/// The extent of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// The thread's id in the file.
    pub thread: u32,
    /// Smallest start of its intervals.
    pub start: u64,
    /// Largest end of its intervals.
    pub end: u64,
    /// Its intervals.
    pub intervals: u64,
}

/// How many events of which form there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Intervals.
    pub intervals: u64,
    /// Instants.
    pub instants: u64,
    /// Integers.
    pub integers: u64,
    /// Intervals that end before they start; they are left out.
    pub reversed: u64,
}

/// The self-time table of one profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Unit of all times.
    pub unit: Unit,
    /// What recording one region cost, where the file says so; nothing is subtracted yet.
    pub overhead: Option<Overhead>,
    /// Sum over threads of (largest end − smallest start).
    pub total: u64,
    /// Labels by self time, largest first.
    pub labels: Vec<LabelSummary>,
    /// Artifact sizes by label.
    pub artifacts: Vec<Artifact>,
    /// Threads by id.
    pub threads: Vec<ThreadSummary>,
    /// Events by form.
    pub events: Counts,
    /// What could not be used of the file.
    pub losses: Vec<Loss>,
}

impl Summary {
    /// Leaves out the labels of these names: their self times no longer count, nor in the total.
    pub fn exclude(&mut self, labels: &[String]) {
        let mut left_out = 0i64;
        self.labels.retain(|row| {
            let stays = !labels.contains(&row.label);
            if !stays {
                left_out = left_out.saturating_add(row.self_time);
            }
            stays
        });
        self.total = self
            .total
            .saturating_sub(u64::try_from(left_out).unwrap_or(0));
    }

    /// Takes what recording cost (as the recorder measured it) off the self times: a region's own
    /// share for each of its runs, and the rest for each region directly nested in it. `time` and
    /// the total stay as recorded. Rows are sorted again.
    pub fn subtract(&mut self, overhead: Overhead) {
        let outside = overhead.outer.saturating_sub(overhead.inner);
        for row in &mut self.labels {
            let cost = overhead
                .inner
                .saturating_mul(row.count)
                .saturating_add(outside.saturating_mul(row.children));
            row.self_time = row
                .self_time
                .saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
        }
        self.labels.sort_by(|a, b| {
            b.self_time
                .cmp(&a.self_time)
                .then_with(|| a.label.cmp(&b.label))
        });
    }

    /// The row of one label.
    #[must_use]
    pub fn label(&self, label: &str) -> Option<&LabelSummary> {
        self.labels.iter().find(|row| row.label == label)
    }
}

#[derive(Clone, Copy)]
struct Open {
    start: u64,
    end: u64,
    label: u32,
    kind: Kind,
}

#[derive(Default)]
struct Thread {
    stack: Vec<Open>,
    start: u64,
    end: u64,
    intervals: u64,
}

#[derive(Clone, Copy, Default)]
struct Row {
    self_time: i64,
    time: u64,
    count: u64,
    misses: u64,
    hits: u64,
    blocked: u64,
    load: i64,
    hashing: i64,
    children: u64,
    artifact: Option<u64>,
    met: bool,
    counted: bool,
}

#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    #[inline(always)]
    fn at(&mut self, label: u32) -> &mut Row {
        let place = label as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, Row::default());
        }
        &mut self.0[place]
    }
}

/// 48-bit values fit.
#[inline(always)]
fn signed(value: u64) -> i64 {
    value as i64
}

impl Thread {
    /// Closes what does not contain the interval, books it, and opens it.
    #[inline(always)]
    fn interval(&mut self, open: Open, rows: &mut Rows) {
        let Open {
            start,
            end,
            label,
            kind,
        } = open;
        if self.intervals == 0 {
            (self.start, self.end) = (start, end);
        }
        self.intervals += 1;
        self.start = self.start.min(start);
        self.end = self.end.max(end);
        let duration = end - start;
        while let Some(top) = self.stack.last() {
            if top.start <= start && end <= top.end {
                let row = rows.at(top.label);
                row.self_time = row.self_time.saturating_sub(signed(duration));
                row.children += 1;
                match top.kind {
                    Kind::IncrementalResultHashing => {
                        row.hashing = row.hashing.saturating_sub(signed(duration));
                    }
                    Kind::IncrementalLoadResult => {
                        row.load = row.load.saturating_sub(signed(duration));
                    }
                    _ => {}
                }
                break;
            }
            self.stack.pop();
        }
        self.stack.push(open);
        let row = rows.at(label);
        row.met = true;
        row.self_time = row.self_time.saturating_add(signed(duration));
        if kind == Kind::IncrementalResultHashing {
            // It happens inside the query itself, whose time has it already.
            row.hashing = row.hashing.saturating_add(signed(duration));
            return;
        }
        row.time = row.time.saturating_add(duration);
        match kind {
            Kind::Query | Kind::GenericActivity => {
                row.misses += 1;
                row.count += 1;
            }
            Kind::QueryBlocked => row.blocked = row.blocked.saturating_add(duration),
            Kind::IncrementalLoadResult => row.load = row.load.saturating_add(signed(duration)),
            _ => row.count += 1,
        }
    }
}

/// The self-time table of a profile.
#[must_use]
pub fn summarize(profile: &Profile) -> Summary {
    let mut labels = Labels::new(profile);
    let mut kinds = Kinds::new(profile);
    let mut rows = Rows::default();
    let mut threads = Threads::<Thread>::new();
    let mut events = Counts::default();
    profile.events().each_back(|event| match event.payload {
        Payload::Instant { .. } => {
            events.instants += 1;
            if kinds.of(event.kind) == Kind::QueryCacheHit {
                let row = rows.at(labels.of(event.id));
                row.met = true;
                row.hits += u64::from(!row.counted);
            }
        }
        Payload::Interval { start, end } if start <= end => {
            events.intervals += 1;
            let open = Open {
                start,
                end,
                label: labels.of(event.id),
                kind: kinds.of(event.kind),
            };
            threads.get(event.thread).interval(open, &mut rows);
        }
        Payload::Interval { .. } => events.reversed += 1,
        Payload::Integer { value } => {
            events.integers += 1;
            match kinds.of(event.kind) {
                Kind::ArtifactSize => {
                    let row = rows.at(labels.of(event.id));
                    row.artifact = Some(row.artifact.unwrap_or(0).saturating_add(value));
                }
                Kind::QueryCacheHitCount => {
                    let row = rows.at(labels.of(event.id));
                    row.met = true;
                    row.counted = true;
                    row.hits = row.hits.saturating_add(value);
                }
                _ => {}
            }
        }
    });
    finish(profile, &labels, &rows, threads, events)
}

fn finish(
    profile: &Profile,
    labels: &Labels<'_>,
    rows: &Rows,
    threads: Threads<Thread>,
    events: Counts,
) -> Summary {
    let mut table = Vec::new();
    let mut artifacts = Vec::new();
    for (number, row) in rows.0.iter().enumerate() {
        let label = || {
            labels
                .text(u32::try_from(number).unwrap_or(u32::MAX))
                .to_owned()
        };
        if let Some(bytes) = row.artifact {
            artifacts.push(Artifact {
                label: label(),
                bytes,
            });
        }
        if row.met {
            table.push(LabelSummary {
                label: label(),
                self_time: row.self_time,
                time: row.time,
                count: row.count,
                cache_misses: row.misses,
                cache_hits: row.hits,
                blocked: row.blocked,
                incremental_load: row.load,
                incremental_hashing: row.hashing,
                children: row.children,
            });
        }
    }
    table.sort_by(|a, b| {
        b.self_time
            .cmp(&a.self_time)
            .then_with(|| a.label.cmp(&b.label))
    });
    artifacts.sort_by(|a, b| a.label.cmp(&b.label));
    let threads: Vec<_> = threads
        .into_sorted()
        .into_iter()
        .map(|(thread, t)| ThreadSummary {
            thread,
            start: t.start,
            end: t.end,
            intervals: t.intervals,
        })
        .collect();
    let total = threads
        .iter()
        .fold(0_u64, |sum, t| sum.saturating_add(t.end - t.start));
    Summary {
        unit: profile.unit().clone(),
        overhead: profile.metadata().overhead,
        total,
        labels: table,
        artifacts,
        threads,
        events,
        losses: profile.losses().to_vec(),
    }
}
