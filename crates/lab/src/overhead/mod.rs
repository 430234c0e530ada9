//! What follows from what sampling costs: the model of the interrupt, with inputs from the measurement, from the user,
//! or stated; and advice.

mod advice;

use serde::Serialize;
use truecount_run::{Error, ErrorKind};

use crate::model::{
    Accesses, Classic, Fitted, Handler, Input, Inputs, Outcome as Simulated, PatchRow, Stack, fit,
    patch_table, simulate,
};
use crate::sampling::{Cost, Event, Method, Outcome, Payload};
pub use advice::{Advice, Budgeted, advise};

/// Interrupts simulated: the stream is steady, so more would say the same.
const INTERRUPTS: u64 = 1000;

/// The model's part of the document.
#[derive(Serialize)]
pub struct Model {
    /// Says what these numbers are.
    pub label: &'static str,
    /// What it rests on.
    pub inputs: Inputs,
    /// What was fitted to the measurement, where that is possible.
    pub fitted: Option<Fitted>,
    /// Every handler with every branch stack.
    pub outcomes: Vec<Simulated>,
    /// What was published with counter freezing, and what the model says of it.
    pub patch: Vec<PatchRow>,
}

/// The stated inputs, with those of the command line in their places.
///
/// # Errors
/// A name that is none, or a number that is none.
pub fn inputs(given: &[String]) -> Result<Inputs, Error> {
    let mut inputs = Inputs::stated();
    for text in given {
        let wrong = || {
            Error::new(
                ErrorKind::Usage,
                format!("--input: `{text}` is not NAME=NUMBER"),
            )
        };
        let (name, number) = text.split_once('=').ok_or_else(wrong)?;
        let value: f64 = number.trim().parse().map_err(|_| wrong())?;
        let slot = match name.trim() {
            "events_per_us" => &mut inputs.events_per_us,
            "period" => &mut inputs.period,
            "delivery_ns" => &mut inputs.delivery_ns,
            "entry_ns" => &mut inputs.entry_ns,
            "body_ns" => &mut inputs.body_ns,
            "exit_ns" => &mut inputs.exit_ns,
            "wrmsr_ns" => &mut inputs.wrmsr_ns,
            "rdmsr_ns" => &mut inputs.rdmsr_ns,
            "rdpmc_ns" => &mut inputs.rdpmc_ns,
            "handler_events_per_us" => &mut inputs.handler_events_per_us,
            _ => {
                return Err(wrong().hint(
                    "the inputs are events_per_us, period, delivery_ns, entry_ns, body_ns, exit_ns, wrmsr_ns, rdmsr_ns, rdpmc_ns, \
                     handler_events_per_us",
                ));
            }
        };
        *slot = Input::stated(value, "on the command line");
    }
    inputs
        .check()
        .map_err(|reason| Error::new(ErrorKind::Usage, format!("--input: {reason}")))?;
    Ok(inputs)
}

/// Time of a sample of a cell: what the program saw, entry and exit included.
fn time(cost: &Cost) -> Option<f64> {
    cost.stolen_typical.map(|s| s.value)
}

/// What the program saw beyond the handler's own time: entry and exit, half each.
fn entry_and_exit(plain: &Cost) -> Option<Input> {
    let beyond = time(plain)? - plain.handler?.p50 as f64;
    (beyond > 0.0)
        .then(|| Input::measured(beyond / 2.0, "half of the stolen time beyond the handler's"))
}

/// Register accesses of a sample that were counted.
fn accesses(outcome: &Outcome, payload: Payload) -> Option<Accesses> {
    let mut all = outcome.registers.iter();
    all.find(|found| found.cell.payload == payload)
        .map(|found| found.per_sample)
}

/// Cells of the PMU with and without branch stack, at the same rate, and fixed period.
fn pair(outcome: &Outcome) -> Option<(&Cost, &Cost)> {
    let find = |payload: Payload, rate: Option<u64>| {
        outcome.cells.iter().find(|cost| {
            cost.cell.event == Event::Cycles
                && cost.cell.method == Method::Period
                && cost.cell.payload == payload
                && rate.is_none_or(|rate| cost.cell.rate == rate)
        })
    };
    let plain = find(Payload::None, None)?;
    Some((plain, find(Payload::Lbr, Some(plain.cell.rate))?))
}

/// Runs the model.
///
/// # Errors
/// Inputs that make no sense together.
pub fn run(base: &Inputs, outcome: &Outcome) -> Result<Model, Error> {
    let mut inputs = base.clone();
    if let Some(cycles) = outcome.cycles_per_second
        && inputs.events_per_us.origin == Inputs::stated().events_per_us.origin
    {
        let measured = Input::measured(cycles / 1e6, "cycles counted over the thread's time");
        inputs.handler_events_per_us = measured.clone();
        inputs.events_per_us = measured;
    }
    if let Some(plain) = accesses(outcome, Payload::None) {
        inputs.classic = Classic::measured(plain, accesses(outcome, Payload::Lbr));
    }
    let mut fitted = None;
    if let Some((plain, stack)) = pair(outcome)
        && let (Some(without), Some(with)) = (time(plain), time(stack))
    {
        inputs.counts_kernel = outcome.sees_kernel;
        if let Some(half) = entry_and_exit(plain) {
            inputs.entry_ns = half.clone();
            inputs.exit_ns = half;
        }
        fitted = fit(without, with, Stack::Info, &inputs);
        if let Some(fitted) = &fitted {
            inputs.rdmsr_ns = fitted.rdmsr_ns.clone();
            inputs.wrmsr_ns = fitted.wrmsr_ns.clone();
            inputs.body_ns = fitted.body_ns.clone();
        }
        if let Some(period) = plain.period {
            inputs.period = Input::measured(period as f64, "the period of the fitted cells");
        }
    }
    let mut outcomes = Vec::new();
    for stack in [Stack::None, Stack::FromTo, Stack::Info] {
        for handler in [Handler::Classic, Handler::Freezing] {
            outcomes.push(
                simulate(&inputs, handler, stack, INTERRUPTS).map_err(|reason| {
                    Error::new(ErrorKind::Usage, format!("the model: {reason}"))
                })?,
            );
        }
    }
    Ok(Model {
        label: "a model, not a measurement",
        inputs,
        fitted,
        outcomes,
        patch: patch_table(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_by_name() {
        let given = |text: &str| inputs(&[text.to_owned()]);
        let inputs = given("delivery_ns=500").unwrap();
        assert_eq!(inputs.delivery_ns.value.to_bits(), 500f64.to_bits());
        assert!(inputs.delivery_ns.origin.starts_with("stated"));
        for bad in [
            "delivery_ns",
            "x=1",
            "period=0",
            "wrmsr_ns=nan",
            "wrmsr_ns=-1",
            "=",
            "period=x",
        ] {
            assert_eq!(given(bad).unwrap_err().kind, ErrorKind::Usage, "{bad}");
        }
        let model = run(&inputs, &Outcome::default()).unwrap();
        assert_eq!(model.outcomes.len(), 6);
        assert!(model.fitted.is_none());
    }
}
