//! What is inside a row: its code with the samples of each instruction, its callers, its functions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use truecount_sample::spaces::MappedFile;

use super::naming::Namer;
use super::sampled::{Part, Summed};
use super::types::{DetailLine, DetailRequest, Key, Place, Tab, Weight};
use crate::listing::{CodeLine, Function, listing};
use crate::names::short;

/// The code that was decoded for the row that is open: it does not change.
#[derive(Default)]
pub struct CodeCache(Option<(CodeId, Result<Vec<CodeLine>, String>)>);

/// File, start and last sample of a function.
type CodeId = (Arc<MappedFile>, u64, u64);

/// The lines of a row's detail.
pub fn lines(
    sampled: &Summed,
    namer: &mut Namer,
    cache: &mut CodeCache,
    wanted: &DetailRequest,
) -> Vec<DetailLine> {
    let (tab, event, span) = (wanted.tab, wanted.event, wanted.span);
    let parts = sampled.parts_of(&wanted.key);
    let weighed = parts.map(|(part, sums)| (part, sums.get(event, span)));
    let weighed: Vec<(&Part, Weight)> = weighed.filter(|(_, w)| w.samples > 0).collect();
    match tab {
        Tab::Code => {
            let places = weighed.iter().filter_map(|(part, w)| match part {
                Part::Place(place) => Some((place, *w)),
                _ => None,
            });
            code(namer, cache, &places.collect::<Vec<_>>())
        }
        Tab::Callers | Tab::Functions => {
            let keys = weighed.iter().filter_map(|(part, w)| match part {
                Part::Caller(key) if tab == Tab::Callers => Some((key, *w)),
                Part::Function(key) if tab == Tab::Functions => Some((key, *w)),
                _ => None,
            });
            let mut keys: Vec<(&Key, Weight)> = keys.collect();
            keys.sort_by(|a, b| b.1.events.cmp(&a.1.events).then_with(|| a.0.cmp(b.0)));
            let all: u64 = keys.iter().map(|(_, w)| w.events).sum();
            let line = |(key, w): &(&Key, Weight)| DetailLine {
                share: Some(share(w.events, all)),
                samples: w.samples,
                text: titled(key),
                dim: false,
            };
            let mut out: Vec<DetailLine> = keys.iter().map(line).collect();
            if tab == Tab::Callers {
                out.push(remark(
                    "Callers are found by frame pointers: where code is built without them",
                ));
                out.push(remark(
                    "(as leaf functions often are), they are missing or one too far.",
                ));
            }
            if keys.is_empty() {
                out.insert(0, nothing());
            }
            out
        }
    }
}

fn titled(key: &Key) -> String {
    if key.of.is_empty() {
        short(&key.name)
    } else {
        format!(
            "{}  [{}]",
            short(&key.name),
            key.of.trim_matches(['[', ']'])
        )
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn remark(text: &str) -> DetailLine {
    DetailLine {
        text: text.to_owned(),
        dim: true,
        ..DetailLine::default()
    }
}

fn nothing() -> DetailLine {
    remark("No sample of this event in this time.")
}

/// The instructions of the function with most samples, or the addresses where there is no code.
fn code(namer: &mut Namer, cache: &mut CodeCache, places: &[(&Place, Weight)]) -> Vec<DetailLine> {
    let all: u64 = places.iter().map(|(_, w)| w.events).sum();
    let Some((hottest, _)) = places.iter().max_by_key(|(_, w)| w.events) else {
        return vec![nothing()];
    };
    let found = match (hottest, namer.function_start(hottest)) {
        (Place::File(file, _), Some((start, name))) => Ok((Arc::clone(file), start, name)),
        (Place::Kernel(_), _) => {
            Err("The kernel's code is in no file that can be read.".to_owned())
        }
        _ => Err("There is no symbol here, so the function's bounds are not known.".to_owned()),
    };
    let listed = found.and_then(|(file, start, name)| {
        let here = |(place, w): &(&Place, Weight)| match place {
            Place::File(f, offset) if *f == file && *offset >= start => Some((*offset, *w)),
            _ => None,
        };
        let samples: BTreeMap<u64, Weight> = places.iter().filter_map(here).collect();
        let last = samples.keys().next_back().copied().unwrap_or(start);
        let code = Function {
            file: &file,
            name: &name,
            start,
            last,
        };
        Ok((cache.listing(namer, &file, code)?, samples))
    });
    match listed {
        Ok((listed, _)) if listed.is_empty() => {
            vec![remark("There is nothing here that can be decoded.")]
        }
        Ok((listed, samples)) => annotated(&listed, &samples, all),
        Err(why) => {
            let mut out = vec![remark(&why)];
            let mut by_address: HashMap<String, Weight> = HashMap::new();
            for (place, weight) in places {
                by_address
                    .entry(namer.address(place))
                    .or_default()
                    .add(*weight);
            }
            let mut by_address: Vec<_> = by_address.into_iter().collect();
            by_address.sort_by(|a, b| b.1.events.cmp(&a.1.events).then_with(|| a.0.cmp(&b.0)));
            out.extend(by_address.into_iter().map(|(text, w)| DetailLine {
                share: Some(share(w.events, all)),
                samples: w.samples,
                text,
                dim: false,
            }));
            out
        }
    }
}

impl CodeCache {
    fn listing(
        &mut self,
        namer: &mut Namer,
        file: &Arc<MappedFile>,
        code: Function<'_>,
    ) -> Result<Vec<CodeLine>, String> {
        // A sample further on may lie beyond the end that was assumed.
        let known = self.0.as_ref().filter(|((f, start, last), _)| {
            f == file && *start == code.start && *last >= code.last
        });
        match known {
            Some((_, listed)) => listed.clone(),
            None => {
                let listed = listing(namer.symbols(), code);
                let id = (Arc::clone(file), code.start, code.last);
                self.0.insert((id, listed)).1.clone()
            }
        }
    }
}

fn annotated(listed: &[CodeLine], samples: &BTreeMap<u64, Weight>, all: u64) -> Vec<DetailLine> {
    let line = |line: &CodeLine| match line {
        CodeLine::Source { place, text } => remark(&format!("{place}  {}", text.trim_start())),
        CodeLine::Instruction { address, text } => {
            let weight = samples.get(address).copied().unwrap_or_default();
            DetailLine {
                share: (weight.samples > 0).then(|| share(weight.events, all)),
                samples: weight.samples,
                text: format!("{address:#8x}  {text}"),
                dim: false,
            }
        }
    };
    listed.iter().map(line).collect()
}
