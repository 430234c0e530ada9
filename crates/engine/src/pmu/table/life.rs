//! Events when threads begin and end, images are replaced, descriptors go.
//! As `perf_event_init_task`, `perf_event_exit_task`, `perf_event_exec` and
//! `perf_group_detach` in `kernel/events/core.c`.

use super::{Entry, FREE, MAX_EVENTS, Table, World, flag, link};
use crate::pmu::reading::MAX_MEMBERS;

impl Table {
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
            for _ in 0..MAX_MEMBERS {
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
        for event in 0..MAX_EVENTS as u32 {
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
    pub fn companions(&mut self, event: u32, members: &mut [u32; MAX_MEMBERS]) -> usize {
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
        let mut members = [0u32; MAX_MEMBERS];
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
