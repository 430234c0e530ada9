//! What changed, by how sure the numbers are. Exact counts: any difference is a change. Others: statistics.

pub mod changes;
pub mod compare;
mod judge;
mod lone;
mod moved;
mod pair;
mod sides;

pub use moved::{Explanation, Moved, MovedPath, explanation};

use truecount_model::Precision;
use truecount_run::env_record::Environment;
use truecount_run::rounds::Metric;

/// Whether a metric is an exact count, so that any difference of another is a change: at least five equal counts of a
/// source that nothing disturbs; one is enough where what makes runs differ was held constant under a reference machine.
#[must_use]
pub fn is_exact(metric: &Metric, environment: &Environment) -> bool {
    let equal = metric.distinct == 1 && metric.deviation.is_none() && metric.is_count();
    let sure = metric.undisturbed() && metric.precision == Some(Precision::Exact);
    let held = environment.reference.is_some() && !environment.deterministic.is_empty();
    equal && sure && (metric.exact || held)
}
