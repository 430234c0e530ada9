//! Ratios shown beside a count: instructions per cycle, frequency, shares. One row a ratio.
//! Definitions: perf-stat(1) and the field's common use.

use truecount_model::{Reading, split_filter};

/// How a ratio is shown.
enum Form {
    /// A plain number with this unit.
    Plain(&'static str),
    /// A share in percent of something.
    Percent(&'static str),
    /// Counts per nanosecond are GHz.
    Ghz,
    /// Occurrences per second of CPU time.
    Rate,
}

struct Row {
    event: &'static str,
    over: &'static str,
    form: Form,
}

const fn row(event: &'static str, over: &'static str, form: Form) -> Row {
    Row { event, over, form }
}

/// The first row whose two events were counted with the same filter is shown.
const ROWS: &[Row] = &[
    row("task-clock", "wall-time", Form::Plain("CPUs used")),
    row("cpu-clock", "wall-time", Form::Plain("CPUs used")),
    row("cycles", "task-clock", Form::Ghz),
    row("cycles", "cpu-clock", Form::Ghz),
    row("instructions", "cycles", Form::Plain("IPC")),
    row("branch-misses", "branches", Form::Percent("of branches")),
    row("branches", "instructions", Form::Percent("of instructions")),
    row(
        "cache-misses",
        "cache-references",
        Form::Percent("of references"),
    ),
    row(
        "stalled-cycles-frontend",
        "cycles",
        Form::Percent("of cycles"),
    ),
    row(
        "stalled-cycles-backend",
        "cycles",
        Form::Percent("of cycles"),
    ),
    row(
        "L1-dcache-load-misses",
        "L1-dcache-loads",
        Form::Percent("of loads"),
    ),
    row("LLC-load-misses", "LLC-loads", Form::Percent("of loads")),
    row("dTLB-load-misses", "dTLB-loads", Form::Percent("of loads")),
    row("iTLB-load-misses", "iTLB-loads", Form::Percent("of loads")),
    row("context-switches", "task-clock", Form::Rate),
    row("cpu-migrations", "task-clock", Form::Rate),
    row("page-faults", "task-clock", Form::Rate),
];

/// The ratio to show beside `reading`, or an empty text.
pub(super) fn of(reading: &Reading, all: &[Reading], wall_ns: u64) -> String {
    let Some(value) = reading.value() else {
        return String::new();
    };
    let (event, filter) = split_filter(&reading.event);
    for row in ROWS.iter().filter(|row| row.event == event) {
        let over = if row.over == "wall-time" {
            Some(wall_ns)
        } else {
            // Clocks count the same under any filter; counts need the same one.
            all.iter()
                .find(|other| {
                    let (name, its) = split_filter(&other.event);
                    name == row.over && (its == filter || name.ends_with("-clock"))
                })
                .and_then(Reading::value)
        };
        let Some(over) = over.filter(|&over| over > 0) else {
            continue;
        };
        let ratio = value as f64 / over as f64;
        return match row.form {
            Form::Plain(unit) => format!("{ratio:.2} {unit}"),
            Form::Percent(of) => format!("{:.2} % {of}", ratio * 100.0),
            Form::Ghz => format!("{ratio:.3} GHz"),
            Form::Rate => format!("{:.0} per second of CPU time", ratio * 1e9),
        };
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(event: &str, value: u64) -> Reading {
        Reading::software(event, "count", value)
    }

    #[test]
    fn ratios_need_the_same_filter() {
        let all = [
            reading("cycles:u", 2_000),
            reading("instructions:u", 3_000),
            reading("instructions", 9_000),
            reading("task-clock", 1_000),
        ];
        assert_eq!(of(&all[0], &all, 0), "2.000 GHz");
        assert_eq!(of(&all[1], &all, 0), "1.50 IPC");
        assert_eq!(of(&all[2], &all, 0), "");
        assert_eq!(of(&all[3], &all, 500), "2.00 CPUs used");
    }

    #[test]
    fn what_was_not_counted_has_no_ratio() {
        let missing = Reading::missing("instructions:u", "count", "no PMU");
        let all = [missing.clone(), reading("cycles:u", 5)];
        assert_eq!(of(&missing, &all, 1), "");
        let all = [
            reading("instructions:u", 5),
            Reading::missing("cycles:u", "count", "x"),
        ];
        assert_eq!(of(&all[0], &all, 1), "");
    }
}
