//! Programs that use memory badly, and the same ones repaired (`tests/repairs`; `tests/repairs.py` measures their time): the
//! model finds the line and the data, and sees the repair.

use crate::memory::built;
use crate::support::{json, virtual_pmu};
use serde_json::Value;
use std::path::Path;

/// What the model makes of a program of this source, with these options of the compiler.
fn model(directory: &Path, source: &str, more: &[&str]) -> Option<Value> {
    let arguments = [
        &["-O1", "-g", "-static", "-pthread", "-DN=256", "-DROUNDS=4"],
        more,
    ]
    .concat();
    let program = built(directory, source, &arguments)?;
    let options = ["run", "--json", "--model=cachegrind", "--sharing", "--"];
    let words = [&options[..], &[program.to_str().unwrap()]].concat();
    Some(json(&words)["memory"].take())
}

fn source(name: &str) -> String {
    let path = format!(
        "{}/../../tests/repairs/{name}.c",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The number of the source's line with this text.
fn line_of(source: &str, text: &str) -> usize {
    let at = source.lines().position(|line| line.contains(text));
    1 + at.unwrap_or_else(|| panic!("no '{text}'"))
}

#[test]
fn the_line_and_the_data_are_found_and_the_repair_is_seen() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, line, function, data) in [
        ("stride", "grid[j][i]", "sum", "grid"),
        ("transpose", "to[j][i] = from[i][j]", "transpose", "to"),
    ] {
        let source = source(name);
        let Some(before) = model(directory.path(), &source, &[]) else {
            return;
        };
        let first = &before["lines"][0];
        assert_eq!(first["line"], line_of(&source, line), "{name}: {first}");
        assert_eq!(first["function"], function, "{name}");
        assert_eq!(before["data"][0]["symbol"], data, "{name}");
        let after = model(directory.path(), &source, &["-DREPAIRED"]).unwrap();
        let misses = |memory: &Value| {
            let data = [&memory["model"]["reads"], &memory["model"]["writes"]];
            data.iter()
                .map(|level| level["l1_misses"].as_u64().unwrap())
                .sum::<u64>()
        };
        // (One line has eight numbers; all are written once, and the transposed matrix is read.)
        let (before, after) = (misses(&before), misses(&after));
        assert!(before > 2 * after, "{name}: {before} and {after}");
    }
}

#[test]
fn false_sharing_is_found_and_gone() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = source("sharing");
    let shared = |more: &[&str]| {
        let memory = model(directory.path(), &source, more)?;
        let lines = memory["sharing"].as_array().unwrap().clone();
        let ours = |line: &Value| line["symbols"][0] == "counters";
        Some(lines.into_iter().filter(ours).collect::<Vec<Value>>())
    };
    let Some(before) = shared(&[]) else { return };
    let [line] = &before[..] else {
        panic!("{before:?}");
    };
    assert_eq!(line["false_sharing"], true);
    // Each thread read and wrote its number 256 times.
    assert!(line["references"].as_u64() >= Some(4 * 256), "{line}");
    assert_eq!(line["threads"].as_array().unwrap().len(), 2, "{line}");
    let after = shared(&["-DREPAIRED"]).unwrap();
    assert!(
        after.iter().all(|line| line["false_sharing"] == false),
        "{after:?}"
    );
}
