//! The run's table of events: its lock, and what it asks about threads.
//!
//! The lock is shared by processes that can be killed while they hold it, so it
//! names its holder: who finds the holder gone takes it over. (The lists of the
//! table may then lack an entry; walks are bounded.)

use super::descriptor::Probe;
use crate::layout::{EVENT_PAGES, EVENT_TABLE, TOTALS_BASE, state as slot_state};
use crate::pmu::Quantity;
use crate::pmu::page::{BYTES, Page};
use crate::pmu::table::{MAX_EVENTS, Table, World};
use crate::slots::{self, Slot};
use crate::syscall_table as nr;
use crate::xlate::facts::Event;
use crate::{counts, sys};
use core::sync::atomic::Ordering::*;

/// Somebody waits for the lock.
const WAITERS: u32 = 1 << 31;

const _: () = assert!(EVENT_TABLE + size_of::<Table>() as u64 <= crate::layout::SCHEDULE);
const _: () =
    assert!(EVENT_PAGES + MAX_EVENTS as u64 * BYTES <= TOTALS_BASE + crate::layout::REGION);

/// Threads of the run, as the table sees them.
pub struct Threads;

impl World for Threads {
    fn count(&self, slot: u32, quantity: Quantity) -> u64 {
        if let Quantity::Instructions = quantity {
            return counts::instructions(slot);
        }
        let sums = counts::sum_events(slot);
        match quantity {
            Quantity::Instructions => sums[Event::Instructions as usize],
            Quantity::Branches => sums[Event::Branches as usize],
            Quantity::Loads => sums[Event::Loads as usize],
            Quantity::Stores => sums[Event::Stores as usize],
            Quantity::Nothing => 0,
        }
    }

    fn registers(&self) -> bool {
        !counts::per_block()
    }

    /// The thread's own CPU time. Of a thread in another process only the whole
    /// process's can be asked, and of one that was killed nothing (0).
    fn time(&self, slot: u32) -> u64 {
        let thread = slots::slot(slot);
        let ended = thread.ran().load(Acquire);
        if ended != 0 {
            return ended;
        }
        // Clock ids: include/linux/posix-timers_types.h.
        let clock = |id: u32, kind: u64| (!u64::from(id)) << 3 | kind;
        match (thread.tid(), thread.pid()) {
            (0, _) => 0,
            (tid, _) if tid == own().tid() => own_time(),
            (tid, pid) if pid == own().pid() => read_clock(clock(tid, 6)).unwrap_or(0),
            (_, pid) => read_clock(clock(pid, 2)).unwrap_or(0),
        }
    }

    fn page(&self, event: u32) -> &Page {
        let at = EVENT_PAGES + u64::from(event) % MAX_EVENTS as u64 * BYTES;
        // SAFETY: the pages lie in the totals file, mapped for good; a page is atomics.
        unsafe { &*(at as *const Page) }
    }
}

/// The calling thread, as others see it.
fn own() -> Slot {
    // SAFETY: the calling thread's own context; `this` never changes.
    let this = unsafe { (&raw const (*slots::current()).this).read() };
    slots::slot(crate::totals::slot_at(this))
}

fn read_clock(clock: u64) -> Option<u64> {
    let mut time = [0u64; 2];
    // The kernel takes an int.
    let clock = i64::from(clock as i32) as u64;
    // SAFETY: clock_gettime into a timespec of ours.
    let result = unsafe {
        sys::call(
            nr::CLOCK_GETTIME,
            [clock, time.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    (result == 0).then(|| time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1]))
}

/// CPU time of the calling thread.
pub fn own_time() -> u64 {
    read_clock(3).unwrap_or(0) // CLOCK_THREAD_CPUTIME_ID
}

/// Does `work` on the table under its lock.
pub fn with<T>(work: impl FnOnce(&mut Table, &Threads) -> T) -> T {
    lock();
    // SAFETY: the table lies in the totals file, mapped for good, zero at first;
    // the lock makes this the only reference.
    let table = unsafe { &mut *(EVENT_TABLE as *mut Table) };
    let result = work(table, &Threads);
    let word = &slots::header().events_lock;
    if word.swap(0, Release) & WAITERS != 0 {
        sys::futex_wake(word);
    }
    result
}

fn lock() {
    let word = &slots::header().events_lock;
    let own = own().tid();
    let mut mine = own;
    loop {
        let Err(held) = word.compare_exchange(0, mine, Acquire, Relaxed) else {
            return;
        };
        // Others may wait, too: so the one who got it after waiting wakes them.
        mine = own | WAITERS;
        let holder = held & !WAITERS;
        if word
            .compare_exchange(held, held | WAITERS, Relaxed, Relaxed)
            .is_err()
        {
            continue;
        }
        sys::futex_wait(word, held | WAITERS, 10);
        // SAFETY: signal 0 only asks whether the thread exists.
        let gone = unsafe { sys::call(nr::TKILL, [u64::from(holder), 0, 0, 0, 0, 0]) } == -3;
        if gone
            && word
                .compare_exchange(held | WAITERS, mine, Acquire, Relaxed)
                .is_ok()
        {
            return;
        }
    }
}

/// The slot of a thread, by its id. The newest of that id.
pub fn slot_of_thread(tid: u32) -> Option<u32> {
    let end = slots::header()
        .next_slot
        .load(Acquire)
        .min(crate::layout::MAX_SLOTS);
    (1..end).rev().find(|&slot| {
        let thread = slots::slot(slot);
        let state = thread.state().load(Acquire);
        thread.tid() == tid && matches!(state, slot_state::LIVE | slot_state::FREE)
    })
}

/// Frees entries that nobody needs any more.
pub fn sweep(table: &mut Table, world: &Threads) {
    let probe = Probe::new();
    let lives = |slot: u32| {
        let thread = slots::slot(slot);
        match thread.state().load(Acquire) {
            slot_state::FREE => true,
            // SAFETY: signal 0 only asks whether the thread exists.
            slot_state::LIVE => unsafe {
                sys::call(nr::TKILL, [u64::from(thread.tid()), 0, 0, 0, 0, 0]) != -3
            },
            _ => false,
        }
    };
    table.sweep(|event| probe.is_open(event), lives, world);
}
