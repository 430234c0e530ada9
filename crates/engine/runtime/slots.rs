//! Slots of the totals file: one a thread, each with a [`Context`] that its thread uses, and of which
//! others see what is atomic or was written before they learned of it.

use crate::check;
use crate::layout::{Context, MAX_SLOTS, state as slot_state};
use crate::sys;
use crate::syscall_table as nr;
use crate::totals;
pub use crate::totals::header;
use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Memory of a thread: signal stack below, then the runtime's stack.
pub const SIGNAL_STACK: u64 = 64 << 10;
pub const STACK: u64 = 128 << 10;

/// A slot that nobody has.
pub fn new_slot() -> u32 {
    for turn in 0..250 {
        if let Some(slot) = header().take_slot() {
            return slot;
        }
        if header().reuse == 0 {
            break;
        }
        retire_the_gone();
        if turn > 3 {
            // Others were quicker to take what was found, or threads are about to be gone.
            let word = AtomicU32::new(0);
            sys::futex_wait(&word, 0, 10);
        }
    }
    check!(
        false,
        "more than {} threads and processes {}",
        header().slot_limit,
        if header().reuse != 0 {
            "at the same time"
        } else {
            "in a run with a counter for each block"
        }
    );
    0
}

/// Sees to it that the launcher finds a slot.
pub fn provide() {
    if !header().has_slot() {
        retire_the_gone();
    }
}

/// Gives back a slot in which nothing has run.
pub fn give_back(slot: u32) {
    clear(slot);
    header().give_slot(slot);
}

fn clear(slot: u32) {
    let words = context_at(slot) as *mut u64;
    for at in 0..size_of::<Context>() / 8 {
        // SAFETY: inside the context, which no thread has any more (or yet).
        unsafe { words.add(at).write_volatile(0) };
    }
}

/// Adds what threads that are gone have executed to the sums in the header, and gives their slots back.
fn retire_the_gone() {
    let header = header();
    // An event may still ask for the count of a thread that is gone.
    if header.reuse == 0 || header.events_open.load(Acquire) != 0 {
        return;
    }
    let end = header.next_slot.load(Acquire).min(MAX_SLOTS);
    for slot in (1..end).map(slot) {
        let state = slot.state().load(Acquire);
        if matches!(
            state,
            slot_state::LOG | slot_state::RETIRING | slot_state::MARK
        ) || slot.unborn().load(Acquire) != 0
            || header.strangers.load(Acquire) != 0
        {
            continue;
        }
        // Nobody's slot has no thread; one that was killed before it began has never left that state.
        let thread = [u64::from(slot.pid()), u64::from(slot.tid()), 0, 0, 0, 0];
        // SAFETY: signal 0 only asks whether the thread exists.
        let gone = thread[1] != 0 && unsafe { sys::call(nr::TGKILL, thread) } == -3;
        // (One that dies here takes its count with it: it was killed, or all were.)
        if gone
            && slot
                .state()
                .compare_exchange(state, slot_state::RETIRING, AcqRel, Relaxed)
                .is_ok()
        {
            header.retired_instructions.fetch_add(slot.total(), AcqRel);
            let cut = state == slot_state::LIVE && slot.whole().load(Relaxed) == 0;
            header.retired_cut.fetch_add(u32::from(cut), AcqRel);
            header.retired_blocks[0].fetch_add(slot.translated(), AcqRel);
            header.retired_blocks[1].fetch_add(slot.cached(), AcqRel);
            header
                .retired
                .fetch_add(u32::from(state != slot_state::FREE), AcqRel);
            give_back(slot.number());
        }
    }
}

/// Address of a slot's context.
pub fn context_at(slot: u32) -> u64 {
    totals::region(slot % MAX_SLOTS)
}

/// The slot of a context.
pub fn slot_of(context: &Context) -> u32 {
    totals::slot_at(context.this)
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
    atomic told: AtomicU32;
    atomic epoch: AtomicU64;
    atomic unborn: AtomicU32;
    atomic whole: AtomicU32;
    plain tid: u32;
    plain pid: u32;
    plain space: u32;
    plain leader: u32;
    plain stack: u64;
    plain exit_id: u32;
    plain regs: [u64; 16];
    plain translated: u64;
    plain cached: u64;
}

impl Slot {
    /// In a slot of nodes: how many there are.
    pub fn calls_used(self) -> &'static AtomicU32 {
        let used = context_at(self.0) + offset_of!(Context, calls.used) as u64;
        // SAFETY: the totals file is mapped for good, and the field is atomic.
        unsafe { &*(used as *const AtomicU32) }
    }
}

/// The view of a slot.
pub fn slot(number: u32) -> Slot {
    Slot(number % MAX_SLOTS)
}

impl Slot {
    /// The running total.
    pub fn total(self) -> u64 {
        let lanes = self.lanes().iter().map(|lane| lane.load(Relaxed));
        lanes.fold(self.count().load(Relaxed), u64::wrapping_add)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }
}
