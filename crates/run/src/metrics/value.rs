//! Counts become values of metrics, with who counted, how sure it is, and what the value means.

use std::cell::RefCell;

use serde::Serialize;
use truecount_events::metrics::Context;

use super::Asked;
use truecount_model::number::significant;
use truecount_model::{Measured, Precision, Reading, Reason, SourceKind};

/// One metric's value.
#[derive(Debug, Clone, Serialize)]
pub struct MetricRow {
    /// Its name in the pack, with the filter of its events.
    pub metric: String,
    /// The pack that it is of.
    pub pack: String,
    /// Its value, who counted its events, and the least sure of its counts; or why there is none.
    #[serde(flatten)]
    pub result: Measured<f64>,
    /// Unit of the value.
    pub unit: String,
    /// Whether its events were on the counters at the same time.
    pub together: bool,
    /// The threshold that the value is past.
    pub threshold: Option<f64>,
    /// What to look at next, when it is.
    pub next: Option<String>,
}

/// Whether the parts of a pack make 100 %.
#[derive(Debug, Clone, Serialize)]
pub struct SumRow {
    /// The pack.
    pub pack: String,
    /// In percent.
    pub sum: f64,
    /// How far it may be off 100.
    pub tolerance: f64,
    /// Parts below 0 or above 100 by more than that.
    pub outside: Vec<String>,
    /// Whether the sum is within the tolerance and no part is outside.
    pub holds: bool,
}

impl SumRow {
    /// In words, when something is wrong.
    pub fn warning(&self) -> Option<String> {
        if self.holds {
            return None;
        }
        let mut text = format!(
            "{}: the parts make {} %, not 100 ± {} %",
            self.pack,
            significant(self.sum),
            self.tolerance
        );
        if !self.outside.is_empty() {
            text.push_str(&format!("; out of bounds: {}", self.outside.join(", ")));
        }
        text.push_str(
            ": the counts do not belong together (multiplexed, or the formula is not this CPU's)",
        );
        Some(text)
    }
}

/// What `-M` gave.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Values {
    /// One row a metric, in the order asked.
    pub metrics: Vec<MetricRow>,
    /// The checks of packs whose parts make 100 %.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metric_sums: Vec<SumRow>,
}

/// What the counts behind one value had in common.
#[derive(Default)]
struct Used {
    source: Option<SourceKind>,
    precision: Option<Precision>,
    missing: Option<Reason>,
}

impl Used {
    fn add(&mut self, source: SourceKind, precision: Precision) {
        // The CPU's counters, if any take part: clocks alone are the kernel's.
        if self
            .source
            .is_none_or(|known| known == SourceKind::Software)
        {
            self.source = Some(source);
        }
        self.precision = self.precision.max(Some(precision));
    }

    /// What was computed from these counts; without any, from the run's time, which the kernel tells.
    fn result<E: ToString>(self, value: Result<f64, E>) -> Measured<f64> {
        match (value, self.missing) {
            (Ok(value), _) => Measured::Value {
                value,
                source: self.source.unwrap_or(SourceKind::Software),
                precision: self.precision.unwrap_or(Precision::Counted),
            },
            (Err(error), None) => Measured::Missing(error.to_string().into()),
            (Err(error), Some(Reason { cause, hint })) => Measured::Missing(Reason {
                cause: format!("{}: {cause}", error.to_string()),
                hint,
            }),
        }
    }
}

pub(super) fn values<'r>(
    asked: &Asked,
    readings: &dyn Fn(usize) -> Option<&'r [Reading]>,
    wall_ns: u64,
) -> Values {
    let context = Context {
        wall_ns: (wall_ns > 0).then_some(wall_ns as f64),
        ..asked.context.clone()
    };
    let mut values = Values::default();
    for part in &asked.parts {
        for (name, from) in part.metrics.iter().zip(&part.from) {
            if from.iter().any(|&group| readings(group).is_none()) {
                continue;
            }
            let used = RefCell::new(Used::default());
            let counts = |expression: &str| count(asked, from, readings, expression, &used);
            let Some(value) = part
                .pack
                .evaluate(&[name], &counts, &context)
                .into_iter()
                .next()
            else {
                continue;
            };
            values.metrics.push(MetricRow {
                metric: part.named(&value.name),
                pack: part.pack.name.clone(),
                result: used.into_inner().result(value.result),
                unit: value.unit,
                together: from.len() <= 1,
                threshold: value.flag.as_ref().map(|flag| flag.threshold),
                next: value.flag.map(|flag| flag.next).filter(|n| !n.is_empty()),
            });
        }
        // Only where all parts of the sum were asked for and counted.
        let Some(sum) = &part.pack.sum else { continue };
        let of = |name: &String| {
            let at = part.metrics.iter().position(|m| m == name)?;
            part.from.get(at).cloned()
        };
        let Some(from) = sum.of.iter().map(of).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let from: Vec<usize> = from.into_iter().flatten().collect();
        let used = RefCell::new(Used::default());
        let counts = |expression: &str| count(asked, &from, readings, expression, &used);
        if let Some(check) = part.pack.check(&counts, &context) {
            values.metric_sums.push(SumRow {
                pack: part.pack.name.clone(),
                sum: check.sum,
                tolerance: check.tolerance,
                holds: check.holds(),
                outside: check.outside,
            });
        }
    }
    values
}

/// The count of an event: of the first of these groups that has it, over all PMUs of a hybrid machine.
fn count<'r>(
    asked: &Asked,
    from: &[usize],
    readings: &dyn Fn(usize) -> Option<&'r [Reading]>,
    expression: &str,
    used: &RefCell<Used>,
) -> Option<f64> {
    let mut total: Option<f64> = None;
    let mut pmus: Vec<&str> = Vec::new();
    for &number in from {
        let (Some(group), Some(readings)) = (asked.groups.get(number), readings(number)) else {
            continue;
        };
        let members = group.members.iter().filter(|m| m.expression == expression);
        for reading in members
            .filter_map(|m| readings.get(m.readings.clone()))
            .flatten()
        {
            // The same event in a second group is the same count again; on another PMU it has another name.
            if pmus.contains(&reading.event.as_str()) {
                continue;
            }
            match &reading.result {
                Measured::Value {
                    value,
                    source,
                    precision,
                } => {
                    pmus.push(&reading.event);
                    used.borrow_mut().add(*source, *precision);
                    total = Some(total.unwrap_or(0.0) + *value as f64 * reading.scale);
                }
                Measured::Missing(reason) => used.borrow_mut().missing = Some(reason.clone()),
            }
        }
    }
    total
}
