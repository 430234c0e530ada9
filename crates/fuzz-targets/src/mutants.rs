//! Mutants of seeds, each made from a number alone: what one did can be done again.

use std::path::{Path, PathBuf};

use crate::Target;

/// Of the mutants that the tests run.
pub const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// xorshift64*
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Numbers at the edges of their types, and small ones.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

/// What parsers of text look for.
const WORDS: [&str; 12] = [
    "{",
    "}",
    "/",
    ":",
    ",",
    "(",
    "-",
    "\n",
    "0x",
    "99999999999999999999",
    "\"",
    "é",
];

/// The mutant of this number.
#[must_use]
pub fn mutant(seed: u64, number: u64, seeds: &[Vec<u8>]) -> Vec<u8> {
    // splitmix64 of the number: neighbours have nothing in common.
    let mut state = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let rng = &mut Rng(state | 1);
    let mut data = pick(rng, seeds);
    for _ in 0..=rng.below(4) {
        let at = rng.below(data.len() + 1);
        match rng.below(8) {
            0 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
            1 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = rng.next() as u8;
                }
            }
            2 => data.truncate(at),
            3 => {
                let end = (at + rng.below(16)).min(data.len());
                let _ = data.drain(at..end);
            }
            4 => {
                let word = WORDS.get(rng.below(WORDS.len())).copied().unwrap_or("");
                let _ = data.splice(at..at, word.bytes());
            }
            5 => {
                let edge = EDGES.get(rng.below(EDGES.len())).copied().unwrap_or(0);
                let bytes = edge.to_le_bytes();
                let size = 1 << rng.below(4);
                // Fields of files are aligned.
                let at = at / size * size;
                for (place, byte) in data.iter_mut().skip(at).take(size).zip(&bytes) {
                    *place = *byte;
                }
            }
            6 => {
                let end = (at + rng.below(32)).min(data.len());
                let piece = data.get(at..end).unwrap_or_default().to_vec();
                let to = rng.below(data.len() + 1);
                let _ = data.splice(to..to, piece);
            }
            _ => {
                let other = pick(rng, seeds);
                let from = rng.below(other.len() + 1);
                data.truncate(at);
                data.extend(other.get(from..).unwrap_or_default());
            }
        }
        data.truncate(64 << 10);
    }
    data
}

fn pick(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    seeds
        .get(rng.below(seeds.len()))
        .cloned()
        .unwrap_or_default()
}

/// The seeds of a target: its own, and the files of its directory in `fuzz/corpus`.
///
/// # Panics
/// Where the directory changes meanwhile.
#[must_use]
pub fn corpus(target: Target) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target.name);
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&directory) {
        Ok(entries) => entries
            .map(|entry| entry.expect("an entry of the corpus").path())
            .collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    let mut seeds = (target.seeds)();
    seeds.extend(
        files
            .iter()
            .map(|file| std::fs::read(file).expect("a file of the corpus")),
    );
    seeds
}
