//! The fields of `perf stat -x`, in perf's order (perf-stat(1), "CSV FORMAT"), for scripts that read them.

use std::io::{self, Write};

use super::places::Label;
use truecount_model::Reading;

/// The mean of several runs, and its standard error in percent of it.
#[derive(Clone, Copy)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) percent: f64,
}

impl Mean {
    /// Of these values; `None` where one is missing or there are none.
    pub(super) fn of(values: &[Option<u64>]) -> Option<Self> {
        let values: Vec<f64> = values
            .iter()
            .map(|value| value.map(|value| value as f64))
            .collect::<Option<_>>()?;
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (n - 1.0).max(1.0) / n).sqrt();
        let percent = if error > 0.0 {
            100.0 * error / mean
        } else {
            0.0
        };
        (!values.is_empty()).then_some(Self { mean, percent })
    }
}

/// One line.
pub(super) fn row(
    out: &mut dyn Write,
    separator: &str,
    label: Label<'_>,
    reading: &Reading,
    mean: Option<Mean>,
) -> io::Result<()> {
    if let Some(since) = label.since {
        let (seconds, rest) = (since.as_secs(), since.subsec_nanos());
        write!(out, "{seconds:6}.{rest:09}{separator}")?;
    }
    match label.part {
        // Of how many CPUs, perf tells of all but single ones.
        Some((cpu, _)) if cpu.starts_with("CPU") => write!(out, "{cpu}{separator}")?,
        Some((name, cpus)) => write!(out, "{name}{separator}{cpus}{separator}")?,
        None => {}
    }
    let value = match (mean, reading.value()) {
        (Some(mean), _) => Some(mean.mean),
        (None, value) => value.map(|value| value as f64),
    };
    let time = reading.unit == "ns";
    let (text, unit) = match value.map(|value| value * reading.scale) {
        // perf writes clocks in milliseconds.
        Some(value) if time => (format!("{:.2}", value / 1e6), "msec"),
        Some(value) if reading.scale.fract() != 0.0 => {
            (format!("{value:.2}"), plain(&reading.unit))
        }
        Some(value) => (format!("{value:.0}"), plain(&reading.unit)),
        None => ("<not counted>".to_owned(), plain(&reading.unit)),
    };
    let enabled = reading.enabled_ns.unwrap_or(0);
    let running = reading.running_ns.unwrap_or(0);
    let share = if enabled > 0 {
        100.0 * running as f64 / enabled as f64
    } else {
        100.0
    };
    let mut fields = vec![text, unit.to_owned(), reading.event.clone()];
    fields.extend(label.cgroup.map(str::to_owned));
    fields.extend(mean.map(|mean| format!("{:.2}%", mean.percent)));
    fields.extend([
        running.to_string(),
        format!("{share:.2}"),
        String::new(),
        String::new(),
    ]);
    writeln!(out, "{}", fields.join(separator))
}

/// perf writes no unit for counts.
fn plain(unit: &str) -> &str {
    if unit == "count" { "" } else { unit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn line(
        separator: &str,
        since: Option<Duration>,
        reading: &Reading,
        mean: Option<Mean>,
    ) -> String {
        let mut out = Vec::new();
        let label = Label {
            since,
            ..Label::default()
        };
        row(&mut out, separator, label, reading, mean).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_stand_as_perf_writes_them() {
        let mut faults = Reading::software("page-faults", "count", 50);
        (faults.enabled_ns, faults.running_ns) = (Some(497_850), Some(497_850));
        assert_eq!(
            line(",", None, &faults, None),
            "50,,page-faults,497850,100.00,,\n"
        );
        let at = Some(Duration::from_nanos(101_616_821));
        let begun = "     0.101616821;50;;page-faults;497850;100.00;;\n";
        assert_eq!(line(";", at, &faults, None), begun);
        let mean = Mean::of(&[Some(47), Some(48), Some(49)]);
        assert_eq!(
            line(",", None, &faults, mean),
            "48,,page-faults,1.20%,497850,100.00,,\n"
        );
        let clock = Reading::software("task-clock", "ns", 606_881);
        assert!(line(",", None, &clock, None).starts_with("0.61,msec,task-clock,"));
        let apart = |part, cgroup| {
            let mut out = Vec::new();
            let label = Label {
                since: None,
                part: Some(part),
                cgroup,
            };
            row(&mut out, ",", label, &faults, None).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (cpu, core) = (
            apart(("CPU3", 1), None),
            apart(("S0-D0-C1", 2), Some("a/b")),
        );
        assert_eq!(cpu, "CPU3,50,,page-faults,497850,100.00,,\n");
        assert_eq!(core, "S0-D0-C1,2,50,,page-faults,a/b,497850,100.00,,\n");
        assert!(Mean::of(&[Some(1), None]).is_none() && Mean::of(&[]).is_none());
    }
}
