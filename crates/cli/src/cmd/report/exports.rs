//! The recording's stacks with their names, for flame graphs, pprof and the Firefox profiler.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use truecount_profile::export::{FlameGraph, Function, Line, Measure, Owner, Place, Stack, Stacks};
use truecount_sample::profile::{CodePlace, Context};

use super::view::{Named, View, base_name, short};
use crate::failure::Failure;
use truecount_model::number::grouped;

/// The flame graph of the first event: process, then callers to callees.
pub(super) fn flame_graph(view: &mut View) -> Vec<u8> {
    let mut stacks = stacks(view, |named| short(&named.function));
    let event = stacks.measures.first().map(|m| m.name.clone());
    let event = event.unwrap_or_default();
    let samples = stacks.stacks.iter().filter(|s| s.measure == 0);
    let samples = samples.fold(0u64, |sum, s| sum.saturating_add(s.count));
    if let Some(measure) = stacks.measures.first_mut() {
        "samples".clone_into(&mut measure.occurrences);
    }
    let title = format!(
        "{}: {event} ({} samples)",
        view.path.display(),
        grouped(samples)
    );
    let unit = if stacks.measures.first().is_some_and(|m| m.nanoseconds) {
        "ns"
    } else {
        &event
    };
    let mut svg = FlameGraph::of(&stacks, 0, Some("all"), unit).svg(&title);
    svg.truncate(svg.trim_end().len());
    svg.into_bytes()
}

/// The profile for pprof.
pub(super) fn pprof(view: &mut View) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    stacks(view, |named| named.function.clone()).write_pprof(&mut out)?;
    Ok(out)
}

/// The samples for the Firefox Profiler.
pub(super) fn firefox(view: &mut View) -> Result<Vec<u8>, Failure> {
    let stacks = stacks(view, |named| named.function.clone());
    if stacks.timeline.is_empty() {
        return Err(Failure::new(
            1,
            format!(
                "{}: the samples have no times, which the Firefox Profiler needs",
                view.path.display()
            ),
        )
        .hint("use --flamegraph or --pprof"));
    }
    let mut out = Vec::new();
    stacks.write_firefox(&mut out)?;
    Ok(out)
}

/// Functions and places by number, while they are found.
struct Names<F> {
    name: F,
    functions: HashMap<Function, usize>,
    places: HashMap<CodePlace, usize>,
    out: Stacks,
}

impl<F: Fn(&Named) -> String> Names<F> {
    fn function(&mut self, named: &Named) -> usize {
        let function = Function {
            name: (self.name)(named),
            module: named.dso.clone(),
            file: named.file.clone(),
        };
        let list = &mut self.out.functions;
        *self.functions.entry(function).or_insert_with_key(|f| {
            list.push(f.clone());
            list.len() - 1
        })
    }

    fn place(&mut self, view: &mut View, place: CodePlace) -> usize {
        if let Some(&known) = self.places.get(&place) {
            return known;
        }
        let named = view.named(place);
        let lines = named.iter().map(|each| Line {
            function: self.function(each),
            line: each.line,
            inlined: each.inlined,
        });
        let lines = lines.collect();
        self.out.places.push(Place {
            address: place.offset,
            kernel: place.kernel,
            lines,
        });
        let number = self.out.places.len() - 1;
        self.places.insert(place, number);
        number
    }
}

fn measure(name: String) -> Measure {
    Measure {
        occurrences: format!("{name} samples"),
        nanoseconds: name.starts_with("cpu-clock") || name.starts_with("task-clock"),
        name,
    }
}

/// All samples; `name` says how functions are called.
fn stacks(view: &mut View, name: impl Fn(&Named) -> String) -> Stacks {
    let events = view.sampled_events();
    let mut names = Names {
        name,
        functions: HashMap::new(),
        places: HashMap::new(),
        out: Stacks::default(),
    };
    let entries: Vec<_> = view.profile.entries.clone();
    let mut numbers: Vec<Option<usize>> = Vec::with_capacity(entries.len());
    for (context, weight) in entries {
        if !view.shows_sample(&context) {
            numbers.push(None);
            continue;
        }
        numbers.push(Some(names.out.stacks.len()));
        let places = context.frames.iter();
        let places = places.map(|place| names.place(view, *place)).collect();
        names.out.stacks.push(Stack {
            measure: events.binary_search(&context.event).unwrap_or(0),
            owner: Some(owner(view, &context)),
            places,
            count: weight.samples,
            cost: weight.events,
        });
    }
    let mut out = names.out;
    base_name(&view.path.display().to_string()).clone_into(&mut out.title);
    out.measures = events
        .iter()
        .map(|event| measure(view.event_name(*event)))
        .collect();
    let timeline = view.profile.timeline.iter();
    let number = |entry: u32| numbers.get(entry as usize).copied().flatten();
    out.timeline = timeline
        .filter_map(|(time, entry, _)| Some((*time, number(*entry)?)))
        .collect();
    let times = || out.timeline.iter().map(|sample| sample.0);
    out.duration = times().max().zip(times().min()).map(|(max, min)| max - min);
    // Times of samples are those of a clock that begins at boot: the file was written when the recording ended.
    let written = std::fs::metadata(&view.path).and_then(|m| m.modified());
    let written = written.ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    out.start = written
        .and_then(|t| u64::try_from(t.as_nanos()).ok())
        .zip(out.duration)
        .and_then(|(end, duration)| end.checked_sub(duration));
    out
}

fn owner(view: &View, context: &Context) -> Owner {
    let comm = view.profile.comms.get(context.comm as usize);
    Owner {
        process: comm.cloned().unwrap_or_default(),
        pid: context.pid,
        tid: context.tid,
    }
}
