//! The stream of records: one pass that finds its parts, and iteration over all of it or over ranges.

use std::ops::Range;

use super::{Recording, Segment};
use crate::abi::record as rt;
use crate::error::{Error, Result};
use crate::record::{FrameError, RawRecord, split_record};

/// A framed record and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Type, bits and body.
    pub raw: RawRecord<'a>,
    /// Offset in the file (in the decompressed stream for compressed records).
    pub offset: u64,
}

/// Records of one stretch of the recording, for a worker of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRange {
    segments: Vec<Segment>,
}

/// Bytes of payload that follow a record outside of its size.
fn trailing(kind: u32, body: &[u8]) -> usize {
    let field = match kind {
        // size u64: trace data.
        rt::AUXTRACE => crate::bytes::u64_at(body, 0),
        // size u32, padded to 8.
        rt::HEADER_TRACING_DATA => body
            .first_chunk::<4>()
            .map(|c| u64::from(u32::from_le_bytes(*c)).next_multiple_of(8)),
        _ => None,
    };
    field.map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Largest stretch of records handed to one worker.
const SEGMENT: usize = 1 << 20;

/// A record that the recording tool wrote itself (types from 64).
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: &'a [u8],
    pub(super) offset: u64,
    /// What follows the record outside of its size.
    pub(super) trailing: &'a [u8],
}

/// Walks all records once: checks their framing, shows the side records of the tool to `side`, and returns the
/// stretches that hold the kernel's records. The flag says that the last record was cut off.
pub(super) fn scan(
    bytes: &[u8],
    data: Range<usize>,
    pipe: bool,
    tolerate_cut: bool,
    mut side: impl FnMut(Side<'_>) -> Result<()>,
) -> Result<(Vec<Range<usize>>, bool)> {
    let mut segments: Vec<Range<usize>> = Vec::new();
    let mut at = data.start;
    let mut start = at;
    let close = |segments: &mut Vec<Range<usize>>, start: usize, end: usize| {
        if end > start {
            segments.push(start..end);
        }
    };
    let mut cut = false;
    while at < data.end {
        let rest = bytes.get(at..data.end).unwrap_or_default();
        let (raw, len) = match split_record(rest) {
            Ok(split) => split,
            Err(FrameError::Truncated) if tolerate_cut => {
                cut = true;
                break;
            }
            Err(error) => return Err(Error::damaged(at as u64, error.to_string())),
        };
        let mut next = at + len;
        if raw.kind >= rt::USER_TYPE_START {
            close(&mut segments, start, at);
            // A file's tracing data is a section; only a pipe has it in line.
            if raw.kind != rt::HEADER_TRACING_DATA || pipe {
                next = next.saturating_add(trailing(raw.kind, raw.body));
            }
            if next > data.end {
                if !tolerate_cut {
                    return Err(Error::damaged(at as u64, "the data ends inside a trace"));
                }
                cut = true;
                next = data.end;
            }
            side(Side {
                kind: raw.kind,
                misc: raw.misc,
                body: raw.body,
                offset: at as u64,
                trailing: bytes.get(at + len..next).unwrap_or_default(),
            })?;
            start = next;
        } else if next - start >= SEGMENT {
            close(&mut segments, start, next);
            start = next;
        }
        at = next;
    }
    close(&mut segments, start, at.min(data.end));
    Ok((segments, cut))
}

/// Iterates over records; ends after the first error.
#[derive(Debug)]
pub struct Records<'a> {
    recording: &'a Recording,
    segments: std::slice::Iter<'a, Segment>,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.bytes.is_empty() {
            let segment = self.segments.next()?;
            self.recording.passed(segment.range.len());
            self.bytes = self.recording.segment_bytes(segment);
            self.at = segment.range.start;
        }
        match split_record(self.bytes) {
            Ok((raw, len)) => {
                let offset = self.at as u64;
                self.bytes = self.bytes.get(len..).unwrap_or_default();
                self.at += len;
                Some(Ok(Record { raw, offset }))
            }
            Err(error) => {
                self.bytes = &[];
                self.segments = [].iter();
                Some(Err(Error::damaged(self.at as u64, error.to_string())))
            }
        }
    }
}

impl Recording {
    /// The kernel's records, in the recording's order.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records {
            recording: self,
            segments: self.segments.iter(),
            bytes: &[],
            at: 0,
        }
    }

    /// The records in at most `n` ranges of about the same size.
    #[must_use]
    pub fn ranges(&self, n: usize) -> Vec<RecordRange> {
        let total: usize = self.segments.iter().map(|s| s.range.len()).sum();
        let each = (total / n.max(1)).max(1);
        let mut out: Vec<RecordRange> = Vec::new();
        let mut filled = each;
        for segment in &self.segments {
            match out.last_mut() {
                Some(last) if filled < each => last.segments.push(segment.clone()),
                _ => {
                    filled = 0;
                    out.push(RecordRange {
                        segments: vec![segment.clone()],
                    });
                }
            }
            filled = filled.saturating_add(segment.range.len());
        }
        out
    }

    /// The records of one range.
    #[must_use]
    pub fn records_in<'a>(&'a self, range: &'a RecordRange) -> Records<'a> {
        Records {
            recording: self,
            segments: range.segments.iter(),
            bytes: &[],
            at: 0,
        }
    }
}
