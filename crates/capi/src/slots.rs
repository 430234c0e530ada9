//! What handles point to: slots that are never freed or used twice, so that a stale handle is always known for what it
//! is. A slot takes 32 bytes for the rest of the process.
//!
//! No locks: the child of a fork may come in the middle of anything that another thread does.

use crate::error::{Failed, Status};
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A handle's memory. The first two fields are part of the interface: the header's inline read uses them.
#[allow(non_camel_case_types, reason = "its name in C")]
#[repr(C)]
#[derive(Debug)]
pub struct truecount_counter {
    /// The thread pointer of the thread that may read the register itself; 0 for none.
    thread: AtomicU64,
    /// What the inline read takes ([`truecount::inline_register`]).
    register: AtomicU64,
    /// Which thread opened it (a number of this library's).
    owner: AtomicU64,
    /// Where the owner keeps what the handle stands for.
    place: AtomicU32,
    state: AtomicU32,
}

pub(crate) type Slot = truecount_counter;

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Counter = 1,
    Group = 2,
    Recorder = 3,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Group => "group",
            Self::Recorder => "recorder",
        }
    }
}

/// Added to the kind's number in `state` when the handle is closed.
const CLOSED: u32 = 0x100;

/// Slots of the first chunk; every further one has twice as many as the one before.
const FIRST: usize = 256;
const CHUNKS: usize = 24;

static NEXT: AtomicUsize = AtomicUsize::new(0);
static SLOTS: [AtomicPtr<Slot>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
static THREADS: AtomicU64 = AtomicU64::new(1);
/// How many forks lie between this process and the one that opened the first handle.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static INSTALLED: Once = Once::new();

/// What failing calls give instead of a handle: closed for ever, so that whoever ignores the status gets an error again.
static NONE: Slot = Slot {
    thread: AtomicU64::new(0),
    register: AtomicU64::new(0),
    owner: AtomicU64::new(0),
    place: AtomicU32::new(0),
    state: AtomicU32::new(0),
};

thread_local! {
    static OWN: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs between a process and its forked children, once something has been opened.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// A number of the calling thread that no other thread ever has; 0 while it ends.
pub(crate) fn this_thread() -> u64 {
    OWN.try_with(|own| *own).unwrap_or(0)
}

/// The handle that stands for nothing.
pub(crate) fn none() -> *const Slot {
    &raw const NONE
}

impl Slot {
    /// A new slot, for something that the calling thread keeps at `place`.
    pub(crate) fn take(kind: Kind, place: u32) -> Result<&'static Self, Failed> {
        INSTALLED.call_once(|| {
            // Miri knows no forks.
            #[cfg(not(miri))]
            // SAFETY: the handler is a function without arguments that lives as long as the program.
            unsafe {
                libc::pthread_atfork(None, None, Some(in_child))
            };
        });
        let slot = fresh().ok_or_else(|| {
            Failed::new(
                Status::NotAvailable,
                "this process has opened too many counters (2^31)",
                "open a counter once and read it often",
            )
        })?;
        slot.owner.store(this_thread(), Ordering::Relaxed);
        slot.place.store(place, Ordering::Relaxed);
        slot.state.store(kind as u32, Ordering::Release);
        Ok(slot)
    }

    /// Lets the calling thread's inline reads read the register `index`.
    pub(crate) fn readable(&self, index: u32) {
        self.register
            .store(truecount::inline_register(index), Ordering::Relaxed);
        self.thread
            .store(truecount::thread_pointer(), Ordering::Release);
    }

    pub(crate) fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    /// From now on every use is an error. Before anything that an inline read needs goes.
    pub(crate) fn close(&self) {
        self.thread.store(0, Ordering::Release);
        self.state.fetch_or(CLOSED, Ordering::Release);
    }

    /// The slot that a handle leads to, if it is an open one of `kind`; of this thread, unless it is a recorder's.
    pub(crate) fn find(handle: *const Self, kind: Kind) -> Result<&'static Self, Failed> {
        let what = kind.name();
        if handle == none() {
            return Err(Failed::new(
                Status::Closed,
                format!("this {what} was never opened: opening it failed"),
                "look at what the opening call returned",
            ));
        }
        let slot = known(handle).ok_or_else(|| {
            Failed::new(
                Status::Handle,
                format!("{handle:p} is not a {what}"),
                "pass what the opening call gave",
            )
        })?;
        let state = slot.state.load(Ordering::Acquire);
        if state & !CLOSED != kind as u32 {
            return Err(Failed::new(
                Status::Handle,
                format!("{handle:p} is not a {what} but something else of truecount's"),
                "pass what the opening call gave",
            ));
        }
        if state & CLOSED != 0 {
            return Err(Failed::new(
                Status::Closed,
                format!("this {what} is closed"),
                "use it before it is closed, and before the thread that opened it ends",
            ));
        }
        if kind != Kind::Recorder && slot.owner.load(Ordering::Relaxed) != this_thread() {
            return Err(Failed::new(
                Status::Thread,
                format!("this {what} belongs to another thread"),
                "open one on every thread that counts: counters count the thread that opened them",
            ));
        }
        Ok(slot)
    }
}

/// The chunk and the place in it of the slot `number`.
fn position(number: usize) -> (usize, usize) {
    let chunk = (number / FIRST + 1).ilog2() as usize;
    (chunk, number - FIRST * ((1 << chunk) - 1))
}

fn fresh() -> Option<&'static Slot> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (chunk, place) = position(number);
    let first = SLOTS.get(chunk)?;
    let mut start = first.load(Ordering::Acquire);
    if start.is_null() {
        let slots: Box<[Slot]> = (0..FIRST << chunk).map(|_| Slot::unused()).collect();
        let made: *mut [Slot] = Box::into_raw(slots);
        let exchanged = first.compare_exchange(
            ptr::null_mut(),
            made.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        start = match exchanged {
            Ok(_) => made.cast(),
            Err(others) => {
                // SAFETY: made here, and nobody has seen it.
                drop(unsafe { Box::from_raw(made) });
                others
            }
        };
    }
    // SAFETY: the chunk has that many slots and is never freed; slots are only changed by atomic operations.
    Some(unsafe { &*start.add(place) })
}

/// The slot at an address, if that is one. The address is only compared, not followed.
fn known(handle: *const Slot) -> Option<&'static Slot> {
    for (chunk, first) in SLOTS.iter().enumerate() {
        let start = NonNull::new(first.load(Ordering::Acquire))?;
        let offset = (handle as usize).wrapping_sub(start.as_ptr() as usize);
        let place = offset / size_of::<Slot>();
        if offset.is_multiple_of(size_of::<Slot>()) && place < FIRST << chunk {
            // SAFETY: as in `fresh`.
            return Some(unsafe { &*start.as_ptr().add(place) });
        }
    }
    None
}

impl Slot {
    const fn unused() -> Self {
        Self {
            thread: AtomicU64::new(0),
            register: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            place: AtomicU32::new(0),
            state: AtomicU32::new(0),
        }
    }
}

/// Runs in the child of a fork, on its only thread: no allocation, no lock. Inline reads take the long way there, which
/// tells what happened.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for (chunk, first) in SLOTS.iter().enumerate() {
        let Some(start) = NonNull::new(first.load(Ordering::Acquire)) else {
            return;
        };
        for place in 0..FIRST << chunk {
            // SAFETY: as in `fresh`.
            let slot = unsafe { &*start.as_ptr().add(place) };
            slot.thread.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        assert_eq!(position(0), (0, 0));
        assert_eq!(position(255), (0, 255));
        assert_eq!(position(256), (1, 0));
        assert_eq!(position(767), (1, 511));
        assert_eq!(position(768), (2, 0));
    }

    #[test]
    fn addresses_that_are_no_handles_are_known_for_it() {
        let slot = Slot::take(Kind::Counter, 7).unwrap();
        let at = ptr::from_ref(slot);
        assert!(known(at).is_some_and(|found| ptr::eq(found, slot)));
        let inside = at.cast::<u8>().wrapping_add(1).cast::<Slot>();
        for wrong in [
            ptr::null(),
            ptr::without_provenance(8),
            ptr::without_provenance(usize::MAX),
            inside,
        ] {
            assert_eq!(
                Slot::find(wrong, Kind::Counter).unwrap_err().status(),
                Status::Handle
            );
        }
        assert_eq!(
            Slot::find(at, Kind::Group).unwrap_err().status(),
            Status::Handle
        );
        let at = at as usize;
        let elsewhere = std::thread::spawn(move || {
            Slot::find(at as *const Slot, Kind::Counter).map_err(|failed| failed.status())
        });
        assert_eq!(elsewhere.join().unwrap().err(), Some(Status::Thread));
        slot.close();
        assert_eq!(
            Slot::find(at as *const Slot, Kind::Counter)
                .unwrap_err()
                .status(),
            Status::Closed
        );
    }
}
