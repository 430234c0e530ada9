//! A recording's samples with names, and their sums by any key.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use truecount_sample::profile::{self, CodePlace, Context, Profile, Weight};
use truecount_sample::script;
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{SearchPath, Symbols};
use truecount_sample::{Features, Recording};

use super::select::Selection;
use crate::failure::Failure;
use crate::recording::{Given, given, unreadable};
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
    /// Which samples and rows were asked for.
    pub(super) selection: Selection,
    /// What was selected, in words, when something was left out.
    pub(super) selected: Option<String>,
    /// The text of `perf script`: places are addresses, all their names are known.
    pub(super) from_text: bool,
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

impl View {
    pub(super) fn load(
        path: &Path,
        search: &SearchPath,
        selection: Selection,
    ) -> Result<Self, Failure> {
        let view = match given(path, |head| script::parse(head).is_some())? {
            Given::Recording(recording) => Self::of(path, &recording, search, selection)?,
            Given::Text(text) => Self::of_text(path, &text, search, selection)?,
        };
        if view.profile.entries.is_empty() {
            return Err(
                Failure::new(1, format!("{}: no sample has an address", path.display()))
                    .hint("record for longer, or with a shorter period (-c)"),
            );
        }
        Ok(view)
    }

    /// The text of `perf script`, whose names are perf's.
    fn of_text(
        path: &Path,
        text: &str,
        search: &SearchPath,
        selection: Selection,
    ) -> Result<Self, Failure> {
        if search.binary.is_some() || search.symfs.is_some() {
            return Err(Failure::new(
                1,
                format!(
                    "{}: --binary and --symfs say nothing about a text, whose names are perf's",
                    path.display()
                ),
            )
            .hint("give the perf.data file itself"));
        }
        let Some(script) = script::parse(text) else {
            return Err(Failure::new(
                1,
                format!(
                    "{}: neither a perf.data file nor text with samples",
                    path.display()
                ),
            )
            .hint("give a perf.data file, or the output of `perf script`"));
        };
        let mut names = HashMap::new();
        for (place, known) in script.names {
            let file = place
                .file
                .and_then(|f| script.profile.files.get(f as usize));
            let dso = dso(file, place.kernel);
            let found: Vec<Named> = known
                .into_iter()
                .map(|name| Named {
                    inlined: name.inlined,
                    ..Named::plain(
                        if name.function == "[unknown]" {
                            format!("{dso}+{:#x}", place.offset)
                        } else {
                            name.function
                        },
                        &dso,
                    )
                })
                .collect();
            names.insert(place, Rc::from(kept(found, &selection)));
        }
        Ok(Self {
            path: path.to_owned(),
            profile: script.profile,
            features: Features::default(),
            truncated: false,
            symbols: Symbols::new(SearchPath::default()),
            selection,
            selected: None,
            from_text: true,
            kernel: None,
            names,
        })
    }

    fn of(
        path: &Path,
        recording: &Recording,
        search: &SearchPath,
        selection: Selection,
    ) -> Result<Self, Failure> {
        let mut symbols = Symbols::new(search.clone());
        let share = || recording.passes() / Recording::PASSES;
        let profile = watched(&format!("reading {}", path.display()), share, || {
            profile::collect(recording, &mut symbols)
        })
        .map_err(|e| unreadable(path, &e))?;
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
            selection,
            selected: None,
            from_text: false,
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
        let found: Rc<[Named]> = kept(found, &self.selection).into();
        self.names.insert(place, Rc::clone(&found));
        found
    }

    fn find(&mut self, place: CodePlace) -> Vec<Named> {
        let file = place.file.and_then(|i| self.profile.files.get(i as usize));
        let dso = dso(file, place.kernel);
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

    /// Whether the function in which a sample fell was asked for.
    pub(super) fn shows_sample(&mut self, context: &Context) -> bool {
        if self.selection.shows_all() {
            return true;
        }
        let Some(place) = context.frames.first() else {
            return false;
        };
        let named = self.named(*place);
        named
            .first()
            .is_some_and(|named| self.selection.shows(named))
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
            sum.add(*weight);
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

    /// Whether callers were recorded: call chains, or stacks, which may all end in the function that was sampled.
    pub(super) fn has_chains(&self) -> bool {
        self.profile.with_chain > 0 || !self.profile.chain_ends.is_empty()
    }
}

/// The file's short name.
fn dso(file: Option<&MappedFile>, kernel: bool) -> String {
    match file {
        Some(file) if kernel && file.path.starts_with('[') => "[kernel]".to_owned(),
        Some(file) => base_name(&file.path).to_owned(),
        None if kernel => "[kernel]".to_owned(),
        None => "[unknown]".to_owned(),
    }
}

/// The functions of a place that are shown: with `--no-inline` that of the symbol table.
fn kept(mut found: Vec<Named>, selection: &Selection) -> Vec<Named> {
    if selection.no_inline {
        found.drain(..found.len().saturating_sub(1));
    }
    found
}

/// `function  [dso]`.
pub(super) fn symbol(n: &Named) -> String {
    format!("{} [{}]", n.title(), n.dso.trim_matches(['[', ']']))
}
