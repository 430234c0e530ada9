//! No test of the workspace may skip itself past `truecount_testing::skip`: such a skip can neither be required away nor
//! be seen in CI.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_skip_is_recorded() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(crates, &mut files);
    assert!(files.len() > 300, "{}", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let own = file.components().any(|part| part.as_os_str() == "testing");
        // Benchmarks print for their reader.
        let bench = file.components().any(|part| part.as_os_str() == "benches");
        let text = std::fs::read_to_string(&file).unwrap();
        let packed: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let prints = [r#"println!("skipped"#, r#"println!( "skipped"#];
        if !own && !bench && prints.iter().any(|print| packed.contains(print)) {
            wrong.push(file);
        }
    }
    assert!(wrong.is_empty(), "use truecount_testing::skip: {wrong:?}");
}

/// A need that nobody knows is found here, not on the machine that lacks it.
#[test]
fn every_skip_names_a_need_that_is_known() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(crates, &mut files);
    let mut found = 0;
    for file in files {
        if file.ends_with("tests/skips.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for call in ["skip!(", "truecount_testing::skip("] {
            for (at, _) in text.match_indices(call) {
                let argument = text[at + call.len()..].trim_start();
                let Some((need, _)) = argument
                    .strip_prefix('"')
                    .and_then(|rest| rest.split_once('"'))
                else {
                    continue;
                };
                found += 1;
                let known = truecount_testing::NEEDS
                    .iter()
                    .any(|(name, _)| *name == need);
                assert!(known, "{}: `{need}` is not in NEEDS", file.display());
            }
        }
    }
    assert!(found > 50, "{found}");
}
