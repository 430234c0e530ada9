//! The tables that `bench` prints for people.

use std::io::{self, Write};

use anstyle::Style;

use super::document::{Compared, Document};
use super::sentence;
use crate::render::calls_diff;
use crate::render::style::{BAD, DIM, GOOD, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};
use crate::render::width::{self, wrap};
use truecount_model::Precision;
use truecount_model::number::{change, exact, quantity, significant};
use truecount_run::compare::GateRow;
use truecount_run::rounds::{Command, Metric};

/// Prints everything: what it comes to, then the numbers.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    for sentence in sentence::sentences(document) {
        for line in wrap(&sentence, width::sentence()) {
            writeln!(out, "{}", paint(HEAD, &line))?;
        }
    }
    for gate in &document.gates {
        // One line for each gate where scripts read it.
        match width::columns() {
            Some(_) => broken(out, gate_style(gate), &gate_line(gate))?,
            None => writeln!(out, "{}", paint(gate_style(gate), &gate_line(gate)))?,
        }
    }
    let heading = format!(
        "{} of {}, {} of warm-up, seed {}",
        plural(document.rounds, "round"),
        plural(document.commands.len(), "command"),
        plural(document.warmup, "round"),
        document.seed
    );
    broken(out, DIM, &heading)?;
    for command in &document.commands {
        writeln!(out)?;
        broken(out, HEAD, &command.name)?;
        metrics(out, command, document)?;
        if let Some(outside) = &command.outside {
            for line in wrap(&outside.sentence(), width::sentence().saturating_sub(2)) {
                writeln!(out, "  {}", paint(DIM, &line))?;
            }
        }
        if command.failures > 0 {
            let text = format!(
                "  {} of {} runs failed (ignored)",
                command.failures, command.runs
            );
            writeln!(out, "{}", paint(WARN, &text))?;
        }
    }
    comparisons(out, document)?;
    for paths in &document.calls {
        writeln!(out)?;
        broken(
            out,
            HEAD,
            &format!("calls: {} against {}", paths.other, paths.base),
        )?;
        calls_diff::write(out, &paths.calls_diff, ["there", "here"])?;
    }
    let missing = missing(document);
    if !missing.is_empty() || !document.notes.is_empty() {
        writeln!(out)?;
    }
    for line in missing.iter().chain(&document.notes) {
        broken(out, DIM, line)?;
    }
    Ok(())
}

/// What a gate says, in one line.
pub(super) fn gate_line(gate: &GateRow) -> String {
    if let (Some(other), true) = (&gate.other, gate.metric.is_empty()) {
        return format!("gate of {other}: {} ({})", gate.outcome, gate.explanation);
    }
    let who = match (&gate.other, &gate.base) {
        (Some(other), Some(base)) => format!(", {other} against {base}"),
        _ => String::new(),
    };
    let limit = match (gate.counts, gate.limit) {
        (Some(counts), _) => format!("{counts}"),
        (None, limit) => format!("{} %", significant(limit.unwrap_or_default() * 100.0)),
    };
    format!(
        "gate {} {limit}{who}: {} ({})",
        gate.metric, gate.outcome, gate.explanation
    )
}

fn gate_style(gate: &GateRow) -> Style {
    match gate.outcome.as_str() {
        "passed" => GOOD,
        "regressed" => BAD,
        _ => WARN,
    }
}

/// A sentence in lines that fit, broken at words.
fn broken(out: &mut dyn Write, style: Style, text: &str) -> io::Result<()> {
    wrap(text, width::sentence())
        .iter()
        .try_for_each(|line| writeln!(out, "{}", paint(style, line)))
}

/// `1 round`, `2 rounds`.
pub(super) fn plural(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

/// The spread of a metric in words: `exact`, `± 1.2 %`.
pub(super) fn spread(metric: &Metric) -> String {
    let Some(summary) = metric.summary() else {
        return String::new();
    };
    if metric.is_exact() {
        return "exact".to_owned();
    }
    if summary.n > 1 && summary.distinct == 1 {
        return format!("{0} of {0} equal", summary.n);
    }
    match summary.relative_spread() {
        _ if summary.n < 2 => String::new(),
        Some(0.0) => "± 0".to_owned(),
        Some(share) if share * 100.0 >= 0.01 => {
            format!("± {} %", significant(share * 100.0))
        }
        Some(share) => format!("± {:.0} ppm", share * 1e6),
        None => format!("± {}", quantity(summary.mad, metric.scale, &metric.unit)),
    }
}

/// Modes and outliers in words.
pub(super) fn remarks(metric: &Metric) -> String {
    let mut words = Vec::new();
    if metric.precision == Some(Precision::Scaled) {
        words.push("scaled".to_owned());
    }
    if let Some(deviation) = &metric.deviation {
        words.push(format!("deviates: {deviation}"));
    }
    if let Some(summary) = metric.summary() {
        if summary.modes.len() > 1 {
            let weights: Vec<String> = summary
                .modes
                .iter()
                .map(|mode| {
                    let centre = quantity(mode.median.to_f64(), metric.scale, &metric.unit);
                    format!("{:.0} % at {centre}", mode.weight * 100.0)
                })
                .collect();
            words.push(format!(
                "{} modes: {}",
                summary.modes.len(),
                weights.join(", ")
            ));
        }
        if !summary.outliers.is_empty() {
            words.push(plural(summary.outliers.len(), "outlier"));
        }
        if summary.distinct > 1 && metric.unit == "count" && summary.distinct < 6 {
            words.push(format!("{} distinct", summary.distinct));
        }
    }
    words.join(", ")
}

/// The median as a person reads it.
pub(super) fn median(metric: &Metric) -> String {
    match metric.summary() {
        Some(summary) => match summary.median {
            truecount_stats::Number::Count(count) => exact(count, metric.scale, &metric.unit),
            truecount_stats::Number::Real(real) => quantity(real, metric.scale, &metric.unit),
        },
        None => "not counted".to_owned(),
    }
}

/// `min … max`.
pub(super) fn extent(metric: &Metric) -> String {
    match (metric.min, metric.max) {
        (Some(min), Some(max)) if min == max => String::new(),
        (Some(min), Some(max)) => format!(
            "{} … {}",
            exact(min, metric.scale, &metric.unit),
            exact(max, metric.scale, &metric.unit)
        ),
        _ => String::new(),
    }
}

/// The share of instructions, for events that the same kind of source counted.
pub(super) fn of_instructions(name: &str, metric: &Metric, command: &Command) -> String {
    let base = command
        .metrics
        .iter()
        .find(|(name, _)| name.starts_with("instructions"));
    let (Some((base_name, base)), Some(value)) = (base, metric.summary()) else {
        return String::new();
    };
    let Some(instructions) = base.summary() else {
        return String::new();
    };
    let instructions = instructions.median.to_f64();
    if name == base_name
        || metric.source != base.source
        || metric.unit != "count"
        || instructions <= 0.0
    {
        return String::new();
    }
    format!("{:.2} %", value.median.to_f64() / instructions * 100.0)
}

/// The median relative to the first command's: `1.65`; empty for the first itself, and where there is no ratio.
pub(super) fn relative(name: &str, metric: &Metric, document: &Document) -> String {
    if !document.suite.is_empty() {
        // Each is something else.
        return String::new();
    }
    let base = document
        .commands
        .first()
        .filter(|_| document.commands.len() > 1)
        .and_then(|first| first.metrics.get(name))
        .filter(|base| base.source == metric.source);
    let medians = base
        .and_then(Metric::summary)
        .zip(metric.summary())
        .map(|(base, own)| (base.median.to_f64(), own.median.to_f64()));
    match medians {
        Some((base, own)) if base == own => "1.00".to_owned(),
        Some((base, own)) if base > 0.0 => format!("{:.2}", own / base),
        _ => String::new(),
    }
}

fn metrics(out: &mut dyn Write, command: &Command, document: &Document) -> io::Result<()> {
    let mut table = Table::new([
        ("metric", Align::Left),
        ("median", Align::Right),
        ("relative", Align::Right),
        ("of instr.", Align::Right),
        ("spread", Align::Right),
        ("min … max", Align::Left),
        ("n", Align::Right),
        ("source", Align::Left),
        ("", Align::Left),
    ])
    .within(
        width::columns(),
        &["of instr.", "min … max", "source", "n", "spread"],
    );
    for (name, metric) in command.metrics.iter() {
        let counted = !metric.samples.is_empty();
        let value = if counted {
            Cell::new(median(metric))
        } else {
            Cell::styled(WARN, "not counted")
        };
        let spread = spread(metric);
        let spread = if spread == "exact" {
            Cell::styled(GOOD, spread)
        } else {
            Cell::new(spread)
        };
        let n = if counted {
            metric.samples.len().to_string()
        } else {
            String::new()
        };
        table.row(vec![
            name.into(),
            value,
            relative(name, metric, document).into(),
            of_instructions(name, metric, command).into(),
            spread,
            extent(metric).into(),
            n.into(),
            metric.source.map_or("", |source| source.name()).into(),
            Cell::styled(DIM, remarks(metric)),
        ]);
    }
    table.write(out)
}

/// `[+1.0 % … +2.0 %]`.
pub(super) fn interval(compared: &Compared) -> String {
    let Some((low, high)) = compared.interval else {
        return String::new();
    };
    let end = |value: Option<f64>, open: &str| value.map_or(open.to_owned(), change);
    format!("{} … {}", end(low, "from 0"), end(high, "∞"))
}

/// Whether a verdict is good or bad news; `None`: neither.
pub(super) fn good(compared: &Compared) -> Option<bool> {
    let rose = match compared.verdict.as_str() {
        "faster" | "fewer" | "smaller" | "lower" => false,
        "slower" | "more" | "larger" | "higher" => true,
        _ => return None,
    };
    Some(rose == (compared.worse.as_deref()? == "lower"))
}

/// Styles of verdicts.
fn colour(compared: &Compared) -> anstyle::Style {
    match good(compared) {
        Some(true) => GOOD,
        Some(false) => BAD,
        None if compared.verdict == "incomparable" => WARN,
        None => anstyle::Style::new(),
    }
}

/// The verdict in full; nothing where none was asked for. A change that is not that of the medians says what it is.
pub(super) fn conclusion(compared: &Compared) -> String {
    let mut words = Vec::new();
    if compared.verdict != "described" {
        words.push(compared.explanation.clone());
    }
    if let (Some(ratio), Some(medians)) = (compared.ratio, compared.median_ratio) {
        let half = match compared.interval {
            Some((Some(low), Some(high))) => (high - low) / 2.0 / ratio,
            _ => 0.0,
        };
        if (ratio / medians - 1.0).abs() > half.max(compared.floor) {
            let shown = change(medians);
            words.push(format!(
                "middle of the changes run by run; of the medians {shown}"
            ));
        }
    }
    words.join("; ")
}

fn comparisons(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let mut heading: Option<(&str, &str)> = None;
    let mut open: Option<Table> = None;
    for compared in &document.comparisons {
        let pair = (compared.base.as_str(), compared.other.as_str());
        if heading != Some(pair) {
            if let Some(table) = open.take() {
                table.write(out)?;
            }
            heading = Some(pair);
            writeln!(out)?;
            let heading = format!("{} against {}", compared.other, compared.base);
            broken(out, HEAD, &heading)?;
            let table = Table::new([
                ("metric", Align::Left),
                ("change", Align::Right),
                ("interval", Align::Left),
                ("p adjusted", Align::Right),
                ("verdict", Align::Left),
            ]);
            open = Some(table.within(width::columns(), &["p adjusted", "interval"]));
        }
        if let Some(table) = &mut open {
            table.row(vec![
                compared.metric.clone().into(),
                compared.ratio.map_or(String::new(), change).into(),
                interval(compared).into(),
                p(compared.p_adjusted).into(),
                Cell::styled(colour(compared), conclusion(compared)),
            ]);
        }
    }
    match open {
        Some(table) => table.write(out),
        None => Ok(()),
    }
}

/// A p value: three digits, small ones as a bound.
pub(super) fn p(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(p) if p < 0.0001 => "< 0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
    }
}

/// One line for each reason why metrics were not counted.
pub(super) fn missing(document: &Document) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for (name, metric) in document
        .commands
        .iter()
        .flat_map(|command| command.metrics.iter())
    {
        let Some(reason) = &metric.reason else {
            continue;
        };
        let line = match &metric.hint {
            Some(hint) => format!("{reason}; {hint}"),
            None => reason.clone(),
        };
        match reasons.iter_mut().find(|(other, _)| *other == line) {
            Some((_, names)) if names.iter().any(|other| other == name) => {}
            Some((_, names)) => names.push(name.to_owned()),
            None => reasons.push((line, vec![name.to_owned()])),
        }
    }
    reasons
        .into_iter()
        .map(|(reason, names)| format!("{} not counted: {reason}.", names.join(", ")))
        .collect()
}
