//! Where there is no PMU: truecount measures itself under the virtual PMU.
//!
//! A child of truecount opens its counters there as it would on hardware. Where the engine does not give counters to
//! the program itself, whole runs are compared instead: one that runs a loop minus one that runs a loop of nothing, both
//! the same but for that.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::PathBuf;
use std::time::Instant;

use truecount_model::{Reason, SourceKind};
use truecount_run::result::RunResult;
use truecount_run::runner::{Launch, Stop};
use truecount_run::session::{dev_null, memory_file};
use truecount_run::source::{virtual_available, virtual_pmu};
use truecount_run::{Error, ErrorKind};

use super::{
    BARS, Missing, OnCounter, Outcome, Plan, Quantity, Sample, Tally, Target, of_counter, on_loop,
    run,
};
use crate::loops::{self, Arena, Loop, Needs};

/// Pages of the loop of page faults.
const PAGES: usize = 128;

fn set_up(error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Setup,
        format!("cannot start the measuring child: {error}"),
    )
}

/// A child that is measured.
#[derive(Debug, Clone, Copy)]
pub enum Child<'a> {
    /// Measures the plan from within, and prints its [`Outcome`] as JSON.
    Plan(&'a Plan),
    /// Runs what [`one_loop`] takes.
    Loop(&'a str),
}

/// How children are started: the words of the command line, of which the first is a name only.
pub type Words<'a> = dyn Fn(Child<'_>) -> Vec<OsString> + 'a;

/// Truecount under the virtual PMU.
struct Inside<'a> {
    program: PathBuf,
    words: &'a Words<'a>,
    stop: &'a Stop<'a>,
}

/// Runs truecount itself; gives its standard output and what the engine counted.
fn child(inside: &Inside<'_>, child: Child<'_>) -> Result<(String, RunResult), Error> {
    let argv = (inside.words)(child);
    let null = dev_null()?;
    let out = memory_file()?;
    let launch = Launch {
        argv: &argv,
        stdio: [Some(&null), Some(&out), Some(&null)],
        ..Launch::default()
    };
    let ran = virtual_pmu::execute(inside.stop.signals, &inside.program, &launch, false)?;
    inside.stop.told(ran.interrupted);
    let mut text = String::new();
    let mut file = File::from(out);
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .map_err(|error| set_up(&error))?;
    Ok((text, ran))
}

/// Measures the plan where there is no PMU: the kernel's events natively, the CPU's under the virtual PMU.
///
/// # Errors
/// A child cannot be started, or the engine's own.
pub fn without_hardware(
    plan: &Plan,
    reason: &Reason,
    words: &Words<'_>,
    stop: &Stop<'_>,
    notes: &mut Vec<String>,
) -> Result<Outcome, Error> {
    let software = |target: &Target| target.truth == Quantity::PageFaults;
    let part = |take_software: bool, share: u32| Plan {
        targets: plan
            .targets
            .iter()
            .filter(|target| software(target) == take_software)
            .cloned()
            .collect(),
        time: plan.time / 5 * share,
        ..plan.clone()
    };
    let (kernel, cpu) = (part(true, 1), part(false, 4));
    let mut outcome = run(&kernel, &mut || stop.requested())?;
    if cpu.targets.is_empty() {
        return Ok(outcome);
    }
    // The signal is taken: the measuring child would never hear of it.
    if stop.requested() {
        outcome.partial = true;
        let missing = cpu.targets.iter().map(|target| Missing {
            name: target.event.clone(),
            reason: "interrupted before it was measured".to_owned(),
            hint: None,
        });
        outcome.unavailable.extend(missing);
        return Ok(outcome);
    }
    if let Err(why) = virtual_available() {
        let missing = cpu.targets.iter().map(|target| Missing {
            name: target.event.clone(),
            reason: format!("{}; {}", reason.cause, why.cause),
            hint: reason.hint.clone(),
        });
        outcome.unavailable.extend(missing);
        return Ok(outcome);
    }
    notes.push(format!(
        "no hardware counters: {reason}. Measured was the virtual PMU, which no interrupt reaches."
    ));
    let inside = Inside {
        program: std::env::current_exe().map_err(|error| set_up(&error))?,
        words,
        stop,
    };
    let counted = measure(&cpu, &inside, notes)?;
    outcome.partial |= counted.partial;
    outcome.seconds += counted.seconds;
    outcome.rounds = counted.rounds;
    outcome.counters.splice(0..0, counted.counters);
    outcome.unavailable.extend(counted.unavailable);
    for missing in counted.missing_loops {
        if !outcome.missing_loops.contains(&missing) {
            outcome.missing_loops.push(missing);
        }
    }
    Ok(outcome)
}

/// Measures the plan under the virtual PMU.
fn measure(plan: &Plan, inside: &Inside<'_>, notes: &mut Vec<String>) -> Result<Outcome, Error> {
    let (text, _) = child(inside, Child::Plan(plan))?;
    // A program that does not end by itself or prints nothing has no counters in it.
    let found: Option<Outcome> = serde_json::from_str(&text).ok();
    if let Some(outcome) = found
        && outcome
            .counters
            .iter()
            .any(|counter| counter.source == SourceKind::Virtual)
    {
        return Ok(outcome);
    }
    notes.push(
        "Whole runs under the virtual PMU were compared (a loop minus a loop of nothing): the measuring child got \
         no counters inside it."
            .to_owned(),
    );
    whole_runs(plan, inside)
}

/// Whether whole runs can stand for this event.
fn counted_whole(event: &str) -> bool {
    event == "instructions:u"
}

fn whole_runs(plan: &Plan, inside: &Inside<'_>) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let mut outcome = Outcome::default();
    let (mut counted, mut events) = (Vec::new(), Vec::new());
    for target in &plan.targets {
        if counted_whole(&target.event) {
            events.push(target.event.clone());
        } else {
            outcome.unavailable.push(Missing {
                name: target.event.clone(),
                reason: "whole runs under the virtual PMU give instructions:u only".to_owned(),
                hint: None,
            });
        }
    }
    if events.is_empty() {
        return Ok(outcome);
    }
    for (index, each) in loops::all().enumerate() {
        let reason = (each.unavailable)().map(str::to_owned).or_else(|| {
            (each.needs == Needs::Contender)
                .then(|| "a whole run counts the other thread, too".to_owned())
        });
        match reason {
            None => counted.push((index, each, Tally::default())),
            Some(reason) => outcome.missing_loops.push(Missing {
                name: each.name.to_owned(),
                reason,
                hint: None,
            }),
        }
    }
    'rounds: loop {
        for (index, each, tally) in &mut counted {
            if inside.stop.requested() {
                outcome.partial = outcome.rounds == 0;
                break 'rounds;
            }
            if outcome.rounds > 0 && begun.elapsed() >= plan.time {
                break 'rounds;
            }
            let start = Instant::now();
            let real = one_run(inside, *index, each, true)?;
            let empty = one_run(inside, *index, each, false)?;
            let (Some(real), Some(empty)) = (real, empty) else {
                // Interrupted: the next question says so.
                continue;
            };
            tally.add(Sample {
                deviation: deviation(real, empty, each),
                interrupts: None,
                ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            });
        }
        outcome.rounds += 1;
    }
    let loops: Vec<_> = counted
        .iter()
        .filter_map(|(_, each, tally)| {
            let truth = each.instructions.of(each.times)?;
            Some(on_loop(
                each,
                each.times,
                truth,
                tally.summed(BARS, None)?,
                None,
            ))
        })
        .collect();
    for event in events {
        outcome.counters.push(OnCounter {
            event,
            truth: Quantity::Instructions,
            source: SourceKind::Virtual,
            method: "whole runs".to_owned(),
            verdict: of_counter(&loops, None),
            loops: loops.clone(),
        });
    }
    outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(outcome)
}

/// The loop's instructions by two runs, minus the truth: both runs hold one return.
fn deviation(real: u64, empty: u64, each: &Loop) -> i64 {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let truth = each.instructions.of(each.times).unwrap_or(u64::MAX);
    signed(real)
        .saturating_sub(signed(empty))
        .saturating_sub(signed(truth).saturating_sub(1))
}

/// Instructions of a run; `None` where the user stopped it.
fn one_run(
    inside: &Inside<'_>,
    index: usize,
    each: &Loop,
    real: bool,
) -> Result<Option<u64>, Error> {
    // Always as many digits: the same instructions read them.
    let spec = format!("{index:03},{:09},{}", each.times, u8::from(real));
    let (_, ran) = child(inside, Child::Loop(&spec))?;
    if ran.interrupted.is_some() {
        return Ok(None);
    }
    if !ran.exit().success() {
        return Err(Error::new(
            ErrorKind::Setup,
            format!("the measured child ended with {}", ran.exit()),
        ));
    }
    Ok(Some(ran.instructions()))
}

/// The child of a whole run: everything the same whether the loop is real or one of nothing.
///
/// # Errors
/// It is not the position of a loop that can run here, its turns, and 1 or 0.
pub fn one_loop(spec: &str) -> Result<(), Error> {
    let wrong = || Error::new(ErrorKind::Usage, "--one-loop takes INDEX,TIMES,REAL");
    let mut words = spec.split(',').map(str::parse::<u64>);
    let (Some(Ok(index)), Some(Ok(times)), Some(Ok(real)), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(wrong());
    };
    let index = usize::try_from(index).map_err(|_| wrong())?;
    let each = loops::all().nth(index).ok_or_else(wrong)?;
    let empty = loops::empty().ok_or_else(wrong)?;
    let fits = each.needs != Needs::FreshPages || times <= PAGES as u64;
    if (each.unavailable)().is_some() || !fits || times == 0 || each.needs == Needs::Contender {
        return Err(wrong());
    }
    let memory =
        |error: std::io::Error| Error::new(ErrorKind::Setup, format!("no memory: {error}"));
    let mut arena = Arena::new(PAGES).map_err(memory)?;
    arena.prepare(each).map_err(memory)?;
    let bodies = [empty.body, each.body];
    let Some(body) = bodies.get(usize::from(real != 0)) else {
        return Err(wrong());
    };
    // SAFETY: the arena was prepared for this loop, and has a page for each turn that takes one.
    unsafe { std::hint::black_box(*body)(times, arena.memory(), arena.stride()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_child_takes_what_its_parent_gives() {
        for (index, each) in loops::all().enumerate() {
            if each.needs == Needs::Contender || (each.unavailable)().is_some() {
                continue;
            }
            for real in [0, 1] {
                let spec = format!("{index:03},{:09},{real}", each.times);
                assert!(one_loop(&spec).is_ok(), "{spec}");
            }
            assert_eq!(
                deviation(1000 + each.instructions.of(each.times).unwrap(), 1001, each),
                0
            );
        }
        for bad in [
            "", "1", "0,1", "999,1,1", "0,0,1", "0,1,1,1", "x,1,1", "-1,1,1",
        ] {
            assert_eq!(one_loop(bad).unwrap_err().kind, ErrorKind::Usage, "{bad}");
        }
    }
}
