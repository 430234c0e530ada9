//! How near to each other references are, in time and in memory: exact facts about the order of one thread's references.
//!
//! - The *distance of reuse* of a touch: how many other lines were touched since its line was touched last (Mattson,
//!   Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies", 1970). A cache of n lines that replaces
//!   the least recently used one has exactly what is nearer than n. Counted with a tree of partial sums over times.
//! - The *working set*: distinct lines and pages in windows of so many touches.
//! - *Strides*: how far an operand's address is from where it was the time before.

use crate::{LINE, PAGE};
use rustc_hash::FxHashMap;

/// Classes of distances: 0, 1, 2 to 3, 4 to 7, ….
pub const CLASSES: usize = 40;
/// Touches of the shortest windows.
const SHORTEST: u32 = 12;
/// Windows that are kept: at least so many once there were, less than twice as many.
const WINDOWS: usize = 64;
/// Doublings of the shortest window.
const LEVELS: usize = 32;

/// A line that was touched.
struct Known {
    /// When it was last.
    time: u32,
    /// In which of the shortest windows.
    window: u32,
}

/// What is counted in windows of one length.
#[derive(Clone, Debug, Default)]
struct Level {
    lines: Vec<u32>,
    pages: Vec<u32>,
}

/// Distinct lines and pages in windows of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet {
    /// Touches of a window; the last one may be shorter.
    pub window: u64,
    /// Lines, window by window.
    pub lines: Vec<u32>,
    /// Pages.
    pub pages: Vec<u32>,
}

/// The order of one thread's references.
pub struct Locality {
    lines: FxHashMap<u64, Known>,
    /// Pages: the shortest window that touched them last.
    pages: FxHashMap<u64, u32>,
    /// Partial sums of times that are some line's last one (Fenwick); its length is a power of two and one more.
    tree: Vec<u32>,
    /// The next time.
    now: u32,
    /// The line that was touched last, in this window.
    last: u64,
    touches: u64,
    firsts: u64,
    classes: [u64; CLASSES],
    levels: Vec<Level>,
    /// The level of the shortest windows that are kept.
    shortest: usize,
}

impl Default for Locality {
    fn default() -> Self {
        Self::new()
    }
}

/// The class of a distance.
fn class(distance: u32) -> usize {
    (u32::BITS - distance.leading_zeros()) as usize
}

/// Least and greatest distance of a class.
pub fn class_range(class: usize) -> (u64, u64) {
    match class {
        0 => (0, 0),
        more => (1 << (more - 1), (1 << more) - 1),
    }
}

impl Locality {
    /// Nothing was touched.
    pub fn new() -> Self {
        Self {
            lines: FxHashMap::default(),
            pages: FxHashMap::default(),
            tree: vec![0; (1 << 12) + 1],
            now: 0,
            last: u64::MAX,
            touches: 0,
            firsts: 0,
            classes: [0; CLASSES],
            levels: vec![Level::default(); LEVELS],
            shortest: 0,
        }
    }

    /// Bytes are referenced: each of their lines is touched once.
    pub fn reference(&mut self, address: u64, bytes: u32) {
        self.reference_each(address, bytes, |_| {});
    }

    /// As [`Locality::reference`]; `see` is told of each touch what [`Locality::touch`] says.
    #[inline]
    pub fn reference_each(&mut self, address: u64, bytes: u32, mut see: impl FnMut(Option<usize>)) {
        let end = address.saturating_add(u64::from(bytes.max(1)) - 1);
        for line in address / LINE..=end / LINE {
            see(self.touch(line));
        }
    }

    /// A line is touched: the class of its distance, unless it is the first time.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<usize> {
        let window = (self.touches >> SHORTEST) as u32;
        if self.touches.trailing_zeros() >= SHORTEST {
            self.next_window(window);
        }
        self.touches += 1;
        if line == self.last {
            return Some(self.count(0));
        }
        self.last = line;
        self.touch_another(line, window)
    }

    fn touch_another(&mut self, line: u64, window: u32) -> Option<usize> {
        if self.now as usize + 1 >= self.tree.len() {
            self.renumber();
        }
        let now = self.now;
        self.now += 1;
        let before = self.lines.insert(line, Known { time: now, window });
        let last_window = before.as_ref().map(|known| known.window);
        let class = match before {
            None => {
                self.firsts += 1;
                None
            }
            Some(Known { time, .. }) => {
                // Lines whose last touch came later.
                let later = self.lines.len() as u32 - self.up_to(time);
                self.add(time, u32::MAX);
                Some(self.count(class(later)))
            }
        };
        self.add(now, 1);
        if last_window != Some(window) {
            self.in_window(last_window, window, |level| &mut level.lines);
            let page = line / (PAGE / LINE);
            let last = self.pages.insert(page, window);
            if last != Some(window) {
                self.in_window(last, window, |level| &mut level.pages);
            }
        }
        class
    }

    fn count(&mut self, class: usize) -> usize {
        if let Some(times) = self.classes.get_mut(class) {
            *times += 1;
        }
        class
    }

    /// How many times up to `time` are some line's last one.
    fn up_to(&self, time: u32) -> u32 {
        let (mut at, mut sum) = (time as usize + 1, 0u32);
        while at != 0 {
            sum = sum.wrapping_add(self.tree.get(at).copied().unwrap_or(0));
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, time: u32, value: u32) {
        let mut at = time as usize + 1;
        while let Some(place) = self.tree.get_mut(at) {
            *place = place.wrapping_add(value);
            at += at & at.wrapping_neg();
        }
    }

    /// Lines get the times 0, 1, 2 … in the order of theirs, and as many more have room.
    fn renumber(&mut self) {
        let mut order: Vec<(u32, u64)> = self
            .lines
            .iter()
            .map(|(&line, known)| (known.time, line))
            .collect();
        order.sort_unstable();
        for (time, (_, line)) in (0u32..).zip(&order) {
            if let Some(known) = self.lines.get_mut(line) {
                known.time = time;
            }
        }
        self.now = order.len() as u32;
        let room = (2 * order.len()).next_power_of_two().max(1 << 12);
        self.tree = vec![0; room + 1];
        for time in 0..self.now {
            self.add(time, 1);
        }
    }

    fn next_window(&mut self, window: u32) {
        // What was touched last must be told apart in the new window.
        self.last = u64::MAX;
        if window as usize >> self.shortest >= 2 * WINDOWS
            && let Some(level) = self.levels.get_mut(self.shortest)
        {
            *level = Level::default();
            self.shortest += 1;
        }
    }

    /// What was in window `last` is met in `window`: for the first time in the longer ones in which both are not together.
    fn in_window(
        &mut self,
        last: Option<u32>,
        window: u32,
        of: impl Fn(&mut Level) -> &mut Vec<u32>,
    ) {
        let apart = last.map_or(u32::BITS, |last| {
            u32::BITS - (last ^ window).leading_zeros()
        });
        let levels = self.levels.iter_mut().enumerate();
        for (level, counts) in levels.take(apart as usize).skip(self.shortest) {
            let at = (window >> level) as usize;
            let counts = of(counts);
            if counts.len() <= at {
                counts.resize(at + 1, 0);
            }
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
    }

    /// Lines touched, each as often as a reference lay in it.
    pub fn touches(&self) -> u64 {
        self.touches
    }

    /// Touches of lines that had not been touched.
    pub fn firsts(&self) -> u64 {
        self.firsts
    }

    /// Touches by the class of their distance.
    pub fn classes(&self) -> &[u64; CLASSES] {
        &self.classes
    }

    /// The working set over time.
    pub fn working_set(&self) -> WorkingSet {
        let level = self.levels.get(self.shortest).cloned().unwrap_or_default();
        WorkingSet {
            window: 1 << (SHORTEST as usize + self.shortest),
            lines: level.lines,
            pages: level.pages,
        }
    }
}

/// References by how far they are from where the same operand was the time before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strides {
    /// The operand's first ones.
    pub first: u64,
    /// At the same address.
    pub same: u64,
    /// Next to it: its own bytes further on, or back.
    pub next: u64,
    /// As far from it, in the same direction, as that was from the one before.
    pub constant: u64,
    /// Others.
    pub changing: u64,
}

impl Strides {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.first += other.first;
        self.same += other.same;
        self.next += other.next;
        self.constant += other.constant;
        self.changing += other.changing;
    }

    /// An operand is referenced; `before` is what [`Stride`] knew of it.
    #[inline]
    pub fn count(&mut self, operand: &mut Stride, address: u64, bytes: u32) {
        let stride = address.wrapping_sub(operand.address).cast_signed();
        let counted = if !operand.met {
            &mut self.first
        } else if stride == 0 {
            &mut self.same
        } else if stride.unsigned_abs() == u64::from(bytes) {
            &mut self.next
        } else if stride == operand.stride {
            &mut self.constant
        } else {
            &mut self.changing
        };
        *counted += 1;
        *operand = Stride {
            met: true,
            address,
            stride: if operand.met { stride } else { 0 },
        };
    }
}

/// Where an operand was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stride {
    met: bool,
    address: u64,
    /// How far that was from the time before; 0: not known.
    stride: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The same by definition: lines in the order of their last touches.
    #[derive(Default)]
    struct Naive {
        stack: Vec<u64>,
        classes: Vec<u64>,
        firsts: u64,
        all: Vec<u64>,
    }

    impl Naive {
        fn touch(&mut self, line: u64) {
            self.classes.resize(CLASSES, 0);
            self.all.push(line);
            match self.stack.iter().rev().position(|&other| other == line) {
                None => self.firsts += 1,
                Some(distance) => {
                    let (mut class, mut rest) = (0, distance);
                    while rest != 0 {
                        (class, rest) = (class + 1, rest / 2);
                    }
                    self.classes[class] += 1;
                    self.stack.retain(|&other| other != line);
                }
            }
            self.stack.push(line);
        }
    }

    /// Numbers that look random, the same each time.
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn as_by_definition() {
        for (seed, touches, lines) in [(1u64, 20_000, 50), (2, 30_000, 1_000), (3, 5_000, 5_000)] {
            let (mut ours, mut naive, mut state) = (Locality::new(), Naive::default(), seed);
            for _ in 0..touches {
                // Some places are hot, some touches stay where they are.
                let line = match random(&mut state) % 4 {
                    0 => random(&mut state) % lines,
                    1 => random(&mut state) % (lines / 10 + 1),
                    2 => *naive.all.last().unwrap_or(&7),
                    _ => naive.all.len() as u64 % lines,
                };
                ours.touch(line * 3);
                naive.touch(line * 3);
            }
            assert_eq!(ours.classes().to_vec(), naive.classes);
            assert_eq!((ours.firsts(), ours.touches()), (naive.firsts, touches));
            let set = ours.working_set();
            let distinct = |unit: u64| -> Vec<u32> {
                let windows = naive.all.chunks(set.window as usize);
                windows
                    .map(|window| {
                        let lines: HashSet<u64> = window.iter().map(|line| line / unit).collect();
                        lines.len() as u32
                    })
                    .collect()
            };
            assert_eq!((set.lines, set.pages), (distinct(1), distinct(64)));
        }
    }

    /// Windows become longer when there are too many: what is counted in them stays distinct.
    #[test]
    fn windows_are_joined() {
        let (mut ours, mut all, mut state) = (Locality::new(), Vec::new(), 9u64);
        for at in 0..3_000_000u64 {
            let line = at / 5_000 * 100 + random(&mut state) % 300;
            ours.touch(line);
            all.push(line);
        }
        let set = ours.working_set();
        assert_eq!(set.window, 1 << 15);
        let expected: Vec<u32> = all
            .chunks(1 << 15)
            .map(|window| window.iter().collect::<HashSet<_>>().len() as u32)
            .collect();
        assert_eq!(set.lines, expected);
        assert!((WINDOWS..2 * WINDOWS).contains(&set.lines.len()));
    }

    #[test]
    fn a_loop_over_lines_by_hand() {
        let mut ours = Locality::new();
        for _ in 0..10 {
            for line in 0..100u64 {
                ours.reference(0x10000 + 64 * line, 8);
                ours.reference(0x10000 + 64 * line + 60, 4);
            }
        }
        assert_eq!((ours.firsts(), ours.touches()), (100, 2000));
        // The second half of each line at once, the line again after 99 others.
        assert_eq!(ours.classes()[0], 1000);
        assert_eq!(ours.classes()[7], 900);
        assert_eq!(class_range(7), (64, 127));
        ours.reference(0x20000 + 62, 4);
        assert_eq!((ours.firsts(), ours.touches()), (102, 2002));
    }

    #[test]
    fn strides_by_hand() {
        let (mut strides, mut operand) = (Strides::default(), Stride::default());
        for address in [100u64, 100, 108, 116, 108, 308, 508, 708, 900, 700, 508] {
            strides.count(&mut operand, address, 8);
        }
        let expected = Strides {
            first: 1,
            same: 1,
            next: 3,
            constant: 2,
            changing: 4,
        };
        assert_eq!(strides, expected);
    }
}
