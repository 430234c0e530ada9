//! The text of `go test -bench`: Go's benchmark data format (golang/proposal, design/14313-benchmark-format.md).

use truecount_run::rounds::Command;
use truecount_run::rounds::Direction as Worse;

use super::{benchmark, real};
use crate::error::Error;

/// A line of results: name, iterations, pairs of value and unit.
fn line(text: &str) -> Option<(&str, Vec<(f64, &str)>)> {
    let mut words = text.split_ascii_whitespace();
    let name = words.next().filter(|name| name.starts_with("Benchmark"))?;
    words.next()?.parse::<u64>().ok()?;
    let mut values = Vec::new();
    while let (Some(value), Some(unit)) = (words.next(), words.next()) {
        values.push((value.parse().ok()?, unit));
    }
    (!values.is_empty()).then_some((name, values))
}

/// Whether a text has such lines.
pub(super) fn is(text: &str) -> bool {
    text.lines().any(|text| line(text).is_some())
}

/// A unit as name and unit of a metric, with its factor and its worse direction.
fn metric(unit: &str) -> (String, String, f64, Option<Worse>) {
    match unit {
        "ns/op" => ("wall-time".into(), "ns".into(), 1.0, Some(Worse::Higher)),
        "B/op" => ("allocated".into(), "bytes".into(), 1.0, Some(Worse::Higher)),
        "allocs/op" => (
            "allocations".into(),
            "count".into(),
            1.0,
            Some(Worse::Higher),
        ),
        "MB/s" => ("throughput".into(), "MB/s".into(), 1.0, Some(Worse::Lower)),
        other if other.ends_with("/s") => (other.into(), other.into(), 1.0, Some(Worse::Lower)),
        other => (other.into(), other.into(), 1.0, None),
    }
}

/// A benchmark with the samples of each of its units.
type Samples = (String, Vec<(String, Vec<f64>)>);

pub(super) fn benchmarks(text: &str) -> Result<Vec<Command>, Error> {
    // By package and name, in the order of the text; every line of one name is a sample.
    let mut found: Vec<Samples> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut package = "";
    for text in text.lines() {
        if let Some(name) = text.strip_prefix("pkg:") {
            package = name.trim();
        }
        let Some((name, values)) = line(text) else {
            continue;
        };
        let name = match package {
            "" => name.to_owned(),
            package => format!("{package}.{name}"),
        };
        let place = *places.entry(name.clone()).or_insert_with(|| {
            found.push((name, Vec::new()));
            found.len() - 1
        });
        let Some((_, metrics)) = found.get_mut(place) else {
            continue;
        };
        for (value, unit) in values {
            match metrics.iter_mut().find(|(name, _)| name == unit) {
                Some((_, samples)) => samples.push(value),
                None => metrics.push((unit.to_owned(), vec![value])),
            }
        }
    }
    let command = |(name, metrics): Samples| {
        let metrics = metrics.into_iter().map(|(unit, samples)| {
            let (metric, unit, factor, worse) = metric(&unit);
            let samples: Vec<f64> = samples.iter().map(|value| value * factor).collect();
            let new = real(&metric, &unit, worse, &samples)?;
            Ok((metric, new))
        });
        Ok(benchmark(
            &name,
            metrics.collect::<Result<Vec<_>, Error>>()?,
        ))
    };
    found.into_iter().map(command).collect()
}
