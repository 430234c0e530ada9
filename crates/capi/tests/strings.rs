//! Whatever text C passes, the answer is a status with a message, and no panic.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use proptest::prelude::*;
use std::ffi::{CStr, CString};
use std::ptr;
use truecount_c::{counter, error, group};

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_answered(bytes in pieces()) {
        let text = CString::new(bytes).unwrap();
        for status in [open(&text), open_group(&text)] {
            prop_assert_ne!(status, INTERNAL, "{:?}: {}", text, message());
            if status != 0 {
                prop_assert!(!message().is_empty());
            }
        }
    }
}

#[test]
fn long_text_is_answered() {
    let text = CString::new("a,{".repeat(100_000)).unwrap();
    assert_ne!(open(&text), 0);
    assert_ne!(open_group(&text), INTERNAL);
}
