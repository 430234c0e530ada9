//! Which stretches of two sequences are the same.
//!
//! Common ends first; then anchors, groups of points that occur once in each (patience diff), in
//! longest increasing order; between anchors Myers' greedy search (*An O(ND) Difference Algorithm
//! and Its Variations*, 1986) up to a limit on the number of differences. What exceeds the limit is
//! reported as different as a whole: work and memory stay bounded.

use crate::sequence::Code;
use rustc_hash::FxHashMap;
use std::hash::{Hash, Hasher};

/// `len` points from `a` in the one sequence equal `len` points from `b` in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) len: usize,
}

/// Points in a group that may be an anchor.
const GROUP: usize = 12;
/// Most differences that are searched between two anchors.
const LIMIT: usize = 512;

/// The blocks in which `a` and `b` are equal, in order, never touching in both.
pub(crate) fn align(a: &[Code], b: &[Code]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let head = common(a.iter(), b.iter());
    let tail = common(a[head..].iter().rev(), b[head..].iter().rev());
    push(
        &mut blocks,
        Block {
            a: 0,
            b: 0,
            len: head,
        },
    );
    let (middle_a, middle_b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut from = (0, 0);
    for anchor in anchors(middle_a, middle_b) {
        if anchor.0 < from.0 || anchor.1 < from.1 {
            continue;
        }
        between(middle_a, middle_b, from, anchor, head, &mut blocks);
        let len = common(middle_a[anchor.0..].iter(), middle_b[anchor.1..].iter());
        push(
            &mut blocks,
            Block {
                a: head + anchor.0,
                b: head + anchor.1,
                len,
            },
        );
        from = (anchor.0 + len, anchor.1 + len);
    }
    between(
        middle_a,
        middle_b,
        from,
        (middle_a.len(), middle_b.len()),
        head,
        &mut blocks,
    );
    push(
        &mut blocks,
        Block {
            a: a.len() - tail,
            b: b.len() - tail,
            len: tail,
        },
    );
    blocks
}

fn common<'c>(a: impl Iterator<Item = &'c Code>, b: impl Iterator<Item = &'c Code>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

fn push(blocks: &mut Vec<Block>, block: Block) {
    if block.len == 0 {
        return;
    }
    if let Some(last) = blocks.last_mut()
        && last.a + last.len == block.a
        && last.b + last.len == block.b
    {
        last.len += block.len;
        return;
    }
    blocks.push(block);
}

/// Places of groups that occur once in each, as a longest chain that rises in both.
fn anchors(a: &[Code], b: &[Code]) -> Vec<(usize, usize)> {
    let in_a = unique(a);
    let in_b = unique(b);
    let mut pairs: Vec<(usize, usize)> = in_a
        .iter()
        .filter_map(|(hash, &at)| Some((at?, (*in_b.get(hash)?)?)))
        .filter(|&(at, to)| a[at..at + GROUP] == b[to..to + GROUP])
        .collect();
    pairs.sort_unstable();
    // Longest increasing subsequence by patience sorting: piles of the smallest ends.
    let mut piles: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (number, pair) in pairs.iter().enumerate() {
        let pile = piles.partition_point(|&top| pairs[top].1 < pair.1);
        previous.push(pile.checked_sub(1).map(|before| piles[before]));
        match piles.get_mut(pile) {
            Some(top) => *top = number,
            None => piles.push(number),
        }
    }
    let mut chain = Vec::with_capacity(piles.len());
    let mut next = piles.last().copied();
    while let Some(number) = next {
        chain.push(pairs[number]);
        next = previous[number];
    }
    chain.reverse();
    chain
}

fn unique(codes: &[Code]) -> FxHashMap<u64, Option<usize>> {
    let mut places = FxHashMap::default();
    for (at, group) in codes.windows(GROUP).enumerate() {
        let mut hasher = rustc_hash::FxHasher::default();
        group.hash(&mut hasher);
        places
            .entry(hasher.finish())
            .and_modify(|place| *place = None)
            .or_insert(Some(at));
    }
    places
}

/// Myers between two corners; nothing is appended when there are more than [`LIMIT`] differences,
/// except what is equal at both ends.
fn between(
    a: &[Code],
    b: &[Code],
    from: (usize, usize),
    to: (usize, usize),
    shift: usize,
    blocks: &mut Vec<Block>,
) {
    let (a, b) = (&a[from.0..to.0], &b[from.1..to.1]);
    let (shift_a, shift_b) = (shift + from.0, shift + from.1);
    let head = common(a.iter(), b.iter());
    push(
        blocks,
        Block {
            a: shift_a,
            b: shift_b,
            len: head,
        },
    );
    let tail = common(a[head..].iter().rev(), b[head..].iter().rev());
    let (inner_a, inner_b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    for (x, y) in myers(inner_a, inner_b) {
        push(
            blocks,
            Block {
                a: shift_a + head + x,
                b: shift_b + head + y,
                len: 1,
            },
        );
    }
    push(
        blocks,
        Block {
            a: shift_a + a.len() - tail,
            b: shift_b + b.len() - tail,
            len: tail,
        },
    );
}

/// Pairs of equal points on a shortest edit path; empty when it is longer than [`LIMIT`].
fn myers(a: &[Code], b: &[Code]) -> Vec<(usize, usize)> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let (n, m) = (a.len(), b.len());
    let limit = LIMIT.min(n + m);
    // `reach[k + limit + 1]`: how far in `a` diagonal k = x − y reaches, plus 1; 0 is unreached.
    let mut reach = vec![0_usize; 2 * limit + 3];
    let origin = limit + 1;
    reach[origin + 1] = 1;
    let mut trace: Vec<Vec<usize>> = Vec::new();
    for d in 0..=limit {
        trace.push(reach[origin - d..=origin + d].to_vec());
        let mut step = 0;
        while step <= 2 * d {
            let k = origin + step - d;
            let down = step == 0 || (step != 2 * d && reach[k - 1] < reach[k + 1]);
            let mut x = if down { reach[k + 1] } else { reach[k - 1] + 1 } - 1;
            // y = x − (k − origin); below zero and beyond the ends this diagonal leaves the grid.
            let Some(mut y) = (x + origin).checked_sub(k) else {
                step += 2;
                continue;
            };
            while x < n && y < m && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            reach[k] = x + 1;
            if x >= n && y >= m {
                return back(a, b, &trace, d);
            }
            step += 2;
        }
    }
    Vec::new()
}

fn back(a: &[Code], b: &[Code], trace: &[Vec<usize>], depth: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut x, mut y) = (a.len(), b.len());
    for d in (1..=depth).rev() {
        let reach = &trace[d];
        // trace[d] holds diagonals −d..=d as they were before round d.
        let at = |k: isize| {
            usize::try_from(k + d as isize)
                .ok()
                .and_then(|i| reach.get(i))
                .copied()
                .unwrap_or(0)
        };
        let k = x as isize - y as isize;
        let down = k == -(d as isize) || (k != d as isize && at(k - 1) < at(k + 1));
        let before = if down { k + 1 } else { k - 1 };
        let x_before = at(before).saturating_sub(1);
        let y_before = usize::try_from(x_before as isize - before).unwrap_or(0);
        let corner = if down {
            (x_before, y_before + 1)
        } else {
            (x_before + 1, y_before)
        };
        while x > corner.0 && y > corner.1 {
            (x, y) = (x - 1, y - 1);
            pairs.push((x, y));
        }
        (x, y) = (x_before, y_before);
    }
    while x > 0 && y > 0 {
        (x, y) = (x - 1, y - 1);
        pairs.push((x, y));
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: &[Code], b: &[Code], at_least: usize) {
        let blocks = align(a, b);
        let mut end = (0, 0);
        for block in &blocks {
            assert!(block.a >= end.0 && block.b >= end.1, "{blocks:?}");
            assert_eq!(
                a[block.a..block.a + block.len],
                b[block.b..block.b + block.len]
            );
            end = (block.a + block.len, block.b + block.len);
        }
        let matched: usize = blocks.iter().map(|block| block.len).sum();
        assert!(matched >= at_least, "{matched} of {at_least}: {blocks:?}");
    }

    #[test]
    fn equal_sequences_are_one_block() {
        let a: Vec<Code> = (0..100).collect();
        assert_eq!(
            align(&a, &a),
            [Block {
                a: 0,
                b: 0,
                len: 100
            }]
        );
        assert!(align(&a, &[]).is_empty());
        assert!(align(&[], &[]).is_empty());
    }

    #[test]
    fn shortest_edits_are_found() {
        check(&[1, 2, 3, 4, 5, 6, 7], &[1, 3, 4, 9, 5, 7], 5);
        check(&[1, 2, 3, 1, 2, 2, 1], &[3, 2, 1, 2, 1, 3], 4);
        check(&[1, 2], &[2, 1], 1);
        check(&[9, 1, 1, 1, 8], &[7, 1, 1, 6], 2);
    }

    #[test]
    fn a_long_sequence_with_edits_and_a_moved_part() {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            state >> 33
        };
        let a: Vec<Code> = (0..20_000).map(|_| random() % 50).collect();
        let mut b = a.clone();
        for _ in 0..40 {
            let at = random() as usize % b.len();
            if random() % 2 == 0 {
                b.insert(at, 77);
            } else {
                b.remove(at);
            }
        }
        check(&a, &b, 19_900);
        let moved: Vec<_> = b.drain(5000..6000).collect();
        b.extend(moved);
        check(&a, &b, 18_900);
    }
}
