//! What a timed run gave, kept as JSON and read again for a comparison.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use truecount_engine::virt::Interval;
use truecount_run::latency::{Cost, Row, Timed};
use truecount_sample::blocks::Histogram;

use crate::failure::Failure;
use crate::render::cycles::histogram;
use truecount_model::SourceKind;
use truecount_run::input;

/// The document (schema `truecount.latency/1`), the other run in it.
pub(super) fn of(run: &Timed, other: Option<&Timed>) -> Value {
    let mut document = json!({
        "schema": "truecount.latency/1",
        "source": SourceKind::Virtual,
        "unit": "time stamp counter cycles, stamp to stamp, the stamps' own time subtracted",
        "command": run.command,
        "program": run.program,
        "processes": run.processes,
        "exit": run.exit,
        "cost": run.cost,
        "intervals": run.rows.iter().map(|r| row(r, run.step())).collect::<Vec<_>>(),
        "notes": run.notes,
    });
    if let (Some(object), Some(other)) = (document.as_object_mut(), other) {
        object.insert("compared_with".to_owned(), of(other, None));
    }
    document
}

/// The document of an earlier run.
pub(super) fn read(path: &Path) -> Result<Timed, Failure> {
    let failure = |why: String| {
        Failure::new(1, format!("{}: {why}", path.display()))
            .hint("make one with `truecount latency SYMBOL --json -o FILE -- CMD`")
    };
    let text = input::json(path).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => failure(format!("not the JSON of truecount latency: {e}")),
        _ => failure(format!("cannot read it: {e}")),
    })?;
    parse(&text).map_err(failure)
}

/// The document, or what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Timed, String> {
    let kept: Saved = serde_json::from_str(text)
        .map_err(|e| format!("not the JSON of truecount latency: {e}"))?;
    if kept.schema != "truecount.latency/1" || kept.source != SourceKind::Virtual {
        return Err("not the JSON of truecount latency".to_owned());
    }
    Ok(Timed {
        command: kept.command,
        program: kept.program,
        processes: kept.processes,
        exit: kept.exit,
        cost: kept.cost,
        rows: kept
            .intervals
            .into_iter()
            .map(|row| Row {
                name: row.name,
                at: Interval {
                    start: row.start,
                    end: row.end,
                },
                cycles: Histogram::new(row.cycles.bins),
                below_cost: row.below_cost,
                longer: row.longer,
                loads: row.loads,
            })
            .collect(),
        notes: kept.notes,
    })
}

#[derive(Deserialize)]
struct Saved {
    schema: String,
    source: SourceKind,
    command: String,
    program: String,
    processes: u32,
    exit: u8,
    cost: Option<Cost>,
    intervals: Vec<KeptRow>,
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct KeptRow {
    name: String,
    start: u64,
    end: Option<u64>,
    below_cost: u64,
    longer: u64,
    loads: Option<bool>,
    cycles: KeptCycles,
}

#[derive(Deserialize)]
struct KeptCycles {
    bins: Vec<(u16, u64)>,
}

fn row(row: &Row, step: f64) -> Value {
    let smooth = row.smooth(step);
    let window = row.prefetch(step);
    let mut cycles = histogram(&row.cycles);
    if let Some(modes) = cycles.get_mut("modes") {
        *modes = histogram(&smooth)["modes"].take();
    }
    json!({
        "name": row.name,
        "start": row.at.start,
        "end": row.at.end,
        "executions": row.cycles.total().saturating_add(row.longer),
        "below_cost": row.below_cost,
        "longer": row.longer,
        "loads": row.loads,
        "cycles": cycles,
        "prefetch_window": window.map(|w| json!({"base": w.base, "miss": w.miss, "window": w.window})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_engine::virt::{Timed as TimedBlock, Times};

    #[test]
    fn the_cost_is_subtracted_and_the_document_reads_back() {
        let times = {
            let mut times = Times::default();
            times.empty.cycles = vec![(40, 10), (41, 80), (44, 10)];
            times.intervals = vec![TimedBlock {
                cycles: vec![(30, 2), (41, 3), (60, 50), (300, 40)],
                longer: 7,
            }];
            times
        };
        let at = [Interval {
            start: 0x1000,
            end: None,
        }];
        let result = Timed::new(&["work".to_owned()], &at, &times);
        let row = &result.rows[0];
        assert_eq!(row.cycles.bins(), [(1, 5), (19, 50), (259, 40)]);
        assert_eq!((row.below_cost, row.longer), (5, 7));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.json");
        std::fs::write(&file, of(&result, None).to_string()).unwrap();
        let again = read(&file).unwrap();
        assert_eq!(again.rows[0].cycles, row.cycles);
        assert_eq!(again.cost.unwrap().cycles, 41);
        assert_eq!(again.step(), result.step());
        // A comb becomes one hill, nothing is lost.
        let smooth = row.smooth(24.5);
        assert_eq!(smooth.total(), row.cycles.total());
        std::fs::write(&file, "{\"schema\": 1}").unwrap();
        assert_eq!(read(&file).err().unwrap().code, 1);
    }
}
