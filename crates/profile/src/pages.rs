//! The container: an 8-byte header, then pages of three interleaved streams.
//!
//! Facts: measureme 10–12, `serialization.rs` and `file_header.rs`. A page is a tag byte, a
//! little-endian `u32` length and that many bytes; a stream is its payloads in file order, and its
//! first eight bytes are a header of its own. Any split of a stream into pages is accepted.

use crate::error::{Loss, ProfileError};
use std::path::Path;

/// Length of the file's header and of each stream's header.
pub(crate) const HEADER: usize = 8;
/// Tag and length in front of a payload.
const PAGE_HEADER: usize = 5;

/// A piece of a stream: where it stands in the stream and in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Offset in the stream (the stream's own header counts).
    pub(crate) start: u64,
    /// Offset in the file.
    pub(crate) at: usize,
    /// Length in bytes, never 0.
    pub(crate) len: u32,
}

/// One of the three streams: its pieces in order.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) segments: Vec<Segment>,
    pub(crate) len: u64,
}

impl Stream {
    fn push(&mut self, at: usize, len: u32) {
        // Pages of one stream that follow each other differ by their headers, so pieces never merge.
        self.segments.push(Segment {
            start: self.len,
            at,
            len,
        });
        self.len = self.len.saturating_add(u64::from(len));
    }

    /// The bytes from `offset` of the stream to the end of their page; empty past the end.
    pub(crate) fn from<'b>(&self, bytes: &'b [u8], offset: u64) -> &'b [u8] {
        let after = self
            .segments
            .partition_point(|segment| segment.start <= offset);
        let Some(segment) = after.checked_sub(1).and_then(|i| self.segments.get(i)) else {
            return &[];
        };
        let skip = usize::try_from(offset - segment.start).unwrap_or(usize::MAX);
        segment.bytes(bytes).get(skip..).unwrap_or(&[])
    }

    /// Copies `buffer.len()` bytes from `offset`; says whether there were so many.
    pub(crate) fn copy(&self, bytes: &[u8], mut offset: u64, mut buffer: &mut [u8]) -> bool {
        while !buffer.is_empty() {
            let piece = self.from(bytes, offset);
            if piece.is_empty() {
                return false;
            }
            let n = piece.len().min(buffer.len());
            let (head, tail) = buffer.split_at_mut(n);
            head.copy_from_slice(&piece[..n]);
            buffer = tail;
            offset += n as u64;
        }
        true
    }
}

impl Segment {
    /// The bytes of this piece.
    pub(crate) fn bytes<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes
            .get(self.at..self.at.saturating_add(self.len as usize))
            .unwrap_or(&[])
    }
}

/// The file taken apart.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) version: u32,
    pub(crate) events: Stream,
    pub(crate) string_data: Stream,
    pub(crate) string_index: Stream,
}

/// Little-endian `u32` at `at`, where there is one.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Little-endian `u64` at `at`, where there is one.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn show(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        "the end of the file".to_owned()
    } else {
        format!("\"{}\"", bytes.escape_ascii())
    }
}

/// The version that the first [`HEADER`] bytes of a file tell: the magic, then the number.
pub(crate) fn begin(bytes: &[u8], path: &Path) -> Result<u32, ProfileError> {
    let magic = bytes.get(..4).unwrap_or(bytes);
    if magic != b"MMPD" {
        return Err(ProfileError::Format {
            path: path.to_owned(),
            offset: 0,
            expected: "the magic \"MMPD\" of a region profile",
            found: show(magic),
        });
    }
    let Some(version) = u32_at(bytes, 4) else {
        return Err(ProfileError::Format {
            path: path.to_owned(),
            offset: 4,
            expected: "a version (4 bytes)",
            found: show(bytes.get(4..).unwrap_or(&[])),
        });
    };
    match version {
        8 | 9 => Ok(version),
        0..8 => Err(ProfileError::TooOld {
            path: path.to_owned(),
            version,
        }),
        _ => Err(ProfileError::TooNew {
            path: path.to_owned(),
            version,
        }),
    }
}

/// Takes the file apart; what is lost is appended to `losses`.
pub(crate) fn split(
    bytes: &[u8],
    path: &Path,
    losses: &mut Vec<Loss>,
) -> Result<Container, ProfileError> {
    let version = begin(bytes, path)?;
    let mut container = Container {
        version,
        events: Stream::default(),
        string_data: Stream::default(),
        string_index: Stream::default(),
    };
    walk(bytes, &mut container, losses);
    for (stream, name, magic, expected) in [
        (
            &container.events,
            "event stream",
            b"MMES",
            "the header \"MMES\" of the event stream",
        ),
        (
            &container.string_data,
            "string data",
            b"MMSD",
            "the header \"MMSD\" of the string data",
        ),
        (
            &container.string_index,
            "string index",
            b"MMSI",
            "the header \"MMSI\" of the string index",
        ),
    ] {
        if stream.len < HEADER as u64 {
            losses.push(Loss::MissingStream { stream: name });
            continue;
        }
        let mut header = [0; HEADER];
        stream.copy(bytes, 0, &mut header);
        if header[..4] != magic[..] {
            return Err(ProfileError::Format {
                path: path.to_owned(),
                offset: stream
                    .segments
                    .first()
                    .map_or(0, |segment| segment.at as u64),
                expected,
                found: show(&header[..4]),
            });
        }
    }
    Ok(container)
}

fn walk(bytes: &[u8], container: &mut Container, losses: &mut Vec<Loss>) {
    let mut at = HEADER;
    while at < bytes.len() {
        let left = bytes.len() - at;
        let bad = |what| Loss::BadPage {
            offset: at as u64,
            what,
            skipped: left as u64,
        };
        let Some(length) = u32_at(bytes, at + 1) else {
            losses.push(bad("the file ends inside a page header"));
            return;
        };
        let stream = match bytes[at] {
            0 => &mut container.events,
            1 => &mut container.string_data,
            2 => &mut container.string_index,
            _ => {
                losses.push(bad("expected a page tag (0, 1 or 2)"));
                return;
            }
        };
        if length == 0 {
            losses.push(bad("expected a page of at least one byte, found length 0"));
            return;
        }
        let found = left - PAGE_HEADER;
        if (length as usize) > found {
            losses.push(Loss::Truncated {
                offset: at as u64,
                expected: u64::from(length),
                found: found as u64,
            });
            if found > 0 {
                // `found` < `length` here, so it fits.
                stream.push(at + PAGE_HEADER, u32::try_from(found).unwrap_or(length));
            }
            return;
        }
        stream.push(at + PAGE_HEADER, length);
        at += PAGE_HEADER + length as usize;
    }
}
