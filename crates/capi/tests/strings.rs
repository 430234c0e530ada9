//! Whatever text and whatever handle C passes, the answer is a status with a message, and no panic.
//! `TRUECOUNT_MUTANTS=100000` makes more of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use proptest::prelude::*;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr;
use truecount_c::truecount_counter as Slot;
use truecount_c::{counter, error, group, recorder};

/// `TRUECOUNT_INTERNAL`: a panic was caught.
const INTERNAL: i32 = 11;

fn message() -> String {
    // SAFETY: the library gives a string that is valid until the next failure of this thread.
    let text = unsafe { CStr::from_ptr(error::truecount_error_message()) };
    text.to_string_lossy().into_owned()
}

fn open(text: &CStr) -> i32 {
    let mut handle = ptr::null();
    // SAFETY: a string, and a place for the handle.
    let status = unsafe { counter::truecount_open(text.as_ptr(), &raw mut handle) };
    assert!(!handle.is_null());
    // SAFETY: has no requirements.
    let closed = unsafe { counter::truecount_close(handle) };
    assert_eq!(closed == 0, status == 0);
    status
}

fn open_group(text: &CStr) -> i32 {
    let mut handle = ptr::null();
    // SAFETY: a string, and a place for the handle.
    let status = unsafe { group::truecount_group_open(text.as_ptr(), &raw mut handle) };
    // SAFETY: has no requirements.
    unsafe { group::truecount_group_close(handle) };
    status
}

/// Pieces of which events are made, and some that do not belong there.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"instructions".to_vec()),
        Just(b"cpu/event=0xc4/".to_vec()),
        Just(b"r01c2".to_vec()),
        Just(b"page-faults".to_vec()),
        Just(b"wall-time".to_vec()),
        Just(b":u".to_vec()),
        Just(b"{".to_vec()),
        Just(b"}".to_vec()),
        Just(b",".to_vec()),
        Just("é€".as_bytes().to_vec()),
        proptest::collection::vec(1u8..=255, 0..6),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Where nothing else was asked for.
const MUTANTS: u32 = 300;

fn configuration() -> ProptestConfig {
    let asked = std::env::var("TRUECOUNT_MUTANTS");
    ProptestConfig {
        cases: asked.map_or(MUTANTS, |number| number.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Opens a recorder, and a region with this label; gives the worst status.
fn record(directory: &Path, events: &CStr, label: &CStr) -> i32 {
    let path = CString::new(directory.join("regions").as_os_str().as_encoded_bytes()).unwrap();
    let mut handle = ptr::null();
    // SAFETY: strings, and a place for the handle.
    unsafe {
        let opened =
            recorder::truecount_recorder_open(path.as_ptr(), events.as_ptr(), &raw mut handle);
        let begun = recorder::truecount_region_begin(handle, label.as_ptr());
        let ended = recorder::truecount_region_end(handle);
        assert!(begun == 0 || ended != 0);
        let closed = recorder::truecount_recorder_close(handle);
        assert_eq!(opened == 0, closed == 0);
        opened.max(begun).max(closed)
    }
}

/// What a program does with a handle.
#[derive(Debug, Clone)]
enum Use {
    Open(&'static CStr),
    OpenGroup(&'static CStr),
    Counter(usize, u64, u64),
    Close(usize),
    Group(usize, usize),
    CloseGroup(usize),
    Region(usize),
    Elsewhere(usize),
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let event = prop_oneof![
        Just(c"wall-time"),
        Just(c"zero"),
        Just(c"page-faults"),
        Just(c"instructions:u"),
        Just(c"nothing"),
    ];
    let point = prop_oneof![Just(0), Just(1 << 40), Just(u64::MAX), any::<u64>()];
    let which = 0..12usize;
    let one = prop_oneof![
        event.clone().prop_map(Use::Open),
        event.prop_map(Use::OpenGroup),
        (which.clone(), point.clone(), point).prop_map(|(which, a, b)| Use::Counter(which, a, b)),
        which.clone().prop_map(Use::Close),
        (which.clone(), 0..4usize).prop_map(|(which, room)| Use::Group(which, room)),
        which.clone().prop_map(Use::CloseGroup),
        which.clone().prop_map(Use::Region),
        which.prop_map(Use::Elsewhere),
    ];
    proptest::collection::vec(one, 0..24)
}

/// Every function that takes a counter; the statuses of those that give one.
fn all_of(handle: *const Slot, start: u64, end: u64) -> Vec<i32> {
    let mut count = 0;
    let point = &raw mut count;
    // SAFETY: the handle has no requirements, and the pointers are to a local or NULL.
    unsafe {
        counter::truecount_read_any(handle);
        counter::truecount_is_exact(handle);
        let texts = [
            counter::truecount_name,
            counter::truecount_unit,
            counter::truecount_source,
        ];
        let texts = texts.map(|text| text(handle));
        // All or none of a counter's texts.
        assert!(
            texts.iter().all(|text| text.is_null()) || texts.iter().all(|text| !text.is_null())
        );
        vec![
            counter::truecount_between(handle, start, end, point),
            counter::truecount_between(handle, start, end, ptr::null_mut()),
            counter::truecount_count(handle, point),
            counter::truecount_check(handle),
        ]
    }
}

fn group_of(handle: *const Slot, room: usize) -> Vec<i32> {
    let mut counts = [0; 4];
    // SAFETY: the handle has no requirements, and there is room for `room` counts.
    unsafe {
        group::truecount_group_name(handle, room);
        group::truecount_group_len(handle);
        vec![
            group::truecount_group_start(handle),
            group::truecount_group_stop(handle, counts.as_mut_ptr(), room),
        ]
    }
}

/// Uses handles in any order, with some that never were one; gives the statuses.
fn used(uses: &[Use]) -> Vec<i32> {
    let inside = [0u64; 8];
    let mut handles: Vec<*const Slot> = vec![
        ptr::null(),
        inside.as_ptr().cast(),
        ptr::without_provenance(1),
        ptr::without_provenance(usize::MAX & !7),
    ];
    let mut statuses = Vec::new();
    for one in uses {
        let which = |number: usize| handles[number % handles.len()];
        // SAFETY: strings, places for handles, and handles, which have no requirements.
        unsafe {
            match *one {
                Use::Open(event) => {
                    let mut handle = ptr::null();
                    statuses.push(counter::truecount_open(event.as_ptr(), &raw mut handle));
                    handles.push(handle);
                    // One that points into the middle of it.
                    handles.push(handle.wrapping_byte_add(8));
                }
                Use::OpenGroup(events) => {
                    let mut handle = ptr::null();
                    statuses.push(group::truecount_group_open(
                        events.as_ptr(),
                        &raw mut handle,
                    ));
                    handles.push(handle);
                }
                Use::Counter(number, start, end) => {
                    statuses.extend(all_of(which(number), start, end));
                }
                Use::Close(number) => statuses.push(counter::truecount_close(which(number))),
                Use::Group(number, room) => statuses.extend(group_of(which(number), room)),
                Use::CloseGroup(number) => {
                    statuses.push(group::truecount_group_close(which(number)));
                }
                Use::Region(number) => {
                    statuses.push(recorder::truecount_region_begin(
                        which(number),
                        c"x".as_ptr(),
                    ));
                    statuses.push(recorder::truecount_region_end(which(number)));
                    statuses.push(recorder::truecount_recorder_flush(which(number)));
                    statuses.push(recorder::truecount_recorder_close(which(number)));
                }
                Use::Elsewhere(number) => {
                    let handle = which(number) as usize;
                    let elsewhere = std::thread::spawn(move || {
                        let handle = ptr::without_provenance(handle);
                        let mut statuses = all_of(handle, 0, 1);
                        statuses.extend(group_of(handle, 4));
                        // Nothing of another thread's can be used.
                        assert!(statuses.iter().all(|status| *status != 0), "{statuses:?}");
                        statuses
                    });
                    statuses.extend(elsewhere.join().unwrap());
                }
            }
        }
    }
    for handle in handles {
        // SAFETY: has no requirements.
        unsafe {
            (
                counter::truecount_close(handle),
                group::truecount_group_close(handle),
            )
        };
    }
    statuses
}

proptest! {
    #![proptest_config(configuration())]

    #[test]
    fn any_bytes_are_answered(bytes in pieces(), label in pieces()) {
        let text = CString::new(bytes).unwrap();
        let label = CString::new(label).unwrap();
        let directory = tempfile::tempdir().unwrap();
        for status in [open(&text), open_group(&text), record(directory.path(), &text, &label)] {
            prop_assert_ne!(status, INTERNAL, "{:?}: {}", text, message());
            if status != 0 {
                prop_assert!(!message().is_empty());
            }
        }
    }

    #[test]
    fn any_use_is_answered(uses in uses()) {
        for status in used(&uses) {
            prop_assert!((0..INTERNAL).contains(&status), "{:?}: {}", uses, message());
        }
    }
}

#[test]
fn long_text_is_answered() {
    let text = CString::new("a,{".repeat(100_000)).unwrap();
    assert_ne!(open(&text), 0);
    assert_ne!(open_group(&text), INTERNAL);
}
