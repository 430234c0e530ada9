//! The header of a `perf.data` file and the attributes it points at.
//!
//! Layout: `tools/perf/Documentation/perf.data-file-format.txt` and `struct perf_file_header`.

use crate::attr::EventAttr;
use crate::bytes::Cursor;
use crate::error::{Error, Result};

/// A section: offset and length in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section {
    fn parse(c: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            offset: c.u64()?,
            size: c.u64()?,
        })
    }

    /// The section's bytes, or an error that names it.
    pub(crate) fn bytes<'a>(&self, file: &'a [u8], what: &str) -> Result<&'a [u8]> {
        let start = usize::try_from(self.offset).ok();
        let end = self
            .offset
            .checked_add(self.size)
            .and_then(|e| usize::try_from(e).ok());
        start
            .zip(end)
            .and_then(|(start, end)| file.get(start..end))
            .ok_or_else(|| {
                Error::damaged(
                    self.offset,
                    format!(
                        "the {what} section has {} bytes, but the file ends at {:#x}",
                        self.size,
                        file.len()
                    ),
                )
            })
    }
}

/// What the first bytes say about the rest.
#[derive(Debug)]
pub(crate) enum FileHeader {
    /// Records follow at once; attributes are records.
    Pipe,
    /// Sections.
    File {
        attr_size: u64,
        attrs: Section,
        data: Section,
        features: [u64; 4],
    },
}

const MAGIC: [u8; 8] = *b"PERFILE2";

impl FileHeader {
    /// Whether these first (8) bytes are those of a recording that can be read.
    pub(crate) fn begins(file: &[u8]) -> Result<()> {
        let magic = file.get(..8).unwrap_or(file);
        if magic != MAGIC {
            let mut swapped = MAGIC;
            swapped.reverse();
            if magic == swapped {
                return Err(Error::BigEndian);
            }
            let found = if magic.is_empty() {
                "nothing (the file is empty)".to_owned()
            } else {
                format!("\"{}\"", magic.escape_ascii())
            };
            return Err(Error::Magic { found });
        }
        Ok(())
    }

    pub(crate) fn parse(file: &[u8]) -> Result<Self> {
        Self::begins(file)?;
        let short = || Error::damaged(file.len() as u64, "the file ends inside its header");
        let mut c = Cursor::new(file);
        c.take(8).ok_or_else(short)?;
        let size = c.u64().ok_or_else(short)?;
        if size == 16 {
            return Ok(Self::Pipe);
        }
        if size < 72 {
            return Err(Error::damaged(
                8,
                format!("a header of {size} bytes; 16 or at least 72 expected"),
            ));
        }
        let mut parse = || {
            let attr_size = c.u64()?;
            let attrs = Section::parse(&mut c)?;
            let data = Section::parse(&mut c)?;
            Section::parse(&mut c)?; // event types, unused since 3.x
            let mut features = [0; 4];
            if size >= 104 {
                for word in &mut features {
                    *word = c.u64()?;
                }
            }
            Some(Self::File {
                attr_size,
                attrs,
                data,
                features,
            })
        };
        parse().ok_or_else(short)
    }
}

/// The attributes of the attrs section, each with its ids.
pub(crate) fn attrs(
    file: &[u8],
    section: Section,
    attr_size: u64,
) -> Result<Vec<(EventAttr, Vec<u64>)>> {
    let bytes = section.bytes(file, "attribute")?;
    // Each entry: the attribute, then offset and size of its ids.
    let entry = usize::try_from(attr_size).unwrap_or(0);
    if entry < 64 + 16 {
        return Err(Error::damaged(
            16,
            format!("attributes of {attr_size} bytes; at least 80 expected"),
        ));
    }
    let mut out = Vec::new();
    for (index, chunk) in bytes.chunks_exact(entry).enumerate() {
        let at = section.offset.saturating_add((index * entry) as u64);
        let bad = || Error::damaged(at, "no valid event attribute");
        let (attr, ids) = chunk.split_at_checked(entry - 16).ok_or_else(bad)?;
        let attr = EventAttr::parse(attr).ok_or_else(bad)?;
        let ids = Section::parse(&mut Cursor::new(ids)).ok_or_else(bad)?;
        let ids = if ids.size == 0 {
            Vec::new()
        } else {
            crate::bytes::U64s::new(ids.bytes(file, "event id")?)
                .iter()
                .collect()
        };
        out.push((attr, ids));
    }
    Ok(out)
}

/// The feature sections: (bit, section) in the order of their bits; the table follows the data.
pub(crate) fn feature_sections(
    file: &[u8],
    data: Section,
    bits: &[u64; 4],
) -> Result<Vec<(u32, Section)>> {
    let mut present = Vec::new();
    for (word, &set) in bits.iter().enumerate() {
        for bit in 0..64u32 {
            if set & (1 << bit) != 0 {
                present.push(word as u32 * 64 + bit);
            }
        }
    }
    if present.is_empty() {
        return Ok(Vec::new());
    }
    let table = Section {
        offset: data.offset.saturating_add(data.size),
        size: present.len() as u64 * 16,
    };
    let mut c = Cursor::new(table.bytes(file, "feature table")?);
    let sections = present
        .into_iter()
        .map_while(|bit| Section::parse(&mut c).map(|s| (bit, s)))
        .collect();
    Ok(sections)
}
