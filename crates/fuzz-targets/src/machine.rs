//! Parsers of what the kernel says: files of `/proc`, `/sys` and tracefs, entries of directories, the stack of a new
//! program; and of what is sent to the server of `system --prometheus`.

use std::cell::RefCell;
use std::io;

use truecount_events::Machine;
use truecount_lab::sampling::place_in_format;
use truecount_perf::Facts;
use truecount_perf::probe::{Pmu, Root, cpu};
use truecount_run::determinism::{reordered, start_of_stack};
use truecount_system::Topology;

/// The files of [`facts`], in the order of its input's parts.
pub(crate) const FILES: [&str; 18] = [
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/kernel/osrelease",
    "proc/self/status",
    "proc/self/uid_map",
    "proc/self/limits",
    "proc/self/cgroup",
    "proc/self/personality",
    "proc/cpuinfo",
    "sys/kernel/security/lockdown",
    "sys/devices/system/cpu/online",
    "sys/devices/system/node/node0/cpulist",
    "sys/bus/event_source/devices/cpu/type",
    "sys/bus/event_source/devices/cpu/caps/branches",
    "sys/bus/event_source/devices/cpu/format/event",
    "sys/bus/event_source/devices/cpu/format/umask",
    "sys/bus/event_source/devices/cpu/events/cycles",
    "sys/bus/event_source/devices/cpu/cpus",
    "sys/bus/event_source/devices/uncore_x/cpumask",
];

/// What stands between the parts.
pub(crate) const BETWEEN: &[u8] = b"\n---\n";

/// A made-up machine whose files are the input's parts: what decides errors, PMUs, the CPU, the topology, events.
pub(crate) fn facts(data: &[u8]) {
    thread_local! {
        // What is in the files: writing them all would take longer than reading them.
        static CONTENTS: RefCell<Vec<Vec<u8>>> = RefCell::new(vec![vec![0]; FILES.len()]);
    }
    crate::in_directory(|directory| {
        CONTENTS.with_borrow_mut(|contents| {
            let mut rest = Some(data);
            for (file, before) in FILES.iter().zip(contents) {
                let (part, behind) = split(rest.unwrap_or_default());
                rest = behind;
                let path = directory.join(file);
                if before != part {
                    let _ = path.parent().map(std::fs::create_dir_all);
                    let _ = std::fs::write(path, part);
                    *before = part.to_vec();
                }
            }
        });
        let root = Root::at(directory);
        let facts = Facts::gather(&root);
        let _ = (facts.privileged(), facts.core_pmu(), facts.version());
        let _ = (Pmu::all(&root), cpu::describe(&root));
        let online = facts.online_cpus.map_or(0, |cpus| cpus.len());
        assert_eq!(Topology::read(&root).cpus.len(), online);
        let machine = Machine::at(&directory.join("sys"));
        let _ = truecount_events::resolve("cycles:u,cpu/event=1,umask=2/,uncore_x/x/", &machine);
    });
}

/// What lies before the first [`BETWEEN`], and behind it.
fn split(data: &[u8]) -> (&[u8], Option<&[u8]>) {
    let end = data.windows(BETWEEN.len()).position(|part| part == BETWEEN);
    let Some(end) = end else {
        return (data, None);
    };
    let (part, rest) = data.split_at(end);
    (part, rest.get(BETWEEN.len()..))
}

/// Formats of tracepoints: a file of tracefs, and the trace data of a recording.
pub(crate) fn trace_formats(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for field in ["delta_ns", "irq", ""] {
        let _ = place_in_format(&text, field);
    }
    let named = truecount_sample::tracepoint_names(data);
    assert!(named.len() <= data.len());
}

/// Entries of a directory: each comes once, in either order, whatever the room.
pub(crate) fn dirents(data: &[u8]) {
    for (old, shuffled) in [(false, None), (false, Some(7)), (true, None)] {
        let all = reordered(data, old, shuffled, usize::MAX);
        if let Some((bytes, _)) = &all {
            assert_eq!(bytes.len(), data.len());
        }
        if let Some((bytes, calls)) = reordered(data, old, shuffled, 64) {
            assert!(bytes.len() <= data.len() && calls <= data.len());
        }
    }
}

/// `/proc/PID/stat`, and the stack of a program that has not begun.
pub(crate) fn process_start(data: &[u8]) {
    let _ = start_of_stack(&String::from_utf8_lossy(data));
    let word = |at: u64| {
        let from = usize::try_from(at).ok();
        let bytes = from.and_then(|from| data.get(from..)?.first_chunk());
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        Ok(u64::from_le_bytes(*bytes))
    };
    for (_, value) in truecount_engine::auxv::entries(word, 0, [25, 33])
        .into_iter()
        .flatten()
        .flatten()
    {
        assert!(data.windows(8).any(|word| word == value.to_le_bytes()));
    }
}

/// The head of a request over HTTP: a status, whatever was sent.
pub(crate) fn requests(data: &[u8]) {
    let status = truecount_system::status_of(data);
    let known = ["400 ", "404 ", "405 ", "503 "];
    assert!(
        known.iter().any(|known| status.starts_with(known)),
        "{status}"
    );
}
