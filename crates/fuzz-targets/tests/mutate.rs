//! Every fuzz target on mutants of its seeds, the same ones on every run: a parser that panics or hangs on damaged input
//! is noticed without a fuzzer. `TRUECOUNT_MUTANTS=100000` makes more of them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use truecount_cli::parsers;
use truecount_fuzz_targets::{TARGETS, Target, named};

/// Mutants of each target, where the environment asks for no other number.
const MUTANTS: u32 = 3000;
/// No input of some kilobytes may take longer, on a loaded machine in a debug build.
const TOO_LONG: Duration = Duration::from_secs(20);

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
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
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

fn mutant(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[rng.below(seeds.len())].clone();
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
                let word = WORDS[rng.below(WORDS.len())];
                let _ = data.splice(at..at, word.bytes());
            }
            5 => {
                let bytes = EDGES[rng.below(EDGES.len())].to_le_bytes();
                let size = 1 << rng.below(4);
                // Fields of files are aligned.
                let at = at / size * size;
                for (place, byte) in data.iter_mut().skip(at).zip(&bytes[..size]) {
                    *place = *byte;
                }
            }
            6 => {
                let end = (at + rng.below(32)).min(data.len());
                let piece = data[at..end].to_vec();
                let to = rng.below(data.len() + 1);
                let _ = data.splice(to..to, piece);
            }
            _ => {
                let other = &seeds[rng.below(seeds.len())];
                let from = rng.below(other.len() + 1);
                data.truncate(at);
                data.extend(&other[from..]);
            }
        }
        data.truncate(64 << 10);
    }
    data
}

fn corpus(target: Target) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target.name);
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&directory) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    let mut seeds = (target.seeds)();
    seeds.extend(files.iter().map(|file| std::fs::read(file).unwrap()));
    seeds
}

fn feed(target: Target, data: &[u8]) {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(data)));
    let text = data.escape_ascii().to_string();
    assert!(outcome.is_ok(), "{} panics on b\"{text}\"", target.name);
    let took = start.elapsed();
    assert!(
        took < TOO_LONG,
        "{} took {took:?} on b\"{text}\"",
        target.name
    );
}

fn mutate(name: &str) {
    let target = named(name);
    let seeds = corpus(target);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for seed in &seeds {
        feed(target, seed);
    }
    feed(target, b"");
    let number = std::env::var("TRUECOUNT_MUTANTS");
    let number = number.map_or(MUTANTS, |number| number.parse().unwrap());
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    for _ in 0..number {
        feed(target, &mutant(&mut rng, &seeds));
    }
}

macro_rules! mutated {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                mutate(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_mutated_and_has_its_fuzz_target() {
            let here: BTreeSet<&str> = [$(stringify!($name)),*].into();
            let all: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(here, all);
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
            let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
            for name in &all {
                let source = fuzz.join("fuzz_targets").join(format!("{name}.rs"));
                let source = std::fs::read_to_string(&source).unwrap();
                assert!(source.contains(&format!("named(\"{name}\")")), "{source}");
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in the manifest");
            }
            let files = std::fs::read_dir(fuzz.join("fuzz_targets")).unwrap().count();
            assert_eq!(files, all.len(), "a fuzz target that is not in the list");
        }
    };
}

mutated! {
    event_expr cpu_text metric_expr metrics_file vendor_events proc_text branch_text perf_data profile_reader elf code
    cpuid kept_translations kallsyms shell_words arguments command_line documents scan_state verdicts
}

/// The seeds must reach behind the first check of their parser, or mutating them is idle.
#[test]
fn seeds_are_accepted() {
    let recording =
        truecount_sample::Recording::from_bytes((named("perf_data").seeds)().remove(0)).unwrap();
    let analysis = truecount_sample::blocks::analyze(&recording)
        .unwrap()
        .unwrap();
    assert!(!analysis.blocks.is_empty());
    let bytes = (named("elf").seeds)().remove(0);
    let elf = truecount_elf::Elf::parse(&bytes).unwrap();
    assert!(
        elf.section(".text").is_some() && elf.build_id.len() == 20,
        "{elf:?}"
    );
    for name in [
        "documents",
        "scan_state",
        "verdicts",
        "shell_words",
        "command_line",
    ] {
        for seed in (named(name).seeds)() {
            let text = String::from_utf8(seed).unwrap();
            let words = || truecount_run::runner::split(&text).unwrap();
            let taken = match name {
                "documents" => parsers::baseline(&text) || parsers::latency_result(&text),
                "scan_state" => truecount_lab::discovery::kept_state(&text).is_ok(),
                "verdicts" => truecount_run::exactness::Verdicts::parse(&text).is_some(),
                "command_line" => parsers::command_line(&words()),
                // One of them is an error's.
                _ => text.contains('|') || !words().is_empty(),
            };
            assert!(taken, "{name}: {text}");
        }
    }
    for seed in (named("metric_expr").seeds)().iter().take(2) {
        let text = std::str::from_utf8(seed).unwrap();
        assert!(
            truecount_events::metrics::Expr::parse(text).is_ok(),
            "{text}"
        );
    }
}
