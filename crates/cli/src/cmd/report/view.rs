//! A recording's samples with names, and their sums by any key.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use truecount_sample::profile::{self, CodePlace, Context, Profile, Weight};
use truecount_sample::symbols::{SearchPath, Symbols};
use truecount_sample::{Features, Recording};

use super::By;
use crate::cmd::blocks::unreadable;
use crate::failure::Failure;

/// A function at a place; several at one place are inlined into each other, innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Named {
    pub(super) function: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) dso: String,
    /// Not the function of the symbol table, but inlined into it.
    pub(super) inlined: bool,
}

pub(super) struct View {
    pub(super) path: PathBuf,
    pub(super) profile: Profile,
    pub(super) features: Features,
    pub(super) truncated: bool,
    pub(super) symbols: Symbols,
    kernel: Option<KernelSymbols>,
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
        let recording = Recording::open(path).map_err(|e| unreadable(path, &e))?;
        let mut symbols = Symbols::new(search.clone());
        let profile =
            profile::collect(&recording, &mut symbols).map_err(|e| unreadable(path, &e))?;
        let kernel = profile.kernel_text.and_then(KernelSymbols::of_this_machine);
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
        let plain = |function: String| {
            vec![Named {
                function,
                file: None,
                line: None,
                dso: dso.clone(),
                inlined: false,
            }]
        };
        if place.kernel {
            let address = match (place.file, self.profile.kernel_text) {
                (Some(_), Some(text)) if dso == "[kernel]" => text.wrapping_add(place.offset),
                _ => place.offset,
            };
            let name = self.kernel.as_ref().and_then(|k| k.find(address));
            return plain(name.map_or_else(|| format!("{dso}+{:#x}", place.offset), str::to_owned));
        }
        let Some(file) = file.cloned() else {
            return plain(format!("{:#x}", place.offset));
        };
        let found = self.symbols.locate(&file, place.offset);
        if found.frames.is_empty() {
            return plain(format!("{dso}+{:#x}", place.offset));
        }
        let last = found.frames.len() - 1;
        found
            .frames
            .into_iter()
            .enumerate()
            .map(|(i, f)| Named {
                function: f.function,
                file: f.file,
                line: f.line,
                dso: dso.clone(),
                inlined: i < last,
            })
            .collect()
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
            By::Line => self.chain(context).iter().map(line).collect(),
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
    let inlined = if n.inlined { " (inlined)" } else { "" };
    format!(
        "{}{inlined} [{}]",
        n.function,
        n.dso.trim_matches(['[', ']'])
    )
}

fn line(n: &Named) -> String {
    match (&n.file, n.line) {
        (Some(file), Some(line)) => format!("{}:{line} {}", base_name(file), n.function),
        _ => format!("(no source line) {}", n.function),
    }
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|p| !p.is_empty()).unwrap_or(path)
}

/// Names of the running kernel, for recordings of it.
pub(super) struct KernelSymbols(Vec<(u64, String)>);

impl KernelSymbols {
    /// Reads `/proc/kallsyms`, when its text is where the recording had it.
    fn of_this_machine(text: u64) -> Option<Self> {
        let all = std::fs::read_to_string("/proc/kallsyms").ok()?;
        let mut out = Vec::new();
        let mut same = false;
        for row in all.lines() {
            let mut words = row.split([' ', '\t']);
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok()?;
            same |= address == text && matches!(name, "_text" | "_stext");
            if matches!(kind, "t" | "T" | "w" | "W") {
                out.push((address, name.to_owned()));
            }
        }
        out.sort_unstable();
        (same && text != 0).then_some(Self(out))
    }

    fn find(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|s| s.0 <= address);
        self.0.get(after.checked_sub(1)?).map(|s| s.1.as_str())
    }
}

/// A C++ or Rust name without template arguments and parameter lists, for people: the full one is in the JSON.
pub(super) fn short(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut closing = Vec::new();
    for c in name.chars() {
        let after_word = out
            .chars()
            .next_back()
            .is_some_and(|l| l.is_alphanumeric() || l == '_')
            || out.ends_with("operator()");
        match c {
            _ if depth > 0 => {
                // Inside of what is left out; `->` closes nothing.
                if c == '<' || c == '(' {
                    closing.push(if c == '<' { '>' } else { ')' });
                    depth += 1;
                } else if closing.last() == Some(&c) {
                    closing.pop();
                    depth -= 1;
                }
            }
            '<' | '(' if after_word && !out.ends_with("operator") => {
                closing.push(if c == '<' { '>' } else { ')' });
                depth = 1;
            }
            '<' if out.ends_with("::") => {
                out.truncate(out.len() - 2);
                closing.push('>');
                depth = 1;
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn names_are_shortened_where_nothing_is_lost() {
        assert_eq!(
            short("void std::sort<int*, Less<int> >(int*, int*, Less<int>) [a.out]"),
            "void std::sort [a.out]"
        );
        assert_eq!(
            short("std::vector<int>::operator[](unsigned long)"),
            "std::vector::operator[](unsigned long)"
        );
        assert_eq!(
            short("<u8 as core::fmt::Debug>::fmt"),
            "<u8 as core::fmt::Debug>::fmt"
        );
        assert_eq!(
            short("core::mem::swap::<u8> (inlined) [x]"),
            "core::mem::swap (inlined) [x]"
        );
        assert_eq!(
            short("(anonymous namespace)::f(int) ← main"),
            "(anonymous namespace)::f ← main"
        );
        assert_eq!(short("f(unclosed"), "f");
    }
}
