//! Events: 32 bytes (version 9) or 24 bytes (version 8), decoded straight from the mapped file.
//!
//! Facts: measureme 12, `raw_event.rs`; version 8 differs by string ids of 32 bits.

use crate::pages::{HEADER, Stream, u32_at};

const INSTANT: u64 = 0xFFFF_FFFF_FFFF;
const INTEGER: u64 = 0xFFFF_FFFF_FFFE;

/// What an event says. Points are in the counter's unit, since the profiler was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// From `start` to `end`. A hostile file can hold `start > end`.
    Interval {
        /// Counter at the start.
        start: u64,
        /// Counter at the end.
        end: u64,
    },
    /// A point.
    Instant {
        /// Counter at the point.
        at: u64,
    },
    /// A number without a place in time.
    Integer {
        /// The number.
        value: u64,
    },
}

/// One event; its strings are ids, see [`crate::StringTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// String id of the kind (`Query`, `GenericActivity`, …).
    pub kind: u64,
    /// String id of the label and arguments.
    pub id: u64,
    /// The thread that recorded it.
    pub thread: u32,
    /// What it says.
    pub payload: Payload,
}

impl Event {
    #[inline(always)]
    fn payload(low1: u32, low2: u32, upper: u32) -> Payload {
        let first = u64::from(low1) | u64::from(upper >> 16) << 32;
        let second = u64::from(low2) | u64::from(upper & 0xFFFF) << 32;
        match second {
            INSTANT => Payload::Instant { at: first },
            INTEGER => Payload::Integer { value: first },
            end => Payload::Interval { start: first, end },
        }
    }

    #[inline(always)]
    fn v9(b: &[u8; 32]) -> Self {
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Self {
            kind: long(0),
            id: long(8),
            thread: word(16),
            payload: Self::payload(word(20), word(24), word(28)),
        }
    }

    #[inline(always)]
    fn v8(b: &[u8; 24]) -> Self {
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        Self {
            kind: u64::from(word(0)),
            id: u64::from(word(4)),
            thread: word(8),
            payload: Self::payload(word(12), word(16), word(20)),
        }
    }
}

/// Whole events that lie together: in the mapped file, or stitched where a page boundary cut one.
#[derive(Debug, Clone, Copy)]
enum Place {
    Mapped { at: usize },
    Stitched([u8; 32]),
}

#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    count: u32,
    place: Place,
}

/// The layout of the event stream: runs of whole events.
#[derive(Debug)]
pub(crate) struct Layout {
    version: u32,
    runs: Vec<Run>,
    count: u64,
    /// Bytes at the end that make no event.
    pub(crate) rest: u64,
}

impl Layout {
    pub(crate) fn new(version: u32, bytes: &[u8], stream: &Stream) -> Self {
        let size: u64 = if version == 8 { 24 } else { 32 };
        let mut layout = Self {
            version,
            runs: Vec::new(),
            count: 0,
            rest: 0,
        };
        let mut next = HEADER as u64;
        if stream.len < next {
            return layout;
        }
        for segment in &stream.segments {
            let end = segment.start + u64::from(segment.len);
            // An event that began in an earlier page and ends in this one (or later) is stitched.
            while next < end {
                if next < segment.start {
                    if next + size > end {
                        break;
                    }
                    let mut buffer = [0; 32];
                    stream.copy(bytes, next, &mut buffer[..size as usize]);
                    layout.push(1, Place::Stitched(buffer));
                    next += size;
                    continue;
                }
                let whole = (end - next) / size;
                if whole == 0 {
                    break;
                }
                let at = segment.at + (next - segment.start) as usize;
                // A page is at most 4 GiB, so the count fits.
                layout.push(
                    u32::try_from(whole).unwrap_or(u32::MAX),
                    Place::Mapped { at },
                );
                next += whole * size;
            }
        }
        layout.rest = stream.len.saturating_sub(next);
        layout
    }

    fn push(&mut self, count: u32, place: Place) {
        self.runs.push(Run {
            first: self.count,
            count,
            place,
        });
        self.count += u64::from(count);
    }
}

/// The events of a profile, in file order: an interval is appended when it ends.
#[derive(Debug, Clone, Copy)]
pub struct Events<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) layout: &'p Layout,
}

impl<'p> Events<'p> {
    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.layout.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.count == 0
    }

    /// The event with this number in file order.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<Event> {
        let after = self.layout.runs.partition_point(|run| run.first <= index);
        let run = self.layout.runs.get(after.checked_sub(1)?)?;
        let inside = usize::try_from(index - run.first).ok()?;
        let slice = self.slice(run);
        if self.layout.version == 8 {
            slice.as_chunks::<24>().0.get(inside).map(Event::v8)
        } else {
            slice.as_chunks::<32>().0.get(inside).map(Event::v9)
        }
    }

    fn slice<'r>(&'r self, run: &'r Run) -> &'r [u8] {
        let size = if self.layout.version == 8 { 24 } else { 32 };
        match &run.place {
            Place::Mapped { at } => self
                .bytes
                .get(*at..at.saturating_add(run.count as usize * size))
                .unwrap_or(&[]),
            Place::Stitched(buffer) => &buffer[..size],
        }
    }

    /// Calls `f` for every event, last first: a parent comes before what is nested in it.
    #[inline]
    pub fn each_back(&self, mut f: impl FnMut(Event)) {
        for run in self.layout.runs.iter().rev() {
            let slice = self.slice(run);
            if self.layout.version == 8 {
                slice
                    .as_chunks::<24>()
                    .0
                    .iter()
                    .rev()
                    .for_each(|b| f(Event::v8(b)));
            } else {
                slice
                    .as_chunks::<32>()
                    .0
                    .iter()
                    .rev()
                    .for_each(|b| f(Event::v9(b)));
            }
        }
    }

    /// The events in file order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + use<'p> {
        let this = *self;
        (0..this.layout.runs.len()).flat_map(move |number| {
            let run = this.layout.runs[number];
            (0..run.count).filter_map(move |inside| this.get_in(&run, inside as usize))
        })
    }

    fn get_in(&self, run: &Run, inside: usize) -> Option<Event> {
        let slice = self.slice(run);
        if self.layout.version == 8 {
            slice.as_chunks::<24>().0.get(inside).map(Event::v8)
        } else {
            slice.as_chunks::<32>().0.get(inside).map(Event::v9)
        }
    }
}

/// One index entry: virtual id and offset in the string data.
pub(crate) fn index_entry(version: u32, bytes: &[u8]) -> Option<(u64, u64)> {
    if version == 8 {
        Some((u64::from(u32_at(bytes, 0)?), u64::from(u32_at(bytes, 4)?)))
    } else {
        Some((
            crate::pages::u64_at(bytes, 0)?,
            crate::pages::u64_at(bytes, 8)?,
        ))
    }
}
