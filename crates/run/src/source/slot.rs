//! What the counters of one event said: their sum, over all threads and CPUs or over some, and why there is none.

use truecount_model::{Measured, Precision, Reading, SourceKind};
use truecount_perf::{Count, Event as Counter, Target as Where, linux};

use super::Reason;

/// One metric and its descriptors, one for each thread or CPU.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) scale: f64,
    pub(super) source: SourceKind,
    pub(super) plus: Vec<Counter>,
    pub(super) minus: Vec<Counter>,
    pub(super) reason: Option<Reason>,
    /// The PMU of one kind of core that counts it, on a machine of several.
    pub(super) core_pmu: Option<String>,
    /// The PMU that says it does not have the event: a 0 of it is none.
    pub(super) unlisted: Option<String>,
}

/// The sum over descriptors; `None` when one cannot be read.
struct Sum {
    value: u64,
    enabled: u64,
    running: u64,
    scaled: bool,
}

/// A counter and what it said.
pub(super) type Read<'c> = (&'c Counter, Result<truecount_perf::Reading, Reason>);

/// What a slot's counters said: those that count, and those that are subtracted.
pub(super) type SlotRead<'c> = [Vec<Read<'c>>; 2];

pub(super) fn read_all(counters: &[Counter]) -> Vec<Read<'_>> {
    let read = |counter: &Counter| counter.read().map_err(|error| unreadable(&error));
    counters.iter().map(|each| (each, read(each))).collect()
}

/// Those on these CPUs, or all.
fn chosen<'c>(
    read: &'c [Read<'c>],
    cpus: Option<&'c [u32]>,
) -> impl Iterator<Item = &'c Result<truecount_perf::Reading, Reason>> {
    let on = move |counter: &Counter| match (cpus, counter.target()) {
        (Some(cpus), Where::Cpu(cpu) | Where::Cgroup { cpu, .. }) => cpus.contains(&cpu),
        _ => true,
    };
    let there = read.iter().filter(move |(counter, _)| on(counter));
    there.map(|(_, reading)| reading)
}

fn sum<'c>(
    counters: impl Iterator<Item = &'c Result<truecount_perf::Reading, Reason>>,
    of_cores: bool,
) -> Result<Sum, Reason> {
    let mut total = Sum {
        value: 0,
        enabled: 0,
        running: 0,
        scaled: false,
    };
    for reading in counters {
        let reading = reading.as_ref().map_err(Clone::clone)?;
        let times = reading.times.unwrap_or_default();
        total.enabled = total.enabled.saturating_add(times.enabled);
        total.running = total.running.saturating_add(times.running);
        let count = Count::new(reading.value, times);
        if of_cores {
            // Off its cores it is enabled and does not run: nothing is missing, nothing is to be scaled. Whether others
            // held its counters as well, the sum over the kinds of cores says (`core_types`).
            total.value = total.value.saturating_add(reading.value);
            continue;
        }
        if times.enabled > 0 && count == Count::None {
            return Err(never_ran());
        }
        total.scaled |= count.is_scaled();
        total.value = total.value.saturating_add(count.value().unwrap_or(0));
    }
    Ok(total)
}

fn has_run(reading: &Result<truecount_perf::Reading, Reason>) -> bool {
    let times = reading.as_ref().ok().and_then(|reading| reading.times);
    times.is_some_and(|times| times.running > 0)
}

fn never_ran() -> Reason {
    Reason::new("the event never got onto a counter: others hold them all").hint(format!(
        "ask for fewer events at once, or free one ({})",
        linux().facts().other_users()
    ))
}

/// An event that was opened and that its PMU does not have.
fn not_had(pmu: &str) -> Reason {
    Reason::new(format!(
        "{pmu} does not have this event (it is not in its events/ in sysfs, which is by PMCEID_EL0), and counted nothing"
    ))
    .hint("see what it has: truecount events")
}

impl Slot {
    /// Of all, or on these CPUs.
    pub(super) fn reading(&self, [plus, minus]: &SlotRead<'_>, on: Option<&[u32]>) -> Reading {
        let missing = |reason: &Reason| {
            let scale = self.scale;
            Reading {
                scale,
                ..reason.missing(&self.name, &self.unit)
            }
        };
        if let Some(reason) = &self.reason {
            return missing(reason);
        }
        if on.is_some() && chosen(plus, on).next().is_none() {
            return missing(&Reason::new("its PMU does not count it on these CPUs"));
        }
        if let Some(pmu) = &self.core_pmu
            && !chosen(plus, on).any(has_run)
        {
            return missing(&Reason::new(format!(
                "nothing ran on the cores of {pmu}, which alone count it"
            )));
        }
        // Where a thread never came to these cores the event did not run, and counted all there was.
        let of_cores = self.core_pmu.is_some();
        let (plus, minus) = match (
            sum(chosen(plus, on), of_cores),
            sum(chosen(minus, on), of_cores),
        ) {
            (Ok(plus), Ok(minus)) => (plus, minus),
            (Err(reason), _) | (_, Err(reason)) => return missing(&reason),
        };
        if plus.enabled == 0 {
            return missing(&Reason::new("nothing ran while it was watched"));
        }
        let Some(value) = plus.value.checked_sub(minus.value) else {
            return missing(
                &Reason::new(format!(
                    "more was subtracted ({}) than counted ({}): the two were not counted over the same time",
                    minus.value, plus.value
                ))
                .hint("use instructions:u"),
            );
        };
        if let (0, Some(pmu)) = (value, &self.unlisted) {
            return missing(&not_had(pmu));
        }
        Reading {
            scale: self.scale,
            enabled_ns: Some(plus.enabled),
            running_ns: Some(plus.running),
            ..Reading::new(
                &self.name,
                &self.unit,
                Measured::Value {
                    value,
                    source: self.source,
                    precision: match plus.scaled || minus.scaled {
                        true => Precision::Scaled,
                        false => Precision::Counted,
                    },
                },
            )
        }
    }
}

fn unreadable(error: &truecount_perf::Error) -> Reason {
    Reason::new(error.reason()).hint(error.hint())
}
