//! The string table: ids, the index of virtual ids, and the expansion of references.
//!
//! Facts: measureme 12, `stringtable.rs`. A string is components up to a byte 0xFF: UTF-8 runs, or
//! 0xFE and the id of another string. Nothing in the file keeps references from being cyclic or from
//! expanding exponentially, so depth, references and length of one expansion are limited here.

use crate::error::Loss;
use crate::event::index_entry;
use crate::pages::{Container, HEADER};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

const MAX_VIRTUAL: u64 = 100_000_000;
pub(crate) const METADATA: u64 = 100_000_001;
const FIRST_REGULAR: u64 = 100_000_003;
const END: u8 = 0xFF;
const REFERENCE: u8 = 0xFE;
/// Separates label and arguments.
pub(crate) const SEPARATOR: u8 = 0x1E;

/// Longest text of one string, in bytes: measureme writes none longer than a page.
const MAX_LENGTH: usize = 256 * 1024;
/// Deepest nesting of references; real files have 3.
const MAX_DEPTH: usize = 64;
/// Most references followed for one string.
const MAX_REFERENCES: usize = 64 * 1024;

pub(crate) const UNKNOWN: &str = "<unknown>";
const CYCLIC: &str = "<cyclic>";
const TOO_LONG: &str = "<too long>";
const UNTERMINATED: &str = "<invalid>";
const UNPARSABLE: &str = "<parse error>";

/// Virtual id → offset in the string data.
#[derive(Debug)]
pub(crate) enum Index {
    /// Ids that lie close together: the offset + 1 at the id's place, 0 for none.
    Dense(Vec<u32>),
    Sparse(FxHashMap<u64, u64>),
}

impl Index {
    /// One pass over the stream (a second where ids are far apart); no list of entries is kept.
    pub(crate) fn new(container: &Container, bytes: &[u8], losses: &mut Vec<Loss>) -> Self {
        let limit = container.string_data.len;
        let used = |id, offset| (id <= MAX_VIRTUAL || id == METADATA) && offset < limit;
        // Dense costs 4 bytes an id, an entry in the file 8 or 16: at most twice the file.
        let size = if container.version == 8 { 8 } else { 16 };
        let most = container.string_index.len / size * 4 + 4096;
        let mut sparse = limit >= u64::from(u32::MAX);
        let (mut metadata, mut bad) = (0_u32, 0);
        let mut table: Vec<u32> = Vec::new();
        let rest = entries(container, bytes, |id, offset| {
            if !used(id, offset) {
                bad += 1;
            } else if id == METADATA {
                metadata = (offset as u32).wrapping_add(1);
            } else if id < most && !sparse {
                let place = id as usize;
                if place >= table.len() {
                    table.resize(place + 1, 0);
                }
                // `limit` is below `u32::MAX`, so it fits.
                table[place] = offset as u32 + 1;
            } else {
                sparse = true;
            }
        });
        if rest > 0 {
            losses.push(Loss::PartialRecord {
                stream: "string index",
                bytes: rest,
            });
        }
        if bad > 0 {
            losses.push(Loss::BadIndexEntries { count: bad });
        }
        if sparse {
            let mut map = FxHashMap::default();
            entries(container, bytes, |id, offset| {
                if used(id, offset) {
                    map.insert(id, offset);
                }
            });
            return Self::Sparse(map);
        }
        // Behind the last id.
        table.push(metadata);
        Self::Dense(table)
    }

    fn get(&self, id: u64) -> Option<u64> {
        match self {
            Self::Dense(table) => {
                let last = table.len().checked_sub(1)?;
                let place = match usize::try_from(id).ok()? {
                    place if place < last => place,
                    _ if id == METADATA => last,
                    _ => return None,
                };
                u64::from(*table.get(place)?).checked_sub(1)
            }
            Self::Sparse(map) => map.get(&id).copied(),
        }
    }

    /// How many ids from 0 on are worth a place in a table.
    pub(crate) fn dense(&self) -> usize {
        match self {
            Self::Dense(table) => table.len().saturating_sub(1),
            Self::Sparse(_) => 0,
        }
    }
}

/// Gives every entry of the string index to `f`, in order; returns the bytes left over at the end.
fn entries(container: &Container, bytes: &[u8], mut f: impl FnMut(u64, u64)) -> u64 {
    let stream = &container.string_index;
    let size = if container.version == 8 { 8 } else { 16 };
    let mut next = HEADER as u64;
    let mut give = |entry: &[u8]| {
        if let Some((id, offset)) = index_entry(container.version, entry) {
            f(id, offset);
        }
    };
    for segment in &stream.segments {
        let end = segment.start + u64::from(segment.len);
        while next < segment.start && next + size <= end {
            let mut buffer = [0; 16];
            stream.copy(bytes, next, &mut buffer[..size as usize]);
            give(&buffer);
            next += size;
        }
        if next >= segment.start && next < end {
            let piece = segment
                .bytes(bytes)
                .get((next - segment.start) as usize..)
                .unwrap_or(&[]);
            let whole = piece.chunks_exact(size as usize);
            next += whole.len() as u64 * size;
            whole.for_each(&mut give);
        }
    }
    stream.len.max(HEADER as u64).saturating_sub(next)
}

/// The strings of a profile.
#[derive(Debug, Clone, Copy)]
pub struct StringTable<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) container: &'p Container,
    pub(crate) index: &'p Index,
}

/// The text of an event's id, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventText {
    /// What happened.
    pub label: String,
    /// With which arguments.
    pub arguments: Vec<String>,
}

impl<'p> StringTable<'p> {
    /// Offset of a string in the string data; `None` for an id that means none.
    pub(crate) fn offset(&self, id: u64) -> Option<u64> {
        match id {
            0..=METADATA => self.index.get(id),
            FIRST_REGULAR.. => {
                Some(id - FIRST_REGULAR).filter(|&at| at < self.container.string_data.len)
            }
            _ => None,
        }
    }

    fn reference(&self, at: u64) -> Option<u64> {
        let stream = &self.container.string_data;
        if self.container.version == 8 {
            let mut id = [0; 4];
            stream
                .copy(self.bytes, at, &mut id)
                .then(|| u64::from(u32::from_le_bytes(id)))
        } else {
            let mut id = [0; 8];
            stream
                .copy(self.bytes, at, &mut id)
                .then(|| u64::from_le_bytes(id))
        }
    }

    /// Bytes of a reference: tag and id.
    pub(crate) fn reference_size(&self) -> u64 {
        if self.container.version == 8 { 5 } else { 9 }
    }

    /// What a string begins with: the id of a reference and the byte behind it, where it begins so.
    pub(crate) fn leading_reference(&self, id: u64) -> Option<(u64, u8)> {
        let at = self.offset(id)?;
        let piece = self.container.string_data.from(self.bytes, at);
        if piece.first() != Some(&REFERENCE) {
            return None;
        }
        let after = self
            .container
            .string_data
            .from(self.bytes, at + self.reference_size());
        Some((self.reference(at + 1)?, *after.first()?))
    }

    /// The text of a string. Missing, cyclic, endless and over-long strings read `<unknown>`,
    /// `<cyclic>`, `<invalid>` and `<too long>` in the place where that shows.
    #[must_use]
    pub fn get(&self, id: u64) -> Cow<'p, str> {
        if let Some(at) = self.offset(id) {
            let piece = self.container.string_data.from(self.bytes, at);
            let end = piece.iter().position(|&byte| byte >= REFERENCE);
            if let Some(end) = end.filter(|&end| piece[end] == END && end <= MAX_LENGTH) {
                return String::from_utf8_lossy(&piece[..end]);
            }
        }
        let mut text = String::new();
        self.expand(id, &mut text);
        Cow::Owned(text)
    }

    /// Appends the text of a string, following references.
    pub fn expand(&self, id: u64, text: &mut String) {
        let limit = text.len() + MAX_LENGTH;
        let mut positions = Vec::new();
        let mut references = 0;
        self.enter(id, &mut positions, text);
        let mut literal = Vec::new();
        while let Some(position) = positions.last_mut() {
            let piece = self.container.string_data.from(self.bytes, *position);
            let Some(end) = piece.iter().position(|&byte| byte >= REFERENCE) else {
                // The text goes on in the next page, or the stream ends without an end mark.
                if piece.is_empty() {
                    flush(&mut literal, text);
                    text.push_str(UNTERMINATED);
                    return;
                }
                literal.extend_from_slice(piece);
                *position += piece.len() as u64;
                if text.len() + literal.len() > limit {
                    return too_long(&mut literal, limit, text);
                }
                continue;
            };
            literal.extend_from_slice(&piece[..end]);
            *position += end as u64;
            if text.len() + literal.len() > limit || references > MAX_REFERENCES {
                return too_long(&mut literal, limit, text);
            }
            flush(&mut literal, text);
            if piece[end] == END {
                positions.pop();
                continue;
            }
            let Some(id) = self.reference(*position + 1) else {
                text.push_str(UNTERMINATED);
                return;
            };
            *position += self.reference_size();
            references += 1;
            if positions.len() >= MAX_DEPTH {
                text.push_str(CYCLIC);
                return;
            }
            self.enter(id, &mut positions, text);
        }
    }

    fn enter(&self, id: u64, positions: &mut Vec<u64>, text: &mut String) {
        match self.offset(id) {
            Some(at) => positions.push(at),
            None => text.push_str(UNKNOWN),
        }
    }

    /// The text of an event's id as label and arguments.
    #[must_use]
    pub fn event_text(&self, id: u64) -> EventText {
        parse(&self.get(id))
    }
}

fn flush(literal: &mut Vec<u8>, text: &mut String) {
    if !literal.is_empty() {
        text.push_str(&String::from_utf8_lossy(literal));
        literal.clear();
    }
}

fn too_long(literal: &mut Vec<u8>, limit: usize, text: &mut String) {
    literal.truncate(limit.saturating_sub(text.len()));
    flush(literal, text);
    text.push_str(TOO_LONG);
}

fn acceptable(text: &str) -> bool {
    !text.is_empty()
        && !text
            .bytes()
            .any(|b| b.is_ascii_control() && !b.is_ascii_whitespace())
}

/// The label of an event's text, as measureme's grammar has it: not empty, no control characters.
pub(crate) fn label_of(text: &str) -> &str {
    let label = text.split(char::from(SEPARATOR)).next().unwrap_or("");
    if acceptable(label) { label } else { UNPARSABLE }
}

/// Label and arguments; arguments end at the first that breaks the grammar.
pub(crate) fn parse(text: &str) -> EventText {
    let label = label_of(text);
    let arguments = if label == UNPARSABLE {
        Vec::new()
    } else {
        text.split(char::from(SEPARATOR))
            .skip(1)
            .take_while(|text| acceptable(text))
            .map(str::to_owned)
            .collect()
    };
    EventText {
        label: label.to_owned(),
        arguments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart_as_measureme_does() {
        let text = parse("foo\u{1e}a b\u{1e}c");
        assert_eq!((text.label.as_str(), text.arguments.len()), ("foo", 2));
        assert_eq!(parse("foo\u{1b}").label, UNPARSABLE);
        assert_eq!(parse("").label, UNPARSABLE);
        assert!(parse("foo\u{1e}a\u{1b}").arguments.is_empty());
        assert_eq!(parse("foo\u{1e}a\tb").arguments, ["a\tb"]);
    }
}
