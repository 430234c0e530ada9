//! The sequence of sample points of each thread: starts, ends and instants, last first.
//!
//! A point is described by what it is, which event it belongs to and which event encloses it, packed
//! into one `u64` with numbers that all profiles of a comparison share. Equal sequences are then
//! equal slices. Facts: measureme's `summarize aggregate` (sample points and their order).

use crate::error::ProfileError;
use crate::event::{Event, Payload};
use crate::file::Profile;
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
const MOST_TEXTS: usize = (1 << TEXT_BITS) - 2;
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
    (kind, ((code >> TEXT_BITS) & mask) as u32, (code & mask) as u32)
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
        let number = u32::try_from(inner.texts.len()).ok().filter(|&n| (n as usize) < MOST_TEXTS)?;
        inner.numbers.insert(key.into(), number);
        inner.texts.push(key.into());
        Some(number)
    }

    /// `label(argument, …)`, with the kind in front where it is neither a query nor an activity.
    pub(crate) fn text(&self, number: u32) -> String {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(key) = inner.texts.get(number as usize) else { return "<unknown>()".to_owned() };
        let (kind, text) = key.split_once('\u{1f}').unwrap_or(("", key));
        let event = crate::strings::parse(text);
        let prefix = match kind {
            "Query" | "GenericActivity" => String::new(),
            kind => format!("{kind} "),
        };
        format!("{prefix}{}({})", event.label, event.arguments.join(", "))
    }
}

/// The sample points of one thread, last first.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) codes: Vec<Code>,
    pub(crate) times: Vec<u64>,
    stack: Vec<(u64, u64, u32)>,
}

impl Sequence {
    fn parent(&self) -> u32 {
        self.stack.last().map_or(NO_PARENT, |top| top.2)
    }

    #[inline(always)]
    fn push(&mut self, kind: PointKind, event: u32, at: u64) {
        let parent = self.parent();
        self.codes.push(code(kind, event, parent));
        self.times.push(at);
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

    fn close(&mut self) {
        while let Some((start, _, event)) = self.stack.pop() {
            self.push(PointKind::Start, event, start);
        }
        self.stack = Vec::new();
    }
}

/// Numbers of one profile's events, remembered by event id for the kind met last with it.
struct Numbers<'p> {
    profile: &'p Profile,
    descriptions: &'p Descriptions,
    dense: Vec<(u64, u32)>,
    others: FxHashMap<(u64, u64), u32>,
    key: String,
    failed: bool,
    budget: u64,
}

impl Numbers<'_> {
    #[inline(always)]
    fn of(&mut self, event: &Event) -> u32 {
        match usize::try_from(event.id).ok().and_then(|id| self.dense.get(id)) {
            Some(&(kind, number)) if kind == event.kind => number,
            _ => self.look(event),
        }
    }

    #[inline(never)]
    fn look(&mut self, event: &Event) -> u32 {
        let key = (event.kind, event.id);
        if let Some(&number) = self.others.get(&key) {
            return number;
        }
        self.key.clear();
        let strings = self.profile.strings();
        strings.expand(event.kind, &mut self.key);
        self.key.push('\u{1f}');
        strings.expand(event.id, &mut self.key);
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
        match usize::try_from(event.id).ok().and_then(|id| self.dense.get_mut(id)) {
            Some(place) if place.0 == u64::MAX => *place = (event.kind, number),
            _ => {
                self.others.insert(key, number);
            }
        }
        number
    }
}

/// The sample points of every thread of a profile, by thread id, last point first.
pub(crate) fn sequences(
    profile: &Profile,
    descriptions: &Descriptions,
) -> Result<Vec<(u32, Sequence)>, ProfileError> {
    let mut numbers = Numbers {
        profile,
        descriptions,
        dense: vec![(u64::MAX, 0); profile.strings().index.dense()],
        others: FxHashMap::default(),
        key: String::new(),
        failed: false,
        budget: profile.size().saturating_mul(8).saturating_add(1 << 20),
    };
    let mut threads = Threads::<Sequence>::new();
    profile.events().each_back(|event| match event.payload {
        Payload::Interval { start, end } if start <= end => {
            let number = numbers.of(&event);
            let thread = threads.get(event.thread);
            thread.leave(start, end);
            thread.push(PointKind::End, number, end);
            thread.stack.push((start, end, number));
        }
        Payload::Instant { at } => {
            let number = numbers.of(&event);
            let thread = threads.get(event.thread);
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
    let mut sequences = threads.into_sorted();
    for (_, sequence) in &mut sequences {
        sequence.close();
    }
    Ok(sequences)
}

