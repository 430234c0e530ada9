//! Loops with their trip counts and cycles per iteration, and hot chains of blocks.
//!
//! An iteration is what lies between two arrivals at a loop's header by the same backward branch. The mean trip
//! count is header executions / entries into the loop, both counted over all stacks: a stack is shorter than most
//! loops, but every window shows each kind of event in its true proportion, so the ratio needs no whole run.
//!
//! A call of a function that lies before its caller, and the return from one that lies behind it, are backward branches,
//! too, and no loops: what was called comes back to the instruction after the call.

use rustc_hash::{FxHashMap, FxHashSet};

use super::tally::{LoopTally, NONE, Tally};
use super::{Block, FILES, Histogram};

/// One way through a loop's body.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopBody {
    /// Its blocks in order (indices into [`super::Analysis::blocks`]).
    pub blocks: Vec<u32>,
    /// Whole iterations seen.
    pub count: u64,
    /// Cycles of an iteration, where all its entries have them.
    pub cycles: Histogram,
}

/// A loop: a header that a backward branch returns to.
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// Index of the file; `None`: addresses.
    pub file: Option<u32>,
    /// Its first instruction.
    pub header: u64,
    /// The backward branch.
    pub back_edge: u64,
    /// Whole iterations seen.
    pub iterations: u64,
    /// The ways through its body, most frequent first.
    pub bodies: Vec<LoopBody>,
    /// Cycles of an iteration, all ways.
    pub cycles: Histogram,
    /// Executions of the header whose predecessor is known.
    pub header_executions: u64,
    /// Of those, how many came from outside.
    pub entries: u64,
}

impl Loop {
    /// Mean number of iterations per entry; `None` when no entry was seen (then it is at least
    /// [`header_executions`](Self::header_executions)).
    #[must_use]
    pub fn trip_count(&self) -> Option<f64> {
        (self.entries > 0).then(|| self.header_executions as f64 / self.entries as f64)
    }
}

/// A chain of blocks that usually follow one another.
#[derive(Debug, Clone, PartialEq)]
pub struct HotPath {
    /// Its blocks in order.
    pub blocks: Vec<u32>,
    /// The last block leads back to the first.
    pub is_loop: bool,
    /// Executions of its rarest step.
    pub count: u64,
    /// Cycles of one pass: the mean cycles of its blocks, summed; `None` where a block has none.
    pub cycles_per_pass: Option<f64>,
    /// Known cycles of its blocks.
    pub total_cycles: u64,
}

fn histogram(tally: &super::tally::HistogramTally) -> Histogram {
    Histogram::new(tally.bins().map(|(c, n)| (c, u64::from(n))).collect())
}

/// The loops of all counts.
pub(super) fn loops(
    whole: &Tally,
    blocks: &[Block],
    follows: &[(u32, u32, u64)],
    map: impl Fn(u32) -> u32,
) -> Vec<Loop> {
    let mut out: Vec<Loop> = Vec::new();
    for tally in &whole.loops {
        let mut bodies: Vec<LoopBody> = tally
            .bodies
            .iter()
            .map(|b| LoopBody {
                blocks: b.blocks.iter().map(|id| map(*id)).collect(),
                count: b.count,
                cycles: histogram(&b.cycles),
            })
            .collect();
        if bodies.is_empty() || calls_or_returns(tally, &bodies, blocks) {
            continue;
        }
        bodies.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.blocks.cmp(&b.blocks)));
        let cycles = Histogram::new(
            bodies
                .iter()
                .flat_map(|b| b.cycles.bins())
                .copied()
                .collect(),
        );
        out.push(Loop {
            file: (tally.place & FILES != 0).then_some(tally.place & !FILES),
            header: tally.header,
            back_edge: tally.from,
            iterations: bodies.iter().map(|b| b.count).sum::<u64>() + tally.other_bodies,
            bodies,
            cycles,
            header_executions: 0,
            entries: 0,
        });
    }
    trip_counts(&mut out, blocks, follows);
    out.sort_by_cached_key(|l| {
        // Without cycles, blocks executed stand for time.
        let weight: u64 = l
            .bodies
            .iter()
            .map(|b| b.count.saturating_mul(b.blocks.len() as u64))
            .sum();
        (
            std::cmp::Reverse((l.cycles.sum(), weight)),
            l.file,
            l.header,
            l.back_edge,
        )
    });
    without_rotations(out)
}

/// Longest call, in bytes (`call *disp32(base,index,scale)` with two prefixes is 9; arm64's are 4).
const CALL: u64 = 10;

/// Whether the backward branch is a call or a return: in most of its iterations something arrives just behind it (the
/// function that it called has returned), or a branch just before its target was taken (the call that it returns from).
fn calls_or_returns(tally: &LoopTally, bodies: &[LoopBody], blocks: &[Block]) -> bool {
    let file = (tally.place & FILES != 0).then_some(tally.place & !FILES);
    let after = |at: u64, place: u64| place > at && place - at <= CALL;
    let crosses = |body: &&LoopBody| {
        let own = body.blocks.iter().filter_map(|b| blocks.get(*b as usize));
        let mut own = own.filter(|b| b.file == file);
        own.any(|b| after(tally.from, b.start) || after(b.end, tally.header))
    };
    let count = |list: &mut dyn Iterator<Item = &LoopBody>| list.map(|b| b.count).sum::<u64>();
    count(&mut bodies.iter().filter(crosses)).saturating_mul(2) > count(&mut bodies.iter())
}

/// Header executions and entries from the counts of what follows what.
fn trip_counts(loops: &mut [Loop], blocks: &[Block], follows: &[(u32, u32, u64)]) {
    // A block meets a header when it starts there or runs through it: by file, headers in order.
    let mut headers: FxHashMap<Option<u32>, Vec<(u64, usize)>> = FxHashMap::default();
    for (i, l) in loops.iter().enumerate() {
        headers.entry(l.file).or_default().push((l.header, i));
    }
    for list in headers.values_mut() {
        list.sort_unstable();
    }
    for (a, b, n) in follows {
        let (Some(before), Some(block)) = (blocks.get(*a as usize), blocks.get(*b as usize)) else {
            continue;
        };
        let Some(list) = headers.get(&block.file) else {
            continue;
        };
        let first = list.partition_point(|(h, _)| *h < block.start);
        for (header, i) in list.iter().skip(first).take_while(|(h, _)| *h <= block.end) {
            let Some(l) = loops.get_mut(*i) else { continue };
            l.header_executions += n;
            // From inside: a backward branch of the same file to the header (also `continue`s, other than the back
            // edge itself), from no further than the loop's end.
            let inside = block.start == *header
                && before.file == block.file
                && before.end >= *header
                && before.end <= l.back_edge;
            if !inside {
                l.entries += n;
            }
        }
    }
}

/// The same row of blocks seen from another of its backward branches is the same loop; the first one (the shortest
/// branch wins a tie of cycles by the order of the list) stays.
fn without_rotations(loops: Vec<Loop>) -> Vec<Loop> {
    let mut seen: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
    let mut out: Vec<Loop> = Vec::new();
    for l in loops {
        let mut key = l
            .bodies
            .first()
            .map(|b| b.blocks.clone())
            .unwrap_or_default();
        let turn = key
            .iter()
            .enumerate()
            .min_by_key(|(_, b)| **b)
            .map_or(0, |(i, _)| i);
        key.rotate_left(turn);
        match seen.get(&key) {
            Some(&i) => {
                if let Some(kept) = out.get_mut(i)
                    && l.back_edge - l.header < kept.back_edge - kept.header
                    && l.iterations.saturating_mul(10) >= kept.iterations.saturating_mul(9)
                {
                    *kept = l;
                }
            }
            None => {
                seen.insert(key, out.len());
                out.push(l);
            }
        }
    }
    out
}

/// Longest chain.
const MAX_CHAIN: usize = 64;
/// Chains that are built.
const MAX_PATHS: usize = 200;

/// Chains: from each block that is in none yet, on to the block that follows in more than half of the cases.
pub(super) fn paths(blocks: &[Block], follows: &[(u32, u32, u64)]) -> Vec<HotPath> {
    let mut out_of = vec![0u64; blocks.len()];
    let mut into = vec![0u64; blocks.len()];
    let mut best_next: Vec<(u32, u64)> = vec![(NONE, 0); blocks.len()];
    let mut best_before: Vec<(u32, u64)> = vec![(NONE, 0); blocks.len()];
    // `follows` has the most frequent first: the first one seen is the best.
    for (a, b, n) in follows {
        for (list, i) in [(&mut out_of, a), (&mut into, b)] {
            if let Some(slot) = list.get_mut(*i as usize) {
                *slot += n;
            }
        }
        for (list, i, to) in [(&mut best_next, a, b), (&mut best_before, b, a)] {
            if let Some(slot) = list.get_mut(*i as usize)
                && slot.0 == NONE
            {
                *slot = (*to, *n);
            }
        }
    }
    let mut used: FxHashSet<u32> = FxHashSet::default();
    let mut out = Vec::new();
    for first in 0..blocks.len() as u32 {
        if out.len() >= MAX_PATHS {
            break;
        }
        if used.contains(&first) {
            continue;
        }
        let step = |at: u32, best: &[(u32, u64)], all: &[u64]| {
            let (next, n) = best.get(at as usize).copied()?;
            let total = all.get(at as usize).copied()?;
            (next != NONE && n.saturating_mul(2) > total).then_some((next, n))
        };
        let mut chain = std::collections::VecDeque::from([first]);
        let mut count = u64::MAX;
        let mut is_loop = false;
        while let Some((next, n)) = chain.back().and_then(|at| step(*at, &best_next, &out_of)) {
            if chain.front() == Some(&next) {
                is_loop = true;
                count = count.min(n);
                break;
            }
            if chain.contains(&next) || used.contains(&next) || chain.len() >= MAX_CHAIN {
                break;
            }
            count = count.min(n);
            chain.push_back(next);
        }
        while !is_loop && chain.len() < MAX_CHAIN {
            let Some((before, n)) = chain.front().and_then(|at| step(*at, &best_before, &into))
            else {
                break;
            };
            if chain.contains(&before) || used.contains(&before) {
                break;
            }
            count = count.min(n);
            chain.push_front(before);
        }
        used.extend(&chain);
        // A block that follows itself is in the list of loops.
        if chain.len() < 2 {
            continue;
        }
        let members = || chain.iter().filter_map(|b| blocks.get(*b as usize));
        let cycles_per_pass = members()
            .map(|b| b.all_cycles().mean())
            .try_fold(0.0, |sum, mean| mean.map(|m| sum + m));
        out.push(HotPath {
            total_cycles: members()
                .map(Block::total_cycles)
                .fold(0, u64::saturating_add),
            blocks: chain.into_iter().collect(),
            is_loop,
            count,
            cycles_per_pass,
        });
    }
    out.sort_by_key(|p| std::cmp::Reverse((p.total_cycles, p.count)));
    out
}
