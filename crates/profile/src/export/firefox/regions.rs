//! Region profiles: the stretch between two points of a thread is a sample of the stack that was open, weighted with its
//! length; intervals, instants and integers are markers too, with their arguments.

use super::super::chrome::string;
use super::super::points::{Edge, Point, points};
use super::super::{ExportOptions, lines, process_name};
use super::tables::{Identity, Tables};
use super::{meta, ms};
use crate::event::Payload;
use crate::file::Profile;
use crate::labels::Labels;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};

pub(in crate::export) fn write(
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
    let more = json!({
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
    let start = metadata.start_time.map_or(0.0, ms);
    let meta = meta(
        process_name(profile),
        1e-6,
        start,
        &[("Other", "grey")],
        more,
    );
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
                    thread.marker((event.kind, event.id, Some(value)), at, None);
                }
            }
        }
        let identity = Identity {
            name: &format!("thread {line}"),
            process: process_name(profile),
            pid: metadata.process_id.unwrap_or(0),
            tid: line,
            main: number == 0,
            since: (0, 0),
            weight_type: "tracing-ms",
        };
        thread
            .tables
            .write(&identity, out, |out| thread.data(out))?;
    }
    out.write_all(b"],\"pages\":[],\"profilerOverhead\":[],\"counters\":[]}\n")
}

struct Thread<'p> {
    profile: &'p Profile,
    labels: Labels<'p>,
    tables: Tables,
    /// String ids of the markers' kind and event, and the value of an integer.
    markers: Vec<(u64, u64, Option<u64>)>,
    now: u64,
}

impl<'p> Thread<'p> {
    fn new(profile: &'p Profile) -> Self {
        Self {
            profile,
            labels: Labels::new(profile),
            tables: Tables::default(),
            markers: Vec::new(),
            now: 0,
        }
    }

    fn points(&mut self, points: &[Point]) {
        let mut open: Vec<(usize, u64)> = Vec::new();
        for point in points {
            if point.at > self.now
                && let Some(&(stack, _)) = open.last()
            {
                self.tables
                    .sample(self.now, Some(stack), ms(point.at - self.now));
            }
            self.now = self.now.max(point.at);
            match point.edge {
                Edge::Start => {
                    let label = self.labels.of(point.id);
                    let frame = self.tables.frame(self.labels.text(label), 0);
                    let stack = self.tables.stack(open.last().map(|open| open.0), frame);
                    open.push((stack, point.at));
                }
                Edge::End => {
                    let start = open.pop().map_or(point.at, |open| open.1);
                    self.marker((point.kind, point.id, None), start, Some(point.at));
                }
                Edge::Instant => self.marker((point.kind, point.id, None), point.at, None),
            }
        }
    }

    fn marker(&mut self, what: (u64, u64, Option<u64>), start: u64, end: Option<u64>) {
        let label = self.labels.of(what.1);
        self.tables.marker(self.labels.text(label), start, end);
        self.markers.push(what);
    }

    fn data(&self, out: &mut dyn Write) -> io::Result<()> {
        let strings = self.profile.strings();
        for (number, (kind, id, value)) in self.markers.iter().enumerate() {
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
