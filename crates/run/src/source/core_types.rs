//! Machines with several kinds of cores (hybrid Intel, big.LITTLE, Apple): an event is one event for each kind, each of
//! which counts only while the program is on its cores. A row each, and their sum, as `perf stat` shows them.
//!
//! The kernel's times of such an event tell where the program was: it is enabled all the time, and runs on its cores
//! only. All kinds together run all the time, or others held counters, and then counts are extrapolated by what is
//! missing, not by the time on other cores.

use truecount_model::{Measured, Precision, Reading, Reason};

/// A share of time that the kernel's bookkeeping may miss at switches between cores.
const SLACK: f64 = 0.01;

/// `cycles:u` of `cpu_core/cycles/u`; `None` for a name of another form.
fn plain(name: &str) -> Option<String> {
    let (_, rest) = name.split_once('/')?;
    let (event, modifiers) = rest.split_once('/')?;
    let colon = if modifiers.is_empty() { "" } else { ":" };
    Some(format!("{event}{colon}{modifiers}"))
}

/// Adds to readings in their order (`of_cores`: the reading is of one kind of core) a sum for every event that has one
/// of each kind, behind all others, so that the places of those stay. Where counts are extrapolated, each kind's row is.
pub(super) fn add_sums(readings: &mut Vec<Reading>, of_cores: &[bool]) {
    let mut names: Vec<String> = Vec::new();
    for (reading, of_cores) in readings.iter().zip(of_cores) {
        if let (true, Some(name)) = (*of_cores, plain(&reading.event))
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    for name in names {
        let mut parts: Vec<&mut Reading> = readings
            .iter_mut()
            .zip(of_cores)
            .filter(|(reading, of)| **of && plain(&reading.event).as_ref() == Some(&name))
            .map(|(reading, _)| reading)
            .collect();
        // The same event asked for twice is not two kinds of cores.
        let mut events: Vec<&str> = parts.iter().map(|part| part.event.as_str()).collect();
        events.sort_unstable();
        if parts.len() < 2
            || events
                .windows(2)
                .any(|pair| matches!(pair, [a, b] if a == b))
        {
            continue;
        }
        let sum = sum(&name, &mut parts);
        readings.push(sum);
    }
}

fn sum(name: &str, parts: &mut [&mut Reading]) -> Reading {
    let unit = parts
        .first()
        .map_or_else(String::new, |part| part.unit.clone());
    let counted = || parts.iter().filter(|part| part.value().is_some());
    let Some((scale, source)) = counted()
        .next()
        .and_then(|part| Some((part.scale, part.result.source()?)))
    else {
        return Reason::new("no kind of core counted it").missing(name, &unit);
    };
    let enabled = counted()
        .filter_map(|part| part.enabled_ns)
        .max()
        .unwrap_or(0);
    let running: u64 = counted().filter_map(|part| part.running_ns).sum();
    let value = counted().filter_map(|part| part.value()).sum();
    let mut total = Reading {
        scale,
        enabled_ns: Some(enabled),
        running_ns: Some(running.min(enabled)),
        ..Reading::new(
            name,
            &unit,
            Measured::Value {
                value,
                source,
                precision: Precision::Counted,
            },
        )
    };
    let whole = running as f64 >= enabled as f64 * (1.0 - SLACK);
    if whole || running == 0 {
        return total;
    }
    let factor = enabled as f64 / running as f64;
    for reading in parts.iter_mut().map(|part| &mut **part).chain([&mut total]) {
        if let Measured::Value {
            value, precision, ..
        } = &mut reading.result
        {
            *value = (*value as f64 * factor).round() as u64;
            *precision = Precision::Scaled;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(event: &str, value: u64, running: u64) -> Reading {
        Reading {
            enabled_ns: Some(1_000_000),
            running_ns: Some(running),
            ..Reading::software(event, "count", value)
        }
    }

    #[test]
    fn kinds_of_cores_add_up_and_are_not_extrapolated_by_each_others_time() {
        let mut all = vec![
            counted("cpu_atom/cycles/u", 300, 400_000),
            counted("cpu_core/cycles/u", 600, 600_000),
            counted("task-clock", 1, 1_000_000),
        ];
        add_sums(&mut all, &[true, true, false]);
        let values: Vec<_> = all
            .iter()
            .map(|r| {
                (
                    r.event.as_str(),
                    r.value(),
                    r.result.precision() == Some(Precision::Counted),
                )
            })
            .collect();
        assert_eq!(
            values,
            [
                ("cpu_atom/cycles/u", Some(300), true),
                ("cpu_core/cycles/u", Some(600), true),
                ("task-clock", Some(1), true),
                ("cycles:u", Some(900), true),
            ]
        );
    }

    #[test]
    fn time_on_no_counter_is_extrapolated_for_all_alike() {
        let mut all = vec![
            counted("cpu_atom/cycles/u", 300, 200_000),
            counted("cpu_core/cycles/u", 600, 300_000),
        ];
        add_sums(&mut all, &[true, true]);
        let values: Vec<_> = all
            .iter()
            .map(|r| (r.value(), r.result.precision()))
            .collect();
        let scaled = Some(Precision::Scaled);
        assert_eq!(
            values,
            [
                (Some(600), scaled),
                (Some(1200), scaled),
                (Some(1800), scaled)
            ]
        );
    }

    #[test]
    fn a_kind_without_a_count_adds_none() {
        let mut all = vec![
            Reading::missing(
                "cpu_atom/cycles/",
                "count",
                "nothing ran on the cores of cpu_atom",
            ),
            counted("cpu_core/cycles/", 600, 1_000_000),
        ];
        add_sums(&mut all, &[true, true]);
        assert_eq!(
            all.last().map(|r| (r.event.as_str(), r.value())),
            Some(("cycles", Some(600)))
        );
        let mut none = vec![
            Reading::missing("cpu_atom/cycles/", "count", "why"),
            Reading::missing("cpu_core/cycles/", "count", "why"),
        ];
        add_sums(&mut none, &[true, true]);
        assert!(
            none.last()
                .is_some_and(|r| r.value().is_none() && r.result.reason().is_some())
        );
        // One kind alone, or one asked for twice, has no sum.
        let mut twice = vec![
            counted("cpu_core/cycles/", 6, 1),
            counted("cpu_core/cycles/", 6, 1),
        ];
        add_sums(&mut twice, &[true, true]);
        assert_eq!(twice.len(), 2);
    }
}
