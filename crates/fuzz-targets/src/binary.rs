//! Parsers of binary files.

use std::io::{Cursor, Write as _};
use std::path::Path;

use truecount_engine::snapshot;
use truecount_profile::export::{ExportOptions, Format, export};
use truecount_profile::{Profile, drill, noise, summarize};
use truecount_sample::code::Isa;
use truecount_sample::profile::collect;
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{self, SearchPath, Symbols};
use truecount_sample::{Recording, blocks};

/// `perf.data` and everything behind it: no panic, no hang, no unbounded memory.
pub(crate) fn perf_data(data: &[u8]) {
    let Ok(recording) = Recording::from_bytes(data.to_vec()) else {
        return;
    };
    for record in recording.records().flatten() {
        let _ = recording.decode(&record);
    }
    let _ = recording.losses();
    if let Ok(Ok(analysis)) = blocks::analyze(&recording) {
        look_at(&analysis);
    }
}

/// A directory of `perf record --threads`, as a path and its first file as a stream, with a program by `--binary`: the
/// first file's length (4 bytes), that, and the next file.
pub(crate) fn recording_directory(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<4>() else {
        return;
    };
    let length = u32::from_le_bytes(*length) as usize;
    let (first, second) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    let _ = Recording::from_stream(&mut &*first, "-");
    crate::in_directory(|root| {
        let directory = root.join("recording");
        let written = std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(directory.join("data"), first))
            .and_then(|()| std::fs::write(directory.join("data.0"), second));
        let (Ok(()), Ok(recording)) = (written, Recording::open(&directory)) else {
            return;
        };
        let program = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/symbols/called"
        );
        let mut symbols = Symbols::new(SearchPath {
            symfs: None,
            binary: Some(program.into()),
        });
        if let Ok(profile) = collect(&recording, &mut symbols) {
            let samples = profile.entries.iter().map(|(_, weight)| weight.samples);
            assert!(samples.sum::<u64>() as usize <= data.len().saturating_mul(300_000));
        }
    });
}

/// What `blocks` shows of an analysis.
pub(crate) fn look_at(analysis: &blocks::Analysis) {
    for block in &analysis.blocks {
        let all = block.all_cycles();
        let _ = (
            all.modes(),
            all.percentile(0.9),
            blocks::PrefetchWindow::of(&all, true),
        );
    }
}

const FORMATS: [Format; 7] = [
    Format::Chrome,
    Format::Perfetto,
    Format::Firefox,
    Format::Folded,
    Format::Svg,
    Format::Pprof,
    Format::Json,
];

/// Region profiles and every analysis behind them.
pub(crate) fn profile_reader(data: &[u8]) {
    let Ok(profile) = Profile::from_bytes(data.to_vec(), "fuzz") else {
        return;
    };
    let summary = summarize(&profile);
    if let Some(row) = summary.labels.first() {
        let _ = drill::drill(&profile, &row.label);
    }
    let _ = noise::macro_noise(&[vec![summary]]);
    let which = data.len() % FORMATS.len();
    if let Some(format) = FORMATS.get(which) {
        let _ = export(
            &profile,
            *format,
            &ExportOptions::default(),
            &mut std::io::sink(),
        );
    }
}

/// ELF files, in memory and as files.
pub(crate) fn elf(data: &[u8]) {
    if let Some(elf) = truecount_elf::Elf::parse(data) {
        for name in [".text", ".eh_frame", ".debug_line"] {
            if let Some(section) = elf.section(name) {
                // It may lie outside a damaged file: that is for `get` to say.
                let _ = data.get(section.range.clone());
            }
        }
        let _ = elf.address_of(u64::from_le_bytes(
            *data.first_chunk().unwrap_or(&[0xff; 8]),
        ));
    }
    let Ok(mut file) = tempfile::tempfile() else {
        return;
    };
    if file.write_all(data).is_ok() {
        let _ = truecount_elf::Elf::read(&file);
        let _ = truecount_elf::build_id(&file);
        let _ = truecount_elf::interpreter(&file);
        let _ = truecount_elf::entry(&file);
    }
}

/// Instructions: what the virtual PMU translates, and what `blocks` and `report --annotate` list.
pub(crate) fn code(data: &[u8]) {
    for isa in [Isa::X86_64, Isa::Aarch64] {
        let last = 0x1000 + data.len().saturating_sub(1) as u64;
        let _ = isa.decode(data, 0x1000, last);
        let _ = isa.listing(data, 0x1000).take(64).count();
    }
    let mut rest = data;
    while let Ok(insn) = truecount_engine::xlate::decode::decode(rest) {
        let length = usize::from(insn.len);
        assert!((1..=15).contains(&length), "{insn:?}");
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// What a CPU says of itself: 20 bytes a leaf.
pub(crate) fn cpuid(data: &[u8]) {
    use truecount_perf::probe::cpu::{Registers, from_cpuid};
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(4 * at..).and_then(|rest| rest.first_chunk());
        u32::from_le_bytes(*bytes.unwrap_or(&[0; 4]))
    };
    let _ = from_cpuid(|leaf, subleaf| {
        let said = data
            .chunks(20)
            .find(|said| word(said, 0) == leaf ^ (subleaf << 8));
        let said = said.unwrap_or_default();
        Registers {
            eax: word(said, 1),
            ebx: word(said, 2),
            ecx: word(said, 3),
            edx: word(said, 4),
        }
    });
}

/// A file of translations, with a header whose size and checksum are right: otherwise nothing behind it is looked at.
pub(crate) fn kept_translations(data: &[u8]) {
    let Ok(mut file) = tempfile::tempfile() else {
        return;
    };
    let mut bytes = data.to_vec();
    let header = size_of::<snapshot::Prefix>();
    if data.len().is_multiple_of(2) && bytes.len() >= header {
        let mut cursor = Cursor::new(bytes.as_mut_slice());
        for word in [snapshot::MAGIC, 1, 2, data.len() as u64, 0] {
            let _ = cursor.write_all(&word.to_le_bytes());
        }
        let sum = snapshot::hash(0, &bytes);
        if let Some(place) = bytes.get_mut(32..40) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }
    if file.write_all(&bytes).is_ok() {
        let _ = truecount_engine::virt::kept_file_is_valid(&file, 1, 2);
    }
}

/// The name of the program that the seeds of recordings have.
pub(crate) const PROGRAM: &str = "/fuzz/called";

/// Runs with a program of these bytes below a root of its own.
fn with_program(bytes: &[u8], look: impl FnOnce(&Path, &Path)) {
    crate::in_directory(|root| {
        let path = root.join(PROGRAM.trim_start_matches('/'));
        let made = path.parent().map(std::fs::create_dir_all);
        if made.is_some_and(|made| made.is_ok()) && std::fs::write(&path, bytes).is_ok() {
            look(root, &path);
        }
    });
}

/// A program's symbols, source lines and inlined functions.
pub(crate) fn symbols(data: &[u8]) {
    with_program(data, |root, path| {
        let mut symbols = Symbols::new(SearchPath {
            symfs: Some(root.to_owned()),
            binary: None,
        });
        let file = MappedFile {
            path: PROGRAM.to_owned(),
            build_id: Vec::new(),
        };
        for offset in (0x140..0x1c0).step_by(4).chain([0, 0x1000, u64::MAX]) {
            let _ = symbols.locate_once(&file, offset);
        }
        let _ = symbols::addresses_of(path, "middle");
    });
}

/// A recording with user stacks and the program that it is of: the recording's length (4 bytes), then both.
pub(crate) fn unwind(data: &[u8]) {
    let _ = unwound(data);
}

/// The functions of the first sample's chain, innermost first.
#[must_use]
pub fn unwound(data: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    let Some((length, rest)) = data.split_first_chunk::<4>() else {
        return out;
    };
    let length = u32::from_le_bytes(*length) as usize;
    let (recording, program) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    let Ok(recording) = Recording::from_bytes(recording.to_vec()) else {
        return out;
    };
    with_program(program, |root, _| {
        let mut symbols = Symbols::new(SearchPath {
            symfs: Some(root.to_owned()),
            binary: None,
        });
        let Ok(profile) = collect(&recording, &mut symbols) else {
            return;
        };
        let _ = profile.early_ends();
        let places = profile
            .entries
            .iter()
            .flat_map(|(context, _)| &context.frames);
        for place in places.take(64) {
            if let Some(file) = place.file.and_then(|file| profile.files.get(file as usize)) {
                let _ = symbols.locate_once(file, place.offset);
            }
        }
        for place in profile.entries.first().map_or(&[][..], |(c, _)| &c.frames) {
            if let Some(file) = place.file.and_then(|file| profile.files.get(file as usize)) {
                let found = symbols.locate(file, place.offset);
                out.extend(found.frames.into_iter().map(|frame| frame.function));
            }
        }
    });
    out
}
