//! Strings that come from C.

use crate::error::{Failed, Status};
use std::ffi::{CStr, c_char};

/// The text at a pointer.
///
/// # Safety
/// `text` is NULL or a string that ends with a NUL and stays as it is during the call.
pub(crate) unsafe fn utf8<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failed> {
    if text.is_null() {
        return Err(Failed::null(what));
    }
    // SAFETY: the caller says so.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| {
        Failed::new(
            Status::Argument,
            format!("{what} is not UTF-8: {error}"),
            "event names and labels are plain text",
        )
    })
}
