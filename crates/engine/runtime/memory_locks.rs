//! `mlockall`: the program's mappings are locked, one by one. The kernel's own would lock the engine's,
//! too: the totals file alone is 4 TiB, which are there once they are locked.

use crate::own_memory::is_engines;
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::{AtomicU64, Ordering::*};

const CURRENT: u64 = 1;
const FUTURE: u64 = 2;
const ON_FAULT: u64 = 4;
const EPERM: i64 = 1;
const ENOMEM: i64 = 12;

/// Flags of the last `mlockall` if it was about mappings to come; else 0.
static COMING: AtomicU64 = AtomicU64::new(0);
/// The end of the heap that is locked.
static HEAP: AtomicU64 = AtomicU64::new(0);

/// mlockall and munlockall.
pub fn call(number: u64, a: [u64; 6]) -> i64 {
    let flags = a[0] & 0xffff_ffff;
    let valid = flags & !(CURRENT | FUTURE | ON_FAULT) == 0 && flags & (CURRENT | FUTURE) != 0;
    if number == nr::MUNLOCKALL || !valid {
        if number == nr::MUNLOCKALL {
            forget();
        }
        // SAFETY: unlocks, or is refused.
        return unsafe { sys::call(number, a) };
    }
    let mut sum = 0u64;
    each_mapping(|start, end| sum = sum.saturating_add(end - start));
    // As `can_do_mlock` and mlockall(2) in mm/mlock.c.
    let limit = limit();
    if !may_lock_all() {
        if limit == 0 {
            return -EPERM;
        }
        if flags & CURRENT != 0 && sum > limit {
            return -ENOMEM;
        }
    }
    COMING.store(if flags & FUTURE != 0 { flags } else { 0 }, Relaxed);
    // SAFETY: asks where the heap ends.
    HEAP.store(unsafe { sys::call(nr::BRK, [0; 6]) } as u64, Relaxed);
    if flags & CURRENT != 0 {
        each_mapping(|start, end| lock(start, end, flags));
    }
    0
}

/// A child does not inherit it (mlockall(2)).
pub fn forget() {
    COMING.store(0, Relaxed);
}

/// After mmap, mremap (`bytes` at `result`) or brk.
pub fn mapped(number: u64, result: u64, bytes: u64) {
    let flags = COMING.load(Relaxed);
    if flags == 0 {
        return;
    }
    let (start, end) = match number {
        nr::BRK => (HEAP.swap(result, Relaxed), result),
        _ => (result, result.saturating_add(bytes)),
    };
    if start < end {
        lock(start & !0xfff, end, flags);
    }
}

/// As for the kernel's: a mapping that cannot be made present is locked all the same.
fn lock(start: u64, end: u64, flags: u64) {
    let on_fault = u64::from(flags & ON_FAULT != 0);
    // SAFETY: changes whether pages stay, not what is in them.
    unsafe { sys::call(nr::MLOCK2, [start, end - start, on_fault, 0, 0, 0]) };
}

/// Bytes that may be locked.
fn limit() -> u64 {
    let mut limit = [u64::MAX; 2];
    // SAFETY: RLIMIT_MEMLOCK into a local.
    unsafe { sys::call(nr::GETRLIMIT, [8, &raw mut limit as u64, 0, 0, 0, 0]) };
    limit[0]
}

/// Whether the process has CAP_IPC_LOCK.
fn may_lock_all() -> bool {
    // struct __user_cap_header_struct, version 3; effective, permitted, inheritable, twice.
    let header = [0x2008_0522u32, 0];
    let mut data = [0u32; 6];
    // SAFETY: both are locals of the structures' sizes.
    let result = unsafe {
        sys::call(
            nr::CAPGET,
            [header.as_ptr() as u64, data.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    result == 0 && data[0] & 1 << 14 != 0
}

/// Calls `with` with each mapping of the program's (`/proc/thread-self/maps`; none without /proc).
fn each_mapping(mut with: impl FnMut(u64, u64)) {
    let path = b"/proc/thread-self/maps\0";
    // SAFETY: open, read and close with our own buffers.
    let fd = unsafe { sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]) };
    if fd < 0 {
        return;
    }
    let mut buffer = [0u8; 2048];
    let (mut field, mut range) = (0usize, [0u64; 2]);
    loop {
        let into = buffer.as_mut_ptr() as u64;
        // SAFETY: as above.
        let got = unsafe { sys::call(nr::READ, [fd as u64, into, 2048, 0, 0, 0]) };
        if got <= 0 {
            break;
        }
        for &byte in buffer.iter().take(got as usize) {
            match byte {
                b'\n' => (field, range) = (0, [0; 2]),
                b'-' if field == 0 => field = 1,
                b' ' if field == 1 => {
                    field = 2;
                    let [start, end] = range;
                    if end >> 47 == 0 && !is_engines(start, end) {
                        with(start, end);
                    }
                }
                digit if field < 2 => {
                    let value = match digit {
                        b'0'..=b'9' => digit - b'0',
                        _ => digit.wrapping_sub(b'a').wrapping_add(10),
                    };
                    if let Some(number) = range.get_mut(field) {
                        *number = *number << 4 | u64::from(value & 15);
                    }
                }
                _ => {}
            }
        }
    }
    // SAFETY: our descriptor.
    unsafe { sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
}
