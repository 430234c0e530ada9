//! Waiting on, and waking, a word of the shared file: the runtime's `sys::futex_wait`, from the launcher's side.

use std::sync::atomic::AtomicU32;

/// Waits until the word is no longer `value`, is woken, or a second is over.
pub(super) fn wait(word: &AtomicU32, value: u32) {
    let timeout = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    // SAFETY: the word and the timeout outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const timeout,
        );
    }
}

/// Wakes all who wait.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
