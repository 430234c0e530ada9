//! The formats that are JSON.

use serde_json::{Map, Value};
use truecount_run::rounds::Direction as Worse;
use truecount_run::rounds::{self, Command};

use super::{Format, benchmark, nanoseconds, real};
use crate::error::{Error, unavailable};

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn array<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn numbers(values: &[Value]) -> Vec<f64> {
    values.iter().filter_map(Value::as_f64).collect()
}

fn time(values: &[f64], unit: f64) -> Result<(String, rounds::Metric), Error> {
    let values: Vec<f64> = values.iter().map(|value| value * unit).collect();
    let new = real("wall-time", "ns", Some(Worse::Higher), &values)?;
    Ok(("wall-time".to_owned(), new))
}

/// The benchmarks of a document.
pub(super) fn benchmarks(
    value: &Value,
    format: Format,
    name: Option<&str>,
) -> Result<Vec<Command>, Error> {
    match format {
        Format::Hyperfine => array(value, "results").iter().map(hyperfine).collect(),
        Format::GoogleBenchmark => google(array(value, "benchmarks")),
        Format::Pyperf => {
            let common = value.get("metadata");
            let all = array(value, "benchmarks").iter();
            all.map(|benchmark| pyperf(benchmark, common)).collect()
        }
        Format::PytestBenchmark => array(value, "benchmarks").iter().map(pytest).collect(),
        Format::Criterion if value.get("iters").is_some() => {
            let name = name.ok_or_else(|| {
                unavailable("it does not tell the benchmark's name").hint("give it by --name")
            })?;
            let (iterations, times) = (
                numbers(array(value, "iters")),
                numbers(array(value, "times")),
            );
            Ok(vec![benchmark(
                name,
                vec![time(&each(&iterations, &times), 1.0)?],
            )])
        }
        Format::Criterion => Ok(message(value)?.into_iter().collect()),
        Format::Gungraun => Ok(vec![gungraun(value)?]),
        Format::Bmf => bmf(value),
        Format::CustomSmaller => custom(value, Worse::Higher),
        Format::CustomBigger => custom(value, Worse::Lower),
        Format::Go => Err(unavailable("go test -bench writes text, not JSON")),
    }
}

fn nameless() -> Error {
    unavailable("a benchmark in it has no name")
}

fn hyperfine(result: &Value) -> Result<Command, Error> {
    let name = text(result, "command").ok_or_else(nameless)?;
    let mut times = numbers(array(result, "times"));
    if times.is_empty() {
        times.extend(result.get("mean").and_then(Value::as_f64));
    }
    let memory = numbers(array(result, "memory_usage_byte"));
    let mut new = benchmark(
        name,
        vec![
            time(&times, 1e9)?,
            (
                "max-rss".to_owned(),
                real("max-rss", "bytes", Some(Worse::Higher), &memory)?,
            ),
        ],
    );
    for (parameter, value) in result
        .get("parameters")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        new.parameters.0.push((parameter.clone(), value));
    }
    Ok(new)
}

/// What Google Benchmark says of a benchmark beside its counters.
const GOOGLE: [&str; 10] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "real_time",
    "cpu_time",
    "error_occurred",
    "bytes_per_second",
];

fn google(all: &[Value]) -> Result<Vec<Command>, Error> {
    // Repetitions of one benchmark are its samples; means and medians of them are left out.
    let mut found: Vec<(&str, Vec<&Value>)> = Vec::new();
    for one in all {
        if text(one, "run_type") == Some("aggregate")
            || one.get("error_occurred") == Some(&Value::Bool(true))
        {
            continue;
        }
        let name = text(one, "run_name")
            .or(text(one, "name"))
            .ok_or_else(nameless)?;
        match found.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, runs)) => runs.push(one),
            None => found.push((name, vec![one])),
        }
    }
    let command = |(name, runs): (&str, Vec<&Value>)| {
        let of = |key: &str| -> Vec<f64> {
            runs.iter()
                .filter_map(|run| run.get(key)?.as_f64())
                .collect()
        };
        let unit = runs
            .first()
            .and_then(|run| text(run, "time_unit"))
            .unwrap_or("ns");
        let unit =
            nanoseconds(unit).ok_or_else(|| unavailable(format!("its unit of time is {unit}")))?;
        let cpu: Vec<f64> = of("cpu_time").iter().map(|value| value * unit).collect();
        let mut metrics = vec![
            time(&of("real_time"), unit)?,
            (
                "cpu-time".to_owned(),
                real("cpu-time", "ns", Some(Worse::Higher), &cpu)?,
            ),
        ];
        let first = runs.first().and_then(|run| run.as_object());
        for (counter, value) in first.into_iter().flatten() {
            let throughput = counter.ends_with("_per_second");
            if value.is_number() && (throughput || !GOOGLE.contains(&counter.as_str())) {
                let worse = throughput.then_some(Worse::Lower);
                metrics.push((
                    counter.clone(),
                    real(counter, "count", worse, &of(counter))?,
                ));
            }
        }
        Ok(benchmark(name, metrics))
    };
    found.into_iter().map(command).collect()
}

fn pyperf(one: &Value, common: Option<&Value>) -> Result<Command, Error> {
    let of = |key: &str| {
        let own = one.get("metadata").and_then(|metadata| text(metadata, key));
        own.or_else(|| text(common?, key))
    };
    let name = of("name").ok_or_else(nameless)?;
    let values: Vec<f64> = array(one, "runs")
        .iter()
        .flat_map(|run| numbers(array(run, "values")))
        .collect();
    let metric = match of("unit").unwrap_or("second") {
        "second" => time(&values, 1e9)?,
        "byte" => (
            "memory".to_owned(),
            real("memory", "bytes", Some(Worse::Higher), &values)?,
        ),
        unit => (
            unit.to_owned(),
            real(unit, "count", Some(Worse::Higher), &values)?,
        ),
    };
    Ok(benchmark(name, vec![metric]))
}

fn pytest(one: &Value) -> Result<Command, Error> {
    let name = text(one, "fullname")
        .or(text(one, "name"))
        .ok_or_else(nameless)?;
    let stats = one.get("stats").unwrap_or(&Value::Null);
    let mut values = numbers(array(stats, "data"));
    if values.is_empty() {
        values.extend(stats.get("median").and_then(Value::as_f64));
    }
    Ok(benchmark(name, vec![time(&values, 1e9)?]))
}

/// Times of single iterations.
fn each(iterations: &[f64], times: &[f64]) -> Vec<f64> {
    let pairs = iterations.iter().zip(times).filter(|(n, _)| **n > 0.0);
    pairs.map(|(n, time)| time / n).collect()
}

/// Whether a text is messages of cargo-criterion, one a line.
pub(super) fn is_messages(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| line.starts_with('{'));
    lines.any(|line| line.contains("\"reason\":\"benchmark-complete\""))
}

pub(super) fn messages(text: &str) -> Result<Vec<Command>, Error> {
    let mut all = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let value = serde_json::from_str(line)
            .map_err(|error| unavailable(format!("a message in it is not JSON: {error}")))?;
        all.extend(message(&value)?);
    }
    Ok(all)
}

/// A message of cargo-criterion, if it is about a benchmark.
fn message(value: &Value) -> Result<Option<Command>, Error> {
    if text(value, "reason") != Some("benchmark-complete") {
        return Ok(None);
    }
    let name = text(value, "id").ok_or_else(nameless)?;
    let unit = text(value, "unit").unwrap_or("ns");
    let Some(unit) = nanoseconds(unit) else {
        return Err(unavailable(format!(
            "the unit of {name} is {unit}, not a time"
        )));
    };
    let values = each(
        &numbers(array(value, "iteration_count")),
        &numbers(array(value, "measured_values")),
    );
    Ok(Some(benchmark(name, vec![time(&values, unit)?])))
}

/// Names of Callgrind's and Cachegrind's events, as records have them.
const EVENTS: [(&str, &str); 12] = [
    ("Ir", "instructions"),
    ("Dr", "loads"),
    ("Dw", "stores"),
    ("I1mr", "I1mr"),
    ("D1mr", "D1mr"),
    ("D1mw", "D1mw"),
    ("ILmr", "ILmr"),
    ("DLmr", "DLmr"),
    ("DLmw", "DLmw"),
    ("Bcm", "branch-misses"),
    ("TotalRW", "TotalRW"),
    ("EstimatedCycles", "estimated-cycles"),
];

fn gungraun(value: &Value) -> Result<Command, Error> {
    // Newer versions' module path ends with the function.
    let module = text(value, "module_path").unwrap_or_default();
    let function = text(value, "function_name").filter(|function| {
        let before = module.strip_suffix(function);
        !before.is_some_and(|before| before.is_empty() || before.ends_with("::"))
    });
    let parts = [Some(module), function, text(value, "id")];
    let parts = parts.into_iter().flatten();
    let name: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    if name.is_empty() {
        return Err(nameless());
    }
    let mut found: Map<String, Value> = Map::new();
    total(value, &mut found, 0);
    let mut metrics = Vec::new();
    for (event, name) in EVENTS {
        if let Some(count) = found.get(event).and_then(Value::as_f64) {
            metrics.push((
                name.to_owned(),
                real(name, "count", Some(Worse::Higher), &[count])?,
            ));
        }
    }
    if metrics.is_empty() {
        return Err(unavailable("it has no counts of Callgrind or Cachegrind"));
    }
    Ok(benchmark(&name.join("::"), metrics))
}

/// The events of the total over all parts: versions differ in where it is, not in what it looks like.
fn total(value: &Value, found: &mut Map<String, Value>, depth: usize) {
    if depth > 32 || !found.is_empty() {
        return;
    }
    let members: Vec<&Value> = match value {
        Value::Object(members) => {
            for (event, _) in EVENTS {
                if let Some(count) = members.get(event).and_then(newest) {
                    found.insert(event.to_owned(), count);
                }
            }
            // The sum before its parts.
            let first = members.get("total").into_iter();
            first
                .chain(
                    members
                        .iter()
                        .filter(|(key, _)| *key != "total")
                        .map(|(_, v)| v),
                )
                .collect()
        }
        Value::Array(members) => members.iter().collect(),
        _ => return,
    };
    for member in members {
        total(member, found, depth + 1);
    }
}

/// An event's count of the newest run: `"metrics": {"Left": 1}` or `{"Both": [new, old]}`, each number perhaps as
/// `{"Int": 1}`; later `"values": {"new": 1, "old": 1}`.
fn newest(event: &Value) -> Option<Value> {
    let number = match (event.get("values"), event.get("metrics")) {
        (Some(values), _) => values.get("new")?,
        (None, Some(metrics)) => match metrics.get("Left") {
            Some(left) => left,
            None => match metrics.get("Both")? {
                Value::Array(both) => both.first()?,
                both => both.get("new")?,
            },
        },
        (None, None) => return None,
    };
    let plain = number.as_u64().map(Value::from);
    plain.or_else(|| number.get("Int")?.as_u64().map(Value::from))
}

fn bmf(value: &Value) -> Result<Vec<Command>, Error> {
    let Some(all) = value.as_object() else {
        return Err(unavailable("it is not an object of benchmarks"));
    };
    let command = |(name, measures): (&String, &Value)| {
        let mut metrics = Vec::new();
        for (measure, row) in measures.as_object().into_iter().flatten() {
            let Some(value) = row.get("value").and_then(Value::as_f64) else {
                return Err(unavailable(format!("{measure} of {name} has no value")));
            };
            // What Bencher says of its own measures.
            let (unit, factor, worse) = match measure.as_str() {
                "latency" => ("ns", 1.0, Some(Worse::Higher)),
                "build-time" => ("ns", 1e9, Some(Worse::Higher)),
                "file-size" => ("bytes", 1.0, Some(Worse::Higher)),
                "throughput" => ("per second", 1.0, Some(Worse::Lower)),
                _ => ("", 1.0, None),
            };
            metrics.push((
                measure.clone(),
                real(measure, unit, worse, &[value * factor])?,
            ));
        }
        Ok(benchmark(name, metrics))
    };
    all.iter().map(command).collect()
}

fn custom(value: &Value, worse: Worse) -> Result<Vec<Command>, Error> {
    let Some(all) = value.as_array() else {
        return Err(unavailable("it is not an array"));
    };
    let command = |one: &Value| {
        let name = text(one, "name").ok_or_else(nameless)?;
        let number = |value: &Value| {
            value
                .as_f64()
                .or_else(|| value.as_str()?.trim().parse().ok())
        };
        let Some(value) = one.get("value").and_then(number) else {
            return Err(unavailable(format!("{name} has no value")));
        };
        let unit = text(one, "unit").unwrap_or("");
        let metric = match nanoseconds(unit) {
            Some(factor) if worse == Worse::Higher => time(&[value], factor)?,
            _ => ("value".to_owned(), real(name, unit, Some(worse), &[value])?),
        };
        Ok(benchmark(name, vec![metric]))
    };
    all.iter().map(command).collect()
}
