//! Documents that the history keeps, results of other tools, suites, and series of any numbers.

use truecount_history::import::{Format, parse};
use truecount_history::record::{Commit, Measurements, Record};
use truecount_run::suite::Suite;
use truecount_stats::{ChangeOptions, change_points};

/// A record that may be kept is the same one after it was written and read.
fn kept(record: &Record) {
    if record.check().is_err() {
        return;
    }
    let text = record.text().expect("a checked record is written");
    let again = Record::parse(&text).expect("a written record is read");
    assert_eq!(again.text().expect("once more"), text);
}

fn commit() -> Commit {
    Commit {
        hash: "0123456789012345678901234567890123456789".to_owned(),
        ..Commit::default()
    }
}

/// Records, and results of `bench` and `run` of which records are made.
pub(crate) fn records(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Record::parse(&text) {
        Ok(record) => kept(&record),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    for name in [None, Some("name")] {
        if let Ok(found) = Measurements::parse(&text, name) {
            kept(&found.of_commit(commit(), 1));
        }
    }
}

/// What other tools write, by the format that it looks like, or by all of them.
pub(crate) fn imports(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let seen = Format::of(&text);
    let wanted = |format: &Format| seen.is_none_or(|seen| seen == *format);
    for format in Format::ALL.into_iter().filter(wanted) {
        match parse(&text, format, Some("name")) {
            Ok(found) => kept(&found.of_commit(commit(), 1)),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

/// `truecount.toml`.
pub(crate) fn suites(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(suite) = Suite::parse(&text) {
        let _ = suite.all_limits();
    }
}

/// Series of any numbers: change points lie inside, in order, each once.
pub(crate) fn series(data: &[u8]) {
    let numbers = data.as_chunks::<8>().0.iter().take(120);
    let values: Vec<f64> = numbers.map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let few = ChangeOptions {
        significance: 0.05,
        window: 20,
        ..ChangeOptions::default()
    };
    let found = change_points(&values, &few);
    assert!(found.is_sorted_by(|a, b| a.index < b.index));
    let inside = |index: usize| index > 0 && index < values.len();
    assert!(found.iter().all(|point| inside(point.index)));
}
