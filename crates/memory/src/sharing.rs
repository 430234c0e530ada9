//! Lines that several threads use, and at least one writes.

use crate::{LINE, Reference};
use rustc_hash::FxHashMap;

/// One thread's use of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Bytes of the line that it read, a bit each.
    pub read: u64,
    /// Bytes that it wrote.
    pub written: u64,
    /// References of its.
    pub references: u64,
    /// References to each eight bytes of the line.
    pub words: [u32; 8],
}

/// A line that threads share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Its first byte.
    pub line: u64,
    /// What each thread did with it.
    pub threads: Vec<(u32, Use)>,
}

impl Shared {
    /// The threads share the line, not the data: hardly any reference is to data that another thread writes, or that
    /// one writes and another uses. (One that adds up at the end what others counted makes no true sharing of it.)
    pub fn is_false(&self) -> bool {
        /// Of so many references one may be to shared data.
        const FEW: u64 = 100;
        let most = self.threads.iter().map(|(_, used)| used.references).max();
        let others = self.references() - most.unwrap_or(0);
        let truly: u64 = (0..8).map(|word| self.truly_shared(word)).sum();
        truly.saturating_mul(FEW) <= others
    }

    /// References to a word that a thread writes and another uses, those of the thread that uses it most left out.
    fn truly_shared(&self, word: usize) -> u64 {
        let bytes = 0xff << (8 * word);
        let uses = |used: &Use| (used.read | used.written) & bytes;
        let shared = self.threads.iter().enumerate().any(|(at, (_, one))| {
            let others = self.threads.iter().enumerate();
            others
                .filter(|(other, _)| *other != at)
                .any(|(_, (_, other))| one.written & uses(other) != 0)
        });
        if !shared {
            return 0;
        }
        let times = self.threads.iter().map(|(_, used)| used.words.get(word));
        let times = times.map(|times| u64::from(times.copied().unwrap_or(0)));
        let (sum, most) = times.fold((0, 0), |(sum, most), n: u64| (sum + n, most.max(n)));
        sum - most
    }

    /// References of all threads.
    pub fn references(&self) -> u64 {
        self.threads.iter().map(|(_, used)| used.references).sum()
    }
}

/// Who uses which line.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    lines: FxHashMap<(u64, u32), Use>,
}

impl Sharing {
    /// Nobody any, yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A thread makes a reference.
    pub fn count(&mut self, thread: u32, reference: Reference) {
        let end = reference
            .address
            .saturating_add(u64::from(reference.size.max(1)) - 1);
        let mut at = reference.address;
        loop {
            let line = at / LINE;
            let last = end.min(line * LINE + (LINE - 1));
            let bytes = (u64::MAX >> (63 - (last - at))) << (at % LINE);
            let used = self.lines.entry((line, thread)).or_default();
            used.references += 1;
            for word in at % LINE / 8..=last % LINE / 8 {
                if let Some(times) = used.words.get_mut(word as usize) {
                    *times = times.saturating_add(1);
                }
            }
            used.read |= if reference.kind.loads() { bytes } else { 0 };
            used.written |= if reference.kind.stores() { bytes } else { 0 };
            if last == end {
                return;
            }
            at = last + 1;
        }
    }

    /// Lines that one thread writes and another uses, those with the most references first.
    pub fn shared(&self) -> Vec<Shared> {
        let mut lines: FxHashMap<u64, Vec<(u32, Use)>> = FxHashMap::default();
        for (&(line, thread), &used) in &self.lines {
            lines.entry(line).or_default().push((thread, used));
        }
        let mut shared: Vec<Shared> = lines
            .into_iter()
            .filter(|(_, threads)| {
                threads.len() > 1 && threads.iter().any(|(_, used)| used.written != 0)
            })
            .map(|(line, mut threads)| {
                threads.sort_unstable_by_key(|(thread, _)| *thread);
                Shared {
                    line: line * LINE,
                    threads,
                }
            })
            .collect();
        shared.sort_unstable_by_key(|line| (std::cmp::Reverse(line.references()), line.line));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn shared_lines_falsely_and_truly() {
        let mut sharing = Sharing::new();
        let mut count = |thread, address, kind| {
            sharing.count(
                thread,
                Reference {
                    address,
                    size: 8,
                    kind,
                },
            );
        };
        for _ in 0..3 {
            count(1, 0x1000, Kind::Modify);
            count(2, 0x1008, Kind::Modify); // the same line, other bytes
            count(1, 0x2000, Kind::Store);
            count(1, 0x4000, Kind::Load);
            count(2, 0x4000, Kind::Load); // nobody writes it
        }
        count(2, 0x2000, Kind::Load);
        for _ in 0..1000 {
            count(1, 0x3000, Kind::Modify);
            count(2, 0x3020, Kind::Modify);
        }
        count(1, 0x3020, Kind::Load); // in the end
        let shared = sharing.shared();
        let lines: Vec<(u64, bool, u64)> = shared
            .iter()
            .map(|line| (line.line, line.is_false(), line.references()))
            .collect();
        let expected = [(0x3000, true, 2001), (0x1000, true, 6), (0x2000, false, 4)];
        assert_eq!(lines, expected);
    }
}
