//! What a thread keeps for each recorder: its clocks, its buffers and the labels it has met.

use super::buffer::{Buffer, event};
use super::clock::Clock;
use super::{Label, MOST_COUNTERS, Recorder, RecorderError, Shared};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// Largest value of an interval's end; two above mean instant and integer.
const LARGEST: u64 = 0xFFFF_FFFF_FFFD;
const INSTANT: u64 = 0xFFFF_FFFF_FFFF;
const INTEGER: u64 = 0xFFFF_FFFF_FFFE;
/// Labels remembered by address; a program has few in use at a time.
const REMEMBERED: usize = 64;

/// A thread's part of one recorder.
#[doc(hidden)]
#[derive(Debug)]
pub struct Local {
    number: u64,
    shared: Arc<Shared>,
    open: Option<Rc<Open>>,
    labels: [Cell<(usize, usize, u64)>; REMEMBERED],
}

/// Clocks and buffers, shared with the regions that are open.
#[derive(Debug)]
pub(super) struct Open {
    shared: Arc<Shared>,
    thread: u32,
    first: Lane,
    more: Vec<Lane>,
    kinds: (u64, u64, u64),
}

#[derive(Debug)]
struct Lane {
    clock: Clock,
    buffer: Arc<Buffer>,
}

thread_local! {
    static LOCALS: RefCell<Vec<Rc<Local>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with this thread's part of a recorder, made on first use. `f` is called once.
#[inline(always)]
pub(super) fn with<R>(shared: &Arc<Shared>, f: impl Fn(&Local) -> R) -> R {
    let found = LOCALS.try_with(|locals| {
        let locals = locals.try_borrow().ok()?;
        let local = locals.iter().find(|local| local.number == shared.number)?;
        Some(f(local))
    });
    match found {
        Ok(Some(result)) => result,
        _ => f(&first_use(shared)),
    }
}

#[cold]
fn first_use(shared: &Arc<Shared>) -> Rc<Local> {
    let open = match Open::new(shared) {
        Ok(open) => Some(Rc::new(open)),
        Err(error) => {
            let mut output = shared.output.lock().unwrap_or_else(PoisonError::into_inner);
            output.failed(RecorderError::Counter(error));
            None
        }
    };
    let local = Rc::new(Local {
        number: shared.number,
        shared: Arc::clone(shared),
        open,
        labels: std::array::from_fn(|_| Cell::new((0, 0, 0))),
    });
    // While thread-locals are being destroyed there is no place to keep it; the region is recorded all the same.
    let _ = LOCALS.try_with(|locals| {
        if let Ok(mut locals) = locals.try_borrow_mut() {
            // Recorders that are gone everywhere else make room.
            locals.retain(|local| Arc::strong_count(&local.shared) > 2);
            locals.insert(0, Rc::clone(&local));
        }
    });
    local
}

/// This thread's part, or why it cannot be opened.
pub(super) fn open(shared: &Arc<Shared>) -> Result<Option<Rc<Open>>, RecorderError> {
    let open = with(shared, |local| local.open.clone());
    let mut output = shared.output.lock().unwrap_or_else(PoisonError::into_inner);
    output.take_failure().map(|()| open)
}

/// Drops this thread's part, with what is in its buffers.
pub(super) fn forget(shared: &Arc<Shared>) {
    let _ = LOCALS.try_with(|locals| {
        if let Ok(mut locals) = locals.try_borrow_mut() {
            locals.retain(|local| local.number != shared.number);
        }
    });
}

impl Local {
    /// The label of a text that lives as long as the program: by its address, then by its text.
    #[inline(always)]
    pub(super) fn label(&self, text: &'static str) -> Label {
        let (address, length) = (text.as_ptr() as usize, text.len());
        let place = (address ^ (address >> 6) ^ length) % REMEMBERED;
        let known = self.labels[place].get();
        if known.0 == address && known.1 == length && length > 0 {
            return Label(known.2);
        }
        self.look(text, place)
    }

    #[cold]
    #[inline(never)]
    fn look(&self, text: &'static str, place: usize) -> Label {
        let id = self
            .shared
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .string(text);
        if let Some(cell) = self.labels.get(place) {
            cell.set((text.as_ptr() as usize, text.len(), id));
        }
        Label(id)
    }

    #[inline(always)]
    pub(super) fn open_ref(&self) -> Option<&Rc<Open>> {
        self.open.as_ref()
    }

    #[inline]
    pub(super) fn instant(&self, label: Label) {
        if let Some(open) = &self.open {
            for lane in open.lanes() {
                let at = lane.clock.now().min(INSTANT);
                lane.push(open, event(open.kinds.1, label.0, open.thread, at, INSTANT));
            }
        }
    }

    #[inline]
    pub(super) fn integer(&self, label: Label, value: u64) {
        if let Some(open) = &self.open {
            for lane in open.lanes() {
                lane.push(
                    open,
                    event(
                        open.kinds.2,
                        label.0,
                        open.thread,
                        value.min(INSTANT),
                        INTEGER,
                    ),
                );
            }
        }
    }
}

impl Lane {
    #[inline(always)]
    fn push(&self, open: &Open, event: super::buffer::Words) {
        // SAFETY: `Open` is neither `Send` nor `Sync` (it is only ever held in an `Rc`), so this is
        // the thread that made the buffer.
        if unsafe { self.buffer.push(event) } {
            open.full();
        }
    }
}

impl Open {
    fn new(shared: &Arc<Shared>) -> Result<Self, crate::Error> {
        let clocks = shared.clocks.here()?;
        let mut output = shared.output.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lanes = clocks.into_iter().map(|clock| Lane {
            clock,
            buffer: Arc::new(Buffer::new()),
        });
        let Some(first) = lanes.next() else {
            // A recorder has at least one counter.
            return Err(crate::Error::NotOne {
                expression: String::new(),
                found: 0,
            });
        };
        let more: Vec<Lane> = lanes.collect();
        let buffers = std::iter::once(&first).chain(&more);
        let thread = output.register(buffers.map(|lane| Arc::clone(&lane.buffer)).collect());
        let kinds = output.kinds();
        drop(output);
        Ok(Self {
            shared: Arc::clone(shared),
            thread,
            first,
            more,
            kinds,
        })
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Where the counters stand. The first is read first.
    #[inline(always)]
    pub(super) fn starts(&self) -> [u64; MOST_COUNTERS] {
        let mut starts = [self.first.clock.now(), 0, 0, 0];
        if !self.more.is_empty() {
            self.more_starts(&mut starts);
        }
        starts
    }

    #[inline(never)]
    fn more_starts(&self, starts: &mut [u64; MOST_COUNTERS]) {
        for (start, lane) in starts.iter_mut().skip(1).zip(&self.more) {
            *start = lane.clock.now();
        }
    }

    #[inline(always)]
    pub(super) fn end(&self, label: Label, starts: &[u64; MOST_COUNTERS]) {
        if !self.more.is_empty() {
            self.more_ends(label, starts);
        }
        self.end_of(&self.first, label, starts[0]);
    }

    /// In reverse: the counter read last at the start is read first at the end.
    #[inline(never)]
    fn more_ends(&self, label: Label, starts: &[u64; MOST_COUNTERS]) {
        let mut pairs = [None; MOST_COUNTERS];
        for (pair, lane_and_start) in pairs.iter_mut().zip(self.more.iter().zip(&starts[1..])) {
            *pair = Some(lane_and_start);
        }
        for (lane, start) in pairs.into_iter().rev().flatten() {
            self.end_of(lane, label, *start);
        }
    }

    #[inline(always)]
    fn end_of(&self, lane: &Lane, label: Label, start: u64) {
        let end = lane.clock.now().min(LARGEST);
        // A counter that could not be read stands still; it never makes an interval run backwards.
        let start = start.min(end);
        lane.push(self, event(self.kinds.0, label.0, self.thread, start, end));
    }

    /// Start and end of the interval recorded last.
    pub(super) fn last(&self, lane: usize) -> (u64, u64) {
        let Some(words) = self.lanes().nth(lane).and_then(|lane| lane.buffer.last()) else {
            return (0, 0);
        };
        let (third, fourth) = (u64::from_le(words[2]), u64::from_le(words[3]));
        let upper = fourth >> 32;
        let start = third >> 32 | upper >> 16 << 32;
        (start, fourth & 0xFFFF_FFFF | (upper & 0xFFFF) << 32)
    }

    #[cold]
    #[inline(never)]
    fn full(&self) {
        let mut output = self
            .shared
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (number, lane) in self.lanes().enumerate() {
            output.drain(number, &lane.buffer);
            lane.buffer.reset();
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut output = self
            .shared
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (number, lane) in self.lanes().enumerate() {
            output.drain(number, &lane.buffer);
        }
        output.unregister(self.thread);
    }
}

/// A recorder is used from many threads.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Recorder>();
};
