//! Entries that a thread's stack before had, too: where samples come closer together than the stack is long, the
//! hardware had not replaced them yet, and they are recorded twice. They are counted and said, not dropped: in a loop
//! that repeats itself exactly nothing tells an old entry from a new one like it.

use rustc_hash::FxHashMap;

use crate::branch::BranchEntry;

/// Fewer equal entries may be chance: two rounds of a loop.
const MIN_ENTRIES: usize = 4;
/// Threads that are remembered.
const MOST_THREADS: usize = 1 << 16;

/// The last stack of each thread, newest first.
#[derive(Debug, Default)]
pub(crate) struct Overlaps {
    last: FxHashMap<u32, Vec<BranchEntry>>,
}

impl Overlaps {
    /// How many entries of a stack (newest first) are those of the thread's stack before.
    pub(crate) fn count(&mut self, thread: u32, entries: impl Iterator<Item = BranchEntry>) -> u64 {
        if self.last.len() >= MOST_THREADS && !self.last.contains_key(&thread) {
            self.last.clear();
        }
        let last = self.last.entry(thread).or_default();
        let stack: Vec<BranchEntry> = entries.collect();
        let overlap = overlap(last, &stack);
        *last = stack;
        overlap as u64
    }
}

/// The older entries of `new` that are the newest of `old`, when that is so in one way only.
fn overlap(old: &[BranchEntry], new: &[BranchEntry]) -> usize {
    let mut found = 0;
    for fresh in 0..new.len() {
        let older = new.get(fresh..).unwrap_or_default();
        if older.len() < MIN_ENTRIES {
            break;
        }
        if old.get(..older.len()) == Some(older) {
            if found > 0 {
                return 0;
            }
            found = older.len();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(addresses: &[u64]) -> Vec<BranchEntry> {
        let entry = |&at: &u64| BranchEntry {
            from: at,
            to: at + 8,
            bits: 0,
        };
        addresses.iter().map(entry).collect()
    }

    #[test]
    fn what_was_recorded_twice_is_counted_once_more() {
        let mut overlaps = Overlaps::default();
        let mut count =
            |thread, addresses: &[u64]| overlaps.count(thread, stack(addresses).into_iter());
        assert_eq!(count(1, &[6, 5, 4, 3, 2, 1]), 0);
        assert_eq!(count(1, &[8, 7, 6, 5, 4, 3]), 4);
        assert_eq!(count(2, &[9, 8, 7, 6, 5, 4]), 0, "another thread's");
        assert_eq!(count(1, &[8, 7, 6, 5, 4, 3]), 6, "the same again");
        assert_eq!(count(1, &[20, 19, 18, 8, 7, 6]), 0, "too few");
        // A loop of one branch: nothing tells whether these are the same.
        assert_eq!(count(1, &[1, 1, 1, 1, 1, 1]), 0);
        assert_eq!(count(1, &[1, 1, 1, 1, 1, 1]), 0);
    }
}
