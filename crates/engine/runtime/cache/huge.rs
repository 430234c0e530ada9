//! Huge pages under the code of programs that run for long, and under the tables of indirect branches: translated code
//! takes more room than the program's own, so it needs more entries of the CPU's tables of translations (TLBs), and a
//! miss costs twice as much in a virtual machine. A part is copied to a huge page, which then takes the part's place in
//! one call; code does not change meanwhile, since that takes the engine's lock.
//!
//! Source: kernel `Documentation/admin-guide/mm/transhuge.rst`, mremap(2).

use super::Cache;
use crate::layout::{HUGE, WATCHED};
use crate::own_memory::{self, AREA};
use crate::syscall_table as nr;
use crate::{clock, counts, filtered, slots, sys};

/// Instructions that a thread has executed before the tables are moved, which every indirect branch reads …
const TABLES: u64 = 40_000_000;
/// … before the first part of the code is: no short program pays for it …
const FIRST: u64 = 150_000_000;
/// … and from one part to the next: moving one takes about as long as a tenth of these.
const STEP: u64 = 20_000_000;
/// When there was nothing to move.
const LATER: u64 = 100_000_000;
const _: () = assert!(AREA / HUGE <= u32::BITS as u64);
/// Where no total is kept: the process's CPU time instead, looked at each so many visits to the runtime. (How many visits
/// there are says little: code that was kept has few.) A nanosecond for an instruction.
const VISITS: u64 = 64;

/// How far it is.
pub(super) struct Huge {
    /// The number of instructions at which the next part is moved.
    due: u64,
    visits: u64,
    /// The tables are moved.
    tables: bool,
}

impl Huge {
    pub(super) const fn new() -> Self {
        Self {
            due: TABLES,
            visits: 0,
            tables: false,
        }
    }
}

const _: () = assert!(WATCHED >= HUGE);

/// Whether the tables at `low` can begin with a huge page.
fn has_room(low: u64) -> bool {
    low.is_multiple_of(HUGE)
}

/// After so many bytes of what is at `low` another mapping may begin.
pub(super) fn split(low: u64) -> u64 {
    if has_room(low) { HUGE } else { 0 }
}

/// Puts a huge page in the place of what is at `at`; false where the kernel gives none.
fn replace(at: u64) -> bool {
    const MADV_HUGEPAGE: u64 = 14;
    // MAYMOVE | FIXED
    const MOVES: u64 = 3;
    let new = own_memory::addresses(2 * HUGE).next_multiple_of(HUGE);
    // PROT_READ|WRITE|EXEC; PRIVATE|ANONYMOUS|NORESERVE|FIXED_NOREPLACE
    let (prot, flags) = (7, 0x2 | 0x20 | 0x4000 | 0x10_0000);
    // SAFETY: fresh memory at addresses of ours, filled with what is at `at`, which nobody changes without the lock.
    unsafe {
        let got = sys::call(nr::MMAP, [new, HUGE, prot, flags, u64::MAX, 0]);
        if got < 0 {
            return false;
        }
        let moved = got as u64 == new
            && sys::call(nr::MADVISE, [new, HUGE, MADV_HUGEPAGE, 0, 0, 0]) == 0
            && {
                core::ptr::copy_nonoverlapping(
                    at as *const u64,
                    new as *mut u64,
                    HUGE as usize / 8,
                );
                sys::call(nr::MREMAP, [new, HUGE, HUGE, MOVES, at, 0]) == at as i64
            };
        if !moved {
            sys::call(nr::MUNMAP, [got as u64, HUGE, 0, 0, 0, 0]);
        }
        moved
    }
}

impl Cache {
    /// Moves a part to a huge page, where it is time for that; `slot` is the thread's.
    pub fn enlarge_pages(&mut self, slot: u32) {
        if slots::header().huge_pages == 0 || filtered::on() {
            return;
        }
        self.huge.visits += 1;
        let done = match counts::per_block() {
            true if !self.huge.visits.is_multiple_of(VISITS) => return,
            // CLOCK_PROCESS_CPUTIME_ID
            true => clock::real(2),
            false => slots::slot(slot).total(),
        };
        if done < self.huge.due {
            return;
        }
        self.huge.due = done + STEP;
        if !self.huge.tables {
            self.huge.tables = true;
            self.huge.due = self.huge.due.max(FIRST);
            let low = own_memory::low();
            if has_room(low) && !replace(low) {
                self.huge.due = u64::MAX;
            }
            return;
        }
        match self.next_part() {
            Some((area, part)) => {
                self.areas.get(area).huge |= 1 << part;
                if !replace(self.areas.get(area).base + part * HUGE) {
                    self.huge.due = u64::MAX;
                }
            }
            None => self.huge.due = done + LATER,
        }
    }

    /// The first part of an area that is full of code and was not moved: its area and number.
    fn next_part(&mut self) -> Option<(usize, u64)> {
        for at in 0..self.area_count {
            let area = *self.areas.get(at);
            for part in (0..AREA / HUGE).filter(|part| area.huge >> part & 1 == 0) {
                let start = area.base + part * HUGE;
                let mut sections = self.sections.slice().iter();
                if area.base.is_multiple_of(HUGE)
                    && sections.any(|section| section.is_filled(start, start + HUGE))
                {
                    return Some((at, part));
                }
            }
        }
        None
    }
}
