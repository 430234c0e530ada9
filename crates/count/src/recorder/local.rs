//! What a thread keeps for each recorder: its clocks, its buffers and the labels it has met.

use super::buffer::{Buffer, event};
use super::clock::{Clock, Hot, Points};
use super::{Label, MAX_COUNTERS, Recorder, RecorderError, Shared};
use crate::arch;
use crate::policy::Fence;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// Largest value of an interval's end; two above mean instant and integer.
const MAX_VALUE: u64 = 0xFFFF_FFFF_FFFD;
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
}

/// Clocks and buffers, shared with the regions that are open.
#[doc(hidden)]
#[derive(Debug)]
pub struct Open {
    /// The register of a counter that is read by one.
    single: Option<u32>,
    /// The state of a counter that is read by two, instructions minus interrupts; `first` keeps it.
    difference: Option<NonNull<arch::Difference>>,
    /// For the raw points of either.
    points: Points,
    hot: Hot,
    thread: u32,
    shared: Arc<Shared>,
    first: Lane,
    labels: [Cell<(usize, usize, u64)>; REMEMBERED],
    more: Vec<Lane>,
    kinds: (u64, u64, u64),
}

#[derive(Debug)]
struct Lane {
    clock: Clock,
    buffer: Arc<Buffer>,
}

thread_local! {
    /// The recorder used last and this thread's part of it, which [`Open::drop`] takes out again. Without a
    /// destructor, so that looking here takes no question about the thread's end.
    static HOT: Cell<(u64, *const Open)> = const { Cell::new((0, std::ptr::null())) };
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

/// This thread's part of a recorder, made on first use; `None` where the thread cannot record.
#[inline(always)]
pub(super) fn part(shared: &Arc<Shared>) -> Option<Rc<Open>> {
    let (number, open) = HOT.get();
    if number == shared.number {
        // SAFETY: the pointer came from `Rc::as_ptr` on this thread, and `Open::drop` takes it out of `HOT`,
        // so the count is not zero.
        return Some(unsafe {
            Rc::increment_strong_count(open);
            Rc::from_raw(open)
        });
    }
    look(shared)
}

#[inline(never)]
fn look(shared: &Arc<Shared>) -> Option<Rc<Open>> {
    let open = with(shared, |local| local.open.clone())?;
    HOT.set((shared.number, Rc::as_ptr(&open)));
    Some(open)
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

impl Open {
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

    #[inline]
    pub(super) fn instant(&self, label: Label) {
        for lane in self.lanes() {
            let at = lane.clock.now().min(INSTANT);
            lane.push(self, event(self.kinds.1, label.0, self.thread, at, INSTANT));
        }
    }

    #[inline]
    pub(super) fn integer(&self, label: Label, value: u64) {
        let value = value.min(INSTANT);
        for lane in self.lanes() {
            lane.push(
                self,
                event(self.kinds.2, label.0, self.thread, value, INTEGER),
            );
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
        let only = more.is_empty().then_some(&first.clock);
        let (single, difference) = only.map_or((None, None), Clock::registers);
        let hot = only.map_or(Hot::Other, Hot::of);
        Ok(Self {
            single,
            difference,
            points: Points::of(&first.clock),
            hot,
            labels: std::array::from_fn(|_| Cell::new((0, 0, 0))),
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
    pub(super) fn starts(&self) -> [u64; MAX_COUNTERS] {
        let mut starts = [self.first.clock.now(), 0, 0, 0];
        for (start, lane) in starts.iter_mut().skip(1).zip(&self.more) {
            *start = lane.clock.now();
        }
        starts
    }

    /// Begins a region: where the clock stands, in the form that [`end`](Self::end) takes.
    #[inline(always)]
    pub(super) fn begin(&self) -> u64 {
        if let Some(single) = &self.single {
            // SAFETY: opening the counter verified index and policy; `first` keeps it open.
            return unsafe { arch::read_one::<Fence>(*single) };
        }
        if let Some(state) = &self.difference {
            // SAFETY: as above; `first` keeps the state, and `Open` stays on its thread.
            return unsafe { arch::read_difference::<Fence>(state.as_ptr()) };
        }
        match &self.hot {
            Hot::Wall(wall) => wall.read(),
            Hot::Other => self.begin_other(),
        }
    }

    /// One number stands for several starts: the address of a box that `end_other` takes back.
    #[inline(never)]
    fn begin_other(&self) -> u64 {
        if self.more.is_empty() {
            return self.first.clock.now();
        }
        let mut starts = Box::new([0; MAX_COUNTERS]);
        *starts = self.starts();
        Box::into_raw(starts).expose_provenance() as u64
    }

    /// Ends a region that `begin` of the same `Open` began.
    ///
    /// # Safety
    /// `begin` came from there and is given back once.
    #[inline(always)]
    pub(super) unsafe fn end(&self, label: Label, begin: u64) {
        if let Some(single) = &self.single {
            // SAFETY: as in `begin`.
            let end = unsafe { arch::read_one::<Fence>(*single) };
            return self.points(label, begin, end);
        }
        if let Some(state) = &self.difference {
            // SAFETY: as in `begin`.
            let end = unsafe { arch::read_difference::<Fence>(state.as_ptr()) };
            return self.points(label, begin, end);
        }
        match &self.hot {
            Hot::Wall(wall) => self.interval(&self.first, label, begin, wall.read()),
            // SAFETY: the caller's promise.
            Hot::Other => unsafe { self.end_other(label, begin) },
        }
    }

    /// In reverse: the counter read last at the start is read first at the end.
    #[inline(never)]
    unsafe fn end_other(&self, label: Label, begin: u64) {
        if self.more.is_empty() {
            return self.interval(&self.first, label, begin, self.first.clock.now());
        }
        let address = std::ptr::with_exposed_provenance_mut(begin as usize);
        // SAFETY: `begin_other` made the box, `more` has not changed, and it is given back once.
        let starts: Box<[u64; MAX_COUNTERS]> = unsafe { Box::from_raw(address) };
        let mut pairs = [None; MAX_COUNTERS];
        for (pair, lane_and_start) in pairs.iter_mut().zip(self.lanes().zip(*starts)) {
            *pair = Some(lane_and_start);
        }
        for (lane, start) in pairs.into_iter().rev().flatten() {
            self.interval(lane, label, start, lane.clock.now());
        }
    }

    /// Records the interval between two raw points of the only counter.
    #[inline(always)]
    fn points(&self, label: Label, begin: u64, end: u64) {
        let (start, stop) = (self.points.plain(begin), self.points.plain(end));
        if start > stop || stop > self.points.limit {
            return self.points_far(label, begin, end);
        }
        self.push(&self.first, label, start, stop);
    }

    #[cold]
    #[inline(never)]
    fn points_far(&self, label: Label, begin: u64, end: u64) {
        let (start, end) = (self.points.elapsed(begin), self.points.elapsed(end));
        self.interval(&self.first, label, start, end);
    }

    #[inline(always)]
    fn interval(&self, lane: &Lane, label: Label, start: u64, end: u64) {
        let end = end.min(MAX_VALUE);
        // A counter that could not be read stands still; it never makes an interval run backwards.
        self.push(lane, label, start.min(end), end);
    }

    #[inline(always)]
    fn push(&self, lane: &Lane, label: Label, start: u64, end: u64) {
        let kind = self.kinds.0;
        // SAFETY: as in `Lane::push`; both have 48 bits.
        let room = unsafe {
            lane.buffer
                .push_interval(kind, label.0, self.thread, start, end)
        };
        if !room {
            self.push_full(lane, label, start, end);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_full(&self, lane: &Lane, label: Label, start: u64, end: u64) {
        self.full();
        let kind = self.kinds.0;
        // SAFETY: as in `push`. There is room now.
        unsafe {
            lane.buffer
                .push_interval(kind, label.0, self.thread, start, end)
        };
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
        if HOT.get().1 == std::ptr::from_ref(self) {
            HOT.set((0, std::ptr::null()));
        }
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
