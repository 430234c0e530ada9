//! What two commits come to, as a document: `compare` shows it, other forms are made of it.

use std::collections::BTreeSet;

use serde::Serialize;
use truecount_history::decide::compare::{Comparison, Row};
use truecount_history::record::Commit;

use super::number_of;

/// The result as a document.
#[derive(Serialize)]
pub(super) struct Document {
    pub(super) schema: &'static str,
    pub(super) base: Commit,
    pub(super) new: Commit,
    /// Commits between the base that was meant and the one that has records.
    pub(super) skipped: usize,
    #[serde(flatten)]
    pub(super) found: Comparison,
}

/// Whether a row says more than that nothing happened.
pub(super) fn tells(row: &Row) -> bool {
    let quiet = matches!(row.verdict.as_str(), "same" | "described");
    !quiet || row.gate.as_deref().is_some_and(|gate| gate != "passed")
}

/// One sentence about all of it.
pub(super) fn summary(found: &Comparison) -> String {
    let count = |of: &dyn Fn(&Row) -> bool| found.rows.iter().filter(|row| of(row)).count();
    let benchmarks: BTreeSet<_> = found
        .rows
        .iter()
        .map(|row| (&row.suite, &row.benchmark, &row.parameters))
        .collect();
    let (worse, better) = (
        count(&|row| row.regression == Some(true)),
        count(&|row| row.regression == Some(false)),
    );
    let open = count(&|row| matches!(row.verdict.as_str(), "undecided" | "n too small"));
    let refused = count(&|row| row.verdict == "incomparable");
    let mut parts = vec![format!(
        "{}: {} worse, {} better",
        number_of(benchmarks.len(), "benchmark"),
        worse,
        better
    )];
    let gone = count(&|row| row.verdict == "gone");
    let silent = count(&|row| row.verdict == "not measured");
    for (number, what) in [
        (open, "undecided"),
        (refused, "incomparable"),
        (gone, "gone"),
        (silent, "not measured"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    let gates = count(&|row| row.gate.is_some());
    if gates > 0 {
        let failed = count(&|row| row.gate.as_deref() == Some("regressed"));
        parts.push(format!("{failed} of {} failed", number_of(gates, "gate")));
    }
    format!("{}.", parts.join(", "))
}
