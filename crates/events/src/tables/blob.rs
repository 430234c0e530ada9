//! Decoder of `data/events.bin`. The encoder is `xtask/src/gen_events/encode.rs`; a test makes both agree.
//!
//! A zlib stream (RFC 1950) of: the magic `TCEV1\n`; the source as a string; five string tables (names, PMUs, further
//! terms, counters, scales); the columns of all distinct events, sorted by name (name as difference to the row
//! before, PMU, code, umask, further terms, flags, counters, scale); the models (name, version, patterns, events as
//! differences of row numbers). Numbers are LEB128; a string is its length and its bytes; in a string table each entry
//! is the number of bytes it shares with the one before, then the rest.
//!
//! Flags: bits 0–1 PEBS (0 no, 1 can, 2 must), 2 deprecated, 3–4 the code's term, 5–6 the layout.

use super::event::{Arch, CodeKey, Precise, TableEvent};
use super::{ModelData, Tables};
use std::fmt;

/// First bytes of the uncompressed file.
pub const MAGIC: &[u8] = b"TCEV1\n";
/// Longest uncompressed file, in bytes.
const MAX_UNPACKED: usize = 8 << 20;
/// Longest string, in bytes: bounds what shared prefixes can grow to.
const LONGEST: usize = 512;

/// The file is not what the encoder writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobError {
    /// Offset in the uncompressed file, in bytes.
    pub offset: usize,
    /// What should have been there.
    pub expected: &'static str,
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "event table: expected {} at offset {}",
            self.expected, self.offset
        )
    }
}

impl std::error::Error for BlobError {}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn error(&self, expected: &'static str) -> BlobError {
        BlobError {
            offset: self.at,
            expected,
        }
    }

    fn take(&mut self, len: usize, expected: &'static str) -> Result<&[u8], BlobError> {
        let end = self.at.checked_add(len).ok_or(self.error(expected))?;
        let taken = self.bytes.get(self.at..end).ok_or(self.error(expected))?;
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, BlobError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1, "a number")?.first().copied().unwrap_or(0);
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(self.error("a number of at most 64 bits"));
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error("a number of at most 64 bits"))
    }

    /// A number of things of which each takes at least one byte.
    fn count(&mut self) -> Result<usize, BlobError> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > self.bytes.len().saturating_sub(self.at) {
            return Err(self.error("no more things than bytes"));
        }
        Ok(count)
    }

    fn string(&mut self) -> Result<String, BlobError> {
        let len = self.count()?;
        if len > LONGEST {
            return Err(self.error("a short string"));
        }
        let error = self.error("UTF-8");
        let bytes = self.take(len, "a string")?;
        String::from_utf8(bytes.to_vec()).map_err(|_| error)
    }

    fn table(&mut self) -> Result<Vec<String>, BlobError> {
        let count = self.count()?;
        let mut table: Vec<String> = Vec::with_capacity(count);
        for _ in 0..count {
            let shared = usize::try_from(self.number()?).unwrap_or(usize::MAX);
            let error = self.error("a prefix of the string before");
            let last = table.last().map_or("", String::as_str);
            let mut text = last.get(..shared).ok_or(error)?.to_owned();
            text.push_str(&self.string()?);
            if text.len() > LONGEST {
                return Err(self.error("a short string"));
            }
            table.push(text);
        }
        Ok(table)
    }

    fn column(&mut self, rows: usize) -> Result<Vec<u64>, BlobError> {
        (0..rows).map(|_| self.number()).collect()
    }

    fn strings<'t>(&mut self, rows: usize, table: &'t [String]) -> Result<Vec<&'t str>, BlobError> {
        (0..rows)
            .map(|_| {
                let index = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                let error = self.error("an index into a string table");
                table.get(index).map(String::as_str).ok_or(error)
            })
            .collect()
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Tables, BlobError> {
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(bytes, MAX_UNPACKED)
        .map_err(|_| BlobError {
            offset: 0,
            expected: "a zlib stream",
        })?;
    let mut cursor = Cursor {
        bytes: &bytes,
        at: 0,
    };
    if cursor.take(MAGIC.len(), "TCEV1")? != MAGIC {
        return Err(BlobError {
            offset: 0,
            expected: "TCEV1",
        });
    }
    let source = cursor.string()?;
    let events = events(&mut cursor)?;
    let count = cursor.count()?;
    let mut models = Vec::with_capacity(count);
    for _ in 0..count {
        models.push(model(&mut cursor, events.len())?);
    }
    let mut tables = Tables {
        source,
        models,
        events,
    };
    tables.sort();
    Ok(tables)
}

fn events(cursor: &mut Cursor<'_>) -> Result<Vec<TableEvent>, BlobError> {
    let names = cursor.table()?;
    let pmus = cursor.table()?;
    let extras = cursor.table()?;
    let counters = cursor.table()?;
    let scales = cursor.table()?;
    let rows = cursor.count()?;
    let name_steps = cursor.column(rows)?;
    let pmu = cursor.strings(rows, &pmus)?;
    let code = cursor.column(rows)?;
    let umask = cursor.column(rows)?;
    let extra = cursor.strings(rows, &extras)?;
    let flags = cursor.column(rows)?;
    let counters = cursor.strings(rows, &counters)?;
    let scale = cursor.strings(rows, &scales)?;
    let mut name = 0usize;
    let mut events = Vec::with_capacity(rows);
    let columns = name_steps.iter().zip(pmu).zip(code).zip(umask).zip(extra);
    let columns = columns.zip(flags).zip(counters).zip(scale);
    for (((((((step, pmu), code), umask), extra), flags), counters), scale) in columns {
        name = name.saturating_add(usize::try_from(*step).unwrap_or(usize::MAX));
        let name = names
            .get(name)
            .ok_or(cursor.error("an index into the names"))?;
        let pebs = flags & 3;
        events.push(TableEvent {
            name: name.clone(),
            pmu: pmu.to_owned(),
            code,
            key: match flags >> 3 & 3 {
                0 => CodeKey::Event,
                1 => CodeKey::Config,
                2 => CodeKey::EventId,
                _ => return Err(cursor.error("a known kind of code")),
            },
            umask,
            extra: extra.to_owned(),
            precise: match pebs {
                0 => Precise::No,
                1 => Precise::Can,
                _ => Precise::Must,
            },
            deprecated: flags & 4 != 0,
            counters: counters.to_owned(),
            scale: scale.to_owned(),
            arch: match flags >> 5 & 3 {
                0 => Arch::Intel,
                1 => Arch::Amd,
                2 => Arch::Arm,
                _ => return Err(cursor.error("a known layout")),
            },
            provenance: String::new(),
        });
    }
    Ok(events)
}

fn model(cursor: &mut Cursor<'_>, rows: usize) -> Result<ModelData, BlobError> {
    let name = cursor.string()?;
    let version = cursor.string()?;
    let patterns = (0..cursor.count()?)
        .map(|_| cursor.string())
        .collect::<Result<_, _>>()?;
    let count = cursor.count()?;
    let mut events = Vec::with_capacity(count);
    let mut row = 0u64;
    for _ in 0..count {
        row = row.saturating_add(cursor.number()?);
        match u32::try_from(row) {
            Ok(id) if (id as usize) < rows => events.push(id),
            _ => return Err(cursor.error("the number of an event")),
        }
    }
    Ok(ModelData {
        name,
        patterns,
        version,
        events,
    })
}
