//! Replacement policies: which line of a full set makes room for another one. The least recently used line's is
//! [`Cache`](crate::Cache)'s own.

use std::fmt;
use std::str::FromStr;

/// A replacement policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// The one that was used longest ago.
    #[default]
    Lru,
    /// A tree of bits that point away from what was used last (tree-PLRU): a set's lines are halved, the larger half
    /// first, until one is left; each use turns the bits on its way to the other half.
    Plru,
    /// The one that came in first.
    Fifo,
    /// Any, by a generator with a fixed beginning: the same ones in each run.
    Random,
}

impl Replacement {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("lru", Self::Lru),
        ("plru", Self::Plru),
        ("fifo", Self::Fifo),
        ("random", Self::Random),
    ];
    /// Most lines of a set that a tree has.
    pub const MOST_OF_TREE: u32 = 128;
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, one)| one == self);
        f.write_str(found.map_or("lru", |(name, _)| name))
    }
}

impl FromStr for Replacement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, one)| *one).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("there is no replacement policy '{text}': {names} are")
        })
    }
}

/// Sets with another policy than the least recently used line.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    policy: Replacement,
    ways: usize,
    /// Block of each place; 0: none.
    blocks: Box<[u64]>,
    /// By set: bits of the tree, the root's first; or the place that is next to go.
    state: Box<[u128]>,
    random: u64,
}

impl Sets {
    /// Empty ones.
    pub(crate) fn new(policy: Replacement, sets: usize, ways: usize) -> Self {
        Self {
            policy,
            ways,
            blocks: vec![0; sets.saturating_mul(ways)].into_boxed_slice(),
            state: vec![0; sets].into_boxed_slice(),
            random: 1,
        }
    }

    fn of(&self, set: usize) -> &[u64] {
        let start = set * self.ways;
        self.blocks.get(start..start + self.ways).unwrap_or(&[])
    }

    pub(crate) fn has(&self, set: usize, block: u64) -> bool {
        self.of(set).contains(&block)
    }

    /// A block of a set is referenced; whether it missed.
    pub(crate) fn reference(&mut self, set: usize, block: u64) -> bool {
        let known = self.of(set).iter().position(|&one| one == block);
        let place = known.unwrap_or_else(|| self.goes(set));
        if let Some(to) = self.blocks.get_mut(set * self.ways + place) {
            *to = block;
        }
        if self.policy == Replacement::Plru {
            self.turn(set, place);
        }
        known.is_none()
    }

    /// The place that makes room: an empty one, if there is one.
    fn goes(&mut self, set: usize) -> usize {
        if let Some(empty) = self.of(set).iter().position(|&one| one == 0) {
            return empty;
        }
        let state = self.state.get(set).copied().unwrap_or(0);
        match self.policy {
            Replacement::Plru => walk(self.ways, |node, _| state >> node & 1 != 0),
            Replacement::Random => {
                // (xorshift64: G. Marsaglia, "Xorshift RNGs")
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                (self.random % self.ways as u64) as usize
            }
            Replacement::Fifo | Replacement::Lru => {
                if let Some(next) = self.state.get_mut(set) {
                    *next = (state + 1) % self.ways as u128;
                }
                state as usize
            }
        }
    }

    /// The bits on the way to a place point to the other halves.
    fn turn(&mut self, set: usize, place: usize) {
        let Some(state) = self.state.get_mut(set) else {
            return;
        };
        walk(self.ways, |node, middle| {
            let upper = place >= middle;
            *state = *state & !(1 << node) | u128::from(!upper) << node;
            upper
        });
    }
}

/// Down the tree of so many places; `upper` is told a node's number and where its upper half begins. Which place it comes to.
fn walk(ways: usize, mut upper: impl FnMut(usize, usize) -> bool) -> usize {
    let (mut from, mut to) = (0, ways);
    // Nodes of a half of n places have n-1 numbers behind each other.
    let mut node = 0;
    while to - from > 1 {
        let middle = from + (to - from).div_ceil(2);
        if upper(node, middle) {
            node += middle - from;
            from = middle;
        } else {
            node += 1;
            to = middle;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(policy: Replacement, ways: usize, blocks: &[u64]) -> Vec<bool> {
        let mut sets = Sets::new(policy, 1, ways);
        blocks
            .iter()
            .map(|&block| sets.reference(0, block))
            .collect()
    }

    #[test]
    fn the_first_one_goes_however_often_it_is_used() {
        let all = missed(Replacement::Fifo, 2, &[1, 2, 1, 3, 1, 2]);
        assert_eq!(all, [true, true, false, true, true, true]);
    }

    #[test]
    fn a_tree_of_four_points_away() {
        // All four, then 1 again: the bits lead to the upper half, and there to 3.
        let mut sets = Sets::new(Replacement::Plru, 1, 4);
        for block in [1, 2, 3, 4] {
            assert!(sets.reference(0, block));
        }
        assert!(!sets.reference(0, 1));
        assert!(sets.reference(0, 5) && !sets.has(0, 3));
        // To the lower half now, and there away from 1.
        assert!(sets.reference(0, 6) && !sets.has(0, 2));
    }

    #[test]
    fn each_node_of_a_tree_has_a_number_of_its_own() {
        for ways in 1..=128 {
            let mut seen = vec![std::collections::BTreeSet::new(); ways];
            for place in 0..ways {
                let came = walk(ways, |node, middle| {
                    seen[node].insert(middle);
                    place >= middle
                });
                assert_eq!(came, place);
            }
            assert!(seen.iter().take(ways - 1).all(|middles| middles.len() == 1));
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, policy) in Replacement::ALL {
            assert_eq!(
                (name.parse(), policy.to_string().as_str()),
                (Ok(policy), name)
            );
        }
        assert!("LRU".parse::<Replacement>().is_err());
    }
}
