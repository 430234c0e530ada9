//! One label in detail: its arguments, who calls it, what it calls, and which thread it ran on.

use crate::event::Payload;
use crate::file::Profile;
use crate::labels::Labels;
use crate::strings::parse;
use crate::threads::Threads;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Time and count of one part of a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Arguments, the other label, or the thread.
    pub name: String,
    /// Time in the label (of callees: in the callee) with what is nested in it.
    pub time: u64,
    /// Of that, what is not nested further.
    pub self_time: i64,
    /// Intervals.
    pub count: u64,
}

/// One label in detail; each list is sorted by time, largest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drill {
    /// The label.
    pub label: String,
    /// Its intervals.
    pub count: u64,
    /// By arguments (joined by a comma).
    pub arguments: Vec<Part>,
    /// By the label that directly encloses it; the empty name is the top level.
    pub callers: Vec<Part>,
    /// By the label directly nested in it.
    pub callees: Vec<Part>,
    /// By thread.
    pub threads: Vec<Part>,
}

#[derive(Clone, Copy)]
struct Open {
    start: u64,
    end: u64,
    label: u32,
    parent: Option<u32>,
    id: u64,
    children: u64,
}

#[derive(Default, Clone, Copy)]
struct Sum {
    time: u64,
    nested: u64,
    count: u64,
}

impl Sum {
    fn add(&mut self, time: u64, nested: u64) {
        self.time = self.time.saturating_add(time);
        self.nested = self.nested.saturating_add(nested);
        self.count += 1;
    }
}

#[derive(Default)]
struct Sums {
    arguments: FxHashMap<u64, Sum>,
    callers: FxHashMap<Option<u32>, Sum>,
    callees: FxHashMap<u32, Sum>,
    threads: FxHashMap<u32, Sum>,
}

impl Sums {
    /// Books an interval whose children are all known; `wanted` are the labels asked for.
    fn close(&mut self, open: &Open, thread: u32, wanted: impl Fn(u32) -> bool) {
        let time = open.end - open.start;
        if wanted(open.label) {
            self.arguments
                .entry(open.id)
                .or_default()
                .add(time, open.children);
            self.callers
                .entry(open.parent)
                .or_default()
                .add(time, open.children);
            self.threads
                .entry(thread)
                .or_default()
                .add(time, open.children);
        }
        if open.parent.is_some_and(wanted) {
            self.callees
                .entry(open.label)
                .or_default()
                .add(time, open.children);
        }
    }
}

/// The details of `label`; `None` when no interval of the profile has it.
#[must_use]
pub fn drill(profile: &Profile, label: &str) -> Option<Drill> {
    let mut labels = Labels::new(profile);
    let mut threads = Threads::<Vec<Open>>::new();
    let mut sums = Sums::default();
    let mut target: Option<u32> = None;
    profile.events().each_back(|event| {
        let Payload::Interval { start, end } = event.payload else {
            return;
        };
        if start > end {
            return;
        }
        let number = labels.of(event.id);
        if target.is_none() && labels.text(number) == label {
            target = Some(number);
        }
        let stack = threads.get(event.thread);
        while let Some(top) = stack.last() {
            if top.start <= start && end <= top.end {
                break;
            }
            if let Some(open) = stack.pop() {
                sums.close(&open, event.thread, |n| Some(n) == target);
            }
        }
        let parent = stack.last_mut().map(|top| {
            top.children = top.children.saturating_add(end - start);
            top.label
        });
        stack.push(Open {
            start,
            end,
            label: number,
            parent,
            id: event.id,
            children: 0,
        });
    });
    for (thread, stack) in threads.into_sorted() {
        for open in stack.iter().rev() {
            sums.close(open, thread, |n| Some(n) == target);
        }
    }
    target?;
    let mut by_text: FxHashMap<String, Sum> = FxHashMap::default();
    let strings = profile.strings();
    for (id, sum) in &sums.arguments {
        let text = parse(&strings.get(*id)).arguments.join(", ");
        let entry = by_text.entry(text).or_default();
        entry.time = entry.time.saturating_add(sum.time);
        entry.nested = entry.nested.saturating_add(sum.nested);
        entry.count += sum.count;
    }
    let name = |number: &u32| labels.text(*number).to_owned();
    Some(Drill {
        label: label.to_owned(),
        count: sums.threads.values().map(|sum| sum.count).sum(),
        arguments: parts(by_text.iter().map(|(text, sum)| (text.clone(), sum))),
        callers: parts(
            sums.callers
                .iter()
                .map(|(n, sum)| (n.as_ref().map(name).unwrap_or_default(), sum)),
        ),
        callees: parts(sums.callees.iter().map(|(n, sum)| (name(n), sum))),
        threads: parts(
            sums.threads
                .iter()
                .map(|(thread, sum)| (thread.to_string(), sum)),
        ),
    })
}

fn parts<'s>(sums: impl Iterator<Item = (String, &'s Sum)>) -> Vec<Part> {
    let mut parts: Vec<Part> = sums
        .map(|(name, sum)| Part {
            name,
            time: sum.time,
            self_time: (sum.time as i64).saturating_sub(sum.nested as i64),
            count: sum.count,
        })
        .collect();
    parts.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    parts
}
