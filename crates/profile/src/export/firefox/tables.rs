//! The tables of one thread, and how they are written.

use super::super::chrome::string;
use super::super::intern::Interner;
use super::ms;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::io::{self, Write};

/// What a thread is called, and what its samples weigh.
pub(super) struct Identity<'i> {
    pub(super) name: &'i str,
    pub(super) process: &'i str,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) main: bool,
    /// When it and its process began, in nanoseconds since the profile's begin.
    pub(super) since: (u64, u64),
    /// `samples` or `tracing-ms`.
    pub(super) weight_type: &'static str,
}

/// The tables of a thread. A frame is a name and a category, and has a function of its own.
#[derive(Default)]
pub(super) struct Tables {
    strings: Interner,
    frames: FxHashMap<(usize, usize), usize>,
    /// Name and category of each frame.
    frame_list: Vec<(usize, usize)>,
    stacks: FxHashMap<(Option<usize>, usize), usize>,
    prefixes: Vec<Option<usize>>,
    stack_frames: Vec<usize>,
    sample_stacks: Vec<Option<usize>>,
    sample_deltas: Vec<f64>,
    sample_weights: Vec<f64>,
    sampled: u64,
    marker_names: Vec<usize>,
    marker_phases: Vec<u8>,
    marker_starts: Vec<f64>,
    marker_ends: Vec<Option<f64>>,
}

impl Tables {
    /// The number of a frame.
    pub(super) fn frame(&mut self, name: &str, category: usize) -> usize {
        let key = (self.strings.of(name), category);
        let next = self.frame_list.len();
        let place = *self.frames.entry(key).or_insert(next);
        if place == next {
            self.frame_list.push(key);
        }
        place
    }

    /// The stack of a frame on top of another stack.
    pub(super) fn stack(&mut self, prefix: Option<usize>, frame: usize) -> usize {
        let next = self.stack_frames.len();
        let stack = *self.stacks.entry((prefix, frame)).or_insert(next);
        if stack == next {
            self.prefixes.push(prefix);
            self.stack_frames.push(frame);
        }
        stack
    }

    /// A sample; times do not run backwards.
    pub(super) fn sample(&mut self, at: u64, stack: Option<usize>, weight: f64) {
        self.sample_stacks.push(stack);
        self.sample_deltas.push(ms(at.saturating_sub(self.sampled)));
        self.sample_weights.push(weight);
        self.sampled = self.sampled.max(at);
    }

    /// A marker: an interval with an end, an instant without.
    pub(super) fn marker(&mut self, name: &str, start: u64, end: Option<u64>) {
        self.marker_names.push(self.strings.of(name));
        self.marker_phases.push(u8::from(end.is_some()));
        self.marker_starts.push(ms(start));
        self.marker_ends.push(end.map(ms));
    }

    /// Writes the thread; `data` writes the elements of the markers' array of data.
    pub(super) fn write(
        &self,
        identity: &Identity<'_>,
        out: &mut dyn Write,
        data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        write!(out, "{{\"frameTable\":")?;
        self.frame_table(out)?;
        write!(
            out,
            ",\"markers\":{{\"length\":{},\"category\":",
            self.marker_names.len()
        )?;
        column(out, std::iter::repeat_n(0, self.marker_names.len()))?;
        out.write_all(b",\"data\":[")?;
        data(out)?;
        out.write_all(b"],\"endTime\":")?;
        column(out, &self.marker_ends)?;
        out.write_all(b",\"name\":")?;
        column(out, &self.marker_names)?;
        out.write_all(b",\"phase\":")?;
        column(out, &self.marker_phases)?;
        out.write_all(b",\"startTime\":")?;
        column(out, &self.marker_starts)?;
        out.write_all(b"},\"name\":")?;
        string(out, identity.name)?;
        write!(out, ",\"isMainThread\":{},", identity.main)?;
        out.write_all(b"\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\"name\":[]},")?;
        write!(
            out,
            "\"pausedRanges\":[],\"pid\":\"{}\",\"processName\":",
            identity.pid
        )?;
        string(out, identity.process)?;
        write!(
            out,
            ",\"processShutdownTime\":null,\"processStartupTime\":{},\"processType\":\"default\",\"registerTime\":{},",
            ms(identity.since.1),
            ms(identity.since.0)
        )?;
        out.write_all(
            b"\"resourceTable\":{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],\"type\":[]},",
        )?;
        write!(
            out,
            "\"samples\":{{\"length\":{},\"weightType\":\"{}\",\"stack\":",
            self.sample_stacks.len(),
            identity.weight_type
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
            self.stack_frames.len()
        )?;
        column(out, &self.prefixes)?;
        out.write_all(b",\"frame\":")?;
        column(out, &self.stack_frames)?;
        out.write_all(b"},\"stringArray\":")?;
        column(out, self.strings.texts())?;
        write!(
            out,
            ",\"tid\":\"{}\",\"unregisterTime\":null,\"showMarkersInTimeline\":true}}",
            identity.tid
        )
    }

    fn frame_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let frames = self.frame_list.len();
        let all = |value: Value| vec![value; frames];
        let names: Vec<usize> = self.frame_list.iter().map(|frame| frame.0).collect();
        let categories: Vec<usize> = self.frame_list.iter().map(|frame| frame.1).collect();
        let numbers: Vec<usize> = (0..frames).collect();
        let table = json!({
            "length": frames, "address": all(json!(-1)), "inlineDepth": all(json!(0)), "category": categories,
            "subcategory": all(json!(0)), "func": numbers, "nativeSymbol": all(Value::Null),
            "innerWindowID": all(json!(0)), "line": all(Value::Null), "column": all(Value::Null),
        });
        write!(out, "{table},\"funcTable\":")?;
        let table = json!({
            "length": frames, "name": names, "isJS": all(json!(false)), "relevantForJS": all(json!(false)),
            "resource": all(json!(-1)), "fileName": all(Value::Null), "lineNumber": all(Value::Null),
            "columnNumber": all(Value::Null),
        });
        write!(out, "{table}")
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
