//! What follows from the table: a period for a budget, fixed period or frequency, batches, freezing.

use crate::model::{Freezing, Handler, Inputs, Stack, freezing, period_for, simulate};
use crate::sampling::{self, Cost, Event, Method, Outcome, Payload};
use serde::Serialize;
use truecount_perf::Facts;
use truecount_perf::probe::{self, Pmu, Root};

/// The period for the budget, of one event and payload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budgeted {
    /// What is sampled.
    pub event: Event,
    /// What a sample carries.
    pub payload: Payload,
    /// What one sample costs, ns, measured.
    pub cost_ns: f64,
    /// Events from one sample to the next.
    pub period: u64,
    /// Samples a second that this gives.
    pub rate: f64,
}

/// All advice.
#[derive(Serialize)]
pub struct Advice {
    /// Part of the time that sampling may take.
    pub budget: f64,
    /// Periods for it.
    pub budgeted: Vec<Budgeted>,
    /// What a sample costs more by frequency than by fixed period, ns, event by event.
    pub frequency: Vec<String>,
    /// Whether the hardware reloads and batches here.
    pub batching: String,
    /// Whether counter freezing can be had.
    pub freezing: Freezing,
    /// What freezing would save an interrupt, by the model.
    pub freezing_saves: Option<String>,
}

/// What a sample costs: the estimate over visits.
fn price(cost: &Cost) -> Option<f64> {
    cost.stolen_typical
        .map(|s| s.value)
        .filter(|value| value.is_finite() && *value > 0.0)
}

/// What follows from the table for a budget in percent of the time.
pub fn advise(
    outcome: &Outcome,
    budget_percent: f64,
    inputs: &Inputs,
    upper_bound: bool,
) -> Advice {
    let root = Root::system();
    let facts = Facts::gather(&root);
    let cpu = probe::cpu::describe(&root);
    let budget = budget_percent / 100.0;
    let mut budgeted: Vec<Budgeted> = Vec::new();
    // Of several rates, the one with the most samples speaks.
    let mut by_samples: Vec<&Cost> = outcome.cells.iter().collect();
    by_samples.sort_by_key(|cost| std::cmp::Reverse(cost.samples));
    for cost in by_samples {
        let known = budgeted
            .iter()
            .any(|b| b.event == cost.cell.event && b.payload == cost.cell.payload);
        let per_second = sampling::per_second(cost.cell.event, outcome.cycles_per_second);
        if known || cost.cell.method != Method::Period {
            continue;
        }
        if let Some(cost_ns) = price(cost)
            && let Some(period) = period_for(budget, cost_ns, per_second)
        {
            budgeted.push(Budgeted {
                event: cost.cell.event,
                payload: cost.cell.payload,
                cost_ns,
                period,
                rate: per_second / period as f64,
            });
        }
    }
    budgeted.sort_by_key(|b| (b.event, b.payload));
    let intel = cpu.vendor == "GenuineIntel";
    let command_line = root.text("proc/cmdline").unwrap_or_default();
    let version = cpu.pmu_version.filter(|&version| intel && version > 0);
    Advice {
        budget,
        budgeted,
        frequency: by_frequency(outcome),
        batching: batching(&root, &facts),
        freezing: freezing(version, facts.version(), &command_line),
        freezing_saves: saving(inputs, upper_bound),
    }
}

/// The same cells by frequency and by period.
fn by_frequency(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut compared, mut too_few) = (0u32, None);
    for fixed in outcome
        .cells
        .iter()
        .filter(|c| c.cell.method == Method::Period)
    {
        let other = outcome.cells.iter().find(|c| {
            c.cell.method == Method::Frequency
                && (c.cell.event, c.cell.payload, c.cell.rate)
                    == (fixed.cell.event, fixed.cell.payload, fixed.cell.rate)
        });
        let (Some(other), Some(a)) = (other, fixed.stolen_typical) else {
            continue;
        };
        let Some(b) = other.stolen_typical else {
            continue;
        };
        // Intervals that do not touch are a difference; others are none that was seen. Without intervals nothing was
        // compared.
        let (Some((low, high)), Some((l, h))) = (a.interval, b.interval) else {
            let visits = a.n.min(b.n);
            too_few = Some(too_few.map_or(visits, |few: u64| few.min(visits)));
            continue;
        };
        compared += 1;
        if high < l || h < low {
            lines.push(format!(
                "{}, {}, {} a second: frequency {:+.0} ns a sample",
                fixed.cell.event.name(),
                fixed.cell.payload.name(),
                fixed.cell.rate,
                b.value - a.value
            ));
        }
    }
    if let Some(visits) = too_few {
        lines.push(format!(
            "frequency against fixed period: {visits} visits a cell are too few to tell; give it more time (--seconds)"
        ));
    } else if lines.is_empty() && compared > 0 {
        lines.push("no difference between frequency and fixed period was seen".to_owned());
    }
    lines
}

/// PEBS auto-reload: `PERF_X86_EVENT_AUTO_RELOAD` for precise events of fixed period; large PEBS: several samples an
/// interrupt where the sample's fields are all in the PEBS record (`intel_pmu_large_pebs_flags` in
/// `arch/x86/events/intel/core.c`).
fn batching(root: &Root, facts: &Facts) -> String {
    if cfg!(target_arch = "aarch64") {
        return "Arm's PMU has neither reload nor batches: every sample is an interrupt that writes the counter (SPE is another unit)".to_owned();
    }
    let precise = Pmu::all(root)
        .unwrap_or_default()
        .iter()
        .filter(|pmu| pmu.is_core())
        .filter_map(|pmu| pmu.cap_number("max_precise"))
        .max();
    match (facts.core_pmu(), precise) {
        (Some(true), Some(level)) if level > 0 => format!(
            "precise events (:p, up to level {level} here) with a fixed period are reloaded by the hardware, and without \
             call chain several samples come with one interrupt; a frequency prevents both"
        ),
        (Some(true), _) => {
            "this PMU has no precise events: the handler writes the counter at every sample, whatever the period; a frequency \
             adds the adjustment of the period"
                .to_owned()
        }
        _ => "there is no PMU: cpu-clock restarts a timer at every sample, and nothing is batched".to_owned(),
    }
}

/// `upper_bound`: the costs of the registers are no more than bounds, so what is saved is one, too.
fn saving(inputs: &Inputs, upper_bound: bool) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let one = |handler| simulate(inputs, handler, Stack::None, 100).ok();
    let (classic, frozen) = (one(Handler::Classic)?, one(Handler::Freezing)?);
    let most = if upper_bound { "at most " } else { "" };
    let counts = |o: &crate::model::Outcome| {
        format!(
            "{:.1} WRMSR, {:.1} RDMSR, {:.1} RDPMC",
            o.wrmsr, o.rdmsr, o.rdpmc
        )
    };
    Some(format!(
        "model: {most}{:.0} ns of {:.0} ns an interrupt ({} against {}, {}; {}; {})",
        classic.time_ns - frozen.time_ns,
        classic.time_ns,
        counts(&classic),
        counts(&frozen),
        inputs.classic.origin,
        inputs.wrmsr_ns.origin,
        inputs.rdmsr_ns.origin,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::{Cell, Estimate};

    fn cost(method: Method, value: f64, interval: Option<(f64, f64)>) -> Cost {
        Cost {
            cell: Cell {
                event: Event::Cycles,
                method,
                payload: Payload::None,
                rate: 1000,
            },
            period: None,
            visits: 3,
            samples: 30,
            rate_seen: 1000.0,
            stolen: None,
            stolen_typical: Some(Estimate {
                value,
                interval,
                n: 3,
            }),
            share: None,
            handler: None,
            slowdown: None,
            throttled: 0,
            lost: 0,
            left_out: 0,
            unmatched: 0,
            frames: None,
            branches: None,
        }
    }

    fn said(frequency: Option<(f64, f64)>, period: Option<(f64, f64)>) -> String {
        let outcome = Outcome {
            cells: vec![
                cost(Method::Frequency, 2600.0, frequency),
                cost(Method::Period, 2500.0, period),
            ],
            ..Outcome::default()
        };
        by_frequency(&outcome).join("; ")
    }

    /// Three visits have no interval: that is no comparison that found nothing.
    #[test]
    fn too_few_visits_tell_nothing() {
        assert!(said(None, None).contains("3 visits a cell are too few"));
        assert!(said(Some((2590.0, 2610.0)), None).contains("too few"));
        let apart = said(Some((2590.0, 2610.0)), Some((2490.0, 2510.0)));
        assert!(apart.contains("frequency +100 ns"), "{apart}");
        let touching = said(Some((2400.0, 2700.0)), Some((2490.0, 2510.0)));
        assert!(touching.contains("no difference"), "{touching}");
    }

    /// Where the costs of registers are no more than bounds, what is saved is told as one.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_saved_is_a_bound_where_its_costs_are() {
        let inputs = Inputs::stated();
        let said = |bound| saving(&inputs, bound).unwrap();
        assert!(said(true).starts_with("model: at most "), "{}", said(true));
        assert!(!said(false).contains("at most"), "{}", said(false));
    }
}
