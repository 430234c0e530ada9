//! Recordings of every form, written here by the layout of `perf.data` and read back.
#![cfg(feature = "symbols")]
#![allow(clippy::unwrap_used)]

use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use truecount_sample::abi::{branch, context, misc, record as rt, sample as st};
use truecount_sample::profile::{Profile, collect};
use truecount_sample::symbols::{SearchPath, Symbols};
use truecount_sample::writer::{PerfDataWriter, SideRecords, WriterEvent, WriterFeatures};
use truecount_sample::{Error, Recording};

const TYPE: u64 = st::IP | st::TID | st::TIME;

fn attr(sample_type: u64, branch_sample_type: u64) -> Vec<u8> {
    let mut attr = vec![0u8; 112];
    attr.splice(4..8, 112u32.to_le_bytes());
    attr.splice(16..24, 1000u64.to_le_bytes()); // period
    attr.splice(24..32, sample_type.to_le_bytes());
    attr.splice(40..48, (1u64 << 18).to_le_bytes()); // sample_id_all
    attr.splice(72..80, branch_sample_type.to_le_bytes());
    attr
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(misc.to_le_bytes());
    out.extend((body.len() as u16 + 8).to_le_bytes());
    out.extend(body);
    out
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A sample of pid 7: address, then what `rest` holds.
fn sample(mode: u16, ip: u64, time: u64, rest: &[u64]) -> Vec<u8> {
    let tid = 7 | 7 << 32;
    let body = [&words(&[ip, tid, time])[..], &words(rest)].concat();
    record(rt::SAMPLE, mode, &body)
}

fn file(sample_type: u64, branches: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let event = WriterEvent {
        attr: attr(sample_type, branches),
        name: "cycles:u".to_owned(),
        ids: vec![1],
    };
    let mut writer = PerfDataWriter::new(Cursor::new(Vec::new()), vec![event]).unwrap();
    for record in records {
        writer.records(record).unwrap();
    }
    writer
        .finish(&WriterFeatures::default())
        .unwrap()
        .into_inner()
}

/// A pipe's stream: the header, an attribute, the records.
fn pipe(attr: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = [b"PERFILE2".to_vec(), words(&[16])].concat();
    out.extend(record(rt::HEADER_ATTR, 0, attr));
    out.extend(records.concat());
    out
}

fn read(bytes: Vec<u8>) -> Profile {
    let recording = Recording::from_bytes(bytes).unwrap();
    collect(&recording, &mut Symbols::new(SearchPath::default())).unwrap()
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("truecount-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Numbers on a stack without frame pointers look like kernel addresses; the marker before them says whose they are.
#[test]
fn context_markers_decide_whose_an_address_is() {
    let kind = TYPE | st::CALLCHAIN;
    let garbage = 0xbe55_0000_0000_1234;
    let chain = [3, context::USER, 0x401_000, garbage];
    let both = [
        5,
        context::KERNEL,
        0xffff_ffff_8100_0010,
        context::USER,
        0x402_000,
        garbage,
    ];
    let profile = read(file(
        kind,
        0,
        &[
            sample(misc::USER, 0x401_000, 1, &chain),
            sample(misc::KERNEL, 0xffff_ffff_8100_0010, 2, &both),
        ],
    ));
    let kernel: Vec<Vec<bool>> = profile
        .entries
        .iter()
        .map(|(c, _)| c.frames.iter().map(|f| f.kernel).collect())
        .collect();
    assert_eq!(kernel, [vec![false, false], vec![true, false, false]]);
}

/// `perf record --call-graph lbr`: the hardware's stack replaces the user's chain, whatever that held.
#[test]
fn a_call_stack_of_branches_replaces_the_users_chain() {
    let kind = TYPE | st::CALLCHAIN | st::BRANCH_STACK;
    let garbage = 0xbe55_0000_0000_1234;
    let rest = [
        3,
        context::USER,
        0x401_000,
        garbage,
        2, // branches: from, to, flags
        0x402_010,
        0x401_000,
        0,
        0x403_010,
        0x402_000,
        0,
    ];
    let mode = branch::USER | branch::CALL_STACK;
    let profile = read(file(kind, mode, &[sample(misc::USER, 0x401_000, 1, &rest)]));
    let frames: Vec<(u64, bool)> = profile.entries[0]
        .0
        .frames
        .iter()
        .map(|frame| (frame.offset, frame.kernel))
        .collect();
    let want = [0x401_000, 0x402_010, 0x403_010].map(|at| (at, false));
    assert_eq!(frames, want);
}

/// `perf record --buildid-mmap`: the kernel's mapping is an MMAP2 with a build id and without protection.
#[test]
fn the_kernel_is_found_in_mappings_with_build_ids() {
    let text = 0xffff_ffff_8100_0000u64;
    let mut body = words(&[u64::from(u32::MAX), text, 0x100_0000, text]);
    body.extend([20, 0, 0, 0]); // the id's size
    body.extend([0xab; 20]);
    body.extend([0; 8]); // prot, flags
    body.extend(b"[kernel.kallsyms]_text\0\0");
    body.extend([0; 16]); // the sample's identity
    let kernel = record(rt::MMAP2, misc::KERNEL | misc::MMAP_BUILD_ID, &body);
    let profile = read(file(
        TYPE,
        0,
        &[kernel, sample(misc::KERNEL, text + 0x40, 1, &[])],
    ));
    let place = profile.entries[0].0.frames[0];
    assert_eq!((place.kernel, place.offset), (true, 0x40));
    let file = &profile.files[place.file.unwrap() as usize];
    assert_eq!(file.build_id, [0xab; 20]);
    assert_eq!(profile.kernel_text, Some(text));
}

#[test]
fn the_idle_task_has_its_name() {
    let body = words(&[0x1000, 0, 1]);
    let profile = read(file(TYPE, 0, &[record(rt::SAMPLE, misc::KERNEL, &body)]));
    assert_eq!(profile.comms, ["swapper"]);
}

/// `perf record --threads`: a directory with the header's file and one stream of records a thread.
#[test]
fn directories_are_read_whole() {
    let dir = Scratch::new("directory");
    let side = SideRecords::new(TYPE);
    let map = side.mmap(7, 0x40_1000..0x40_2000, 0x1000, b"/bin/x");
    dir.file(
        "data",
        &file(TYPE, 0, &[map, sample(misc::USER, 0x401_010, 5, &[])]),
    );
    dir.file("data.0", &sample(misc::USER, 0x401_020, 6, &[]));
    dir.file("data.10", &sample(misc::USER, 0x401_030, 7, &[]));
    dir.file("data.2", &sample(misc::USER, 0x401_010, 8, &[]));
    let recording = Recording::open(&dir.0).unwrap();
    let profile = collect(&recording, &mut Symbols::new(SearchPath::default())).unwrap();
    let offsets: Vec<(u64, u64)> = profile
        .entries
        .iter()
        .map(|(c, w)| (c.frames[0].offset, w.samples))
        .collect();
    assert_eq!(offsets, [(0x1010, 2), (0x1020, 1), (0x1030, 1)]);
    assert!(recording.len() > 100);
}

#[test]
fn tracepoints_in_a_stream_have_their_names() {
    let mut attr = attr(TYPE, 0);
    attr.splice(0..4, 2u32.to_le_bytes());
    attr.splice(8..16, 314u64.to_le_bytes());
    let mut trace = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    let text = |text: &[u8]| [&(text.len() as u64).to_le_bytes()[..], text].concat();
    trace.extend([b"header_page\0", &text(b"")[..]].concat());
    trace.extend([b"header_event\0", &text(b"")[..]].concat());
    trace.extend([&0u32.to_le_bytes()[..], &1u32.to_le_bytes(), b"sched\0"].concat());
    trace.extend(1u32.to_le_bytes());
    trace.extend(text(b"name: sched_switch\nID: 314\nformat:\n"));
    let size = trace.len() as u32;
    trace.resize(trace.len().next_multiple_of(8), 0);
    let head = record(rt::HEADER_TRACING_DATA, 0, &size.to_le_bytes());
    let bytes = pipe(
        &attr,
        &[[head, trace].concat(), sample(misc::USER, 1, 1, &[])],
    );
    let recording = Recording::from_bytes(bytes).unwrap();
    assert_eq!(recording.events()[0].name, "sched:sched_switch");
    assert_eq!(recording.records().count(), 1);
}

/// What does not begin as a recording is refused by its first bytes, also where it never ends.
#[test]
fn the_magic_is_looked_at_before_the_rest_is_read() {
    for path in ["/dev/zero", "/dev/urandom"] {
        let refused = Recording::open(Path::new(path)).unwrap_err();
        assert!(matches!(refused, Error::Magic { .. }), "{path}: {refused}");
    }
    let elf = truecount_sample::elf::Elf::open(Path::new("/dev/zero"));
    assert!(elf.unwrap().is_none());
}

fn map_of(path: &str) -> Vec<u8> {
    SideRecords::new(TYPE).mmap(7, 0x40_0000..0x50_0000, 0, path.as_bytes())
}

fn with_binary(binary: &Path, recorded: &str) -> Result<bool, Error> {
    let bytes = file(
        TYPE,
        0,
        &[map_of(recorded), sample(misc::USER, 0x40_1010, 1, &[])],
    );
    let mut symbols = Symbols::new(SearchPath {
        symfs: None,
        binary: Some(binary.to_owned()),
    });
    let profile = collect(&Recording::from_bytes(bytes).unwrap(), &mut symbols)?;
    Ok(symbols
        .find(&profile.files[0])
        .is_ok_and(|found| found.path == binary))
}

#[test]
fn a_binary_is_honoured_or_refused() {
    let me = std::env::current_exe().unwrap();
    let dir = Scratch::new("binary");
    let renamed = dir.0.join("renamed");
    std::fs::copy(&me, &renamed).unwrap();
    // A copy with another name of a program that the recording has without a build id.
    assert!(with_binary(&renamed, "/nowhere/program").unwrap());
    assert!(with_binary(&me, me.to_str().unwrap()).unwrap());
    // Only a library was mapped: the program cannot be it.
    let refused = with_binary(&renamed, "/lib/libc.so.6").unwrap_err();
    assert!(
        refused.to_string().contains("neither its name"),
        "{refused}"
    );
    let refused = with_binary(Path::new("/nowhere/program"), "/nowhere/program").unwrap_err();
    assert!(refused.to_string().contains("No such file"), "{refused}");
    let text = dir.file("text", b"no program");
    let refused = with_binary(&text, "/nowhere/text").unwrap_err();
    assert!(
        refused.to_string().contains("not a 64-bit ELF"),
        "{refused}"
    );
}

/// `perf script | …`, `perf record -o - | …`: a stream that is not seekable.
#[test]
fn a_pipe_is_read_to_its_end() {
    let bytes = pipe(&attr(TYPE, 0), &[sample(misc::USER, 0x1000, 1, &[])]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let write = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    let recording = Recording::open(Path::new(&path)).unwrap();
    write.join().unwrap();
    assert!(recording.is_pipe());
    assert_eq!(recording.records().count(), 1);
}
