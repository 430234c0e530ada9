//! `truecount bench --calls`: which paths of calls make the difference, to the instruction.

use crate::call_edges::tree;
use crate::support::{code, fails, run, stderr, stdout, unwrapped, virtual_pmu};
use truecount_testing::quoted;

#[test]
fn the_paths_that_differ_are_named_exactly() {
    if !virtual_pmu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (Some(first), Some(second)) = (tree(at, "three", 3), tree(at, "five", 5)) else {
        return;
    };
    let (first, second) = (&*quoted(first), &*quoted(second));
    let saved = at.join("saved.json").display().to_string();
    let options = [
        "bench",
        "--calls",
        "-n",
        "1",
        "--only",
        "-e",
        "instructions:u",
    ];
    let options = [&options[..], &["--source", "virtual", "--save", &saved]].concat();
    let output = run(&[&options[..], &[first, second, first]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = unwrapped(&stdout(&output));
    assert!(
        text.contains(&format!("calls: {second} against {first}")),
        "{text}"
    );
    assert!(text.contains("no path changed"), "{text}");
    let document = std::fs::read_to_string(&saved).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    crate::schemas::check("bench.json", &document);
    let diff = &document["calls"][0]["calls_diff"];
    // Two levels more, of nine instructions each.
    assert_eq!(
        (&diff["old_total"], &diff["new_total"]),
        (&53.into(), &71.into())
    );
    let nodes = diff["nodes"].as_array().unwrap();
    let gained = |side: &str| -> u64 {
        let own = nodes
            .iter()
            .map(|node| node[side]["self"].as_u64().unwrap());
        own.sum()
    };
    assert_eq!(gained("new") - gained("old"), 18);
    let same = &document["calls"][1]["calls_diff"];
    assert_eq!(same["nodes"].as_array().unwrap().len(), 0);
    // A baseline with it can be read.
    let again = [
        "bench",
        "-n",
        "1",
        "--only",
        "-e",
        "instructions:u",
        "--source",
        "virtual",
    ];
    let output = run(&[&again[..], &["--baseline", &saved, first, second, first]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn one_command_is_compared_with_nothing() {
    fails(
        &["bench", "--calls", "-n", "1", "true"],
        2,
        &["--calls", "run --calls"],
    );
}
