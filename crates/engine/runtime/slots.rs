//! Slots of the totals file: one a thread, each with a [`Context`] that its thread uses, and of which
//! others see what is atomic or was written before they learned of it.

use crate::check;
use crate::layout::{Context, Header, MAX_SLOTS, REGION, TOTALS_BASE};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Memory of a thread: signal stack below, then the runtime's stack.
pub const SIGNAL_STACK: u64 = 64 << 10;
pub const STACK: u64 = 128 << 10;

/// The totals file's header.
pub fn header() -> &'static Header {
    // SAFETY: mapped by rt_start before anything else runs; what changes in it is atomic.
    unsafe { &*(TOTALS_BASE as *const Header) }
}

/// A slot nobody used yet.
pub fn new_slot() -> u32 {
    let slot = header().next_slot.fetch_add(1, Relaxed);
    check!(
        slot < MAX_SLOTS,
        "more than {MAX_SLOTS} threads and processes in one run"
    );
    slot
}

/// Address of a slot's context.
pub fn context_at(slot: u32) -> u64 {
    TOTALS_BASE + u64::from(slot % MAX_SLOTS) * REGION
}

/// The slot of a context.
pub fn slot_of(context: &Context) -> u32 {
    ((context.this - TOTALS_BASE) / REGION) as u32
}

/// The calling thread's context. Every thread of ours has GS there (signals are blocked where it has
/// not yet).
pub fn current() -> *mut Context {
    let context: u64;
    // SAFETY: see above.
    unsafe {
        core::arch::asm!("mov {}, gs:[{}]", out(reg) context,
            const offset_of!(Context, this), options(nostack, readonly));
    }
    context as *mut Context
}

/// What any thread may look at in a slot's context, whosever it is.
#[derive(Clone, Copy)]
pub struct Slot(u32);

/// A field that is atomic, or a plain one, read as it is now.
macro_rules! fields {
    ($(atomic $atomic:ident: $type:ty;)* $(plain $plain:ident: $word:ty;)*) => {
        impl Slot {
            $(pub fn $atomic(self) -> &'static $type {
                let context = context_at(self.0) as *const Context;
                // SAFETY: the totals file is mapped for good, and the field is atomic.
                unsafe { &*(&raw const (*context).$atomic) }
            })*
            $(pub fn $plain(self) -> $word {
                let context = context_at(self.0) as *const Context;
                // SAFETY: mapped for good; any bytes are an integer.
                unsafe { (&raw const (*context).$plain).read_volatile() }
            })*
        }
    };
}

fields! {
    atomic count: AtomicU64;
    atomic lanes: [AtomicU64; 7];
    atomic state: AtomicU32;
    atomic ran: AtomicU64;
    atomic counters: AtomicU32;
    atomic base: AtomicU32;
    atomic base_counters: AtomicU32;
    atomic base_log: [AtomicU32; 2];
    atomic log_len: AtomicU32;
    atomic log_more: AtomicU32;
    plain tid: u32;
    plain pid: u32;
    plain space: u32;
}

/// The view of a slot.
pub fn slot(number: u32) -> Slot {
    Slot(number % MAX_SLOTS)
}

impl Slot {
    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }
}
