//! Counters: kept by the thread that opened them, found by their slots.

use crate::error::{Failed, Status, c_string, guarded, value};
use crate::slots::{Kind, Slot, generation, none};
use crate::strings::utf8;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use truecount::{Counter, Fence, Source};

/// What reads give that cannot be done (`TRUECOUNT_INVALID`).
const INVALID: u64 = u64::MAX;

/// What is behind a handle.
pub(crate) struct Open<T> {
    slot: &'static Slot,
    /// In which process, of those made by forks, it was opened.
    generation: u32,
    pub(crate) inner: T,
}

impl<T> Drop for Open<T> {
    fn drop(&mut self) {
        // Before the counter goes: an inline read after this takes the long way.
        self.slot.close();
    }
}

/// All that a thread has opened of one kind.
pub(crate) struct Table<T> {
    places: Vec<Option<Open<T>>>,
    /// The places that are empty.
    free: Vec<usize>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, kind: Kind, inner: T) -> Result<&'static Slot, Failed> {
        let place = self.free.last().copied().unwrap_or(self.places.len());
        let slot = Slot::take(kind, u32::try_from(place).unwrap_or(u32::MAX))?;
        if place == self.places.len() {
            self.places.push(None);
        } else {
            self.free.pop();
        }
        if let Some(entry) = self.places.get_mut(place) {
            *entry = Some(Open {
                slot,
                generation: generation(),
                inner,
            });
        }
        Ok(slot)
    }

    /// Where the slot's is.
    fn place(&self, slot: &'static Slot, kind: Kind) -> Result<usize, Failed> {
        let place = usize::try_from(slot.place()).unwrap_or(usize::MAX);
        let open = self.places.get(place).and_then(Option::as_ref);
        match open {
            Some(open) if ptr::eq(open.slot, slot) => Ok(place),
            _ => Err(closed(kind)),
        }
    }

    pub(crate) fn get(&self, slot: &'static Slot, kind: Kind) -> Result<&T, Failed> {
        let place = self.place(slot, kind)?;
        let open = self.places.get(place).and_then(Option::as_ref);
        let open = open.ok_or_else(|| closed(kind))?;
        if open.generation != generation() {
            return Err(Failed::forked(kind.name()));
        }
        Ok(&open.inner)
    }

    pub(crate) fn get_mut(&mut self, slot: &'static Slot, kind: Kind) -> Result<&mut T, Failed> {
        let place = self.place(slot, kind)?;
        let open = self.places.get_mut(place).and_then(Option::as_mut);
        let open = open.ok_or_else(|| closed(kind))?;
        if open.generation != generation() {
            return Err(Failed::forked(kind.name()));
        }
        Ok(&mut open.inner)
    }

    pub(crate) fn remove(&mut self, slot: &'static Slot, kind: Kind) -> Result<(), Failed> {
        let place = self.place(slot, kind)?;
        if let Some(entry) = self.places.get_mut(place) {
            *entry = None;
            self.free.push(place);
        }
        Ok(())
    }
}

fn closed(kind: Kind) -> Failed {
    Failed::new(
        Status::Closed,
        format!("this {} is closed", kind.name()),
        "use it before it is closed",
    )
}

/// A counter with its texts as C has them.
struct Named {
    counter: Counter<Fence>,
    name: CString,
    unit: CString,
    source: CString,
}

thread_local! {
    static COUNTERS: RefCell<Table<Named>> = const { RefCell::new(Table::new()) };
}

fn ends() -> Failed {
    Failed::new(
        Status::Closed,
        "the thread is ending: it has no counters any more",
        "read before the thread's destructors run",
    )
}

/// Changes a thread's table.
pub(crate) fn with<T: 'static, R>(
    table: &'static std::thread::LocalKey<RefCell<Table<T>>>,
    use_it: impl FnOnce(&mut Table<T>) -> Result<R, Failed>,
) -> Result<R, Failed> {
    table
        .try_with(|table| match table.try_borrow_mut() {
            Ok(mut table) => use_it(&mut table),
            Err(_) => Err(Failed::Busy),
        })
        .map_err(|_| ends())?
}

/// Uses a counter. A signal handler may do so in the middle of another use: nothing is changed, and nothing is allocated
/// where it succeeds.
fn with_counter<R>(
    handle: *const Slot,
    use_it: impl FnOnce(&Named) -> Result<R, Failed>,
) -> Result<R, Failed> {
    let slot = Slot::find(handle, Kind::Counter)?;
    COUNTERS
        .try_with(|table| match table.try_borrow() {
            Ok(table) => use_it(table.get(slot, Kind::Counter)?),
            Err(_) => Err(Failed::Busy),
        })
        .map_err(|_| ends())?
}

/// Opens an event for the calling thread.
///
/// # Safety
/// `event` is NULL or a string; `counter` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_open(event: *const c_char, counter: *mut *const Slot) -> c_int {
    guarded(|| {
        if counter.is_null() {
            return Err(Failed::null("counter"));
        }
        // SAFETY: not NULL, and the caller says that it is valid.
        unsafe { counter.write(none()) };
        // SAFETY: as the caller says.
        let event = unsafe { utf8(event, "event") }?;
        let opened = Counter::<Fence>::open(event)?;
        let register = opened.register();
        let named = Named {
            name: c_string(opened.name()),
            unit: c_string(opened.unit()),
            source: c_string(source_name(opened.source())),
            counter: opened,
        };
        let slot = with(&COUNTERS, |table| table.add(Kind::Counter, named))?;
        if let Some(index) = register {
            slot.readable(index);
        }
        // SAFETY: as above.
        unsafe { counter.write(slot) };
        Ok(())
    })
}

/// The source's word in every result of truecount.
pub(crate) fn source_name(source: Source) -> &'static str {
    match source {
        Source::Hardware => "hardware",
        Source::Virtual => "virtual",
        Source::Step => "step",
        _ => "software",
    }
}

/// Closes a counter, on the thread that opened it.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_close(counter: *const Slot) -> c_int {
    guarded(|| {
        let slot = Slot::find(counter, Kind::Counter)?;
        with(&COUNTERS, |table| table.remove(slot, Kind::Counter))
    })
}

/// Where the counter stands, read any way; `TRUECOUNT_INVALID` where it cannot be.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_read_any(counter: *const Slot) -> u64 {
    value(
        || with_counter(counter, |named| Ok(named.counter.read().raw())),
        |_| INVALID,
    )
}

/// What was counted between two points of a counter.
///
/// # Safety
/// `count` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_between(
    counter: *const Slot,
    start: u64,
    end: u64,
    count: *mut u64,
) -> c_int {
    guarded(|| {
        let between = with_counter(counter, |named| {
            if start == INVALID || end == INVALID {
                return Err(Failed::new(
                    Status::NoCount,
                    "a read failed: one of the two points is TRUECOUNT_INVALID",
                    "look at truecount_error_message() after such a read",
                ));
            }
            if !named.counter.in_order(start, end) {
                return Err(Failed::new(
                    Status::NoCount,
                    "the second point is before the first, or of another counter",
                    "pass what was read at the start, then what was read at the end",
                ));
            }
            Ok(named.counter.between_raw(start, end))
        })?;
        // SAFETY: as the caller says.
        unsafe { put(count, between, "count") }
    })
}

/// The count since the counter was opened.
///
/// # Safety
/// `count` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_count(counter: *const Slot, count: *mut u64) -> c_int {
    guarded(|| {
        let counted = with_counter(counter, |named| Ok(named.counter.reading()?.value()))?;
        let counted = counted.ok_or_else(|| {
            Failed::new(
                Status::NoCount,
                "the event was never on the PMU",
                "count fewer events at once",
            )
        })?;
        // SAFETY: as the caller says.
        unsafe { put(count, counted, "count") }
    })
}

/// Whether reads are right: the event is where it was, and was counted all the time.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_check(counter: *const Slot) -> c_int {
    guarded(|| with_counter(counter, |named| Ok(named.counter.check()?)))
}

/// # Safety
/// `to` is NULL or valid for a write.
pub(crate) unsafe fn put<T>(to: *mut T, value: T, what: &str) -> Result<(), Failed> {
    if to.is_null() {
        return Err(Failed::null(what));
    }
    // SAFETY: not NULL, and valid as the caller says.
    unsafe { to.write(value) };
    Ok(())
}

/// One of a counter's texts; NULL where there is no such counter.
fn text(counter: *const Slot, which: impl Fn(&Named) -> &CString) -> *const c_char {
    value(
        || with_counter(counter, |named| Ok(which(named).as_ptr())),
        |_| ptr::null(),
    )
}

/// The event's canonical name.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_name(counter: *const Slot) -> *const c_char {
    text(counter, |named| &named.name)
}

/// The unit of its counts.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_unit(counter: *const Slot) -> *const c_char {
    text(counter, |named| &named.unit)
}

/// Who counts: `hardware`, `virtual`, `software`.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_source(counter: *const Slot) -> *const c_char {
    text(counter, |named| &named.source)
}

/// 1 where the same work gives the same count, else 0.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_is_exact(counter: *const Slot) -> c_int {
    value(
        || with_counter(counter, |named| Ok(c_int::from(named.counter.is_exact()))),
        |_| 0,
    )
}

/// Whether instructions can be counted here: 1, or 0 with the reason in `truecount_error_message`.
#[unsafe(no_mangle)]
pub extern "C" fn truecount_available() -> c_int {
    value(
        || {
            Counter::<Fence>::open("instructions:u")?;
            Ok(1)
        },
        |_| 0,
    )
}

/// Runs a loop of known length; gives its instructions, 0 where that is not known on this CPU.
#[unsafe(no_mangle)]
pub extern "C" fn truecount_known_loop(iterations: u64) -> u64 {
    truecount::known_loop(iterations).unwrap_or(0)
}

/// The library's version, as `TRUECOUNT_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn truecount_version() -> u32 {
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
        | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
        | number(env!("CARGO_PKG_VERSION_PATCH"))
}
