//! `truecount events --metrics`: the metrics that a CPU has, as text or as `truecount.metrics/1`
//! (`docs/schemas/metrics.json`).

use std::io::{self, Write};

use serde::Serialize;
use truecount_events::metrics::{Context, Metrics, Pack};

use crate::render::style::{DIM, HEAD, paint};
use crate::render::table::{Align, Cell, Table};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    /// Names of the CPU, by which packs are chosen.
    cpu: Vec<String>,
    packs: Vec<PackRow<'a>>,
}

#[derive(Serialize)]
struct PackRow<'a> {
    name: &'a str,
    cpus: &'a [String],
    source: &'a str,
    /// Short name of each event in the formulas.
    events: &'a std::collections::BTreeMap<String, String>,
    constants: &'a std::collections::BTreeMap<String, f64>,
    metrics: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    group: Option<&'a str>,
    formula: &'a str,
    unit: &'a str,
    above: Option<f64>,
    below: Option<f64>,
    /// Which direction of a change is worse: `higher`, `lower`, `neither`; null where nobody says.
    worse: Option<&'a str>,
    about: &'a str,
    next: &'a str,
    /// What `-e` takes to count it.
    events: String,
}

impl<'a> Document<'a> {
    /// The metrics of a CPU; with a pattern, those with it in their name, group or pack.
    pub(super) fn new(metrics: &'a Metrics, names: &[String], pattern: Option<&str>) -> Self {
        let cpu: Vec<&str> = names.iter().map(String::as_str).collect();
        let pattern = pattern.unwrap_or("").to_ascii_lowercase();
        let packs = metrics.packs_for(&cpu).into_iter();
        let packs = packs
            .map(|pack| pack_row(pack, &pattern))
            .filter(|p| !p.metrics.is_empty());
        Self {
            schema: "truecount.metrics/1",
            cpu: names.to_vec(),
            packs: packs.collect(),
        }
    }

    /// Whether nothing fits the pattern.
    pub(super) fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    /// For people.
    pub(super) fn text(&self, out: &mut dyn Write, long: bool) -> io::Result<()> {
        for pack in &self.packs {
            writeln!(
                out,
                "{}  {}",
                paint(HEAD, pack.name),
                paint(DIM, pack.source)
            )?;
            if long {
                pack.long(out)?;
            } else {
                let mut table = Table::new([
                    ("metric", Align::Left),
                    ("group", Align::Left),
                    ("unit", Align::Left),
                    ("look at", Align::Left),
                    ("meaning", Align::Left),
                ]);
                for row in &pack.metrics {
                    table.row(vec![
                        Cell::styled(HEAD, row.name),
                        row.group.unwrap_or("").into(),
                        row.unit.into(),
                        row.threshold().into(),
                        row.about.into(),
                    ]);
                }
                table.write(out)?;
            }
            writeln!(out)?;
        }
        if !self
            .packs
            .iter()
            .any(|p| p.metrics.iter().any(|m| m.group == Some("topdown-1")))
        {
            let who = self.cpu.first().map_or("this CPU", String::as_str);
            let text = format!(
                "no top-down metrics for {who}: its counters do not tell where slots go, or nobody published how"
            );
            writeln!(out, "{}", paint(DIM, &text))?;
        }
        Ok(())
    }
}

fn pack_row<'a>(pack: &'a Pack, pattern: &str) -> PackRow<'a> {
    let has = |text: &str| text.to_ascii_lowercase().contains(pattern);
    let metrics = pack.metrics.iter().filter(|metric| {
        has(&metric.name) || has(&pack.name) || metric.group.as_deref().is_some_and(has)
    });
    PackRow {
        name: &pack.name,
        cpus: &pack.cpus,
        source: &pack.source,
        events: &pack.events,
        constants: &pack.constants,
        metrics: metrics
            .map(|metric| Row {
                name: &metric.name,
                group: metric.group.as_deref(),
                formula: &metric.text,
                unit: &metric.unit,
                above: metric.above,
                below: metric.below,
                worse: metric.worse.map(truecount_events::metrics::Worse::name),
                about: &metric.about,
                next: &metric.next,
                events: pack.expression(&[&metric.name], &Context::default()),
            })
            .collect(),
    }
}

impl Row<'_> {
    fn threshold(&self) -> String {
        match (self.above, self.below) {
            (Some(above), _) => format!("> {above}"),
            (None, Some(below)) => format!("< {below}"),
            (None, None) => String::new(),
        }
    }
}

impl PackRow<'_> {
    fn long(&self, out: &mut dyn Write) -> io::Result<()> {
        for row in &self.metrics {
            writeln!(out, "  {}", paint(HEAD, row.name))?;
            let mut line = |name: &str, text: &str| {
                if text.is_empty() {
                    Ok(())
                } else {
                    writeln!(out, "    {name:<8} {text}")
                }
            };
            line("meaning", row.about)?;
            line("formula", row.formula)?;
            line("unit", row.unit)?;
            line("look at", &row.threshold())?;
            line("worse", row.worse.unwrap_or(""))?;
            line("next", row.next)?;
            line("-e", &row.events)?;
        }
        for (name, event) in self.events {
            writeln!(out, "  {name:<6} = {event}")?;
        }
        for (name, value) in self.constants {
            writeln!(out, "  {name:<6} = {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use truecount_run::metrics::load;

    #[test]
    fn a_cpu_has_its_metrics() {
        let metrics = load(&[]).unwrap();
        let document = Document::new(&metrics, &["skylake".to_owned()], Some("topdown-1"));
        let names: Vec<_> = document
            .packs
            .iter()
            .flat_map(|p| &p.metrics)
            .map(|m| m.name)
            .collect();
        assert_eq!(
            names,
            [
                "frontend-bound",
                "bad-speculation",
                "backend-bound",
                "retiring"
            ]
        );
        let mut out = Vec::new();
        document.text(&mut out, true).unwrap();
        assert!(
            String::from_utf8(out)
                .unwrap()
                .contains("IDQ_UOPS_NOT_DELIVERED.CORE")
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let failure = load(&[PathBuf::from("/nonexistent/m.toml")]).unwrap_err();
        assert!(failure.to_string().contains("/nonexistent/m.toml"));
    }
}
