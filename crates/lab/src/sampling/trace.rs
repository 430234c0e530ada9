//! Time inside the kernel's interrupt handlers, from its tracepoints: `nmi:nmi_handler` (the PMU's interrupt on x86; the
//! record holds the time itself), `irq:irq_handler_entry` and `_exit` (the PMU's interrupt on Arm),
//! `irq_vectors:local_timer_entry` and `_exit` (the timer behind cpu-clock on x86). Facts: their `format` files in
//! tracefs; `include/trace/events/nmi.h`, `irq.h`, `arch/x86/include/asm/trace/irq_vectors.h`.

use super::cell::Event as Sampled;
use crate::machine;
use std::path::{Path, PathBuf};
use truecount_perf::sys::bindings as abi;
use truecount_perf::{Event, EventAttr, OpenOptions, Ring, SharedKernel, Target};
use truecount_sample::abi::{record as rt, sample as st};
use truecount_sample::{Body, RawRecord, SampleLayout};

/// Where tracefs may be mounted.
const DIRECTORIES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

const FIELDS: u64 = st::IDENTIFIER | st::TIME | st::RAW;

/// A handler's run: when, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Begin, ns of the monotonic clock.
    pub from: u64,
    /// End.
    pub to: u64,
}

/// One tracepoint.
pub(super) struct Point {
    pub(super) id: u64,
    /// Offset and size of the field that is looked at.
    field: Option<(usize, usize)>,
}

/// What a record means.
#[derive(Clone, Copy)]
enum Means {
    Entry,
    Exit,
    /// The end of a handler, with its duration inside.
    Whole,
}

/// An open tracepoint, its id in records, what a record means, and the place of its field.
type Open = (Event, u64, Means, Option<(usize, usize)>);

/// The tracepoints of a handler, open on the calling thread.
pub(super) struct Trace {
    ring: Ring,
    /// Kept open; with the id in records, what a record means, and its field.
    events: Vec<Open>,
    /// Only interrupts with these numbers.
    lines: Option<Vec<u32>>,
    /// As in `nmi:nmi_handler`.
    pub(super) name: &'static str,
}

/// The tracefs that is mounted.
pub(super) fn directory() -> Result<PathBuf, String> {
    DIRECTORIES
        .into_iter()
        .map(PathBuf::from)
        .find(|directory| directory.join("events/irq").is_dir())
        .ok_or_else(|| {
            "tracefs is not mounted or not readable: mount -t tracefs tracefs /sys/kernel/tracing, as root".to_owned()
        })
}

/// The number of a tracepoint and the place of one of its fields, from its directory.
pub(super) fn point(directory: &Path, name: &str, field: Option<&str>) -> Result<Point, String> {
    let own = directory.join("events").join(name);
    let read = |file: &str| {
        std::fs::read_to_string(own.join(file))
            .map_err(|error| format!("{}: {error}", own.join(file).display()))
    };
    let id = read("id")?
        .trim()
        .parse()
        .map_err(|_| format!("{name}: its id is not a number"))?;
    let field = match field {
        None => None,
        Some(field) => Some(
            place(&read("format")?, field).ok_or_else(|| format!("{name} has no field {field}"))?,
        ),
    };
    Ok(Point { id, field })
}

/// Offset and size of a field in a `format` file of tracefs.
#[must_use]
pub fn place(format: &str, field: &str) -> Option<(usize, usize)> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        if declaration.rsplit([' ', '*']).next()? != field {
            return None;
        }
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        Some((offset, size))
    })
}

/// A number of 4 or 8 bytes in a record's data.
fn number(raw: &[u8], (offset, size): (usize, usize)) -> Option<u64> {
    let bytes = raw.get(offset..offset.checked_add(size)?)?;
    match size {
        4 => Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?))),
        8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

impl Trace {
    /// The tracepoints around the interrupt of an event, off.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(super) fn open(kernel: &SharedKernel, sampled: Sampled) -> Result<Self, String> {
        let directory = directory()?;
        let arm = cfg!(target_arch = "aarch64");
        type Row = (&'static str, Means, Option<&'static str>);
        const NMI: &[Row] = &[("nmi/nmi_handler", Means::Whole, Some("delta_ns"))];
        const TIMER: &[Row] = &[
            ("irq_vectors/local_timer_entry", Means::Entry, None),
            ("irq_vectors/local_timer_exit", Means::Exit, None),
        ];
        const IRQ: &[Row] = &[
            ("irq/irq_handler_entry", Means::Entry, Some("irq")),
            ("irq/irq_handler_exit", Means::Exit, Some("irq")),
        ];
        let (name, wanted, lines) = match (arm, sampled) {
            (false, Sampled::Cycles) => ("nmi:nmi_handler", NMI, None),
            (false, Sampled::CpuClock) => ("irq_vectors:local_timer_*", TIMER, None),
            (true, sampled) => {
                let words: &[&str] = match sampled {
                    Sampled::Cycles => &["pmu"],
                    Sampled::CpuClock => &["timer"],
                };
                let lines = machine::interrupt_lines(words);
                if lines.is_empty() {
                    return Err(format!(
                        "/proc/interrupts has no line with {}",
                        words.join(" or ")
                    ));
                }
                ("irq:irq_handler_*", IRQ, Some(lines))
            }
        };
        let mut events: Vec<Open> = Vec::new();
        let mut ring = None;
        for &(path, means, field) in wanted {
            let point = point(&directory, path, field)?;
            let attr = EventAttr::new(abi::PERF_TYPE_TRACEPOINT, point.id)
                .sample_every(1)
                .sample_type(FIELDS)
                .sample_id_all(true)
                .use_clockid(true)
                .clockid(libc::CLOCK_MONOTONIC)
                .disabled(true);
            let event =
                Event::open_with(kernel, &attr, Target::CallingThread, OpenOptions::default())
                    .map_err(|error| error.to_string())?;
            let id = event.id().map_err(|error| error.to_string())?;
            match events.first() {
                Some((first, ..)) => event
                    .set_output(Some(first))
                    .map_err(|error| error.to_string())?,
                None => ring = Some(event.ring(128).map_err(|error| error.to_string())?),
            }
            events.push((event, id, means, point.field));
        }
        let ring = ring.ok_or("no tracepoint")?;
        Ok(Self {
            ring,
            events,
            lines,
            name,
        })
    }

    pub(super) fn enable(&self) -> Result<(), truecount_perf::Error> {
        self.events
            .iter()
            .try_for_each(|(event, ..)| event.enable())
    }

    pub(super) fn disable(&self) -> Result<(), truecount_perf::Error> {
        self.events
            .iter()
            .try_for_each(|(event, ..)| event.disable())
    }

    /// Empties the ring: the runs of the handler, in order of time.
    pub(super) fn take(&mut self) -> Vec<Run> {
        let layout = SampleLayout {
            sample_type: FIELDS,
            sample_id_all: true,
            ..SampleLayout::default()
        };
        let mut runs = Vec::new();
        let mut entered: Option<u64> = None;
        loop {
            let record = match self.ring.next_record() {
                Ok(Some(record)) if record.kind == rt::SAMPLE => record,
                Ok(Some(_)) | Err(_) => continue,
                Ok(None) => break,
            };
            let raw = RawRecord {
                kind: record.kind,
                misc: record.misc,
                body: record.body(),
            };
            let Some((Body::Sample(sample), id)) = raw.decode(&layout) else {
                continue;
            };
            let known = self.events.iter().find(|(_, own, ..)| Some(*own) == id.id);
            let (Some(&(_, _, means, field)), Some(time)) = (known, id.time) else {
                continue;
            };
            let value = field.and_then(|field| number(sample.raw, field));
            match means {
                Means::Whole => {
                    // An end and a duration; a duration beyond a second is not a handler's.
                    if let Some(length) = value.filter(|&ns| ns < 1_000_000_000) {
                        runs.push(Run {
                            from: time.saturating_sub(length),
                            to: time,
                        });
                    }
                }
                Means::Entry | Means::Exit => {
                    let ours = match (&self.lines, value) {
                        (Some(lines), Some(line)) => {
                            lines.iter().any(|&own| u64::from(own) == line)
                        }
                        (Some(_), None) => false,
                        (None, _) => true,
                    };
                    match (means, ours) {
                        (_, false) => {}
                        (Means::Entry, true) => entered = Some(time),
                        (_, true) => {
                            if let Some(from) = entered.take() {
                                runs.push(Run { from, to: time });
                            }
                        }
                    }
                }
            }
        }
        self.ring.release();
        runs
    }
}

/// The lengths of the runs in which a sample was taken; all in order of time.
#[must_use]
pub fn with_samples(runs: &[Run], samples: &[u64]) -> Vec<u64> {
    // The tracepoint inside a handler and the sample's clock differ by some tens of ns.
    const SLACK: u64 = 500;
    runs.iter()
        .filter(|run| {
            let start = samples.partition_point(|&time| time < run.from.saturating_sub(SLACK));
            samples
                .get(start)
                .is_some_and(|&time| time <= run.to.saturating_add(SLACK))
        })
        .map(|run| run.to.saturating_sub(run.from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: nmi_handler\nID: 170\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:void * handler;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:s64 delta_ns;\toffset:16;\tsize:8;\tsigned:1;\n\
        \tfield:int handled;\toffset:24;\tsize:4;\tsigned:1;\n";

    #[test]
    fn fields_are_found_in_a_format_file() {
        assert_eq!(place(FORMAT, "delta_ns"), Some((16, 8)));
        assert_eq!(place(FORMAT, "handled"), Some((24, 4)));
        assert_eq!(place(FORMAT, "handler"), Some((8, 8)));
        assert_eq!(place(FORMAT, "delta"), None);
        assert_eq!(place("field:x;offset:;size:", "x"), None);
        let raw: Vec<u8> = (0..32).collect();
        assert_eq!(
            number(&raw, (16, 8)),
            Some(u64::from_ne_bytes([16, 17, 18, 19, 20, 21, 22, 23]))
        );
        assert_eq!(number(&raw, (30, 4)), None);
        assert_eq!(number(&raw, (usize::MAX, 8)), None);
    }

    #[test]
    fn handlers_with_a_sample_in_them() {
        let run = |from, to| Run { from, to };
        let runs = [run(1000, 3000), run(10_000, 12_000), run(20_000, 21_000)];
        assert_eq!(with_samples(&runs, &[2000, 21_400]), [2000, 1000]);
        assert_eq!(with_samples(&runs, &[]), [0u64; 0]);
    }
}
