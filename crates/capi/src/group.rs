//! Several events at once.

use crate::counter::{Table, put, with};
use crate::error::{Failed, Status, c_string, guarded, value};
use crate::slots::{Kind, Slot, none};
use crate::strings::utf8;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use truecount::{CounterSet, Fence, Points};

/// Most regions of one group that are open at the same time.
const NESTED: usize = 64;

/// Instead of a count that is not available (`TRUECOUNT_INVALID`).
const NO_COUNT: u64 = u64::MAX;

struct Group {
    set: CounterSet<Fence>,
    names: Vec<CString>,
    /// Where the open regions began; those that are not open are kept for the next.
    starts: Vec<Points>,
    open: usize,
    end: Points,
}

thread_local! {
    static GROUPS: RefCell<Table<Group>> = const { RefCell::new(Table::new()) };
}

fn with_group<R>(
    handle: *const Slot,
    use_it: impl FnOnce(&mut Group) -> Result<R, Failed>,
) -> Result<R, Failed> {
    let slot = Slot::find(handle, Kind::Group)?;
    with(&GROUPS, |table| use_it(table.get_mut(slot, Kind::Group)?))
}

/// Opens the events of an expression for the calling thread.
///
/// # Safety
/// `events` is NULL or a string; `group` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_group_open(
    events: *const c_char,
    group: *mut *const Slot,
) -> c_int {
    guarded(|| {
        if group.is_null() {
            return Err(Failed::null("group"));
        }
        // SAFETY: not NULL, and the caller says that it is valid.
        unsafe { group.write(none()) };
        // SAFETY: as the caller says.
        let events = unsafe { utf8(events, "events") }?;
        let set = CounterSet::<Fence>::open(events)?;
        let names = (0..set.len()).map(|i| c_string(set.name(i))).collect();
        let end = set.points();
        let opened = Group {
            starts: vec![set.points()],
            set,
            names,
            open: 0,
            end,
        };
        let slot = with(&GROUPS, |table| table.add(Kind::Group, opened))?;
        // SAFETY: as above.
        unsafe { group.write(slot) };
        Ok(())
    })
}

/// Closes a group, on the thread that opened it.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_group_close(group: *const Slot) -> c_int {
    guarded(|| {
        let slot = Slot::find(group, Kind::Group)?;
        with(&GROUPS, |table| table.remove(slot, Kind::Group))
    })
}

/// How many events; 0 where there is no such group.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_group_len(group: *const Slot) -> usize {
    value(|| with_group(group, |group| Ok(group.set.len())), |_| 0)
}

/// The name of one of its events; NULL where there is none.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_group_name(group: *const Slot, event: usize) -> *const c_char {
    value(
        || {
            with_group(group, |group| match group.names.get(event) {
                Some(name) => Ok(name.as_ptr()),
                None => Err(Failed::new(
                    Status::Argument,
                    format!(
                        "the group has {} events, none of number {event}",
                        group.names.len()
                    ),
                    "count from 0 to truecount_group_len() - 1",
                )),
            })
        },
        |_| ptr::null(),
    )
}

/// Begins a region.
///
/// # Safety
/// None: any value is compared before it is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_group_start(group: *const Slot) -> c_int {
    guarded(|| {
        with_group(group, |group| {
            if group.open >= NESTED {
                return Err(Failed::new(
                    Status::Nesting,
                    format!("{NESTED} regions of this group are open"),
                    "end each by truecount_group_stop()",
                ));
            }
            if group.open == group.starts.len() {
                group.starts.push(group.set.points());
            }
            let start = group.starts.get_mut(group.open);
            group.open += 1;
            if let Some(start) = start {
                group.set.read(start);
            }
            Ok(())
        })
    })
}

/// Ends the innermost region: what each event counted in it.
///
/// # Safety
/// `counts` is NULL or valid for writes of `room` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn truecount_group_stop(
    group: *const Slot,
    counts: *mut u64,
    room: usize,
) -> c_int {
    guarded(|| {
        with_group(group, |group| {
            group.set.read(&mut group.end);
            let Some(open) = group.open.checked_sub(1) else {
                return Err(Failed::new(
                    Status::Nesting,
                    "no region of this group is open",
                    "begin one by truecount_group_start()",
                ));
            };
            if room < group.set.len() {
                return Err(Failed::new(
                    Status::Argument,
                    format!(
                        "room for {room} counts, but the group has {}",
                        group.set.len()
                    ),
                    "pass an array of truecount_group_len() numbers; the region is still open",
                ));
            }
            if counts.is_null() {
                return Err(Failed::new(
                    Status::Argument,
                    "counts is NULL",
                    "pass an array of truecount_group_len() numbers; the region is still open",
                ));
            }
            group.open = open;
            let Some(start) = group.starts.get(open) else {
                return Ok(());
            };
            for event in 0..group.set.len() {
                let count = group.set.between(event, start, &group.end);
                // SAFETY: `event` is less than `room`, for which the caller says that `counts` is valid.
                unsafe {
                    put(
                        counts.wrapping_add(event),
                        count.unwrap_or(NO_COUNT),
                        "counts",
                    )
                }?;
            }
            Ok(())
        })
    })
}
