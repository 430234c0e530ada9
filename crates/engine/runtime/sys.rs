//! Raw system calls.
//! Numbers: arch/x86/entry/syscalls/syscall_64.tbl.

use crate::syscall_table as nr;
use core::arch::asm;

pub const EPERM: i64 = 1;
pub const EFAULT: i64 = 14;
pub const ENOSYS: i64 = 38;
pub const ENOMEM: i64 = 12;
pub const EEXIST: i64 = 17;
pub const EINVAL: i64 = 22;

/// One system call.
///
/// # Safety
/// As the call itself.
pub unsafe fn call(number: u64, a: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the kernel's convention; the caller answers for the effect.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// `write` to a descriptor, as far as it goes.
pub fn write(fd: u64, bytes: &[u8]) {
    // SAFETY: a plain write of memory we own.
    unsafe {
        call(
            nr::WRITE,
            [fd, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0],
        )
    };
}

pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(nr::GETTID, [0; 6]) as u32 }
}

pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(nr::GETPID, [0; 6]) as u32 }
}

/// Sets this thread's whole signal mask; returns the old one.
pub fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both pointers are to locals.
    unsafe {
        call(
            nr::RT_SIGPROCMASK,
            [
                2,
                core::ptr::from_ref(&mask) as u64,
                core::ptr::from_mut(&mut old) as u64,
                8,
                0,
                0,
            ],
        )
    };
    old
}

/// Futex wait on `word` while it is `value`, at most `milliseconds`.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, milliseconds: u64) {
    let timeout = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    // SAFETY: the word outlives the call.
    unsafe {
        call(
            nr::FUTEX,
            [
                word.as_ptr() as u64,
                0,
                u64::from(value),
                timeout.as_ptr() as u64,
                0,
                0,
            ],
        )
    };
}

/// Wakes everyone who waits on `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { call(nr::FUTEX, [word.as_ptr() as u64, 1, 1 << 20, 0, 0, 0]) };
}
