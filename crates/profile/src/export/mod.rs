//! Profiles for other people's viewers.
//!
//! Times keep their full resolution (nanoseconds become fractions of a microsecond where a viewer
//! wants microseconds), and instants and integers are kept wherever the target can hold them. A
//! viewer that knows only time shows one unit of another counter as one nanosecond; the unit's name
//! goes along.

mod callgrind;
mod callgrind_file;
mod chrome;
mod firefox;
mod flame;
mod folded;
mod intern;
mod json;
mod markup;
mod perfetto;
mod points;
mod pprof;
mod proto;
mod stacks;
mod tree;

pub use callgrind_file::{CallCost, CallgrindFile, CallgrindForm, CostedFunction, PlaceCost};
pub use flame::{FlameGraph, Level};
pub use folded::stacks;
pub use json::{EventLine, event_line};
pub use markup::escape;
pub use stacks::{Function, Line, Measure, Owner, Place, Stack, Stacks};

use crate::error::ProfileError;
use crate::event::Payload;
use crate::file::Profile;
use rustc_hash::FxHashMap;
use std::io::Write;

/// What to export to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Trace event JSON of `chrome://tracing`, also read by Perfetto and speedscope.
    Chrome,
    /// A Perfetto trace (protobuf).
    Perfetto,
    /// Processed profile JSON of the Firefox profiler.
    Firefox,
    /// Folded stacks, for flame graph tools.
    Folded,
    /// A flame graph.
    Svg,
    /// A pprof profile (gzipped protobuf).
    Pprof,
    /// Callgrind's profile format, for KCachegrind.
    Callgrind,
    /// All events with their text, `truecount.profile/1`.
    Json,
}

/// How to export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Intervals shorter than this (in the profile's unit) are left out of timelines.
    pub minimum_duration: u64,
    /// Threads that do not overlap in time share a line.
    pub collapse_threads: bool,
}

/// Writes a profile to `out`.
///
/// # Errors
/// `out` cannot be written.
pub fn export(
    profile: &Profile,
    format: Format,
    options: &ExportOptions,
    out: &mut dyn Write,
) -> Result<(), ProfileError> {
    match format {
        Format::Chrome => chrome::write(profile, options, out)?,
        Format::Perfetto => perfetto::write(profile, options, out)?,
        Format::Firefox => firefox::write(profile, options, out)?,
        Format::Folded => Stacks::of_regions(profile).write_folded(0, out)?,
        Format::Svg => out.write_all(flame_graph(profile).as_bytes())?,
        Format::Pprof => Stacks::of_regions(profile).write_pprof(out)?,
        Format::Callgrind => Stacks::of_regions(profile).write_callgrind(0, true, out)?,
        Format::Json => json::write(profile, out)?,
    }
    Ok(())
}

/// The regions as a flame graph: the process is the lowest box.
fn flame_graph(profile: &Profile) -> String {
    let unit = profile.unit();
    let stacks = Stacks::of_regions(profile);
    FlameGraph::of(&stacks, 0, None, &unit.name).svg(&format!(
        "{}: {} by self time of regions",
        stacks.title, unit.counter
    ))
}

/// Which line each thread is drawn on: its own, or with `collapse` the first that is free when it starts.
fn lines(profile: &Profile, collapse: bool) -> FxHashMap<u32, u32> {
    let mut extents: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for event in profile.events().iter() {
        let (start, end) = match event.payload {
            Payload::Interval { start, end } if start <= end => (start, end),
            Payload::Instant { at } => (at, at),
            _ => continue,
        };
        let extent = extents.entry(event.thread).or_insert((start, end));
        *extent = (extent.0.min(start), extent.1.max(end));
    }
    if !collapse {
        return extents.into_keys().map(|thread| (thread, thread)).collect();
    }
    let mut threads: Vec<(u64, u64, u32)> = extents
        .into_iter()
        .map(|(thread, (s, e))| (s, e, thread))
        .collect();
    threads.sort_unstable();
    let mut free_from: Vec<u64> = Vec::new();
    let mut result = FxHashMap::default();
    for (start, end, thread) in threads {
        let line = free_from
            .iter()
            .position(|&free| free <= start)
            .unwrap_or(free_from.len());
        match free_from.get_mut(line) {
            Some(free) => *free = end,
            None => free_from.push(end),
        }
        result.insert(thread, u32::try_from(line).unwrap_or(u32::MAX));
    }
    result
}

/// The name of the process: the last part of the first word of its command.
fn process_name(profile: &Profile) -> &str {
    let command = profile.metadata().command.as_deref().unwrap_or("");
    let first = command.split_whitespace().next().unwrap_or("");
    match first.rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => "process",
    }
}

/// `value` thousandths as a decimal number with up to three places.
fn thousandths(value: u64) -> String {
    let (whole, part) = (value / 1000, value % 1000);
    if part == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{part:03}")
            .trim_end_matches('0')
            .to_owned()
    }
}
