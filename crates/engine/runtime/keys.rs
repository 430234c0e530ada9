//! Protection keys: code may be executed where it cannot be read (pages for execution alone, and such whose key the
//! thread has shut), so the runtime opens all keys while it reads code.
//!
//! Facts: Intel SDM volume 3, 4.6.2; Linux' Documentation/core-api/protection-keys.rst.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Some page of this process has a key of its own.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// Memory has a key from here on: one that the program chose, or the kernel's for memory that is only executed. True:
/// that is new.
pub fn used() -> bool {
    // CPUID 7: OSPKE.
    let new = !IN_USE.load(Relaxed) && __cpuid_count(7, 0).ecx & 1 << 4 != 0;
    if new {
        IN_USE.store(true, Relaxed);
    }
    new
}

/// The thread's rights by key; `None` where all are as at the start.
pub fn rights() -> Option<u32> {
    IN_USE.load(Relaxed).then(|| {
        let rights: u32;
        // SAFETY: the CPU and the kernel have keys.
        unsafe {
            asm!("rdpkru", out("eax") rights, out("edx") _, in("ecx") 0, options(nomem, nostack));
        }
        rights
    })
}

/// Where the extended state keeps them (CPUID 0DH).
pub fn saved_at() -> u64 {
    u64::from(__cpuid_count(0xd, 9).ebx)
}

/// Sets the thread's rights; none but the runtime executes meanwhile.
fn set(rights: u32) {
    // SAFETY: as above; the runtime's own memory has key 0.
    unsafe { asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
}

/// Does something with all keys open.
pub fn open<T>(work: impl FnOnce() -> T) -> T {
    let before = rights();
    if before.is_some() {
        set(0);
    }
    let result = work();
    if let Some(before) = before {
        set(before);
    }
    result
}
