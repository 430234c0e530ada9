//! `report -D`: every record of the kernel as it was read, one line each, and the chains of samples.

use std::io::Write;
use std::path::Path;

use truecount_sample::{Body, Recording, Sample, SampleId};

use crate::failure::Failure;
use crate::recording::unreadable;

const NAMES: [&str; 22] = [
    "",
    "MMAP",
    "LOST",
    "COMM",
    "EXIT",
    "THROTTLE",
    "UNTHROTTLE",
    "FORK",
    "READ",
    "SAMPLE",
    "MMAP2",
    "AUX",
    "ITRACE_START",
    "LOST_SAMPLES",
    "SWITCH",
    "SWITCH_CPU_WIDE",
    "NAMESPACES",
    "KSYMBOL",
    "BPF_EVENT",
    "CGROUP",
    "TEXT_POKE",
    "AUX_OUTPUT_HW_ID",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a record says beside its type and identity.
fn body(body: &Body<'_>) -> String {
    match body {
        Body::Mmap(map) => format!(
            "{}/{} [{:#x}, {:#x}) offset {:#x} {}",
            map.pid as i32,
            map.tid as i32,
            map.addr,
            map.addr.wrapping_add(map.len),
            map.pgoff,
            text(map.path)
        ),
        Body::Comm(comm) => {
            let exec = if comm.exec { " exec" } else { "" };
            format!("{}/{} {}{exec}", comm.pid, comm.tid, text(comm.name))
        }
        Body::Fork(t) | Body::Exit(t) => {
            format!("{}/{} parent {}/{}", t.pid, t.tid, t.ppid, t.ptid)
        }
        Body::Lost { lost, .. } | Body::LostSamples { lost } => format!("{lost} lost"),
        Body::Switch { out, other } => {
            let way = if *out { "out" } else { "in" };
            other.map_or_else(
                || way.to_owned(),
                |(pid, tid)| format!("{way}, other {pid}/{tid}"),
            )
        }
        Body::Ksymbol {
            addr, len, name, ..
        } => format!("{addr:#x} {len} bytes {}", text(name)),
        Body::Cgroup { id, path } => format!("{id} {}", text(path)),
        Body::Sample(sample) => sampled(sample),
        _ => String::new(),
    }
}

fn sampled(sample: &Sample<'_>) -> String {
    let mut out = String::new();
    let mut say = |what: String| {
        out.push_str(&what);
        out.push(' ');
    };
    if let Some(ip) = sample.ip {
        say(format!("ip {ip:#x}"));
    }
    if let Some(period) = sample.period {
        say(format!("period {period}"));
    }
    if let Some(branches) = &sample.branches {
        say(format!("{} branches", branches.iter().count()));
    }
    if let Some(registers) = &sample.regs_user {
        say(format!(
            "{} user registers",
            registers.values.iter().count()
        ));
    }
    out.truncate(out.trim_end().len());
    for address in sample.callchain.iter() {
        out.push_str(&format!("\n    {address:#x}"));
    }
    out
}

fn identity(id: &SampleId) -> String {
    let mut out = String::new();
    if let Some((pid, tid)) = id.pid.zip(id.tid) {
        out.push_str(&format!("{}/{} ", pid as i32, tid as i32));
    }
    if let Some(cpu) = id.cpu {
        out.push_str(&format!("CPU {cpu} "));
    }
    if let Some(time) = id.time {
        out.push_str(&format!(
            "{}.{:09} ",
            time / 1_000_000_000,
            time % 1_000_000_000
        ));
    }
    out
}

pub(super) fn print(
    out: &mut dyn Write,
    path: &Path,
    recording: &Recording,
) -> Result<(), Failure> {
    let damaged = |error| unreadable(path, &error);
    for record in recording.records() {
        let record = record.map_err(damaged)?;
        let (what, id, event) = recording.decode(&record).map_err(damaged)?;
        let kind = record.raw.kind;
        let name = NAMES.get(kind as usize).copied().unwrap_or("UNKNOWN");
        let event = recording
            .events()
            .get(event)
            .map_or("", |event| event.name.as_str());
        let event = if matches!(what, Body::Sample(_)) {
            event
        } else {
            ""
        };
        let bytes = record.raw.body.len().saturating_add(8);
        let line = format!(
            "{:#x} [{bytes:#x}] {name} {}{event} {}",
            record.offset,
            identity(&id),
            body(&what)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
