//! A whole recording: `perf.data` as a file with sections, as a pipe's stream, or as a directory with one stream of
//! records a thread (`perf record --threads`); compressed or not.

mod decompress;
pub(crate) mod features;
mod header;
#[allow(unsafe_code)]
mod map;
mod stream;
pub(crate) mod tracing;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use crate::abi::{record as rt, sample as st};
use crate::attr::EventAttr;
use crate::bytes::{Cursor, U64s};
use crate::error::{Error, Result};
use crate::record::Body;
use crate::sample::{SampleId, SampleLayout};
use features::Features;
use header::FileHeader;
pub(crate) use map::Bytes;
pub use stream::{Record, RecordRange, Records};

/// One event of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDesc {
    /// How it was sampled.
    pub attr: EventAttr,
    /// Ids by which its records name it.
    pub ids: Vec<u64>,
    /// Its name, as the recorder called it, else from the attribute.
    pub name: String,
    pub(crate) layout: SampleLayout,
}

/// What a recording says it does not hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records dropped because a ring was full.
    pub lost_records: u64,
    /// Samples dropped by the hardware or the kernel.
    pub lost_samples: u64,
    /// Times sampling was throttled.
    pub throttled: u64,
}

/// Which bytes hold records, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Index into [`Recording::sources`].
    pub(crate) source: usize,
    pub(crate) range: Range<usize>,
}

/// A recording, opened: its events and features are read, its records are read in place on demand.
#[derive(Debug)]
pub struct Recording {
    /// The file; then a directory's other files; what was decompressed stands behind what it came from.
    sources: Vec<Bytes>,
    /// Bytes of all files.
    len: u64,
    pub(crate) segments: Vec<Segment>,
    events: Vec<EventDesc>,
    by_id: FxHashMap<u64, usize>,
    features: Features,
    pipe: bool,
    truncated: bool,
    /// Bytes of segments that were begun, over all passes.
    passed: AtomicU64,
}

impl Recording {
    /// Opens a recording: maps a regular file, reads a pipe or a device to its end once it has begun as a recording does;
    /// `-` is standard input; of a directory (`perf record --threads`, `--kcore`) its files.
    ///
    /// # Errors
    /// [`Error`]: not readable, not a recording, or damaged where everything else depends on it.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Self::from_stream(&mut std::io::stdin().lock(), "-");
        }
        if !path.is_dir() {
            return Self::new(vec![Bytes::open(path, FileHeader::begins)?]);
        }
        let mut sources = vec![Bytes::open(&path.join("data"), FileHeader::begins)?];
        for file in map::numbered(path, "data.")? {
            sources.push(Bytes::open(&file, |_| Ok(()))?);
        }
        Self::new(sources)
    }

    /// Reads a stream to its end, once it has begun as a recording does. `name` stands in messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_stream(from: &mut impl std::io::Read, name: &str) -> Result<Self> {
        Self::new(vec![Bytes::stream(from, name, FileHeader::begins)?])
    }

    /// Reads a recording from memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::new(vec![Bytes::Owned(bytes)])
    }

    fn new(sources: Vec<Bytes>) -> Result<Self> {
        let mut this = Self {
            len: sources.iter().map(|s| s.as_slice().len() as u64).sum(),
            sources: Vec::new(),
            segments: Vec::new(),
            events: Vec::new(),
            by_id: FxHashMap::default(),
            features: Features::default(),
            pipe: false,
            truncated: false,
            passed: AtomicU64::new(0),
        };
        let mut sources = sources.into_iter();
        let first = sources.next().unwrap_or(Bytes::Owned(Vec::new()));
        let (data, attrs) = this.header(first.as_slice())?;
        let mut scan = Scan {
            attrs,
            ..Scan::default()
        };
        this.part(first, data, &mut scan)?;
        for source in sources {
            let all = 0..source.as_slice().len();
            this.part(source, all, &mut scan)?;
        }
        this.set_events(scan)?;
        Ok(this)
    }

    /// Reads what stands before the records: where they are, and the attributes.
    fn header(&mut self, file: &[u8]) -> Result<(Range<usize>, Vec<Attribute>)> {
        let (attr_size, attrs, data, features) = match FileHeader::parse(file)? {
            FileHeader::Pipe => {
                self.pipe = true;
                return Ok((16..file.len(), Vec::new()));
            }
            FileHeader::File {
                attr_size,
                attrs,
                data,
                features,
            } => (attr_size, attrs, data, features),
        };
        let attrs = header::attrs(file, attrs, attr_size)?;
        // The recorder writes the size last: 0 means that it was killed.
        self.truncated = data.size == 0;
        let start = usize::try_from(data.offset).unwrap_or(usize::MAX);
        let end = if self.truncated {
            file.len()
        } else {
            data.bytes(file, "data")?;
            start + usize::try_from(data.size).unwrap_or(0)
        };
        if !self.truncated {
            for (bit, section) in header::feature_sections(file, data, &features)? {
                if let Ok(bytes) = section.bytes(file, "feature") {
                    self.features.add(bit, bytes);
                }
            }
        }
        Ok((start.min(end)..end, attrs))
    }

    /// Takes in a stretch of records, and what is compressed in it as a source of its own.
    fn part(&mut self, bytes: Bytes, data: Range<usize>, scan: &mut Scan) -> Result<()> {
        // A pipe has no size to compare with: what was cut off, or what something else wrote behind it, ends it.
        let tolerate = self.truncated || self.pipe;
        self.stretch(bytes, data, tolerate, scan)?;
        let payload = std::mem::take(&mut scan.compressed);
        if payload.is_empty() {
            return Ok(());
        }
        let offset = scan.first_compressed;
        let decompressed =
            decompress::decompress(&payload).map_err(|what| Error::Compressed { offset, what })?;
        let all = 0..decompressed.len();
        // Attributes inside the compressed stream are as good as outside.
        self.stretch(Bytes::Owned(decompressed), all, true, scan)
    }

    fn stretch(
        &mut self,
        bytes: Bytes,
        data: Range<usize>,
        tolerate: bool,
        scan: &mut Scan,
    ) -> Result<()> {
        let source = self.sources.len();
        let features = &mut self.features;
        let (ranges, truncated) =
            stream::scan(bytes.as_slice(), data, self.pipe, tolerate, |side| {
                scan.side_record(&side, features)
            })?;
        self.truncated |= truncated;
        self.sources.push(bytes);
        let segments = ranges.into_iter().map(|range| Segment { source, range });
        self.segments.extend(segments);
        Ok(())
    }

    pub(crate) fn passed(&self, bytes: usize) {
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many times all records were gone through so far, each to its end or in part; other threads may ask while
    /// one is at it. [`blocks::analyze`](crate::blocks::analyze) and [`profile::collect`](crate::profile::collect) go
    /// through them [`PASSES`](Self::PASSES) times. 0 without records.
    #[must_use]
    pub fn passes(&self) -> f64 {
        let all: usize = self.segments.iter().map(|s| s.range.len()).sum();
        self.passed.load(Ordering::Relaxed) as f64 / all.max(1) as f64
    }

    /// Passes over the records in one analysis: the address spaces, the losses, the samples.
    pub const PASSES: f64 = 3.0;

    fn set_events(&mut self, scan: Scan) -> Result<()> {
        let mut names = scan.names;
        names.extend(self.features.event_names.iter().flat_map(|(name, ids)| {
            // EVENT_DESC lists every id; the attribute's first one finds it.
            ids.iter().map(move |id| (*id, name.clone()))
        }));
        for (index, (attr, ids)) in scan.attrs.into_iter().enumerate() {
            let name = ids
                .iter()
                .find_map(|id| names.get(id))
                .or_else(|| self.features.event_names.get(index).map(|(name, _)| name))
                .or_else(|| self.features.tracepoint(&attr))
                .map_or_else(|| attr.fallback_name(), Clone::clone);
            for &id in &ids {
                self.by_id.insert(id, index);
            }
            self.events.push(EventDesc {
                layout: SampleLayout::from(&attr),
                attr,
                ids,
                name,
            });
        }
        let Some(first) = self.events.first() else {
            if self.segments.is_empty() {
                return Ok(());
            }
            return Err(Error::damaged(0, "the recording describes no event"));
        };
        if first.attr.sample_type & !st::KNOWN != 0 {
            return Err(Error::Unsupported(format!(
                "samples have fields newer than Linux 6.18 (sample_type {:#x})",
                first.attr.sample_type
            )));
        }
        Ok(())
    }

    /// The events, in the recording's order.
    #[must_use]
    pub fn events(&self) -> &[EventDesc] {
        &self.events
    }

    /// What the recording says about the machine and itself.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The recording was written to a pipe.
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        self.pipe
    }

    /// The recorder was killed before it finished the file, or the stream's last record is incomplete; what
    /// is there was read.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Size of the recording in bytes (compressed, when it is).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Reads a record's body and says which event it belongs to (an index into [`events`](Self::events)).
    ///
    /// # Errors
    /// [`Error::Damaged`]: the body does not hold what its type needs.
    pub fn decode<'a>(&self, record: &Record<'a>) -> Result<(Body<'a>, SampleId, usize)> {
        let event = self.event_of(record);
        let layout = self
            .events
            .get(event)
            .map_or_else(SampleLayout::default, |e| e.layout);
        match record.raw.decode(&layout) {
            Some((body, id)) => Ok((body, id, event)),
            None => Err(Error::damaged(
                record.offset,
                format!(
                    "a record of type {} and {} bytes does not have the fields of its type",
                    record.raw.kind,
                    record.raw.body.len().saturating_add(8)
                ),
            )),
        }
    }

    /// Index of the event a record belongs to. With several events the id decides, whose place is the same
    /// in all of them (the kernel and `perf` see to that).
    #[inline]
    #[must_use]
    pub fn event_of(&self, record: &Record<'_>) -> usize {
        let [first, _, ..] = self.events.as_slice() else {
            return 0;
        };
        let is_sample = record.raw.kind == rt::SAMPLE;
        first
            .layout
            .peek_id(is_sample, record.raw.body)
            .and_then(|id| self.by_id.get(&id).copied())
            .unwrap_or(0)
    }

    fn segment_bytes(&self, segment: &Segment) -> &[u8] {
        self.sources
            .get(segment.source)
            .and_then(|source| source.as_slice().get(segment.range.clone()))
            .unwrap_or_default()
    }

    /// What the recording says it lost.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn losses(&self) -> Result<Losses> {
        let mut losses = Losses::default();
        for record in self.records() {
            let record = record?;
            if !matches!(record.raw.kind, rt::LOST | rt::LOST_SAMPLES | rt::THROTTLE) {
                continue;
            }
            match self.decode(&record)?.0 {
                Body::Lost { lost, .. } => {
                    losses.lost_records = losses.lost_records.saturating_add(lost);
                }
                Body::LostSamples { lost } => {
                    losses.lost_samples = losses.lost_samples.saturating_add(lost);
                }
                Body::Throttle { .. } => losses.throttled += 1,
                _ => {}
            }
        }
        Ok(losses)
    }
}

/// An attribute with its ids.
type Attribute = (EventAttr, Vec<u64>);

/// What the first pass collects: attributes and names of a pipe, compressed payloads.
#[derive(Debug, Default)]
struct Scan {
    attrs: Vec<Attribute>,
    names: FxHashMap<u64, String>,
    compressed: Vec<u8>,
    first_compressed: u64,
}

impl Scan {
    fn side_record(&mut self, side: &stream::Side<'_>, features: &mut Features) -> Result<()> {
        let stream::Side {
            kind,
            misc,
            body,
            offset,
            trailing,
        } = *side;
        let bad = |what: &str| Error::damaged(offset, what.to_owned());
        let mut c = Cursor::new(body);
        match kind {
            rt::HEADER_ATTR => {
                let attr = EventAttr::parse(body).ok_or_else(|| bad("no valid event attribute"))?;
                let size = if attr.size == 0 {
                    64
                } else {
                    attr.size as usize
                };
                let ids = body.get(size..).unwrap_or_default();
                self.attrs.push((attr, U64s::new(ids).iter().collect()));
            }
            rt::EVENT_UPDATE => {
                // enum perf_event_update_type: 0 unit, 1 scale, 2 name, 3 CPUs.
                if let (Some(kind), Some(id)) = (c.u64(), c.u64()) {
                    const NAME: u64 = 2;
                    if kind == NAME {
                        let name = String::from_utf8_lossy(c.c_string()).into_owned();
                        self.names.insert(id, name);
                    }
                }
            }
            rt::HEADER_TRACING_DATA => features.add(crate::abi::feature::TRACING_DATA, trailing),
            rt::HEADER_BUILD_ID => features.add_build_id(misc, body),
            rt::HEADER_FEATURE => {
                if let Some(bit) = c.u64().and_then(|b| u32::try_from(b).ok()) {
                    features.add(bit, c.rest());
                }
            }
            rt::COMPRESSED | rt::COMPRESSED2 => {
                if self.compressed.is_empty() {
                    self.first_compressed = offset;
                }
                let payload = if kind == rt::COMPRESSED2 {
                    let size = c
                        .u64()
                        .ok_or_else(|| bad("a compressed record without its size"))?;
                    c.take_array(size, 1)
                        .ok_or_else(|| bad("a compressed record shorter than its size"))?
                } else {
                    c.rest()
                };
                self.compressed.extend_from_slice(payload);
            }
            _ => {}
        }
        Ok(())
    }
}
