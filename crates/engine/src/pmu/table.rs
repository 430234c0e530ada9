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

use super::attr::Request;
use super::page::{Page, State};
use super::reading::{MOST_MEMBERS, Member};
use super::{COUNTER, Quantity, errno::*};

/// Events that can be open at a time in one run (a power of two).
pub const MOST: usize = 8192;
/// Threads and processes of a run.
const SLOTS: usize = crate::layout::MAX_SLOTS as usize;

/// What the table asks about threads, and where the pages are.
pub trait World {
    /// Instructions of a slot so far.
    fn count(&self, slot: u32) -> u64;
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
    entries: [Entry; MOST],
}

fn link(index: u32) -> u32 {
    index + 1
}

impl Table {
    fn at(&self, event: u32) -> &Entry {
        &self.entries[event as usize & (MOST - 1)]
    }
    fn edit(&mut self, event: u32) -> &mut Entry {
        &mut self.entries[event as usize & (MOST - 1)]
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
        for _ in 0..MOST {
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
        for _ in 0..MOST {
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
        for _ in 0..=MOST_MEMBERS {
            let Some(member) = next.checked_sub(1) else {
                return;
            };
            next = self.at(member).next_member;
            each(self, member);
        }
    }

    /// Whether the table is full: [`Self::sweep`] may help.
    pub fn is_full(&self) -> bool {
        self.used as usize >= MOST
    }

    fn take(&mut self, slot: u32, fresh: Entry) -> Option<u32> {
        for step in 0..MOST as u32 {
            let event = self.hint.wrapping_add(step) & (MOST as u32 - 1);
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
            if !fits || members >= MOST_MEMBERS {
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
        if entry.quantity == Quantity::Instructions as u32 {
            world.count(entry.slot)
        } else {
            0
        }
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

    /// The thread in `parent` is about to make the one in `child`. False: the
    /// table is full, and nothing was inherited.
    pub fn cloned(&mut self, parent: u32, child: u32, thread: bool, world: &impl World) -> bool {
        let mut fits = true;
        // Leaders first, so that members find theirs.
        for leaders in [true, false] {
            self.of_slot(parent, |table, event| {
                let entry = *table.at(event);
                let leader = *table.at(entry.leader);
                let wanted = leader.flags & flag::INHERIT != 0
                    && (thread || leader.flags & flag::THREADS_ONLY == 0)
                    && leader.flags & flag::REMOVED == 0;
                if wanted && (entry.leader == event) == leaders {
                    fits &= table.inherit(event, child, world);
                }
            });
        }
        if !fits {
            self.forget(child);
        }
        fits
    }

    fn inherit(&mut self, event: u32, child: u32, world: &impl World) -> bool {
        let from = *self.at(event);
        let keep = flag::INHERIT | flag::THREADS_ONLY | flag::ON_EXEC | flag::REMOVE_ON_EXEC;
        let fresh = Entry {
            flags: flag::USED | flag::CHILD | from.flags & (keep | flag::ENABLED),
            root: from.root,
            quantity: from.quantity,
            read_format: from.read_format,
            ..FREE
        };
        let Some(new) = self.take(child, fresh) else {
            return false;
        };
        let mut leader = new;
        if from.leader != event {
            // The child's copy of the leader: same root as the leader's.
            let root = self.at(from.leader).root;
            self.of_slot(child, |table, other| {
                if other != new && table.at(other).root == root {
                    leader = other;
                }
            });
        }
        self.edit(new).leader = leader;
        if leader != new {
            self.append(leader, new);
        }
        let first = self.at(from.root).next_child;
        self.edit(new).next_child = first;
        self.edit(from.root).next_child = link(new);
        self.settle(new, world);
        true
    }

    /// The slot came to nothing (`clone` failed): as if it had never been.
    pub fn forget(&mut self, slot: u32) {
        while let Some(event) = self.head(slot).checked_sub(1) {
            self.free(event);
        }
    }

    /// The thread ends here: what it inherited goes to the events it is from.
    pub fn ended(&mut self, slot: u32, world: &impl World) {
        self.of_slot(slot, |table, event| {
            table.pause(event, world);
            if table.has(event, flag::CHILD) {
                let (count, time, root) = {
                    let entry = table.at(event);
                    (entry.count, entry.time, entry.root)
                };
                let root = table.edit(root);
                root.gone = root.gone.wrapping_add(count);
                root.gone_time = root.gone_time.wrapping_add(time);
                table.free(event);
            } else {
                table.tell(event, world);
            }
        });
    }

    /// `execve` replaced the image in `old` by the one in `new`.
    pub fn replaced(&mut self, old: u32, new: u32, world: &impl World) {
        let mut last = 0;
        self.of_slot(old, |table, event| {
            table.pause(event, world);
            let entry = table.edit(event);
            entry.slot = new;
            if entry.flags & flag::ON_EXEC != 0 {
                entry.flags |= flag::ENABLED;
                entry.flags &= !flag::ON_EXEC;
            }
            if entry.flags & flag::REMOVE_ON_EXEC != 0 {
                entry.flags |= flag::REMOVED;
            }
            last = link(event);
        });
        let first = core::mem::take(self.head(old));
        if let Some(last) = last.checked_sub(1) {
            let next = core::mem::replace(self.head(new), first);
            self.edit(last).next = next;
        }
        self.of_slot(new, |table, event| table.settle(event, world));
    }

    /// Takes an entry out of every list.
    fn free(&mut self, event: u32) {
        let entry = *self.at(event);
        // Its thread's list.
        if *self.head(entry.slot) == link(event) {
            *self.head(entry.slot) = entry.next;
        }
        self.of_slot(entry.slot, |table, other| {
            let other = table.edit(other);
            if other.next == link(event) {
                other.next = entry.next;
            }
        });
        // Its group.
        if entry.leader == event {
            // Members go on alone.
            let mut next = entry.next_member;
            for _ in 0..MOST_MEMBERS {
                let Some(member) = next.checked_sub(1) else {
                    break;
                };
                let member_entry = self.edit(member);
                next = core::mem::take(&mut member_entry.next_member);
                member_entry.leader = member;
            }
        } else {
            self.group(entry.leader, |table, other| {
                let other = table.edit(other);
                if other.next_member == link(event) {
                    other.next_member = entry.next_member;
                }
            });
        }
        // Its family.
        if entry.flags & flag::CHILD != 0 {
            self.family(entry.root, |table, other| {
                let other = table.edit(other);
                if other.next_child == link(event) {
                    other.next_child = entry.next_child;
                }
            });
        }
        *self.edit(event) = FREE;
        self.used = self.used.saturating_sub(1);
    }

    /// Frees what nobody can ask for any more: events without a descriptor (or
    /// mapping), and what threads inherited that were killed.
    pub fn sweep(
        &mut self,
        open: impl Fn(u32) -> bool,
        lives: impl Fn(u32) -> bool,
        world: &impl World,
    ) {
        for event in 0..MOST as u32 {
            let entry = *self.at(event);
            let (used, child) = (
                entry.flags & flag::USED != 0,
                entry.flags & flag::CHILD != 0,
            );
            if used && child && !lives(entry.slot) {
                self.ended(entry.slot, world);
            } else if used && !child && !open(event) {
                self.close(event, world);
            }
        }
    }

    /// Other members of the event's group into `members`; returns how many.
    pub fn companions(&mut self, event: u32, members: &mut [u32; MOST_MEMBERS]) -> usize {
        let mut count = 0;
        self.group(event, |_, member| {
            if let Some(place) = members.get_mut(count)
                && member != event
            {
                *place = member;
                count += 1;
            }
        });
        count
    }

    /// Nobody has the event open any more: it goes, with what was inherited.
    /// Members of a group that it led count by themselves from here on.
    pub fn close(&mut self, event: u32, world: &impl World) {
        let mut members = [0u32; MOST_MEMBERS];
        let led = self.at(event).leader == event;
        let count = if led {
            self.companions(event, &mut members)
        } else {
            0
        };
        while let Some(child) = self.at(event).next_child.checked_sub(1) {
            self.free(child);
        }
        self.free(event);
        for &member in members.iter().take(count) {
            self.family(member, |table, event| table.settle(event, world));
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
#[path = "table_tests.rs"]
mod tests;
