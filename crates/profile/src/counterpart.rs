//! Which thread of a run does what a thread of the first run does, and which parts of its work another thread did:
//! where threads take work from each other (rustc's `-Zthreads`), numbers and orders of threads say nothing.
//!
//! A thread's counterpart is the one with the same sequence, else the one that shares most points which few threads
//! have. What is then left over on both sides is matched by whole events: one with all that it encloses is the same work
//! wherever it ran, so its intervals are compared.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::align::Block;
use crate::sequence::{Code, PointKind, Sequence, decode};

/// A point that more threads have tells nothing about who is who.
const COMMON: usize = 8;

/// Whether a thread of the first run and another are the same.
type Fits<'f> = dyn Fn(&(u32, &[Code]), &(u32, Sequence)) -> bool + 'f;

/// For each thread of the first run its counterpart among `threads`: one with the same sequence (the same id first),
/// else the one that shares most, else the one with the same id, else the next one left over.
pub(crate) fn pair(
    references: &[(u32, &[Code])],
    threads: &[(u32, Sequence)],
) -> Vec<Option<usize>> {
    let mut free = vec![true; threads.len()];
    let mut pairs = vec![None; references.len()];
    let round = |fits: &Fits<'_>, pairs: &mut Vec<Option<usize>>, free: &mut Vec<bool>| {
        for (reference, pair) in references.iter().zip(pairs) {
            if pair.is_none() {
                let fit = |&(number, thread): &(usize, &(u32, Sequence))| {
                    free.get(number) == Some(&true) && fits(reference, thread)
                };
                *pair = threads
                    .iter()
                    .enumerate()
                    .find(fit)
                    .map(|(number, _)| number);
                if let Some(place) = pair.and_then(|number| free.get_mut(number)) {
                    *place = false;
                }
            }
        }
    };
    round(
        &|a, b| a.0 == b.0 && *a.1 == *b.1.codes,
        &mut pairs,
        &mut free,
    );
    round(&|a, b| *a.1 == *b.1.codes, &mut pairs, &mut free);
    for (reference, thread) in most_shared(references, threads, &pairs, &free) {
        let (Some(pair), Some(free)) = (pairs.get_mut(reference), free.get_mut(thread)) else {
            continue;
        };
        if pair.is_none() && *free {
            (*pair, *free) = (Some(thread), false);
        }
    }
    round(&|a, b| a.0 == b.0, &mut pairs, &mut free);
    round(&|_, _| true, &mut pairs, &mut free);
    pairs
}

/// Pairs of threads that are left over, those that share most first.
fn most_shared(
    references: &[(u32, &[Code])],
    threads: &[(u32, Sequence)],
    pairs: &[Option<usize>],
    free: &[bool],
) -> Vec<(usize, usize)> {
    let mut owners: FxHashMap<Code, Vec<usize>> = FxHashMap::default();
    for (number, (_, sequence)) in threads.iter().enumerate() {
        if free.get(number) != Some(&true) {
            continue;
        }
        for &code in &sequence.codes {
            let owners = owners.entry(code).or_default();
            if owners.len() <= COMMON && owners.last() != Some(&number) {
                owners.push(number);
            }
        }
    }
    let mut votes: FxHashMap<(usize, usize), u64> = FxHashMap::default();
    for (number, (_, codes)) in references.iter().enumerate() {
        if pairs.get(number) != Some(&None) {
            continue;
        }
        let unique: FxHashSet<Code> = codes.iter().copied().collect();
        for code in unique {
            let Some(owners) = owners.get(&code).filter(|o| o.len() <= COMMON) else {
                continue;
            };
            for &owner in owners {
                *votes.entry((number, owner)).or_default() += 1;
            }
        }
    }
    let same_id = |&(reference, thread): &(usize, usize)| {
        let ids = references.get(reference).zip(threads.get(thread));
        ids.is_some_and(|(a, b)| a.0 == b.0)
    };
    let mut out: Vec<_> = votes.into_iter().collect();
    out.sort_by_key(|(pair, votes)| (std::cmp::Reverse((*votes, same_id(pair))), *pair));
    out.into_iter().map(|(pair, _)| pair).collect()
}

/// An event with all that it encloses, as points of one thread (last first: its end stands before its start).
#[derive(Debug, Clone, Copy)]
struct Piece {
    thread: usize,
    from: usize,
    to: usize,
}

/// What a run did that its alignment has no place for, by what it is.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    pieces: FxHashMap<u64, Vec<Piece>>,
    /// Stretches that were given away, by thread and first point.
    used: BTreeMap<(usize, usize), usize>,
}

/// A hash of the points before each point: that of a stretch is a difference.
struct Hashes(Vec<u64>);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hashes {
    fn of(codes: &[Code]) -> Self {
        let mut sum = 0u64;
        let mut out = Vec::with_capacity(codes.len() + 1);
        out.push(0);
        for code in codes {
            let mut hasher = rustc_hash::FxHasher::default();
            code.hash(&mut hasher);
            sum = sum.wrapping_mul(FACTOR).wrapping_add(hasher.finish());
            out.push(sum);
        }
        Self(out)
    }

    /// The hash of an event from its end at `from` to its start at `to`: what encloses it is left out.
    fn event(&self, codes: &[Code], from: usize, to: usize) -> Option<u64> {
        let (before, after) = (*self.0.get(from + 1)?, *self.0.get(to)?);
        let inside = to - from - 1;
        let power = FACTOR.wrapping_pow(u32::try_from(inside).unwrap_or(u32::MAX));
        let (_, event, _) = decode(*codes.get(from)?);
        let mut hasher = rustc_hash::FxHasher::default();
        let inner = after.wrapping_sub(before.wrapping_mul(power));
        (event, inside, inner).hash(&mut hasher);
        Some(hasher.finish())
    }
}

/// For each point that is the end of an event the point of its start.
fn starts(codes: &[Code]) -> Vec<Option<usize>> {
    let mut out = vec![None; codes.len()];
    let mut open: Vec<(usize, u32)> = Vec::new();
    for (at, &code) in codes.iter().enumerate() {
        match decode(code) {
            (PointKind::End, event, _) => open.push((at, event)),
            (PointKind::Start, event, _) => {
                // Events that cross do not enclose.
                if let Some((end, _)) = open.pop().filter(|(_, ended)| *ended == event)
                    && let Some(place) = out.get_mut(end)
                {
                    *place = Some(at);
                }
            }
            (PointKind::Instant, ..) => {}
        }
    }
    out
}

/// The stretches of `points` points that are in no block; `side` says where a block begins.
fn outside(blocks: &[Block], points: usize, side: impl Fn(&Block) -> usize) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut from = 0;
    for block in blocks {
        if side(block) > from {
            out.push((from, side(block)));
        }
        from = side(block) + block.len;
    }
    if points > from {
        out.push((from, points));
    }
    out
}

impl Leftovers {
    /// Takes in what a thread of the run did outside of `blocks`.
    pub(crate) fn add(&mut self, thread: usize, codes: &[Code], blocks: &[Block]) {
        let stretches = outside(blocks, codes.len(), |block| block.b);
        if stretches.is_empty() {
            return;
        }
        let (hashes, starts) = (Hashes::of(codes), starts(codes));
        for (first, end) in stretches {
            for from in first..end {
                let Some(Some(to)) = starts
                    .get(from)
                    .copied()
                    .filter(|to| to.is_some_and(|t| t < end))
                else {
                    continue;
                };
                if let Some(hash) = hashes.event(codes, from, to) {
                    let pieces = self.pieces.entry(hash).or_default();
                    pieces.push(Piece { thread, from, to });
                }
            }
        }
    }

    /// The events of `codes` outside of `blocks` that the run did somewhere: (thread, block), in order.
    pub(crate) fn find(
        &mut self,
        codes: &[Code],
        blocks: &[Block],
        threads: &[(u32, Sequence)],
    ) -> Vec<(usize, Block)> {
        let mut found = Vec::new();
        let stretches = outside(blocks, codes.len(), |block| block.a);
        if stretches.is_empty() || self.pieces.is_empty() {
            return found;
        }
        let (hashes, starts) = (Hashes::of(codes), starts(codes));
        for (first, end) in stretches {
            let mut from = first;
            while from < end {
                let to = starts.get(from).copied().flatten().filter(|to| *to < end);
                let same = to.and_then(|to| {
                    let hash = hashes.event(codes, from, to)?;
                    let len = to - from + 1;
                    let piece = self.take(hash, len, |piece| {
                        let theirs = threads.get(piece.thread);
                        let theirs = theirs.and_then(|t| t.1.codes.get(piece.from..=piece.to));
                        let ours = codes.get(from..=to);
                        let inside = |codes: Option<&[Code]>| {
                            codes
                                .and_then(|c| c.get(1..c.len() - 1))
                                .map(<[Code]>::to_vec)
                        };
                        inside(ours).is_some() && inside(ours) == inside(theirs)
                    })?;
                    let block = Block {
                        a: from,
                        b: piece.from,
                        len,
                    };
                    Some((piece.thread, block))
                });
                match same {
                    Some(same) => {
                        from += same.1.len;
                        found.push(same);
                    }
                    // What it encloses may still be there.
                    None => from += 1,
                }
            }
        }
        found
    }

    /// A piece of this hash of which nothing was given away.
    fn take(&mut self, hash: u64, len: usize, same: impl Fn(&Piece) -> bool) -> Option<Piece> {
        let pieces = self.pieces.get_mut(&hash)?;
        while let Some(piece) = pieces.pop() {
            let upto = (piece.thread, piece.to);
            let last = self.used.range(..=upto).next_back();
            let free =
                last.is_none_or(|(&(thread, _), &end)| thread != piece.thread || end < piece.from);
            if free && piece.to - piece.from + 1 == len && same(&piece) {
                self.used.insert((piece.thread, piece.from), piece.to);
                return Some(piece);
            }
        }
        None
    }

    /// How many points of a stretch of a thread were given away.
    pub(crate) fn given(&self, thread: usize, from: usize, to: usize) -> usize {
        let used = self.used.range((thread, from)..(thread, to.max(from)));
        used.map(|(&(_, first), &last)| last - first + 1).sum()
    }
}
