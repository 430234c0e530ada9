//! Micro noise: which interval varies between identical runs, and by how much.
//!
//! After eddyb's analysis (measureme's `summarize aggregate`): an interval is two neighbouring sample
//! points; the variation of the k-th interval is (max − min) over the runs, printed halved with a ±.
//! Beyond it: threads are lined up by what they do, and where sequences differ the equal parts are compared, on
//! whichever thread they ran, and the differing stretches are reported with their place.

mod extremes;
mod places;

use crate::align::{Block, align};
use crate::counterpart::{self, Leftovers};
use crate::error::{Loss, ProfileError};
use crate::file::Profile;
use crate::huge;
use crate::metadata::Unit;
use crate::sequence::{Code, Descriptions, Sequence, sequences};
use extremes::Extremes;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Intervals that vary by the same amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variation {
    /// max − min over the runs; the variation is ± half of it.
    pub range: u64,
    /// How many intervals vary so.
    pub occurrences: u64,
    /// Thread (place in [`Noise::threads`]) and number of one of these intervals.
    at: (usize, usize),
}

/// Intervals of equal duration: the least over the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration {
    /// The least length over the runs.
    pub low: u64,
    /// The largest length of one of them over the runs.
    pub high: u64,
    /// How many intervals are so long.
    pub occurrences: u64,
    at: (usize, usize),
}

/// A stretch in which the sequences of some runs differ from the first run's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The thread, as the first run numbers it.
    pub thread: u32,
    /// Where: what encloses it and what stands before and behind.
    pub place: String,
    /// Sample points of the first run there.
    pub points: u64,
    /// The runs that differ here, from 0, each with its number of sample points.
    pub runs: Vec<(usize, u64)>,
}

/// The noise between runs.
#[derive(Debug)]
pub struct Noise {
    /// Unit of the variations.
    pub unit: Unit,
    /// The files, in the order given.
    pub files: Vec<PathBuf>,
    /// Intervals that all runs have and that were compared.
    pub intervals: u64,
    /// Intervals of the first run that not all others have.
    pub unmatched: u64,
    /// Intervals of all runs that were compared with those of another thread, which did the same there.
    pub moved: u64,
    /// Groups of equal variation, smallest first.
    pub variations: Vec<Variation>,
    /// Where sequences differ; empty when all runs are alike.
    pub differences: Vec<Difference>,
    /// Threads of the first run.
    pub threads: Vec<u32>,
    /// Threads that only some runs have: run, thread, sample points.
    pub unpaired: Vec<(usize, u32, u64)>,
    /// How many different sequences there are (1: all runs alike).
    pub distinct: usize,
    /// What could not be used of which file.
    pub losses: Vec<(PathBuf, Loss)>,
    references: Vec<Reference>,
    descriptions: Descriptions,
}

/// One thread of the first run, and what all runs say about its intervals (last first).
#[derive(Debug)]
struct Reference {
    thread: u32,
    codes: Arc<Vec<Code>>,
    spans: Vec<Span>,
    /// Intervals that some run does not have; empty when every run has all.
    missing: Vec<bool>,
}

/// The smallest and the largest length of one interval.
#[derive(Debug, Clone, Copy)]
struct Span {
    low: u64,
    high: u64,
}

impl Span {
    #[inline(always)]
    fn book(&mut self, length: u64) {
        self.low = self.low.min(length);
        self.high = self.high.max(length);
    }
}

type Stretches = BTreeMap<(usize, usize, usize), Vec<(usize, u64)>>;

struct State {
    references: Vec<Reference>,
    stretches: Stretches,
    unpaired: Vec<(usize, u32, u64)>,
    /// Hashes of whole runs that are not like the first.
    others: Vec<u64>,
    /// Intervals that were compared with those of another thread.
    moved: u64,
}

/// Lines up the runs in `files` and tells what varies.
///
/// # Errors
/// Fewer than two files, files of different counters, or a file that cannot be read.
pub fn aggregate(files: &[PathBuf]) -> Result<Noise, ProfileError> {
    let (first_file, rest) = match files {
        [first, rest @ ..] if !rest.is_empty() => (first, rest),
        _ => {
            return Err(ProfileError::Mismatch(
                "aggregate needs at least two profiles of identical runs".into(),
            ));
        }
    };
    let descriptions = Descriptions::default();
    let first = Profile::open(first_file)?;
    let unit = first.unit().clone();
    let mut losses: Vec<(PathBuf, Loss)> = first
        .losses()
        .iter()
        .map(|loss| (first_file.clone(), loss.clone()))
        .collect();
    let references = sequences(&first, &descriptions)?
        .into_iter()
        .map(Reference::new)
        .collect();
    drop(first);
    let state = Mutex::new(State {
        references,
        stretches: BTreeMap::new(),
        unpaired: Vec::new(),
        others: Vec::new(),
        moved: 0,
    });
    // Each worker takes a part of the runs and keeps its own smallest and largest lengths; only the
    // sequences of a run that is not like the first are ever stored.
    let part = rest.len().div_ceil(rayon::current_num_threads().max(1));
    let more: Vec<Vec<(PathBuf, Loss)>> = rest
        .par_chunks(part)
        .enumerate()
        .map(|(worker, part_files)| {
            let mut extremes = {
                let state = state.lock().unwrap_or_else(PoisonError::into_inner);
                Extremes::new(&state.references)
            };
            let mut losses = Vec::new();
            for (number, file) in part_files.iter().enumerate() {
                let profile = Profile::open(file)?;
                if profile.unit().counter != unit.counter {
                    return Err(ProfileError::Mismatch(format!(
                        "{} counts {} and {} counts {}: they cannot be compared",
                        first_file.display(),
                        unit.counter,
                        file.display(),
                        profile.unit().counter
                    )));
                }
                losses.extend(
                    profile
                        .losses()
                        .iter()
                        .map(|loss| (file.clone(), loss.clone())),
                );
                if !extremes.alike(&profile, &descriptions)? {
                    let threads = sequences(&profile, &descriptions)?;
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.add(1 + worker * part + number, &threads);
                }
            }
            state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .merge(&extremes);
            Ok(losses)
        })
        .collect::<Result<_, _>>()?;
    losses.extend(more.into_iter().flatten());
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(finish(state, unit, files, losses, descriptions))
}

impl Reference {
    fn new((thread, sequence): (u32, Sequence)) -> Self {
        let mut spans = huge::with_capacity(sequence.times.len().saturating_sub(1));
        spans.extend(sequence.times.windows(2).map(|pair| {
            let length = pair[0].saturating_sub(pair[1]);
            Span {
                low: length,
                high: length,
            }
        }));
        Self {
            thread,
            codes: Arc::new(sequence.codes),
            spans,
            missing: Vec::new(),
        }
    }

    /// Books the intervals inside a block of equal points.
    fn fold(&mut self, times: &[u64], block: Block) {
        let Some(intervals) = block.len.checked_sub(1) else {
            return;
        };
        let spans = &mut self.spans[block.a..block.a + intervals];
        let times = times[block.b..block.b + block.len].windows(2);
        for (span, pair) in spans.iter_mut().zip(times) {
            span.book(pair[0].saturating_sub(pair[1]));
        }
    }

    /// Marks the intervals that are in none of the blocks.
    fn miss(&mut self, blocks: &[Block]) {
        if self.missing.is_empty() {
            self.missing = vec![false; self.spans.len()];
        }
        let mut from = 0;
        for block in blocks {
            self.missing[from..block.a].fill(true);
            from = block.a + block.len - 1;
        }
        self.missing[from..].fill(true);
    }
}

impl State {
    /// Takes over what a worker kept.
    fn merge(&mut self, extremes: &Extremes) {
        for (reference, extreme) in self.references.iter_mut().zip(&extremes.0) {
            for (span, other) in reference.spans.iter_mut().zip(&extreme.spans) {
                span.low = span.low.min(other.low);
                span.high = span.high.max(other.high);
            }
        }
    }

    /// Adds one run.
    fn add(&mut self, run: usize, threads: &[(u32, Sequence)]) {
        let references: Vec<(u32, &[Code])> = self
            .references
            .iter()
            .map(|reference| (reference.thread, reference.codes.as_slice()))
            .collect();
        let pairs = counterpart::pair(&references, threads);
        let mut alike = threads.len() == self.references.len();
        // What each thread's counterpart did in the same order.
        let mut aligned: Vec<Vec<Block>> = Vec::with_capacity(pairs.len());
        let mut leftovers = Leftovers::default();
        for (&(_, codes), partner) in references.iter().zip(&pairs) {
            let blocks = match partner.and_then(|partner| threads.get(partner)) {
                Some((_, sequence)) => align(codes, &sequence.codes),
                None => Vec::new(),
            };
            aligned.push(blocks);
        }
        for (number, (thread, sequence)) in threads.iter().enumerate() {
            let partner = pairs.iter().position(|pair| *pair == Some(number));
            let blocks = partner.and_then(|place| aligned.get(place));
            leftovers.add(number, &sequence.codes, blocks.map_or(&[], Vec::as_slice));
            if partner.is_none() {
                let points = sequence.codes.len() as u64;
                self.unpaired.push((run, *thread, points));
            }
        }
        let moved: Vec<Vec<(usize, Block)>> = references
            .iter()
            .zip(&aligned)
            .map(|((_, codes), blocks)| leftovers.find(codes, blocks, threads))
            .collect();
        for (place, ((partner, blocks), moved)) in pairs.iter().zip(aligned).zip(moved).enumerate()
        {
            let Some(reference) = self.references.get_mut(place) else {
                continue;
            };
            let points = reference.codes.len();
            let own = partner.and_then(|partner| Some((partner, threads.get(partner)?)));
            if own.is_none() {
                self.unpaired.push((0, reference.thread, points as u64));
            }
            let whole = own.is_some_and(|(_, (_, sequence))| {
                sequence.codes.len() == points && blocks.first().is_some_and(|b| b.len == points)
            });
            if let Some((_, (_, sequence))) = own {
                for block in &blocks {
                    reference.fold(&sequence.times, *block);
                }
            }
            if whole || points == 0 && own.is_some() {
                continue;
            }
            alike = false;
            for (thread, block) in &moved {
                if let Some((_, sequence)) = threads.get(*thread) {
                    reference.fold(&sequence.times, *block);
                }
            }
            let mut all: Vec<Block> = moved.into_iter().map(|(_, block)| block).collect();
            self.moved += all.iter().map(|block| block.len as u64 - 1).sum::<u64>();
            all.extend(&blocks);
            all.sort_unstable_by_key(|block| block.a);
            reference.miss(&all);
            if let Some((partner, (_, sequence))) = own {
                let there = (partner, sequence.codes.len(), &leftovers);
                self.stretches(run, place, there, &blocks, &all);
            }
        }
        if !alike {
            use std::hash::{Hash, Hasher};
            let mut hasher = rustc_hash::FxHasher::default();
            threads
                .iter()
                .for_each(|(_, sequence)| sequence.codes.hash(&mut hasher));
            self.others.push(hasher.finish());
        }
    }

    /// Books what lies between the blocks of equal order, except what was found on other threads.
    fn stretches(
        &mut self,
        run: usize,
        place: usize,
        (thread, points, leftovers): (usize, usize, &Leftovers),
        blocks: &[Block],
        all: &[Block],
    ) {
        let Some(reference) = self.references.get(place) else {
            return;
        };
        let end = Block {
            a: reference.codes.len(),
            b: points,
            len: 0,
        };
        let mut from = (0, 0);
        for block in blocks.iter().chain([&end]) {
            if block.a > from.0 || block.b > from.1 {
                let inside = all
                    .iter()
                    .filter(|b| b.a >= from.0 && b.a + b.len <= block.a);
                let found: usize = inside.map(|b| b.len).sum();
                let left = (block.b - from.1) - leftovers.given(thread, from.1, block.b);
                if found < block.a - from.0 || left > 0 {
                    let key = (place, from.0, block.a);
                    self.stretches
                        .entry(key)
                        .or_default()
                        .push((run, left as u64));
                }
            }
            from = (block.a + block.len, block.b + block.len);
        }
    }
}

fn finish(
    state: State,
    unit: Unit,
    files: &[PathBuf],
    losses: Vec<(PathBuf, Loss)>,
    descriptions: Descriptions,
) -> Noise {
    let mut groups: FxHashMap<u64, Variation> = FxHashMap::default();
    let (mut intervals, mut unmatched) = (0, 0);
    for (thread, reference) in state.references.iter().enumerate() {
        for (number, span) in reference.spans.iter().enumerate() {
            if reference.missing.get(number) == Some(&true) {
                unmatched += 1;
                continue;
            }
            intervals += 1;
            let range = span.high - span.low;
            groups
                .entry(range)
                .or_insert(Variation {
                    range,
                    occurrences: 0,
                    at: (thread, number),
                })
                .occurrences += 1;
        }
    }
    let mut variations: Vec<_> = groups.into_values().collect();
    variations.sort_unstable_by_key(|variation| variation.range);
    let mut distinct = state.others;
    distinct.sort_unstable();
    distinct.dedup();
    let mut noise = Noise {
        unit,
        files: files.to_vec(),
        intervals,
        unmatched,
        moved: state.moved,
        variations,
        differences: Vec::new(),
        threads: state
            .references
            .iter()
            .map(|reference| reference.thread)
            .collect(),
        unpaired: state.unpaired,
        distinct: 1 + distinct.len(),
        losses,
        references: state.references,
        descriptions,
    };
    noise.unpaired.sort_unstable();
    noise.unpaired.dedup();
    noise.differences = state
        .stretches
        .into_iter()
        .rev()
        .filter_map(|((thread, from, to), mut runs)| {
            runs.sort_unstable();
            let reference = noise.references.get(thread)?;
            // Last first: what stands before the stretch has the larger number.
            let before = reference.codes.get(to).copied();
            let behind = from
                .checked_sub(1)
                .and_then(|i| reference.codes.get(i))
                .copied();
            let place = noise.describe(before, behind, true);
            let place = match noise.around(thread, to) {
                Some(outer) if !place.starts_with(&format!("in {outer}")) => {
                    format!("in {outer}: {place}")
                }
                _ => place,
            };
            Some(Difference {
                thread: reference.thread,
                place,
                points: (to - from) as u64,
                runs,
            })
        })
        .collect();
    noise
        .differences
        .sort_by_key(|difference| difference.thread);
    noise
}
