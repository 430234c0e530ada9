//! A recording's samples with names, and their sums by any key.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use truecount_sample::profile::{self, CodePlace, Context, Profile, Weight};
use truecount_sample::symbols::{SearchPath, Symbols};
use truecount_sample::{Features, Recording};

use super::By;
use crate::failure::Failure;
use crate::recording::{Wanted, unreadable};
use crate::render::waiting::watched;
use truecount_record::kallsyms::Kallsyms;
use truecount_record::names;
pub(super) use truecount_record::names::{Named, base_name, short};

pub(super) struct View {
    pub(super) path: PathBuf,
    pub(super) profile: Profile,
    pub(super) features: Features,
    pub(super) truncated: bool,
    pub(super) symbols: Symbols,
    kernel: Option<Kallsyms>,
    names: HashMap<CodePlace, Rc<[Named]>>,
}

/// A sum with and without what was called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Samples in it.
    pub(super) own: Weight,
    /// Samples in it or in what it called.
    pub(super) total: Weight,
}

fn add(sum: &mut Weight, more: Weight) {
    sum.samples = sum.samples.saturating_add(more.samples);
    sum.events = sum.events.saturating_add(more.events);
}

impl View {
    pub(super) fn load(path: &Path, search: &SearchPath) -> Result<Self, Failure> {
        let recording = Recording::open(path).map_err(|e| unreadable(path, &e, Wanted::Samples))?;
        let mut symbols = Symbols::new(search.clone());
        let share = || recording.passes() / Recording::PASSES;
        let profile = watched(&format!("reading {}", path.display()), share, || {
            profile::collect(&recording, &mut symbols)
        })
        .map_err(|e| unreadable(path, &e, Wanted::Samples))?;
        let kernel = profile.kernel_text.and_then(|text| {
            // Only when its text is where the recording had it.
            let kernel = Kallsyms::of_this_machine().ok()?;
            (kernel.start() == Some(text)).then_some(kernel)
        });
        Ok(Self {
            path: path.to_owned(),
            profile,
            features: recording.features().clone(),
            truncated: recording.is_truncated(),
            symbols,
            kernel,
            names: HashMap::new(),
        })
    }

    /// Looks up the names of all places, which takes long the first time.
    pub(super) fn name_all(&mut self) {
        let mut places: Vec<CodePlace> = Vec::new();
        for (context, _) in &self.profile.entries {
            places.extend(context.frames.iter());
        }
        places.sort_unstable();
        places.dedup();
        let (all, done) = (places.len().max(1) as f64, AtomicU64::new(0));
        let share = || done.load(Ordering::Relaxed) as f64 / all;
        watched("finding the functions", share, || {
            for place in places {
                self.named(place);
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// The functions at a place, innermost first; never empty.
    pub(super) fn named(&mut self, place: CodePlace) -> Rc<[Named]> {
        if let Some(known) = self.names.get(&place) {
            return Rc::clone(known);
        }
        let found = self.find(place);
        let found: Rc<[Named]> = found.into();
        self.names.insert(place, Rc::clone(&found));
        found
    }

    fn find(&mut self, place: CodePlace) -> Vec<Named> {
        let file = place.file.and_then(|i| self.profile.files.get(i as usize));
        let dso = match file {
            Some(file) if place.kernel && file.path.starts_with('[') => "[kernel]".to_owned(),
            Some(file) => base_name(&file.path).to_owned(),
            None if place.kernel => "[kernel]".to_owned(),
            None => "[unknown]".to_owned(),
        };
        let plain = |function: String| vec![Named::plain(function, &dso)];
        if place.kernel {
            let address = match (place.file, self.profile.kernel_text) {
                (Some(_), Some(text)) if dso == "[kernel]" => text.wrapping_add(place.offset),
                _ => place.offset,
            };
            let kernel = self.kernel.as_ref();
            let named = kernel.and_then(|k| names::in_kernel(k, address));
            return named.map_or_else(
                || plain(format!("{dso}+{:#x}", place.offset)),
                |n| plain(n.function),
            );
        }
        let Some(file) = file.cloned() else {
            return plain(format!("{:#x}", place.offset));
        };
        let found = names::in_file(&mut self.symbols, &file, place.offset);
        if found.is_empty() {
            return plain(format!("{dso}+{:#x}", place.offset));
        }
        found
    }

    /// The names of a whole chain, innermost first.
    pub(super) fn chain(&mut self, context: &Context) -> Vec<Named> {
        let mut out = Vec::new();
        for place in &context.frames {
            out.extend(self.named(*place).iter().cloned());
        }
        out
    }

    /// All samples of an event.
    pub(super) fn total(&self, event: u32) -> Weight {
        let mut sum = Weight::default();
        for (_, weight) in self
            .profile
            .entries
            .iter()
            .filter(|(c, _)| c.event == event)
        {
            add(&mut sum, *weight);
        }
        sum
    }

    /// Events that have samples.
    pub(super) fn sampled_events(&self) -> Vec<u32> {
        let mut out: Vec<u32> = self.profile.entries.iter().map(|(c, _)| c.event).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    pub(super) fn event_name(&self, event: u32) -> String {
        self.profile
            .events
            .get(event as usize)
            .cloned()
            .unwrap_or_else(|| format!("event {event}"))
    }

    /// Sums of one event by key, largest own first.
    pub(super) fn sums(&mut self, event: u32, by: By) -> Vec<(String, Sum)> {
        if !matches!(by, By::Process | By::Thread | By::Cpu) {
            self.name_all();
        }
        let entries: Vec<(Context, Weight)> = self
            .profile
            .entries
            .iter()
            .filter(|(c, _)| c.event == event)
            .cloned()
            .collect();
        let mut sums: HashMap<String, Sum> = HashMap::new();
        for (context, weight) in entries {
            let keys = self.keys(&context, by);
            if let Some(own) = keys.first() {
                add(&mut sums.entry(own.clone()).or_default().own, weight);
            }
            // A function that calls itself counts once.
            let mut seen: Vec<&String> = Vec::new();
            for key in &keys {
                if !seen.contains(&key) {
                    seen.push(key);
                    add(&mut sums.entry(key.clone()).or_default().total, weight);
                }
            }
        }
        let mut out: Vec<_> = sums.into_iter().collect();
        out.sort_by(|a, b| {
            (b.1.own.events, b.1.total.events)
                .cmp(&(a.1.own.events, a.1.total.events))
                .then_with(|| a.0.cmp(&b.0))
        });
        out
    }

    /// The keys of a sample: the first is where it fell, the others are on its call chain.
    fn keys(&mut self, context: &Context, by: By) -> Vec<String> {
        let comm = self
            .profile
            .comms
            .get(context.comm as usize)
            .cloned()
            .unwrap_or_default();
        match by {
            By::Process => vec![format!("{comm} ({})", context.pid)],
            By::Thread => vec![format!("{comm} ({}/{})", context.pid, context.tid)],
            By::Cpu => vec![
                context
                    .cpu
                    .map_or_else(|| "not recorded".to_owned(), |c| format!("CPU {c}")),
            ],
            By::Address => context
                .frames
                .iter()
                .map(|p| {
                    let dso = self
                        .named(*p)
                        .first()
                        .map_or_else(String::new, |n| n.dso.clone());
                    format!("{dso}+{:#x}", p.offset)
                })
                .collect(),
            By::Symbol => self
                .chain(context)
                .into_iter()
                .map(|n| symbol(&n))
                .collect(),
            By::Dso => self.chain(context).into_iter().map(|n| n.dso).collect(),
            By::Line => self.chain(context).iter().map(Named::source_line).collect(),
            By::Caller => {
                let chain = self.chain(context);
                let pairs = chain.windows(2).filter_map(|w| {
                    let [callee, caller] = w else { return None };
                    Some(format!("{} ← {}", callee.function, caller.function))
                });
                let mut out: Vec<String> = pairs.collect();
                if out.is_empty() {
                    out.extend(
                        chain
                            .first()
                            .map(|n| format!("{} ← (caller not recorded)", n.function)),
                    );
                }
                out
            }
            By::Chain => {
                let names: Vec<String> = self
                    .chain(context)
                    .into_iter()
                    .map(|n| n.function)
                    .collect();
                vec![names.join(" ← ")]
            }
        }
    }

    /// What the sums rest on, in words.
    pub(super) fn has_chains(&self) -> bool {
        self.profile.with_chain > 0
    }
}

/// `function  [dso]`.
fn symbol(n: &Named) -> String {
    format!("{} [{}]", n.title(), n.dso.trim_matches(['[', ']']))
}
