//! The result of a suite: its document (schema `truecount.benches/1`) and its text.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

pub(crate) const SCHEMA: &str = "truecount.benches/1";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Document {
    pub schema: String,
    pub benches: Vec<Bench>,
}

/// One case.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bench {
    pub name: String,
    pub metrics: Vec<Metric>,
}

/// One event of one case. There is a count or a reason.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub event: String,
    pub unit: String,
    pub source: String,
    pub exact: bool,
    /// The least of the runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub counts: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_available: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub baseline: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub regression: Option<bool>,
}

impl Document {
    pub(crate) fn new() -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            benches: Vec::new(),
        }
    }

    /// The entry of a case, made where there is none yet.
    pub(crate) fn bench(&mut self, name: &str) -> &mut Bench {
        let place = match self.benches.iter().position(|bench| bench.name == name) {
            Some(place) => place,
            None => {
                self.benches.push(Bench {
                    name: name.to_owned(),
                    metrics: Vec::new(),
                });
                self.benches.len() - 1
            }
        };
        &mut self.benches[place]
    }

    /// Adds the metrics of another document, counted elsewhere.
    pub(crate) fn join(&mut self, other: Self) {
        for bench in other.benches {
            self.bench(&bench.name).metrics.extend(bench.metrics);
        }
    }

    /// Adds the cases of an earlier document that this one has not.
    pub(crate) fn keep(&mut self, earlier: Self) {
        for mut bench in earlier.benches {
            if self.benches.iter().any(|one| one.name == bench.name) {
                continue;
            }
            for metric in &mut bench.metrics {
                (metric.baseline, metric.regression) = (None, None);
            }
            self.benches.push(bench);
        }
    }

    pub(crate) fn metric(&self, bench: &str, event: &str) -> Option<&Metric> {
        let bench = self.benches.iter().find(|one| one.name == bench)?;
        bench.metrics.iter().find(|metric| metric.event == event)
    }

    pub(crate) fn has_regression(&self) -> bool {
        self.benches
            .iter()
            .flat_map(|bench| &bench.metrics)
            .any(|metric| metric.regression == Some(true))
    }

    pub(crate) fn text(&self) -> String {
        let width = self.benches.iter().map(|b| b.name.chars().count()).max();
        let width = width.unwrap_or(0);
        let mut text = String::new();
        for bench in &self.benches {
            for metric in &bench.metrics {
                let _ = write!(text, "{:<width$}  ", bench.name);
                metric.line(&mut text);
                text.push('\n');
            }
        }
        text
    }
}

impl Metric {
    fn line(&self, text: &mut String) {
        let Some(count) = self.count else {
            let reason = self.not_available.as_deref().unwrap_or("not counted");
            let _ = write!(text, "{:>16} {}: {reason}", "–", self.event);
            return;
        };
        let _ = write!(text, "{:>16} ", thousands(count));
        if self.unit == "ns" {
            text.push_str("ns ");
        }
        text.push_str(&self.event);
        let most = self.counts.iter().copied().max().unwrap_or(count);
        let spread = match most - count {
            0 => String::new(),
            more => format!(", up to {} more", thousands(more)),
        };
        let label = if self.exact { "exact" } else { "counted" };
        let _ = write!(text, " ({}, {label}{spread})", self.source);
        if let Some(before) = self.baseline {
            let _ = match count.cmp(&before) {
                std::cmp::Ordering::Equal => write!(text, "  no change"),
                _ => write!(text, "  {}", change(before, count)),
            };
        }
        if self.regression == Some(true) {
            text.push_str("  REGRESSION");
        }
    }
}

/// `+12 (+0.5%)`.
fn change(before: u64, now: u64) -> String {
    let sign = if now >= before { '+' } else { '-' };
    let difference = now.abs_diff(before);
    if before == 0 {
        return format!("{sign}{}", thousands(difference));
    }
    let share = difference as f64 / before as f64 * 100.0;
    format!("{sign}{} ({sign}{share:.2}%)", thousands(difference))
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_changes() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(change(1000, 1005), "+5 (+0.50%)");
        assert_eq!(change(1000, 0), "-1,000 (-100.00%)");
        assert_eq!(change(0, 3), "+3");
    }
}
