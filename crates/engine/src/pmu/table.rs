//! All events of a run: who counts what since when. The table lies in memory
//! that every process of the run maps (zero-filled at first), so that a parent
//! can count its child. Callers hold the run's event lock.
//!
//! An event costs nothing while code runs: every thread counts anyway, and an
//! event is the difference of its thread's count now and when it was enabled.
//! Semantics: `perf_event_init_task`, `__perf_effective_state`,
//! `perf_event_enable_on_exec` in `kernel/events/core.c`.
//!
//! Links are an index plus 1; 0 ends a list.

mod life;

use super::attr::Request;
use super::page::{Page, State};
use super::reading::{MAX_MEMBERS, Member};
use super::{COUNTER, Quantity, errno::*};

/// Events that can be open at a time in one run (a power of two).
pub const MAX_EVENTS: usize = 8192;
/// Threads and processes of a run.
const SLOTS: usize = crate::layout::MAX_SLOTS as usize;

/// What the table asks about threads, and where the pages are.
pub trait World {
    /// What a slot has counted so far.
    fn count(&self, slot: u32, quantity: Quantity) -> u64;
    /// Nanoseconds that a slot's thread has run.
    fn time(&self, slot: u32) -> u64;
    /// Whether `rdpmc` reads counters (a running total is kept).
    fn registers(&self) -> bool;
    /// Page of an event.
    fn page(&self, event: u32) -> &Page;
}

/// Bits of [`Entry::flags`].
mod flag {
    /// Not free.
    pub const USED: u32 = 1;
    /// Made by `fork` or `clone` for an inherited event.
    pub const CHILD: u32 = 2;
    /// Enabled itself (its leader may not be).
    pub const ENABLED: u32 = 4;
    /// Counting now.
    pub const COUNTING: u32 = 8;
    pub const INHERIT: u32 = 16;
    pub const THREADS_ONLY: u32 = 32;
    pub const ON_EXEC: u32 = 64;
    pub const REMOVE_ON_EXEC: u32 = 128;
    /// Removed: reading gives the end of file.
    pub const REMOVED: u32 = 256;
}

/// One event of one thread.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    flags: u32,
    /// The thread.
    slot: u32,
    /// Next entry of the same thread.
    next: u32,
    /// The event that the program opened (itself, unless a child).
    root: u32,
    /// Leader of its group (itself, if alone).
    leader: u32,
    /// Next member of the group, in order of opening.
    next_member: u32,
    /// Next child of the same root; in a root, its first.
    next_child: u32,
    /// [`Quantity`].
    quantity: u32,
    id: u64,
    read_format: u64,
    /// Counted up to `start`.
    count: u64,
    /// The thread's count when counting began.
    start: u64,
    time: u64,
    time_start: u64,
    /// Of children that have ended.
    gone: u64,
    gone_time: u64,
}

/// The table. All zero is an empty one.
#[repr(C)]
pub struct Table {
    last_id: u64,
    /// Where the search for a free entry begins.
    hint: u32,
    /// How many are in use.
    used: u32,
    heads: [u32; SLOTS],
    entries: [Entry; MAX_EVENTS],
}

fn link(index: u32) -> u32 {
    index + 1
}

impl Table {
    fn at(&self, event: u32) -> &Entry {
        &self.entries[event as usize & (MAX_EVENTS - 1)]
    }
    fn edit(&mut self, event: u32) -> &mut Entry {
        &mut self.entries[event as usize & (MAX_EVENTS - 1)]
    }
    fn has(&self, event: u32, bits: u32) -> bool {
        self.at(event).flags & bits == bits
    }
    fn head(&mut self, slot: u32) -> &mut u32 {
        &mut self.heads[slot as usize & (SLOTS - 1)]
    }

    /// Entries of a thread, one after the other, into `each`.
    fn of_slot(&mut self, slot: u32, mut each: impl FnMut(&mut Self, u32)) {
        let mut next = *self.head(slot);
        for _ in 0..MAX_EVENTS {
            let Some(event) = next.checked_sub(1) else {
                return;
            };
            next = self.at(event).next;
            each(self, event);
        }
    }

    /// The event and its living children.
    fn family(&mut self, root: u32, mut each: impl FnMut(&mut Self, u32)) {
        let mut next = self.at(root).next_child;
        each(self, root);
        for _ in 0..MAX_EVENTS {
            let Some(child) = next.checked_sub(1) else {
                return;
            };
            next = self.at(child).next_child;
            each(self, child);
        }
    }

    /// A group, its leader first.
    fn group(&mut self, event: u32, mut each: impl FnMut(&mut Self, u32)) {
        let mut next = link(self.at(event).leader);
        for _ in 0..=MAX_MEMBERS {
            let Some(member) = next.checked_sub(1) else {
                return;
            };
            next = self.at(member).next_member;
            each(self, member);
        }
    }

    /// Whether the table is full: [`Self::sweep`] may help.
    pub fn is_full(&self) -> bool {
        self.used as usize >= MAX_EVENTS
    }

    fn take(&mut self, slot: u32, fresh: Entry) -> Option<u32> {
        for step in 0..MAX_EVENTS as u32 {
            let event = self.hint.wrapping_add(step) & (MAX_EVENTS as u32 - 1);
            if self.at(event).flags == 0 {
                self.hint = event + 1;
                self.used += 1;
                let head = self.head(slot);
                let next = *head;
                *head = link(event);
                self.last_id += 1;
                let id = self.last_id;
                *self.edit(event) = Entry {
                    slot,
                    next,
                    id,
                    ..fresh
                };
                return Some(event);
            }
        }
        None
    }

    /// A new event of the thread in `slot`.
    ///
    /// # Errors
    /// EINVAL for a leader that cannot lead it, ENFILE when the table is full.
    pub fn open(
        &mut self,
        request: &Request,
        slot: u32,
        leader: Option<u32>,
        world: &impl World,
    ) -> Result<u32, i64> {
        if let Some(leader) = leader {
            let head = self.at(leader);
            let mut members = 0;
            let fits = head.leader == leader && head.slot == slot && !request.alone;
            self.group(leader, |_, _| members += 1);
            if !fits || members >= MAX_MEMBERS {
                return Err(EINVAL);
            }
        }
        let mut flags = flag::USED;
        for (asked, bit) in [
            (!request.disabled, flag::ENABLED),
            (request.inherit, flag::INHERIT),
            (request.inherit_thread, flag::THREADS_ONLY),
            (request.enable_on_exec, flag::ON_EXEC),
            (request.remove_on_exec, flag::REMOVE_ON_EXEC),
        ] {
            flags |= if asked { bit } else { 0 };
        }
        let fresh = Entry {
            flags,
            quantity: request.quantity as u32,
            read_format: request.read_format,
            ..FREE
        };
        let event = self.take(slot, fresh).ok_or(ENFILE)?;
        self.edit(event).root = event;
        self.edit(event).leader = leader.unwrap_or(event);
        if let Some(leader) = leader {
            self.append(leader, event);
        }
        world.page(event).init(State::default());
        self.settle(event, world);
        Ok(event)
    }

    fn append(&mut self, leader: u32, event: u32) {
        let mut last = leader;
        self.group(leader, |_, member| last = member);
        self.edit(last).next_member = link(event);
    }

    fn thread_count(&self, event: u32, world: &impl World) -> u64 {
        let entry = self.at(event);
        const COUNTED: [Quantity; 4] = [
            Quantity::Instructions,
            Quantity::Branches,
            Quantity::Loads,
            Quantity::Stores,
        ];
        COUNTED
            .into_iter()
            .find(|&quantity| quantity as u32 == entry.quantity)
            .map_or(0, |quantity| world.count(entry.slot, quantity))
    }

    /// Begins or ends counting, as the event's and its leader's state demand,
    /// and tells the page.
    fn settle(&mut self, event: u32, world: &impl World) {
        let leader = self.at(event).leader;
        let counts = self.has(event, flag::ENABLED)
            && self.has(leader, flag::ENABLED)
            && !self.has(event, flag::REMOVED);
        self.pause(event, world);
        if counts {
            let (now, time) = (
                self.thread_count(event, world),
                world.time(self.at(event).slot),
            );
            let entry = self.edit(event);
            entry.flags |= flag::COUNTING;
            entry.start = now;
            entry.time_start = time;
        }
        self.tell(event, world);
    }

    /// Brings an event's count up to now and stops it.
    fn pause(&mut self, event: u32, world: &impl World) {
        if self.has(event, flag::COUNTING) {
            let (count, time) = self.current(event, world);
            let entry = self.edit(event);
            entry.flags &= !flag::COUNTING;
            entry.count = count;
            entry.time = time;
        }
    }

    /// The page of an event that the program opened.
    fn tell(&mut self, event: u32, world: &impl World) {
        let entry = self.at(event);
        if entry.flags & flag::CHILD != 0 {
            return;
        }
        let shown = entry.flags & flag::COUNTING != 0 && world.registers();
        world.page(event).set(State {
            index: if shown {
                COUNTER + 1 + entry.quantity
            } else {
                0
            },
            offset: if shown {
                entry.count.wrapping_sub(entry.start)
            } else {
                entry.count
            },
            time: entry.time,
        });
    }

    /// Count and time of one entry alone.
    fn current(&self, event: u32, world: &impl World) -> (u64, u64) {
        let entry = self.at(event);
        if entry.flags & flag::COUNTING == 0 {
            return (entry.count, entry.time);
        }
        let passed = world.time(entry.slot).saturating_sub(entry.time_start);
        let count = self.thread_count(event, world).wrapping_sub(entry.start);
        (
            entry.count.wrapping_add(count),
            entry.time.wrapping_add(passed),
        )
    }

    /// Count and time of an event with everything inherited from it.
    fn whole(&mut self, root: u32, world: &impl World) -> (u64, u64) {
        let entry = self.at(root);
        let (mut count, mut time) = (entry.gone, entry.gone_time);
        self.family(root, |table, event| {
            let (one, ran) = table.current(event, world);
            count = count.wrapping_add(one);
            time = time.wrapping_add(ran);
        });
        (count, time)
    }

    /// The event's read format, id and whether it was removed.
    pub fn about(&self, event: u32) -> (u64, u64, bool) {
        let entry = self.at(event);
        (
            entry.read_format,
            entry.id,
            entry.flags & flag::REMOVED != 0,
        )
    }

    /// Whether new threads or children inherit the event.
    pub fn inherits(&self, event: u32) -> bool {
        self.has(event, flag::INHERIT)
    }

    /// Members of the event's group.
    pub fn group_size(&mut self, event: u32) -> usize {
        let mut members = 0;
        self.group(event, |_, _| members += 1);
        members
    }

    /// Reads the event (or its whole group) into `members`; returns how many
    /// there are, and the time of the first.
    pub fn read(
        &mut self,
        event: u32,
        whole_group: bool,
        members: &mut [Member],
        world: &impl World,
    ) -> (usize, u64) {
        let mut seen = 0;
        let mut first_time = None;
        let mut read = |table: &mut Self, event: u32| {
            let (value, time) = table.whole(event, world);
            first_time.get_or_insert(time);
            if let Some(place) = members.get_mut(seen) {
                *place = Member {
                    value,
                    id: table.at(event).id,
                };
                seen += 1;
            }
        };
        if whole_group {
            self.group(event, read);
        } else {
            read(self, event);
        }
        (seen, first_time.unwrap_or(0))
    }

    /// Enables or disables an event, or its whole group, with what was inherited.
    pub fn enable(&mut self, event: u32, on: bool, whole_group: bool, world: &impl World) {
        let switch = |table: &mut Self, event: u32| {
            let entry = table.edit(event);
            entry.flags &= !flag::ENABLED;
            entry.flags |= if on { flag::ENABLED } else { 0 };
            table.settle_with_members(event, world);
        };
        if whole_group {
            self.group(event, |table, member| table.family(member, switch));
        } else {
            self.family(event, switch);
        }
    }

    /// A leader decides for its members.
    fn settle_with_members(&mut self, event: u32, world: &impl World) {
        if self.at(event).leader == event {
            self.group(event, |table, member| table.settle(member, world));
        } else {
            self.settle(event, world);
        }
    }

    /// Sets the count of an event or its whole group to zero.
    pub fn reset(&mut self, event: u32, whole_group: bool, world: &impl World) {
        let zero = |table: &mut Self, event: u32| {
            table.pause(event, world);
            let entry = table.edit(event);
            entry.count = 0;
            entry.gone = 0;
            table.settle(event, world);
        };
        if whole_group {
            self.group(event, |table, member| table.family(member, zero));
        } else {
            self.family(event, zero);
        }
    }
}

const FREE: Entry = Entry {
    flags: 0,
    slot: 0,
    next: 0,
    root: 0,
    leader: 0,
    next_member: 0,
    next_child: 0,
    quantity: 0,
    id: 0,
    read_format: 0,
    count: 0,
    start: 0,
    time: 0,
    time_start: 0,
    gone: 0,
    gone_time: 0,
};

#[cfg(test)]
mod tests;
