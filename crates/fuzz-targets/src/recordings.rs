//! Recordings to begin with: files, streams, compressed ones, with branch stacks and with stacks of a program.

use std::io::Cursor;

use truecount_sample::writer::{PerfDataWriter, SideRecords, WriterEvent, WriterFeatures};

/// `struct perf_event_attr` of cycles with these fields in samples, and `words` at their places.
fn attribute(kind: u64, words: &[(usize, u64)]) -> Vec<u8> {
    let mut attr = vec![0_u8; 112];
    // PERF_TYPE_HARDWARE, cycles; sample_id_all.
    let own = [
        (4, 112_u64),
        (8, 0),
        (16, 100_000),
        (24, kind),
        (40, 1 << 18),
    ];
    for (at, word) in own.iter().chain(words) {
        if let Some(place) = attr.get_mut(*at..*at + 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    attr
}

/// A recording of these records; `words` are the attributes' beyond size, period and `sample_id_all`.
fn recording(
    kind: u64,
    words: &[(usize, u64)],
    name: &str,
    records: &[u8],
    branch_stack: bool,
) -> Vec<u8> {
    let event = WriterEvent {
        attr: attribute(kind, words),
        name: name.to_owned(),
        ids: vec![1],
    };
    let features = WriterFeatures {
        arch: "x86_64".to_owned(),
        branch_stack,
        command_line: vec!["prog".to_owned()],
        ..WriterFeatures::default()
    };
    PerfDataWriter::new(Cursor::new(Vec::new()), vec![event])
        .and_then(|mut writer| {
            writer.records(records)?;
            writer.finish(&features)
        })
        .expect("memory can be written")
        .into_inner()
}

/// A PERF_RECORD_SAMPLE in user mode.
fn sample(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    record(9, &body)
}

/// A recording with a process, a mapping and some samples with a branch stack each.
pub(crate) fn perf_data() -> Vec<Vec<u8>> {
    let records = records();
    vec![
        recording(BRANCHES, &[], "cycles", &records, true),
        pipe(std::slice::from_ref(&records)),
        pipe(&[compressed(&records)]),
    ]
}

/// A recording of `perf record --threads`: the length of its first file (4 bytes), that, and the next.
pub(crate) fn recording_directory() -> Vec<Vec<u8>> {
    let records = records();
    let first = recording(BRANCHES, &[], "cycles", &records, true);
    let length = (first.len() as u32).to_le_bytes();
    let packed = compressed(&records);
    let with = |second: &[u8]| [&length[..], &first, second].concat();
    vec![with(&records), with(&packed)]
}

/// What `perf record -o -` writes: the attributes are records, too.
fn pipe(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = b"PERFILE2".to_vec();
    out.extend(16_u64.to_le_bytes());
    let ids = 1_u64.to_le_bytes();
    out.extend(record(64, &[&attribute(BRANCHES, &[])[..], &ids].concat()));
    out.extend(parts.concat());
    out
}

/// A record of this type.
fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u16 + 8).to_le_bytes();
    [&kind.to_le_bytes()[..], &2_u16.to_le_bytes(), &size, body].concat()
}

/// These records in a compressed one (81): a zstd frame with a raw block (RFC 8878, section 3.1.1).
fn compressed(records: &[u8]) -> Vec<u8> {
    let size = records.len() as u32;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend(size.to_le_bytes());
    frame.extend((size << 3 | 1).to_le_bytes().iter().take(3));
    frame.extend(records);
    record(81, &frame)
}

/// PERF_SAMPLE_IP | TID | TIME | PERIOD | BRANCH_STACK.
const BRANCHES: u64 = 1 | 2 | 4 | 1 << 8 | 1 << 11;

fn records() -> Vec<u8> {
    let side = SideRecords::new(BRANCHES);
    let mut records = side.comm(7, 7, b"prog");
    records.extend(side.mmap(7, 0x40_1000..0x40_3000, 0x1000, b"/bin/prog"));
    for number in 0..6_u64 {
        let head = [0x40_1110 + number, 7 | 7 << 32, 1000 + number, 100_000, 4];
        let entries = (0..4).flat_map(|entry| {
            let (from, to) = if entry % 2 == 0 {
                (0x40_1130_u64, 0x40_1110_u64)
            } else {
                (0x40_1118, 0x40_1120)
            };
            // Predicted, and the cycles in bits 4 to 19.
            [from, to, 2 | (12 + number) << 4]
        });
        records.extend(sample(head.into_iter().chain(entries)));
    }
    records
}

/// What `fuzz/corpus/symbols/called` was made of: `_start` calls `outer`, that `middle`, that `leaf`, in which `spin` is
/// inlined (`cc -O1 -g -fomit-frame-pointer -nostdlib -static -no-pie`).
const CALLED: &[u8] = include_bytes!("../../../fuzz/corpus/symbols/called");

/// A recording of samples in [`CALLED`] with registers and stack, and the program.
pub(crate) fn unwind() -> Vec<Vec<u8>> {
    // PERF_SAMPLE_IP | TID | TIME | REGS_USER | STACK_USER.
    let kind: u64 = 1 | 2 | 4 | 1 << 12 | 1 << 13;
    // BP, SP and IP (arch/x86/include/uapi/asm/perf_regs.h); 128 bytes of stack.
    let words = [(80, 1 << 6 | 1 << 7 | 1 << 8), (88, 128)];
    let side = SideRecords::new(kind);
    let mut records = side.comm(7, 7, b"called");
    let path = crate::binary::PROGRAM.as_bytes();
    records.extend(side.mmap(7, 0x40_0000..0x40_1000, 0, path));
    let callers = [0x40_016e_u64, 0x40_0186, 0x40_01a3];
    for (ip, calls) in [(0x40_014d_u64, 3), (0x40_0180, 2), (0x40_0199, 0)] {
        let mut stack = vec![0_u64; 16];
        let inner = callers.iter().skip(3 - calls);
        stack
            .iter_mut()
            .zip(inner)
            .for_each(|(place, caller)| *place = *caller);
        let (sp, abi) = (0x7ffc_0000_1000_u64, 2);
        let head = [ip, 7 | 7 << 32, 1000, abi, 0, sp, ip, 128];
        records.extend(sample(head.into_iter().chain(stack).chain([128])));
    }
    let written = recording(kind, &words, "cycles:u", &records, false);
    let length = (written.len() as u32).to_le_bytes();
    vec![[&length[..], &written, CALLED].concat()]
}
