//! The forms in which `stat` writes its result: text, JSON, CSV; whole runs and intervals.

use std::io::{self, Write};
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::document::Document;
use super::perf;
use crate::output::Output;
use crate::render::{csv, json};
use truecount_model::{Measured, Reading};
use truecount_run::metrics::{Asked, MetricRow, Values};
use truecount_run::request::RequestGroup;

/// The form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Text,
    Json,
    Csv,
    /// The fields of `perf stat -x`, with this between them.
    Perf(&'a str),
}

/// Writes in one of the forms.
pub(super) struct Form<'o> {
    kind: Kind<'o>,
    output: &'o mut Output,
    metrics: &'o Metrics<'o>,
    headed: bool,
    before: Vec<Reading>,
    since: Duration,
}

/// The metrics of `-M`, and where the readings of their groups stand among all readings.
pub(super) struct Metrics<'a> {
    asked: &'a Asked,
    places: Vec<(usize, Range<usize>)>,
}

impl<'a> Metrics<'a> {
    pub(super) fn new(asked: &'a Asked, groups: &[RequestGroup]) -> Self {
        let mut places = Vec::new();
        let mut start: usize = 0;
        for group in groups {
            let end = start.saturating_add(group.members.len());
            places.extend(group.metric.map(|number| (number, start..end)));
            start = end;
        }
        Self { asked, places }
    }

    /// The values from these readings, which follow the groups.
    pub(super) fn of(&self, readings: &[Reading], wall_ns: u64) -> Values {
        let group = |number: usize| {
            let place = self.places.iter().find(|(its, _)| *its == number)?;
            readings.get(place.1.clone())
        };
        self.asked.values(&group, wall_ns)
    }
}

/// One interval in JSON: a line of its own.
#[derive(Serialize)]
struct IntervalLine<'a> {
    schema: &'static str,
    since_ns: u64,
    counters: &'a [Reading],
    #[serde(flatten)]
    values: &'a Values,
}

impl<'o> Form<'o> {
    pub(super) fn new(kind: Kind<'o>, output: &'o mut Output, metrics: &'o Metrics<'o>) -> Self {
        Self {
            kind,
            output,
            metrics,
            since: Duration::ZERO,
            headed: false,
            before: Vec::new(),
        }
    }

    /// Writes what was counted since the interval before.
    pub(super) fn interval(&mut self, since: Duration, now: Vec<Reading>) -> io::Result<()> {
        let parts = differences(&self.before, &now);
        self.before = now;
        let wall = since.saturating_sub(self.since);
        self.since = since;
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        let values = self.metrics.of(&parts, wall);
        match self.kind {
            Kind::Json => {
                let line = IntervalLine {
                    schema: "truecount.stat-interval/2",
                    since_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
                    counters: &parts,
                    values: &values,
                };
                json::line(self.output, &line)?;
            }
            Kind::Csv => {
                self.csv_head(true)?;
                for reading in &parts {
                    csv_row(self.output, Some(since), reading)?;
                }
                for row in &values.metrics {
                    csv_metric(self.output, Some(since), row)?;
                }
            }
            Kind::Perf(separator) => {
                for reading in &parts {
                    perf::row(self.output, separator, Some(since), reading, None)?;
                }
            }
            Kind::Text => {
                super::text::interval(self.output, since, &parts, &values, !self.headed)?;
                self.headed = true;
            }
        }
        self.output.flush()
    }

    fn csv_head(&mut self, interval: bool) -> io::Result<()> {
        if !self.headed {
            self.headed = true;
            let since: &[&str] = if interval { &["since_s"] } else { &[] };
            let names = [
                "event",
                "value",
                "unit",
                "scale",
                "source",
                "precision",
                "enabled_ns",
                "running_ns",
                "reason",
            ];
            csv::row(self.output, since.iter().chain(&names))?;
        }
        Ok(())
    }

    /// Writes the whole run.
    pub(super) fn finish(&mut self, document: &Document, intervals: bool) -> io::Result<()> {
        if intervals {
            return self.output.flush();
        }
        match self.kind {
            Kind::Json => json::write(self.output, document)?,
            Kind::Csv => {
                self.csv_head(false)?;
                for reading in document.counters.iter().chain(&document.resources) {
                    csv_row(self.output, None, reading)?;
                }
                for row in &document.values.metrics {
                    csv_metric(self.output, None, row)?;
                }
            }
            Kind::Perf(separator) => {
                for (place, reading) in document.counters.iter().enumerate() {
                    let repeats = document.repeats.as_ref();
                    let mean = repeats.and_then(|repeats| repeats.mean(place));
                    perf::row(self.output, separator, None, reading, mean)?;
                }
            }
            Kind::Text => super::text::document(self.output, document)?,
        }
        self.output.flush()
    }
}

fn csv_row(out: &mut dyn Write, since: Option<Duration>, reading: &Reading) -> io::Result<()> {
    let text = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let since = since.map(|since| format!("{:.9}", since.as_secs_f64()));
    let cells = [
        reading.event.clone(),
        text(reading.value()),
        reading.unit.clone(),
        reading.scale.to_string(),
        reading.result.source_name().to_owned(),
        reading.result.precision_name().to_owned(),
        text(reading.enabled_ns),
        text(reading.running_ns),
        reading.result.cause().to_owned(),
    ];
    csv::row(out, since.iter().chain(&cells))
}

/// A metric in the columns of an event.
fn csv_metric(out: &mut dyn Write, since: Option<Duration>, row: &MetricRow) -> io::Result<()> {
    let since = since.map(|since| format!("{:.9}", since.as_secs_f64()));
    let cells = [
        row.metric.clone(),
        row.result
            .value()
            .map(|value| value.to_string())
            .unwrap_or_default(),
        row.unit.clone(),
        "1".to_owned(),
        row.result.source_name().to_owned(),
        row.result.precision_name().to_owned(),
        String::new(),
        String::new(),
        row.result.cause().to_owned(),
    ];
    csv::row(out, since.iter().chain(&cells))
}

/// Cumulative readings become those of one interval.
fn differences(before: &[Reading], now: &[Reading]) -> Vec<Reading> {
    now.iter()
        .enumerate()
        .map(|(index, reading)| {
            let mut part = reading.clone();
            if let Some(before) = before.get(index) {
                let less = |now: Option<u64>, before: Option<u64>| {
                    now.map(|now| now.saturating_sub(before.unwrap_or(0)))
                };
                if let Measured::Value { value, .. } = &mut part.result {
                    *value = value.saturating_sub(before.value().unwrap_or(0));
                }
                part.enabled_ns = less(reading.enabled_ns, before.enabled_ns);
                part.running_ns = less(reading.running_ns, before.running_ns);
            }
            part
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_differences_of_cumulative_counts() {
        let first = vec![Reading::software("page-faults", "count", 10)];
        let second = vec![Reading::software("page-faults", "count", 25)];
        assert_eq!(differences(&[], &first)[0].value(), Some(10));
        assert_eq!(differences(&first, &second)[0].value(), Some(15));
    }
}
