//! Results of other tools, as benchmarks with metrics. Times are nanoseconds; what was measured once or a thousand times
//! keeps its samples.
//!
//! Formats: hyperfine's `--export-json`, Google Benchmark's `--benchmark_format=json`, pyperf's and pytest-benchmark's
//! files, Criterion's `sample.json` and the messages of `cargo criterion --message-format=json`, Gungraun's (and
//! iai-callgrind's) `summary.json`, the text of `go test -bench`, Bencher Metric Format, and the arrays of
//! github-action-benchmark.

mod documents;
mod go;

use serde_json::Value;
use truecount_run::rounds::Direction as Worse;
use truecount_run::rounds::{Command, Map, Metric};

use crate::error::{Error, unavailable};
use crate::record::{Measurements, metric};

/// So many benchmarks a file may have.
const MAX_BENCHMARKS: usize = 100_000;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `hyperfine --export-json`
    Hyperfine,
    /// `--benchmark_format=json`
    GoogleBenchmark,
    /// `pyperf … -o`
    Pyperf,
    /// `pytest --benchmark-json`
    PytestBenchmark,
    /// `sample.json`, or messages of cargo-criterion.
    Criterion,
    /// `summary.json`
    Gungraun,
    /// `go test -bench`
    Go,
    /// Bencher Metric Format.
    Bmf,
    /// `customSmallerIsBetter`
    CustomSmaller,
    /// `customBiggerIsBetter`
    CustomBigger,
}

impl Format {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::Hyperfine,
        Self::GoogleBenchmark,
        Self::Pyperf,
        Self::PytestBenchmark,
        Self::Criterion,
        Self::Gungraun,
        Self::Go,
        Self::Bmf,
        Self::CustomSmaller,
        Self::CustomBigger,
    ];

    /// The tool's name in records.
    #[must_use]
    pub fn tool(self) -> &'static str {
        match self {
            Self::Hyperfine => "hyperfine",
            Self::GoogleBenchmark => "google-benchmark",
            Self::Pyperf => "pyperf",
            Self::PytestBenchmark => "pytest-benchmark",
            Self::Criterion => "criterion",
            Self::Gungraun => "gungraun",
            Self::Go => "go",
            Self::Bmf => "bencher",
            Self::CustomSmaller | Self::CustomBigger => "github-action-benchmark",
        }
    }

    /// What a text is, by what only that tool writes.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            return documents::is_messages(text)
                .then_some(Self::Criterion)
                .or_else(|| go::is(text).then_some(Self::Go));
        };
        let first = |key: &str| value.get(key)?.as_array()?.first();
        if value.is_array() {
            return Some(Self::CustomSmaller);
        }
        if first("results").is_some_and(|result| result.get("command").is_some()) {
            return Some(Self::Hyperfine);
        }
        if let Some(benchmark) = first("benchmarks") {
            if benchmark.get("stats").is_some() {
                return Some(Self::PytestBenchmark);
            }
            if benchmark.get("runs").is_some() {
                return Some(Self::Pyperf);
            }
            return Some(Self::GoogleBenchmark);
        }
        if value.get("iters").is_some() && value.get("times").is_some() {
            return Some(Self::Criterion);
        }
        if value.get("reason").is_some() {
            return Some(Self::Criterion);
        }
        if value.get("profiles").is_some() || value.get("callgrind_summary").is_some() {
            return Some(Self::Gungraun);
        }
        let mut members = value.as_object()?.values();
        let bmf = members.all(|member| {
            let mut measures = member.as_object().into_iter().flat_map(|m| m.values());
            measures.all(|measure| measure.get("value").is_some())
        });
        bmf.then_some(Self::Bmf)
    }
}

/// Reads a tool's result. `name` is the benchmark's, for formats whose file does not tell it.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str, format: Format, name: Option<&str>) -> Result<Measurements, Error> {
    let benchmarks = match format {
        Format::Go => go::benchmarks(text)?,
        Format::Criterion if documents::is_messages(text) => documents::messages(text)?,
        _ => {
            let value = serde_json::from_str(text)
                .map_err(|error| unavailable(format!("it is not JSON: {error}")))?;
            documents::benchmarks(&value, format, name)?
        }
    };
    let mut found = Measurements {
        tool: Some(format.tool().to_owned()),
        benchmarks,
        ..Measurements::default()
    };
    if found.benchmarks.is_empty() {
        return Err(unavailable(format!(
            "{} wrote no benchmark into it",
            format.tool()
        )));
    }
    if found.benchmarks.len() > MAX_BENCHMARKS {
        return Err(unavailable(format!(
            "it has more than {MAX_BENCHMARKS} benchmarks"
        )));
    }
    if let (Some(name), [only]) = (name, found.benchmarks.as_mut_slice()) {
        only.name = name.to_owned();
    }
    Ok(found)
}

/// A benchmark of these metrics; those without a sample are left out.
fn benchmark(name: &str, metrics: Vec<(String, Metric)>) -> Command {
    let metrics: Vec<_> = metrics
        .into_iter()
        .filter(|(_, m)| !m.samples.is_empty())
        .collect();
    let runs = metrics.iter().map(|(_, metric)| metric.samples.len()).max();
    Command {
        name: name.to_owned(),
        runs: runs.unwrap_or(0),
        metrics: Map(metrics),
        ..Command::default()
    }
}

/// A metric of real numbers. Samples are whole numbers with a scale: fifteen digits of the largest are kept.
fn real(name: &str, unit: &str, worse: Option<Worse>, values: &[f64]) -> Result<Metric, Error> {
    if let Some(bad) = values
        .iter()
        .find(|value| !value.is_finite() || **value < 0.0 || **value > 9e15)
    {
        return Err(unavailable(format!(
            "{name}: {bad} is not a number that can be kept"
        )));
    }
    let whole = values.iter().all(|value| value.fract() == 0.0);
    let largest = values.iter().copied().fold(0.0, f64::max);
    let digits = match whole {
        true => 0,
        false => (15 - largest.log10().floor().max(0.0) as i32 - 1).clamp(0, 12),
    };
    let scale = 10f64.powi(-digits);
    let samples = values.iter().map(|value| (value / scale).round() as u64);
    let scale = if digits == 0 { 1.0 } else { scale };
    let mut new = metric(unit, scale, None, None, samples.collect());
    new.worse = worse;
    Ok(new)
}

/// Nanoseconds of a unit of time.
fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" | "second" | "seconds" => 1e9,
        _ => return None,
    })
}
