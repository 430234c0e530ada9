//! The sequence of sample points of each thread: starts, ends and instants, last first.
//!
//! A point is described by what it is, which event it belongs to and which event encloses it, packed
//! into one `u64` with numbers that all profiles of a comparison share. Equal sequences are then
//! equal slices. Facts: measureme's `summarize aggregate` (sample points and their order).

use crate::error::ProfileError;
use crate::event::{Event, Payload};
use crate::file::Profile;
use crate::huge;
use crate::strings::StringTable;
use crate::threads::Threads;
use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// What a sample point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PointKind {
    Start,
    End,
    Instant,
}

/// The description of a sample point: kind (2 bits), event (31 bits), enclosing event (31 bits).
pub(crate) type Code = u64;

const TEXT_BITS: u32 = 31;
/// Most different descriptions of events: file sizes beyond 16 GiB.
const MAX_TEXTS: usize = (1 << TEXT_BITS) - 2;
/// No event encloses the point.
pub(crate) const NO_PARENT: u32 = (1 << TEXT_BITS) - 1;

fn code(kind: PointKind, event: u32, parent: u32) -> Code {
    (kind as u64) << (2 * TEXT_BITS) | u64::from(event) << TEXT_BITS | u64::from(parent)
}

/// What a code says: kind, event, enclosing event.
pub(crate) fn decode(code: Code) -> (PointKind, u32, u32) {
    let kind = match code >> (2 * TEXT_BITS) {
        0 => PointKind::Start,
        1 => PointKind::End,
        _ => PointKind::Instant,
    };
    let mask = u64::from(NO_PARENT);
    // Masked to 31 bits.
    (
        kind,
        ((code >> TEXT_BITS) & mask) as u32,
        (code & mask) as u32,
    )
}

/// Descriptions of events (kind, label, arguments) that several profiles share.
#[derive(Debug, Default)]
pub(crate) struct Descriptions {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    numbers: FxHashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
}

impl Descriptions {
    /// The number of `kind` and event text, `None` when there are too many.
    fn number(&self, key: &str) -> Option<u32> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = inner.numbers.get(key) {
            return Some(number);
        }
        let number = u32::try_from(inner.texts.len())
            .ok()
            .filter(|&n| (n as usize) < MAX_TEXTS)?;
        inner.numbers.insert(key.into(), number);
        inner.texts.push(key.into());
        Some(number)
    }

    /// `label(argument, …)`, with the kind in front where it is neither a query nor an activity.
    pub(crate) fn text(&self, number: u32) -> String {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(key) = inner.texts.get(number as usize) else {
            return "<unknown>()".to_owned();
        };
        let (kind, text) = key.split_once('\u{1f}').unwrap_or(("", key));
        let event = crate::strings::parse(text);
        let prefix = match kind {
            "Query" | "GenericActivity" => String::new(),
            kind => format!("{kind} "),
        };
        format!("{prefix}{}({})", event.label, event.arguments.join(", "))
    }
}

/// What takes the sample points of one thread, last first.
pub(crate) trait Sink {
    /// One point: what it is and where the counter stood.
    fn point(&mut self, code: Code, at: u64);
}

/// The sample points of one thread, last first.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) codes: Vec<Code>,
    pub(crate) times: Vec<u64>,
}

impl Sink for Sequence {
    #[inline(always)]
    fn point(&mut self, code: Code, at: u64) {
        self.codes.push(code);
        self.times.push(at);
    }
}

/// A thread while its events are walked.
struct Thread<S> {
    sink: S,
    stack: Vec<(u64, u64, u32)>,
}

impl<S: Sink> Thread<S> {
    #[inline(always)]
    fn push(&mut self, kind: PointKind, event: u32, at: u64) {
        let parent = self.stack.last().map_or(NO_PARENT, |top| top.2);
        self.sink.point(code(kind, event, parent), at);
    }

    /// Leaves everything that does not contain the interval from `start` to `end`.
    #[inline(always)]
    fn leave(&mut self, start: u64, end: u64) {
        while let Some(&(top_start, top_end, event)) = self.stack.last() {
            if top_start <= start && end <= top_end {
                return;
            }
            self.stack.pop();
            self.push(PointKind::Start, event, top_start);
        }
    }

    fn close(mut self) -> S {
        while let Some((start, _, event)) = self.stack.pop() {
            self.push(PointKind::Start, event, start);
        }
        self.sink
    }
}

/// Numbers of one profile's events, remembered by kind and place of the text: rustc gives every
/// invocation an id of its own, and without arguments all those of a query mean one text.
struct Numbers<'p> {
    strings: StringTable<'p>,
    descriptions: &'p Descriptions,
    known: FxHashMap<(u64, u64), u32>,
    key: String,
    failed: bool,
    budget: u64,
}

impl Numbers<'_> {
    #[inline(always)]
    fn of(&mut self, event: &Event) -> u32 {
        let place = self.strings.offset(event.id).unwrap_or(u64::MAX);
        match self.known.get(&(event.kind, place)) {
            Some(&number) => number,
            None => self.look(event, place),
        }
    }

    #[inline(never)]
    fn look(&mut self, event: &Event, place: u64) -> u32 {
        self.key.clear();
        self.strings.expand(event.kind, &mut self.key);
        self.key.push('\u{1f}');
        self.strings.expand(event.id, &mut self.key);
        // The texts that are kept are bounded by the file, whatever it references.
        let length = self.key.len() as u64;
        if length > self.budget {
            self.key.clear();
            self.key.push_str("\u{1f}<too long>");
        } else {
            self.budget -= length;
        }
        let number = self.descriptions.number(&self.key).unwrap_or_else(|| {
            self.failed = true;
            0
        });
        self.known.insert((event.kind, place), number);
        number
    }
}

/// The sample points of every thread of a profile, by thread id, last point first.
pub(crate) fn sequences(
    profile: &Profile,
    descriptions: &Descriptions,
) -> Result<Vec<(u32, Sequence)>, ProfileError> {
    let mut left = usize::try_from(profile.events().len())
        .unwrap_or(0)
        .saturating_mul(2);
    walk(profile, descriptions, |_| {
        // The first thread of most profiles has nearly all events. Untouched memory costs nothing.
        let capacity = std::mem::take(&mut left);
        Sequence {
            codes: huge::with_capacity(capacity),
            times: huge::with_capacity(capacity),
        }
    })
}

/// Gives every sample point to the sink of its thread, last point first; `new` makes the sinks.
pub(crate) fn walk<S: Sink>(
    profile: &Profile,
    descriptions: &Descriptions,
    mut new: impl FnMut(u32) -> S,
) -> Result<Vec<(u32, S)>, ProfileError> {
    let mut numbers = Numbers {
        strings: profile.strings(),
        descriptions,
        known: FxHashMap::default(),
        key: String::new(),
        failed: false,
        budget: profile.size().saturating_mul(8).saturating_add(1 << 20),
    };
    let mut threads = Threads::<Thread<S>>::new();
    let mut open = |thread| Thread {
        sink: new(thread),
        stack: Vec::new(),
    };
    profile.events().each_back(|event| match event.payload {
        Payload::Interval { start, end } if start <= end => {
            let number = numbers.of(&event);
            let thread = threads.get_or(event.thread, || open(event.thread));
            thread.leave(start, end);
            thread.push(PointKind::End, number, end);
            thread.stack.push((start, end, number));
        }
        Payload::Instant { at } => {
            let number = numbers.of(&event);
            let thread = threads.get_or(event.thread, || open(event.thread));
            thread.leave(at, at);
            thread.push(PointKind::Instant, number, at);
        }
        _ => {}
    });
    if numbers.failed {
        return Err(ProfileError::TooLarge {
            path: profile.path().to_owned(),
            what: "more than 2^31 different events",
        });
    }
    Ok(threads
        .into_sorted()
        .into_iter()
        .map(|(id, thread)| (id, thread.close()))
        .collect())
}
