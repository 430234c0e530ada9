//! The program's signal actions, as its `rt_sigaction` set them. The table belongs to threads that share
//! handlers, and lies in the engine's memory; as in the kernel, calls and deliveries of several threads
//! race, an entry being four words.

use crate::layout::Context;
use crate::own_memory;
use crate::program_memory::Plain;
use crate::sys;
use crate::syscall_table as nr;
use core::mem::size_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGBUS: u32 = 7;
pub const SIGFPE: u32 = 8;
pub const SIGSEGV: u32 = 11;

/// Signals that stay open natively: faults of translated code must arrive.
pub const OPEN: u64 = 1 << (SIGILL - 1)
    | 1 << (SIGTRAP - 1)
    | 1 << (SIGBUS - 1)
    | 1 << (SIGFPE - 1)
    | 1 << (SIGSEGV - 1);

/// Those of them whose blocking is left to the kernel (see `fault_signals`).
pub static LEFT: AtomicU64 = AtomicU64::new(0);

/// The native mask for one that the program believes in.
pub fn native_mask(mask: u64) -> u64 {
    mask & (!OPEN | LEFT.load(Relaxed))
}

pub fn is_open(signal: u32) -> bool {
    OPEN >> (signal - 1) & 1 != 0
}

pub const SA_SIGINFO: u64 = 4;
pub const SA_RESTORER: u64 = 0x0400_0000;
pub const SA_ONSTACK: u64 = 0x0800_0000;
pub const SA_NODEFER: u64 = 0x4000_0000;
pub const SA_RESETHAND: u64 = 0x8000_0000;

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

// SAFETY: four words.
unsafe impl Plain for Action {}

/// Actions 1 to 64.
const ENTRIES: u64 = 65;

fn place(table: u64, signal: u32) -> *mut Action {
    (table as *mut Action).wrapping_add(signal.min(64) as usize)
}

/// The program's action for a signal.
pub fn get(context: &Context, signal: u32) -> Action {
    // SAFETY: the table was made by `new_table` for this context.
    unsafe { place(context.actions, signal).read_volatile() }
}

/// Sets the program's action for a signal.
pub fn set(context: &Context, signal: u32, action: Action) {
    // SAFETY: as above.
    unsafe { place(context.actions, signal).write_volatile(action) }
}

/// What the kernel keeps of an action: the flags that it knows (since 5.11), and a mask without what cannot be blocked.
pub fn accepted(action: Action) -> Action {
    const FLAGS: u64 = 0xdc00_0807;
    const NEVER_BLOCKED: u64 = 1 << (9 - 1) | 1 << (19 - 1);
    Action {
        flags: action.flags & FLAGS,
        mask: action.mask & !NEVER_BLOCKED,
        ..action
    }
}

/// An empty table: default actions.
pub fn new_table() -> u64 {
    own_memory::reserve(ENTRIES * size_of::<Action>() as u64)
}

/// A table of its own for a child that shares memory but not handlers.
pub fn copy_table(from: u64) -> u64 {
    let to = new_table();
    for signal in 0..ENTRIES as u32 {
        // SAFETY: both were made by `new_table`.
        unsafe { place(to, signal).write_volatile(place(from, signal).read_volatile()) }
    }
    to
}

/// The kernel's action for a signal: sets it, tells what it was.
pub fn native(signal: u32, action: Option<&Action>, old: Option<&mut Action>) -> i64 {
    let new = action.map_or(0, |a| core::ptr::from_ref(a) as u64);
    let old = old.map_or(0, |a| core::ptr::from_mut(a) as u64);
    // SAFETY: kernel-layout structures of ours.
    unsafe { sys::call(nr::RT_SIGACTION, [u64::from(signal), new, old, 8, 0, 0]) }
}
