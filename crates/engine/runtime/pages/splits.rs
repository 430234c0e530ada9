//! Where pages were watched a mapping of the program's may have become several, which need not become one again when
//! they are watched no more: the kernel joins only what shares its anonymous memory. It moves no range of several
//! mappings that changes its size (mremap(2)); so such a range is moved part by part.

use super::Pages;
use crate::sys;
use crate::syscall_table as nr;
use crate::table::Table;

const EFAULT: i64 = -14;
const MAYMOVE: u64 = 1;
const FIXED: u64 = 2;
/// More than there can be at a time, unless the kernel's bound (`vm.max_map_count`) was raised very far.
const MAX: usize = 1 << 20;

/// Addresses, in order.
pub(super) struct Splits(Table<u64>);

impl Splits {
    pub(super) const fn new() -> Self {
        Self(Table::new())
    }

    fn place(&self, address: u64) -> usize {
        self.0.slice().partition_point(|&at| at < address)
    }

    fn add(&mut self, address: u64) {
        if self.0.capacity() == 0 {
            self.0.init(MAX);
        }
        let place = self.place(address);
        if self.0.slice().get(place) != Some(&address) && self.0.room() != 0 {
            self.0.splice(place, place, core::iter::once(address));
        }
    }

    /// The first one inside a range.
    fn inside(&self, start: u64, end: u64) -> Option<u64> {
        let next = self.0.slice().get(self.place(start.saturating_add(1)));
        next.copied().filter(|&at| at < end)
    }

    /// Mappings that begin, or end, in a range are others now.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let (from, to) = (self.place(start), self.place(end.saturating_add(1)));
        if from < to {
            self.0.splice(from, to, core::iter::empty());
        }
    }

    /// A range is somewhere else.
    pub(super) fn moved(&mut self, old: (u64, u64), new: (u64, u64)) {
        if old.0 == new.0 {
            return self.remove(new.1.min(old.1), new.1.max(old.1));
        }
        self.remove(new.0, new.1);
        let mut at = old.0;
        while let Some(next) = self.inside(at, old.1) {
            let place = next - old.0 + new.0;
            if place < new.1 {
                self.add(place);
            }
            at = next;
        }
        self.remove(old.0, old.1);
    }
}

impl Pages {
    /// A page is going to have other permissions than its neighbours. Where it ends a mapping, too: what the program
    /// makes one of both later may be two then.
    pub(super) fn splits(&mut self, number: u64) {
        for address in [number << 12, (number + 1) << 12] {
            self.splits.add(address);
        }
    }

    /// `mremap` with these arguments failed with EFAULT: natively it may not have. Moves the range in the parts that are
    /// there for our sake; their result, or the same error.
    pub fn moved_in_parts(&mut self, a: [u64; 6]) -> i64 {
        let up = |bytes: u64| bytes.saturating_add(0xfff) & !0xfff;
        let (start, old, new, flags) = (a[0], up(a[1]), up(a[2]), a[3]);
        let end = start.saturating_add(old.min(new));
        if old == 0
            || self.splits.inside(start, end).is_none()
            || !self.maps.is_of_one_kind(start, end)
        {
            return EFAULT;
        }
        // SAFETY: the program's call, on a part of the range that it names.
        let call = |number, arguments| unsafe { sys::call(number, arguments) };
        let more = new.saturating_sub(old);
        if flags & FIXED == 0 {
            let last = [end - 0x1000, 0x1000, 0x1000 + more, 0, 0, 0];
            let in_place = call(nr::MREMAP, last);
            if in_place >= 0 {
                return start as i64;
            }
            if flags & MAYMOVE == 0 {
                return in_place;
            }
        }
        let to = if flags & FIXED != 0 {
            a[4]
        } else {
            // PROT_NONE; MAP_PRIVATE|ANONYMOUS|NORESERVE
            let place = call(nr::MMAP, [0, new, 0, 0x4022, u64::MAX, 0]);
            if place < 0 {
                return place;
            }
            place as u64
        };
        if old > new {
            // The kernel has done it already, or would have.
            call(nr::MUNMAP, [end, old - new, 0, 0, 0, 0]);
        }
        let how = flags | MAYMOVE | FIXED;
        let (moved, result) = self.move_parts((start, end), to, (how, more));
        if result >= 0 {
            return to as i64;
        }
        // Back to where it was, over what was to stay there as well.
        self.move_back((start, moved), to);
        if flags & FIXED == 0 {
            call(nr::MUNMAP, [to, new, 0, 0, 0, 0]);
        }
        result
    }

    /// Moves a range, at its end with `more` bytes, part by part. Returns how far that went, and the last result.
    fn move_parts(
        &self,
        (start, end): (u64, u64),
        to: u64,
        (flags, more): (u64, u64),
    ) -> (u64, i64) {
        let (mut at, mut result) = (start, 0);
        while at < end {
            let next = self.splits.inside(at, end).unwrap_or(end);
            let bytes = next - at;
            let behind = if next == end { more } else { 0 };
            let part = [at, bytes, bytes + behind, flags, to + (at - start), 0];
            // SAFETY: the program's call, on a part of the range that it names.
            result = unsafe { sys::call(nr::MREMAP, part) };
            if result < 0 {
                break;
            }
            at = next;
        }
        (at, result)
    }

    /// What was moved away from `start` up to `end` comes back.
    fn move_back(&self, (start, end): (u64, u64), from: u64) {
        let mut at = start;
        while at < end {
            let next = self.splits.inside(at, end).unwrap_or(end);
            let bytes = next - at;
            let part = [from + (at - start), bytes, bytes, MAYMOVE | FIXED, at, 0];
            // SAFETY: as in `move_parts`.
            unsafe { sys::call(nr::MREMAP, part) };
            at = next;
        }
    }
}
