//! A processed profile of the Firefox profiler, version 55 of its format.
//!
//! Facts: the profiler's `docs-developer/CHANGELOG-formats.md` and the crate
//! `fxprof-processed-profile` 0.8, whose output the tests compare the shape with. The stretch between
//! two points of a thread is a sample of the stack that was open, weighted with its length; intervals,
//! instants and integers are markers too, with their arguments.

use super::chrome::string;
use super::points::{Edge, Point, points};
use super::{ExportOptions, lines, process_name};
use crate::event::Payload;
use crate::file::Profile;
use crate::labels::Labels;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The profiler counts in milliseconds.
fn ms(value: u64) -> f64 {
    value as f64 / 1e6
}

pub(super) fn write(
    profile: &Profile,
    options: &ExportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let metadata = profile.metadata();
    let lines = lines(profile, options.collapse_threads);
    let mut by_line: BTreeMap<u32, Vec<Point>> = BTreeMap::new();
    for (thread, points) in points(profile, options.minimum_duration) {
        by_line
            .entry(lines.get(&thread).copied().unwrap_or(thread))
            .or_default()
            .extend(points);
    }
    let meta = json!({
        "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
        "debug": false,
        "extensions": {"baseURL": [], "id": [], "length": 0, "name": []},
        "interval": 1e-6,
        "preprocessedProfileVersion": 55,
        "processType": 0,
        "product": process_name(profile),
        "sampleUnits": {"eventDelay": "ms", "threadCPUDelta": "\u{b5}s", "time": "ms"},
        "startTime": metadata.start_time.map_or(0.0, |start| start as f64 / 1e6),
        "symbolicated": true,
        "pausedRanges": [],
        "version": 24,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "arguments": metadata.command.as_deref().unwrap_or(""),
        "markerSchema": [{
            "name": "event",
            "display": ["marker-chart", "marker-table"],
            "tooltipLabel": "{marker.name} {marker.data.arguments}",
            "tableLabel": "{marker.data.arguments}",
            "fields": [
                {"key": "kind", "label": "Kind", "format": "string"},
                {"key": "arguments", "label": "Arguments", "format": "string"},
                {"key": "value", "label": "Value", "format": "integer"},
                {"key": "counter", "label": format!("1 ms is 1000000 {}", profile.unit().name), "format": "string"},
            ],
        }],
    });
    write!(out, "{{\"meta\":{meta},\"libs\":[],\"threads\":[")?;
    let integers: Vec<_> = profile
        .events()
        .iter()
        .filter(|event| matches!(event.payload, Payload::Integer { .. }))
        .collect();
    let count = by_line.len();
    for (number, (line, points)) in by_line.into_iter().enumerate() {
        if number > 0 {
            out.write_all(b",\n")?;
        }
        let mut thread = Thread::new(profile);
        thread.points(&points);
        if number + 1 == count {
            // An integer has no place in time: it stands at the end of the last thread.
            for event in &integers {
                if let Payload::Integer { value } = event.payload {
                    let at = thread.now;
                    thread.marker(0, event.kind, event.id, at, None, Some(value));
                }
            }
        }
        thread.write(line, number == 0, out)?;
    }
    out.write_all(b"],\"pages\":[],\"profilerOverhead\":[],\"counters\":[]}\n")
}

struct Thread<'p> {
    profile: &'p Profile,
    labels: Labels<'p>,
    /// Label → its place in the strings of this thread; functions and frames have the same number.
    functions: FxHashMap<u32, usize>,
    strings: Vec<String>,
    stacks: FxHashMap<(Option<usize>, usize), usize>,
    prefixes: Vec<Option<usize>>,
    frames: Vec<usize>,
    sample_stacks: Vec<Option<usize>>,
    sample_deltas: Vec<f64>,
    sample_weights: Vec<f64>,
    marker_names: Vec<usize>,
    marker_phases: Vec<u8>,
    marker_starts: Vec<Option<f64>>,
    marker_ends: Vec<Option<f64>>,
    marker_data: Vec<(u64, u64, Option<u64>)>,
    now: u64,
}

impl<'p> Thread<'p> {
    fn new(profile: &'p Profile) -> Self {
        Self {
            profile,
            labels: Labels::new(profile),
            functions: FxHashMap::default(),
            strings: Vec::new(),
            stacks: FxHashMap::default(),
            prefixes: Vec::new(),
            frames: Vec::new(),
            sample_stacks: Vec::new(),
            sample_deltas: Vec::new(),
            sample_weights: Vec::new(),
            marker_names: Vec::new(),
            marker_phases: Vec::new(),
            marker_starts: Vec::new(),
            marker_ends: Vec::new(),
            marker_data: Vec::new(),
            now: 0,
        }
    }

    fn function(&mut self, id: u64) -> usize {
        let label = self.labels.of(id);
        let next = self.strings.len();
        let place = *self.functions.entry(label).or_insert(next);
        if place == next {
            self.strings.push(self.labels.text(label).to_owned());
        }
        place
    }

    fn points(&mut self, points: &[Point]) {
        let mut open: Vec<(usize, u64)> = Vec::new();
        let mut sampled = 0;
        for point in points {
            if point.at > self.now
                && let Some(&(stack, _)) = open.last()
            {
                self.sample_stacks.push(Some(stack));
                self.sample_deltas
                    .push(ms(self.now.saturating_sub(sampled)));
                self.sample_weights.push(ms(point.at - self.now));
                sampled = self.now;
            }
            self.now = self.now.max(point.at);
            match point.edge {
                Edge::Start => {
                    let frame = self.function(point.id);
                    let prefix = open.last().map(|open| open.0);
                    let next = self.frames.len();
                    let stack = *self.stacks.entry((prefix, frame)).or_insert(next);
                    if stack == next {
                        self.prefixes.push(prefix);
                        self.frames.push(frame);
                    }
                    open.push((stack, point.at));
                }
                Edge::End => {
                    let start = open.pop().map_or(point.at, |open| open.1);
                    self.marker(1, point.kind, point.id, start, Some(point.at), None);
                }
                Edge::Instant => self.marker(0, point.kind, point.id, point.at, None, None),
            }
        }
    }

    fn marker(
        &mut self,
        phase: u8,
        kind: u64,
        id: u64,
        start: u64,
        end: Option<u64>,
        value: Option<u64>,
    ) {
        let name = self.function(id);
        self.marker_names.push(name);
        self.marker_phases.push(phase);
        self.marker_starts.push(Some(ms(start)));
        self.marker_ends.push(end.map(ms));
        self.marker_data.push((kind, id, value));
    }

    fn write(&self, line: u32, main: bool, out: &mut dyn Write) -> io::Result<()> {
        let functions = self.strings.len();
        let all = |value: Value| vec![value; functions];
        let numbers: Vec<usize> = (0..functions).collect();
        write!(out, "{{\"frameTable\":")?;
        let frames = json!({
            "length": functions, "address": all(json!(-1)), "inlineDepth": all(json!(0)), "category": all(json!(0)),
            "subcategory": all(json!(0)), "func": numbers, "nativeSymbol": all(Value::Null),
            "innerWindowID": all(json!(0)), "line": all(Value::Null), "column": all(Value::Null),
        });
        write!(out, "{frames},\"funcTable\":")?;
        let table = json!({
            "length": functions, "name": numbers, "isJS": all(json!(false)), "relevantForJS": all(json!(false)),
            "resource": all(json!(-1)), "fileName": all(Value::Null), "lineNumber": all(Value::Null),
            "columnNumber": all(Value::Null),
        });
        write!(
            out,
            "{table},\"markers\":{{\"length\":{},\"category\":",
            self.marker_names.len()
        )?;
        column(out, std::iter::repeat_n(0, self.marker_names.len()))?;
        out.write_all(b",\"data\":[")?;
        self.data(out)?;
        out.write_all(b"],\"endTime\":")?;
        column(out, &self.marker_ends)?;
        out.write_all(b",\"name\":")?;
        column(out, &self.marker_names)?;
        out.write_all(b",\"phase\":")?;
        column(out, &self.marker_phases)?;
        out.write_all(b",\"startTime\":")?;
        column(out, &self.marker_starts)?;
        let name = format!("thread {line}");
        let process = self.profile.metadata().process_id.unwrap_or(0).to_string();
        write!(out, "}},\"name\":\"{name}\",\"isMainThread\":{main},")?;
        out.write_all(b"\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\"name\":[]},")?;
        write!(
            out,
            "\"pausedRanges\":[],\"pid\":\"{process}\",\"processName\":"
        )?;
        string(out, process_name(self.profile))?;
        out.write_all(b",\"processShutdownTime\":null,\"processStartupTime\":0.0,\"processType\":\"default\",\"registerTime\":0.0,")?;
        out.write_all(
            b"\"resourceTable\":{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],\"type\":[]},",
        )?;
        write!(
            out,
            "\"samples\":{{\"length\":{},\"weightType\":\"tracing-ms\",\"stack\":",
            self.sample_stacks.len()
        )?;
        column(out, &self.sample_stacks)?;
        out.write_all(b",\"timeDeltas\":")?;
        column(out, &self.sample_deltas)?;
        out.write_all(b",\"weight\":")?;
        column(out, &self.sample_weights)?;
        out.write_all(b",\"threadCPUDelta\":")?;
        column(out, std::iter::repeat_n(0, self.sample_stacks.len()))?;
        write!(
            out,
            "}},\"stackTable\":{{\"length\":{},\"prefix\":",
            self.frames.len()
        )?;
        column(out, &self.prefixes)?;
        out.write_all(b",\"frame\":")?;
        column(out, &self.frames)?;
        out.write_all(b"},\"stringArray\":")?;
        column(out, &self.strings)?;
        write!(
            out,
            ",\"tid\":\"{line}\",\"unregisterTime\":null,\"showMarkersInTimeline\":true}}"
        )
    }

    fn data(&self, out: &mut dyn Write) -> io::Result<()> {
        let strings = self.profile.strings();
        for (number, (kind, id, value)) in self.marker_data.iter().enumerate() {
            out.write_all(if number == 0 {
                b"{\"type\":\"event\",\"kind\":"
            } else {
                b",{\"type\":\"event\",\"kind\":"
            })?;
            string(out, &strings.get(*kind))?;
            let text = strings.event_text(*id);
            if !text.arguments.is_empty() {
                out.write_all(b",\"arguments\":")?;
                string(out, &text.arguments.join(", "))?;
            }
            if let Some(value) = value {
                write!(out, ",\"value\":{value}")?;
            }
            out.write_all(b"}")?;
        }
        Ok(())
    }
}

/// A JSON array.
fn column<T: serde::Serialize>(
    out: &mut dyn Write,
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (number, value) in values.into_iter().enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &value).map_err(io::Error::from)?;
    }
    out.write_all(b"]")
}
