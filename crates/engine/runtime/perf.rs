//! Virtual `perf_event_open`: events of the engine's behind real descriptors.
//!
//! `descriptor` makes and recognises the descriptors, `events` holds the run's
//! table of events under its lock, `open` is the system call itself, `calls`
//! what is done with a descriptor. What events mean is in `crate::pmu`. This
//! file: what threads and images tell the table when they begin and end.

mod calls;
mod descriptor;
mod events;
mod open;

pub use calls::{call, mapping};
pub use descriptor::know_file;
pub use open::open;

use crate::layout::Context;
use crate::slots;
use core::sync::atomic::Ordering::*;

/// Whether any program of the run has opened an event.
pub fn in_use() -> bool {
    slots::header().events_open.load(Acquire) != 0
}

/// Whether the call that the program is about to make is on a descriptor of
/// ours; notes which event it is.
pub fn concerns(context: &mut Context) -> bool {
    let event = in_use()
        .then(|| descriptor::identify(context.regs[7]))
        .flatten();
    context.event = event.unwrap_or(0);
    event.is_some()
}

/// A thread or process is about to be made by `context`'s thread.
pub fn cloned(context: &Context, child: u32, thread: bool) {
    if in_use() {
        let parent = slots::slot_of(context);
        events::with(|table, world| {
            // A full table: once swept, most likely there is room.
            if !table.cloned(parent, child, thread, world) {
                events::sweep(table, world);
                crate::check!(
                    table.cloned(parent, child, thread, world),
                    "too many inherited events in one run"
                );
            }
        });
    }
}

/// It was not made after all.
pub fn not_cloned(child: u32) {
    if in_use() {
        events::with(|table, _| table.forget(child));
    }
}

/// The thread is about to end.
pub fn ended(context: &Context) {
    if in_use() {
        let slot = slots::slot_of(context);
        events::with(|table, world| {
            table.ended(slot, world);
            context.ran.store(events::own_time().max(1), Release);
        });
    }
}

/// A new image begins; its thread may have had another slot before.
pub fn started(context: &Context) {
    if in_use() && context.previous != 0 {
        let slot = slots::slot_of(context);
        events::with(|table, world| table.replaced(context.previous, slot, world));
    }
}
