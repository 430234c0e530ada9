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
    lanes: Vec<Lane>,
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
            for lane in &open.lanes {
                let at = lane.clock.now().min(INSTANT);
                lane.push(open, event(open.kinds.1, label.0, open.thread, at, INSTANT));
            }
        }
    }

    #[inline]
    pub(super) fn integer(&self, label: Label, value: u64) {
        if let Some(open) = &self.open {
            for lane in &open.lanes {
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
    fn push(&self, open: &Open, event: [u8; 32]) {
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
        let lanes: Vec<Lane> = clocks
            .into_iter()
            .map(|clock| Lane {
                clock,
                buffer: Arc::new(Buffer::new()),
            })
            .collect();
        let thread = output.register(lanes.iter().map(|lane| Arc::clone(&lane.buffer)).collect());
        let kinds = output.kinds();
        drop(output);
        Ok(Self {
            shared: Arc::clone(shared),
            thread,
            lanes,
            kinds,
        })
    }

    #[inline(always)]
    pub(super) fn starts(&self) -> [u64; MOST_COUNTERS] {
        let mut starts = [0; MOST_COUNTERS];
        for (start, lane) in starts.iter_mut().zip(&self.lanes) {
            *start = lane.clock.now();
        }
        starts
    }

    /// As [`starts`](Self::starts), for measuring from outside.
    pub(super) fn now(&self) -> [u64; MOST_COUNTERS] {
        self.starts()
    }

    #[inline(always)]
    pub(super) fn end(&self, label: Label, starts: &[u64; MOST_COUNTERS]) {
        // In reverse: the counter read last at the start is read first at the end.
        for (lane, start) in self.lanes.iter().zip(starts).rev() {
            let end = lane.clock.now().min(LARGEST);
            lane.push(
                self,
                event(self.kinds.0, label.0, self.thread, (*start).min(end), end),
            );
        }
    }

    /// Start and end of the interval recorded last.
    pub(super) fn last(&self, lane: usize) -> (u64, u64) {
        let Some(bytes) = self.lanes.get(lane).and_then(|lane| lane.buffer.last()) else {
            return (0, 0);
        };
        let word = |at: usize| {
            u64::from(u32::from_le_bytes([
                bytes[at],
                bytes[at + 1],
                bytes[at + 2],
                bytes[at + 3],
            ]))
        };
        let upper = word(28);
        (
            word(20) | upper >> 16 << 32,
            word(24) | (upper & 0xFFFF) << 32,
        )
    }

    #[cold]
    #[inline(never)]
    fn full(&self) {
        let mut output = self
            .shared
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (number, lane) in self.lanes.iter().enumerate() {
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
        for (number, lane) in self.lanes.iter().enumerate() {
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
