//! The forms in which `stat` writes its result: text, JSON, CSV; whole runs and intervals.

use std::io::{self, Write};
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::document::{Apart, Document};
use super::perf;
use super::places::{Label, Labels};
use super::repeat::Repeats;
use crate::output::Output;
use crate::render::{csv, json};
use truecount_model::{Measured, Reading};
use truecount_run::metrics::{Asked, MetricRow, Values};
use truecount_run::request::RequestGroup;
use truecount_run::source::Taken;

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
    pub(super) labels: Labels<'o>,
    headed: bool,
    before: Taken,
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
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    cgroups: &'a [String],
    #[serde(skip_serializing_if = "<[Apart]>::is_empty")]
    parts: &'a [Apart],
}

impl<'o> Form<'o> {
    pub(super) fn new(
        kind: Kind<'o>,
        output: &'o mut Output,
        metrics: &'o Metrics<'o>,
        labels: Labels<'o>,
    ) -> Self {
        Self {
            kind,
            output,
            metrics,
            labels,
            since: Duration::ZERO,
            headed: false,
            before: Taken::default(),
        }
    }

    /// The readings of each part, under its name.
    pub(super) fn parts(&self, readings: &[Vec<Reading>], wall_ns: u64) -> Vec<Apart> {
        let parts = self.labels.parts.iter().zip(readings);
        let apart = parts.map(|(part, readings)| Apart {
            name: part.name.clone(),
            cpus: part.cpus.clone(),
            counters: readings.clone(),
            values: self.metrics.of(readings, wall_ns),
        });
        apart.collect()
    }

    /// Writes what was counted since the interval before.
    pub(super) fn interval(&mut self, since: Duration, now: Taken) -> io::Result<()> {
        let readings = differences(&self.before.readings, &now.readings);
        let parts: Vec<Vec<Reading>> = now
            .parts
            .iter()
            .enumerate()
            .map(|(at, part)| {
                let before = self.before.parts.get(at).map_or(&[][..], Vec::as_slice);
                differences(before, part)
            })
            .collect();
        self.before = now;
        let wall = since.saturating_sub(self.since);
        self.since = since;
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        let values = self.metrics.of(&readings, wall);
        let parts = self.parts(&parts, wall);
        if self.kind == Kind::Json {
            let line = IntervalLine {
                schema: "truecount.stat-interval/2",
                since_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
                counters: &readings,
                values: &values,
                cgroups: &self.labels.cgroups,
                parts: &parts,
            };
            json::line(self.output, &line)?;
        } else if parts.is_empty() {
            self.rows(Some(since), None, &readings, &values, None)?;
        } else {
            for part in &parts {
                let label = Some((part.name.as_str(), part.cpus.len()));
                self.rows(Some(since), label, &part.counters, &part.values, None)?;
            }
        }
        self.output.flush()
    }

    /// Writes the rows of an interval, or (not as text) those of the whole run.
    fn rows(
        &mut self,
        since: Option<Duration>,
        part: Option<(&str, usize)>,
        readings: &[Reading],
        values: &Values,
        repeats: Option<&Repeats>,
    ) -> io::Result<()> {
        let of = |cgroup| Label {
            since,
            part,
            cgroup,
        };
        if self.kind == Kind::Csv {
            self.csv_head(since.is_some(), part.is_some())?;
        }
        let cgroups = &self.labels.cgroups;
        match self.kind {
            Kind::Json => {}
            Kind::Perf(separator) => {
                for (place, reading) in readings.iter().enumerate() {
                    let label = of(cgroups.get(place).map(String::as_str));
                    let mean = repeats.and_then(|repeats| repeats.mean(place));
                    perf::row(self.output, separator, label, reading, mean)?;
                }
            }
            Kind::Csv => {
                for (place, reading) in readings.iter().enumerate() {
                    let label = of(cgroups.get(place).map(String::as_str));
                    csv_row(self.output, label, &csv_cells(reading))?;
                }
                // Metrics are of all events together, whatever their groups.
                let label = of((!cgroups.is_empty()).then_some(""));
                for row in &values.metrics {
                    csv_row(self.output, label, &csv_metric(row))?;
                }
            }
            Kind::Text => {
                let first = !self.headed;
                super::text::interval(self.output, of(None), readings, cgroups, values, first)?;
                self.headed = true;
            }
        }
        Ok(())
    }

    fn csv_head(&mut self, interval: bool, part: bool) -> io::Result<()> {
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
            let part: &[&str] = if part { &["part", "cpus"] } else { &[] };
            let cgroups = !self.labels.cgroups.is_empty();
            let cgroup: &[&str] = if cgroups { &["cgroup"] } else { &[] };
            let all = since.iter().chain(part).chain(&names).chain(cgroup);
            csv::row(self.output, all)?;
        }
        Ok(())
    }

    /// Writes the whole run.
    pub(super) fn finish(&mut self, document: &Document, intervals: bool) -> io::Result<()> {
        if intervals {
            return self.output.flush();
        }
        let repeats = document.repeats.as_ref();
        match self.kind {
            Kind::Json => json::write(self.output, document)?,
            Kind::Text => super::text::document(self.output, document)?,
            Kind::Csv | Kind::Perf(_) if document.parts.is_empty() => {
                self.rows(None, None, &document.counters, &document.values, repeats)?;
                if self.kind == Kind::Csv {
                    let cgroup = (!self.labels.cgroups.is_empty()).then_some("");
                    let label = Label {
                        cgroup,
                        ..Label::default()
                    };
                    for reading in &document.resources {
                        csv_row(self.output, label, &csv_cells(reading))?;
                    }
                }
            }
            Kind::Csv | Kind::Perf(_) => {
                for part in &document.parts {
                    let label = Some((part.name.as_str(), part.cpus.len()));
                    self.rows(None, label, &part.counters, &part.values, None)?;
                }
            }
        }
        self.output.flush()
    }
}

/// One record, with what the label says.
fn csv_row(out: &mut dyn Write, label: Label<'_>, cells: &[String]) -> io::Result<()> {
    let since = label
        .since
        .map(|since| format!("{:.9}", since.as_secs_f64()));
    let part = label
        .part
        .map(|(name, cpus)| [name.to_owned(), cpus.to_string()]);
    let cgroup = label.cgroup.map(str::to_owned);
    let before = since.iter().chain(part.iter().flatten());
    csv::row(out, before.chain(cells).chain(&cgroup))
}

fn csv_cells(reading: &Reading) -> Vec<String> {
    let text = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    vec![
        reading.event.clone(),
        text(reading.value()),
        reading.unit.clone(),
        reading.scale.to_string(),
        reading.result.source_name().to_owned(),
        reading.result.precision_name().to_owned(),
        text(reading.enabled_ns),
        text(reading.running_ns),
        reading.result.cause().to_owned(),
    ]
}

/// A metric in the columns of an event.
fn csv_metric(row: &MetricRow) -> Vec<String> {
    let value = row.result.value();
    vec![
        row.metric.clone(),
        value.map(|value| value.to_string()).unwrap_or_default(),
        row.unit.clone(),
        "1".to_owned(),
        row.result.source_name().to_owned(),
        row.result.precision_name().to_owned(),
        String::new(),
        String::new(),
        row.result.cause().to_owned(),
    ]
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
