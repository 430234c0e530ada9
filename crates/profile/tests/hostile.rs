//! Broken files: whatever the bytes, an error or a partial result, no panic, no hang, bounded memory.
//!
//! `cargo test -p truecount-profile --release --test hostile -- --ignored` does a million mutations.

#![allow(clippy::unwrap_used)]

#[path = "support/build.rs"]
mod build;

use build::Builder;
use std::io::{self, Write};
use truecount_profile::export::{ExportOptions, Format, export};
use truecount_profile::{Loss, Profile, ProfileError, summarize};

/// A profile with everything in it: both forms of ids, arguments, references, all payloads, two threads.
fn sample(version: u32) -> Builder {
    let mut b = Builder::new(version);
    let kinds: Vec<u64> = [
        "Query",
        "GenericActivity",
        "IncrementalLoadResult",
        "IncrementalResultHashing",
        "QueryBlocked",
        "QueryCacheHit",
        "QueryCacheHitCount",
        "ArtifactSize",
        "Other",
    ]
    .iter()
    .map(|kind| b.bytes(kind.as_bytes()))
    .collect();
    let label = b.bytes(b"typeck");
    let argument = b.bytes("größe".as_bytes());
    let with = b.references(&[(label, b"\x1e"), (argument, b"::{impl}")]);
    let plain = b.references(&[(label, b"")]);
    b.map(7, with);
    b.map(8, plain);
    b.map(9, label);
    let other = b.bytes(b"codegen\x1eunit 1");
    for round in 0..20 {
        let base = round * 1000;
        b.raw(kinds[3], 8, 1, base + 20, base + 30);
        b.instant(kinds[5], 9, 1, base + 40);
        b.raw(kinds[0], 7, 1, base + 10, base + 500);
        b.raw(kinds[2], 7, 2, base + 5, base + 9);
        b.raw(kinds[4], 8, 2, base + 20, base + 90);
        b.raw(kinds[8], other, 2, base + 2, base + 800);
        b.raw(kinds[1], other, 1, base, base + 900);
    }
    b.integer(kinds[7], other, 1, 4096);
    b.integer(kinds[6], 8, 1, 3);
    b
}

/// Takes bytes and forgets them.
struct Sink(u64);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_split_into_pages_reads_the_same() {
    for version in [8, 9] {
        let builder = sample(version);
        let whole = Profile::from_bytes(builder.file(1 << 18), "whole").unwrap();
        assert!(whole.losses().is_empty(), "{:?}", whole.losses());
        assert_eq!(whole.unit().counter, "instructions:u");
        assert_eq!(whole.unit().name, "instructions");
        assert_eq!(whole.metadata().command.as_deref(), Some("it's"));
        let expected = summarize(&whole);
        assert_eq!(expected.label("typeck").unwrap().cache_hits, 3);
        let texts = |profile: &Profile| {
            profile
                .events()
                .iter()
                .map(|event| profile.strings().event_text(event.id))
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(&whole)[2].arguments, ["größe::{impl}"]);
        for page in 1..80 {
            let split = Profile::from_bytes(builder.file(page), "split").unwrap();
            assert_eq!(
                summarize(&split),
                expected,
                "version {version}, pages of {page}"
            );
            assert_eq!(texts(&split), texts(&whole));
            let numbered: Vec<_> = (0..split.events().len())
                .map(|i| split.events().get(i).unwrap())
                .collect();
            assert_eq!(numbered, split.events().iter().collect::<Vec<_>>());
        }
    }
}

#[test]
fn both_versions_read_as_analyzeme_reads_them() {
    for version in [8, 9] {
        let bytes = sample(version).file(4096);
        // `cmd` of the sample is no JSON, which analyzeme refuses; ours is the reader under test.
        let bytes = {
            let at = bytes.windows(5).position(|w| w == b"it\\'s").unwrap();
            let mut bytes = bytes;
            bytes[at + 2] = b't';
            bytes[at + 1] = b't';
            bytes
        };
        let bytes: Vec<u8> = bytes;
        let theirs = analyzeme::ProfilingData::from_paged_buffer(bytes.clone(), None).unwrap();
        let ours = Profile::from_bytes(bytes, "ours").unwrap();
        for (mine, other) in ours.events().iter().zip(theirs.iter_full()) {
            let text = ours.strings().event_text(mine.id);
            assert_eq!(text.label, other.label);
            assert_eq!(text.arguments, other.additional_data);
        }
        let theirs = theirs.perform_analysis();
        let ours = summarize(&ours);
        assert_eq!(u128::from(ours.total), theirs.total_time.as_nanos());
        for row in theirs.query_data {
            let mine = ours.label(&row.label).unwrap();
            assert_eq!(
                mine.self_time,
                row.self_time.as_nanos() as i64,
                "{}",
                row.label
            );
            assert_eq!(mine.cache_hits, row.number_of_cache_hits as u64);
        }
    }
}

#[test]
fn a_cut_file_says_what_was_lost() {
    let whole = sample(9).file(512);
    for cut in 0..whole.len() {
        match Profile::from_bytes(whole[..cut].to_vec(), "cut") {
            Err(error) => {
                assert!(cut < 8, "{cut}: {error}");
                assert!(error.to_string().starts_with("cut: offset "), "{error}");
            }
            Ok(profile) => {
                let complete = whole.len() == cut;
                // Only a cut between two pages leaves pages whole, and then a stream or its end is missing.
                let between = profile.losses().is_empty();
                assert!(!complete || between);
                let _ = summarize(&profile);
            }
        }
    }
}

#[test]
fn versions_and_foreign_files_are_named() {
    let with = |version: u32| [&b"MMPD"[..], &version.to_le_bytes()].concat();
    let error = |bytes: Vec<u8>| Profile::from_bytes(bytes, "f").unwrap_err();
    assert!(matches!(
        error(with(7)),
        ProfileError::TooOld { version: 7, .. }
    ));
    assert!(matches!(
        error(with(10)),
        ProfileError::TooNew { version: 10, .. }
    ));
    assert!(
        error(b"PERFILE2".to_vec())
            .to_string()
            .contains("offset 0: expected the magic")
    );
    assert!(
        error(Vec::new())
            .to_string()
            .contains("found the end of the file")
    );
    // A process that was killed before its first page: no event, and it is said.
    let empty = Profile::from_bytes(with(9), "f").unwrap();
    assert!(empty.losses().contains(&Loss::MissingStream {
        stream: "event stream"
    }));
    assert_eq!(summarize(&empty).labels.len(), 0);
}

#[test]
fn cyclic_missing_and_exploding_strings_end() {
    let mut b = Builder::new(9);
    let kind = b.bytes(b"Query");
    let own = b.next();
    let cyclic = b.references(&[(own, b"x")]);
    let missing = b.references(&[(12, b""), (100_000_002, b""), (u64::MAX, b"")]);
    // Each doubles the one before: 2^60 bytes when taken at its word.
    let mut bomb = b.bytes(b"aa");
    for _ in 0..60 {
        bomb = b.references(&[(bomb, b""), (bomb, b"")]);
    }
    for id in [cyclic, missing, bomb, 99_999_999] {
        b.raw(kind, id, 1, 0, 5);
    }
    let profile = Profile::from_bytes(b.file(1 << 16), "hostile").unwrap();
    let strings = profile.strings();
    assert!(strings.get(cyclic).contains("<cyclic>"));
    assert_eq!(strings.get(missing), "<unknown><unknown><unknown>");
    assert!(strings.get(bomb).ends_with("<too long>") && strings.get(bomb).len() < 300_000);
    assert_eq!(strings.get(99_999_999), "<unknown>");
    assert_eq!(summarize(&profile).events.intervals, 4);
}

/// Everything that reads, on one file; of the exports one, by `turn`.
///
/// `beside` holds `whole`, an unharmed profile, and takes the broken one for what wants files.
fn exercise(bytes: Vec<u8>, turn: usize, beside: &Beside) {
    let size = bytes.len() as u64;
    beside.compare(&bytes);
    let Ok(profile) = Profile::from_bytes(bytes, "mutated") else {
        return;
    };
    let summary = summarize(&profile);
    if let Some(row) = summary.labels.first() {
        let _ = truecount_profile::drill::drill(&profile, &row.label);
    }
    let _ = truecount_profile::diff::diff(
        std::slice::from_ref(&beside.summary),
        &[summary.clone(), beside.summary.clone()],
        &truecount_profile::diff::DiffOptions::default(),
    );
    let _ = truecount_profile::noise::macro_noise(&[vec![summary]]);
    const FORMATS: [Format; 7] = [
        Format::Chrome,
        Format::Perfetto,
        Format::Firefox,
        Format::Folded,
        Format::Svg,
        Format::Pprof,
        Format::Json,
    ];
    let format = FORMATS[turn % FORMATS.len()];
    let mut sink = Sink(0);
    export(&profile, format, &ExportOptions::default(), &mut sink).unwrap();
    // No text is longer than 256 KiB, so an export is bounded by the number of events.
    assert!(
        sink.0 < 4096 + size * 64 * 1024,
        "{format:?}: {} bytes from {size}",
        sink.0
    );
}

/// An unharmed profile to compare with, as a file and as a summary.
struct Beside {
    directory: tempfile::TempDir,
    summary: truecount_profile::Summary,
}

impl Beside {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bytes = sample(9).file(4096);
        std::fs::write(directory.path().join("whole.mm_profdata"), &bytes).unwrap();
        let summary = summarize(&Profile::from_bytes(bytes, "whole").unwrap());
        Self { directory, summary }
    }

    /// The micro noise between the unharmed file and the broken one.
    fn compare(&self, broken: &[u8]) {
        let path = |name| self.directory.path().join(name);
        std::fs::write(path("broken.mm_profdata"), broken).unwrap();
        let files = [path("whole.mm_profdata"), path("broken.mm_profdata")];
        if let Ok(noise) = truecount_profile::aggregate::aggregate(&files) {
            for variation in &noise.variations {
                let _ = noise.place(variation);
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = [0, 1, 2, 0x1E, 0x7F, 0xFE, 0xFF, b'{'][random.below(8)],
            3 => {
                let value = [0_u32, 1, 8, u32::MAX, 100_000_001, 100_000_003][random.below(6)];
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            4 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let end = (at + random.below(64)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copy);
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

fn mutations(count: usize, seed: u64) {
    let corpus: Vec<Vec<u8>> = [8, 9]
        .iter()
        .flat_map(|&version| [16, 100, 4096].map(|page| sample(version).file(page)))
        .collect();
    let mut random = Random(seed);
    let beside = Beside::new();
    for turn in 0..count {
        exercise(mutate(&corpus, &mut random), turn, &beside);
    }
}

#[test]
fn some_mutations() {
    mutations(2000, 1);
}

#[test]
#[ignore = "minutes: a million mutations"]
fn a_million_mutations() {
    std::thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || mutations(500_000, 1000 + seed));
        }
    });
}

/// Writes the seeds of the fuzz target `profile_reader`.
#[test]
#[ignore = "writes into the source tree"]
fn corpus_for_the_fuzzer() {
    let directory = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/profile_reader"
    );
    std::fs::create_dir_all(directory).unwrap();
    for version in [8, 9] {
        for page in [7, 100, 4096] {
            std::fs::write(
                format!("{directory}/v{version}-pages-{page}"),
                sample(version).file(page),
            )
            .unwrap();
        }
    }
}
