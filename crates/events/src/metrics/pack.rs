//! A pack of metrics: its rows in TOML, and their values.

use super::expr::{Expr, NoValue};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Metrics for some CPUs, from one source.
#[derive(Debug, Clone)]
pub struct Pack {
    /// Its name.
    pub name: String,
    /// Models, as the event tables call them; `*` is every CPU.
    pub cpus: Vec<String>,
    /// Publisher and version of the formulas.
    pub source: String,
    /// Events, or none, to be counted in one group, led by the first: short names.
    pub group: Vec<String>,
    /// Short name → event expression.
    pub events: BTreeMap<String, String>,
    /// Events, by their short names, that cannot stay 0 while instructions retire: where they do, the machine does not
    /// count what the pack is made of (a hypervisor's PMU that leaves events out).
    pub witness: Vec<String>,
    /// Why this machine cannot count the pack, where that was found out: then its metrics have no values.
    pub refused: Option<String>,
    /// Metrics that should make 100 % together.
    pub sum: Option<Sum>,
    /// Constants: short name → value (`slots`, latencies).
    pub constants: BTreeMap<String, f64>,
    /// In the order of the file.
    pub metrics: Vec<Metric>,
}

/// What should make 100 %.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sum {
    /// Names of metrics.
    pub of: Vec<String>,
    /// How far it may be off, in percentage points.
    pub tolerance: f64,
}

/// One metric.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// `topdown-1`, `topdown-2`, …: what is asked for together.
    pub group: Option<String>,
    /// The formula.
    pub formula: Expr,
    /// The formula as written.
    pub text: String,
    /// `%`, `GHz`, `per 1000 instructions`, …
    pub unit: String,
    /// Worth a look from here on.
    pub above: Option<f64>,
    /// Worth a look down from here.
    pub below: Option<f64>,
    /// Which direction of a change is worse; `None`: the row does not say.
    pub worse: Option<Worse>,
    /// What it means, in one line.
    pub about: String,
    /// What to look at next.
    pub next: String,
}

/// Which direction of a change of a metric is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Worse {
    /// More is worse: misses, stalls.
    Higher,
    /// Less is worse: instructions per cycle.
    Lower,
    /// Neither says anything by itself: how many CPUs are busy.
    Neither,
}

impl Worse {
    /// As it is written in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Neither => "neither",
        }
    }
}

/// What is known without counting.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Two hardware threads per core are active.
    pub smt: Option<bool>,
    /// Wall time of the counting, in ns.
    pub wall_ns: Option<f64>,
    /// `caps/slots` of the core PMU (Arm).
    pub slots: Option<f64>,
}

impl Context {
    fn get(&self, name: &str) -> Option<f64> {
        match name {
            "smt" => self.smt.map(|on| f64::from(u8::from(on))),
            "wall_ns" => self.wall_ns,
            "slots" => self.slots,
            _ => None,
        }
    }

    const NAMES: [&'static str; 3] = ["smt", "wall_ns", "slots"];
}

/// The value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The metric.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The value, or why there is none.
    pub result: Result<f64, NoValue>,
    /// Whether it is past its threshold.
    pub flag: Option<Flag>,
}

/// Past its threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// The threshold.
    pub threshold: f64,
    /// What to look at next.
    pub next: String,
}

/// Whether what should make 100 % does.
#[derive(Debug, Clone, PartialEq)]
pub struct SumCheck {
    /// The sum, in percent.
    pub sum: f64,
    /// How far it may be off 100.
    pub tolerance: f64,
    /// Members below 0 or above 100 % by more than the tolerance.
    pub outside: Vec<String>,
}

impl SumCheck {
    /// Whether the sum and its members are within the tolerance.
    #[must_use]
    pub fn holds(&self) -> bool {
        (self.sum - 100.0).abs() <= self.tolerance && self.outside.is_empty()
    }
}

/// Values already computed: each metric once, and circles are found.
type Memo = RefCell<BTreeMap<String, Result<f64, NoValue>>>;

impl Pack {
    /// Whether it is for every CPU.
    #[must_use]
    pub fn is_general(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu == "*")
    }

    /// Whether it is for a CPU that goes by these names.
    #[must_use]
    pub fn is_for(&self, names: &[&str]) -> bool {
        self.is_general()
            || self
                .cpus
                .iter()
                .any(|cpu| names.iter().any(|name| cpu.eq_ignore_ascii_case(name)))
    }

    /// The metric of this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics
            .iter()
            .find(|m| m.name.eq_ignore_ascii_case(name))
    }

    /// The events that the metrics need, as expressions for [`crate::resolve`], each once. Those of the pack's group
    /// come first.
    #[must_use]
    pub fn events_for(&self, metrics: &[&str], context: &Context) -> Vec<&str> {
        let mut needed: Vec<String> = Vec::new();
        let mut open: Vec<String> = metrics.iter().map(|m| (*m).to_owned()).collect();
        let mut seen: Vec<String> = Vec::new();
        while let Some(name) = open.pop() {
            let Some(metric) = self.metric(&name).filter(|_| !seen.contains(&name)) else {
                continue;
            };
            seen.push(name);
            let known = |name: &str| {
                self.constants
                    .get(name)
                    .copied()
                    .or_else(|| context.get(name))
            };
            for name in metric.formula.names(&known) {
                if self.events.contains_key(&name) {
                    needed.push(name);
                } else {
                    open.push(name);
                }
            }
        }
        let leads = needed.iter().any(|name| self.group.contains(name));
        let rest = self.events.keys().filter(|name| !self.group.contains(name));
        let order = self.group.iter().chain(rest);
        let mut events: Vec<&str> = Vec::new();
        for name in order {
            let leader = leads && self.group.first() == Some(name);
            if (leader || needed.contains(name))
                && let Some(event) = self.events.get(name)
                && !events.contains(&event.as_str())
            {
                events.push(event);
            }
        }
        events
    }

    /// The events as one expression: the pack's group, and what is not in it, each in braces.
    #[must_use]
    pub fn expression(&self, metrics: &[&str], context: &Context) -> String {
        let events = self.events_for(metrics, context);
        let grouped = |event: &&&str| {
            self.group
                .iter()
                .any(|name| self.events.get(name).is_some_and(|e| e == **event))
        };
        let first: Vec<&str> = events.iter().filter(grouped).copied().collect();
        let rest: Vec<&str> = events.iter().filter(|e| !grouped(e)).copied().collect();
        [first, rest]
            .iter()
            .filter(|events| !events.is_empty())
            .map(|events| format!("{{{}}}", events.join(",")))
            .collect::<Vec<_>>()
            .join(",")
    }

    /// The expressions of its witnesses.
    pub fn witnesses(&self) -> impl Iterator<Item = &str> {
        self.witness
            .iter()
            .filter_map(|name| self.events.get(name).map(String::as_str))
    }

    /// Sets why this machine cannot count the pack, where one of its witnesses `is_silent`: stayed 0 while instructions
    /// retired.
    pub fn try_witnesses(&mut self, is_silent: impl Fn(&str) -> bool) {
        let silent = self.witnesses().find(|event| is_silent(event));
        let why = silent.map(|event| {
            format!(
                "this machine's PMU does not count {event}: it stays 0 while instructions retire"
            )
        });
        self.refused = why.or(self.refused.take());
    }

    /// The values of metrics from counts by event expression.
    #[must_use]
    pub fn evaluate(
        &self,
        metrics: &[&str],
        counts: &dyn Fn(&str) -> Option<f64>,
        context: &Context,
    ) -> Vec<Value> {
        let memo = Memo::default();
        metrics
            .iter()
            .filter_map(|name| self.metric(name))
            .map(|metric| {
                let result = self.value(metric, counts, context, &memo);
                let past = |value: f64| {
                    let above = metric.above.filter(|&limit| value > limit);
                    above.or(metric.below.filter(|&limit| value < limit))
                };
                let flag = result
                    .as_ref()
                    .ok()
                    .and_then(|&value| past(value))
                    .map(|threshold| Flag {
                        threshold,
                        next: metric.next.clone(),
                    });
                Value {
                    name: metric.name.clone(),
                    unit: metric.unit.clone(),
                    result,
                    flag,
                }
            })
            .collect()
    }

    fn value(
        &self,
        metric: &Metric,
        counts: &dyn Fn(&str) -> Option<f64>,
        context: &Context,
        memo: &Memo,
    ) -> Result<f64, NoValue> {
        if let Some(why) = &self.refused {
            return Err(NoValue::NotHere(why.clone()));
        }
        if let Some(value) = memo.borrow().get(&metric.name) {
            return value.clone();
        }
        // What asks for this metric until it has a value is part of a circle.
        let circular = Err(NoValue::Circular(metric.name.clone()));
        memo.borrow_mut().insert(metric.name.clone(), circular);
        let value = metric.formula.value(&|name| {
            if let Some(event) = self.events.get(name) {
                return counts(event).ok_or_else(|| NoValue::Missing(event.clone()));
            }
            if let Some(value) = self
                .constants
                .get(name)
                .copied()
                .or_else(|| context.get(name))
            {
                return Ok(value);
            }
            match self.metric(name) {
                Some(other) => self.value(other, counts, context, memo),
                None => Err(NoValue::Missing(name.to_owned())),
            }
        });
        memo.borrow_mut().insert(metric.name.clone(), value.clone());
        value
    }

    /// Whether the pack's level 1 makes 100 %. `None`: the pack has no such sum, or some member has no value.
    #[must_use]
    pub fn check(
        &self,
        counts: &dyn Fn(&str) -> Option<f64>,
        context: &Context,
    ) -> Option<SumCheck> {
        let sum = self.sum.as_ref()?;
        let mut total = 0.0;
        let mut outside = Vec::new();
        let memo = Memo::default();
        for name in &sum.of {
            let value = self
                .value(self.metric(name)?, counts, context, &memo)
                .ok()?;
            total += value;
            if value < -sum.tolerance || value > 100.0 + sum.tolerance {
                outside.push(name.clone());
            }
        }
        Some(SumCheck {
            sum: total,
            tolerance: sum.tolerance,
            outside,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRows {
    #[serde(default)]
    pack: Vec<PackRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackRow {
    name: String,
    cpus: Vec<String>,
    source: String,
    #[serde(default)]
    group: Vec<String>,
    #[serde(default)]
    events: BTreeMap<String, String>,
    #[serde(default)]
    witness: Vec<String>,
    #[serde(default)]
    constants: BTreeMap<String, f64>,
    sum: Option<Sum>,
    #[serde(default)]
    metric: Vec<MetricRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricRow {
    name: String,
    group: Option<String>,
    formula: String,
    unit: String,
    above: Option<f64>,
    below: Option<f64>,
    worse: Option<Worse>,
    about: String,
    #[serde(default)]
    next: String,
}

pub(super) fn parse(text: &str) -> Result<Vec<Pack>, String> {
    let rows: FileRows = toml::from_str(text).map_err(|e| e.to_string())?;
    rows.pack.into_iter().map(pack).collect()
}

fn pack(row: PackRow) -> Result<Pack, String> {
    let mut metrics = Vec::new();
    for metric in row.metric {
        let formula = Expr::parse(&metric.formula)
            .map_err(|e| format!("pack {}, metric {}: {e}", row.name, metric.name))?;
        metrics.push(Metric {
            name: metric.name,
            group: metric.group,
            formula,
            text: metric.formula,
            unit: metric.unit,
            above: metric.above,
            below: metric.below,
            worse: metric.worse,
            about: metric.about,
            next: metric.next,
        });
    }
    let pack = Pack {
        name: row.name,
        cpus: row.cpus,
        source: row.source,
        group: row.group,
        events: row.events,
        witness: row.witness,
        refused: None,
        constants: row.constants,
        sum: row.sum,
        metrics,
    };
    let defined = |name: &str| {
        pack.events.contains_key(name)
            || pack.constants.contains_key(name)
            || Context::NAMES.contains(&name)
            || pack.metric(name).is_some()
    };
    let place = |what: &str, name: &str| {
        format!(
            "pack {}: {what} uses {name}, which nobody defines",
            pack.name
        )
    };
    for metric in &pack.metrics {
        if let Some(name) = metric.formula.names(&|_| None).iter().find(|n| !defined(n)) {
            return Err(place(&format!("metric {}", metric.name), name));
        }
    }
    if let Some(name) = pack.group.iter().find(|n| !pack.events.contains_key(*n)) {
        return Err(place("the group", name));
    }
    if let Some(name) = pack.witness.iter().find(|n| !pack.events.contains_key(*n)) {
        return Err(place("the witness", name));
    }
    let sum = pack.sum.iter().flat_map(|s| &s.of);
    if let Some(name) = sum.into_iter().find(|n| pack.metric(n).is_none()) {
        return Err(place("the sum", name));
    }
    Ok(pack)
}
