//! As much of ELF as is needed to find a program's code, build id and sections: 64-bit little-endian files.
//!
//! Layout: System V ABI, `elf.h`.

use std::path::Path;

use crate::bytes::{Cursor, until_nul};
use crate::error::Result;
use crate::file::Bytes;

/// A loadable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Offset in the file.
    pub offset: u64,
    /// Virtual address.
    pub address: u64,
    /// Bytes in the file.
    pub size: u64,
}

/// An ELF file, mapped.
#[derive(Debug)]
pub struct Elf {
    bytes: Bytes,
    /// `e_machine`: 62 x86-64, 183 aarch64.
    pub machine: u16,
    /// The loadable segments.
    pub segments: Vec<Segment>,
    build_id: Vec<u8>,
    sections: Vec<(String, u64, std::ops::Range<usize>)>,
}

impl Elf {
    /// Opens a file; `Ok(None)` when it is no 64-bit little-endian ELF file.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn open(path: &Path) -> Result<Option<Self>> {
        Ok(Self::new(Bytes::open(path)?))
    }

    fn new(bytes: Bytes) -> Option<Self> {
        let mut this = Self {
            bytes,
            machine: 0,
            segments: Vec::new(),
            build_id: Vec::new(),
            sections: Vec::new(),
        };
        let file = this.bytes.as_slice();
        let mut c = Cursor::new(file);
        if c.take(6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        c.take(12)?;
        this.machine = c.u16()?;
        c.take(12)?; // version, entry
        let (phoff, shoff) = (c.u64()?, c.u64()?);
        c.take(6)?; // flags, ehsize
        let (phentsize, phnum) = (c.u16()?, c.u16()?);
        let (shentsize, shnum, shstrndx) = (c.u16()?, c.u16()?, c.u16()?);
        let (mut segments, mut build_id) = (Vec::new(), Vec::new());
        for i in 0..u64::from(phnum) {
            let Some(mut p) = at(file, phoff, i, phentsize) else {
                break;
            };
            let (kind, _flags) = (p.u32()?, p.u32()?);
            let (offset, address, _physical, size) = (p.u64()?, p.u64()?, p.u64()?, p.u64()?);
            match kind {
                1 => segments.push(Segment {
                    offset,
                    address,
                    size,
                }),
                4 if build_id.is_empty() => {
                    let notes = slice(file, offset, size).unwrap_or_default();
                    build_id = build_id_note(notes).unwrap_or_default().to_vec();
                }
                _ => {}
            }
        }
        let sections = sections(file, shoff, shentsize, shnum, shstrndx).unwrap_or_default();
        this.segments = segments;
        this.build_id = build_id;
        this.sections = sections;
        Some(this)
    }

    /// The GNU build id; empty when there is none.
    #[must_use]
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// The file's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// A section's virtual address and contents.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<(u64, &[u8])> {
        let (_, address, range) = self.sections.iter().find(|s| s.0 == name)?;
        Some((*address, self.bytes().get(range.clone())?))
    }

    /// The virtual address of an offset in the file.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| offset >= s.offset && offset - s.offset < s.size;
        let s = self.segments.iter().find(inside)?;
        s.address.checked_add(offset - s.offset)
    }
}

fn slice(file: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    file.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}

fn at(file: &[u8], table: u64, index: u64, size: u16) -> Option<Cursor<'_>> {
    let offset = table.checked_add(index.checked_mul(u64::from(size))?)?;
    slice(file, offset, u64::from(size)).map(Cursor::new)
}

fn build_id_note(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let mut c = Cursor::new(notes);
        let (name_len, len, kind) = (c.u32()? as usize, c.u32()? as usize, c.u32()?);
        let name = c.take(name_len.checked_next_multiple_of(4)?)?;
        let desc = c.take(len)?;
        if kind == 3 && name.starts_with(b"GNU\0") {
            return Some(desc);
        }
        c.take(len.checked_next_multiple_of(4)? - len)?;
        notes = c.rest();
    }
}

type SectionRow = (String, u64, std::ops::Range<usize>);

fn sections(file: &[u8], table: u64, size: u16, count: u16, names: u16) -> Option<Vec<SectionRow>> {
    let header = |i: u64| {
        let mut c = at(file, table, i, size)?;
        let (name, kind, _flags) = (c.u32()?, c.u32()?, c.u64()?);
        let (address, offset, size) = (c.u64()?, c.u64()?, c.u64()?);
        Some((name, kind, address, offset, size))
    };
    let (_, _, _, offset, len) = header(u64::from(names))?;
    let strings = slice(file, offset, len)?;
    let mut out = Vec::new();
    for i in 0..u64::from(count) {
        let (name, kind, address, offset, size) = header(i)?;
        const NOBITS: u32 = 8;
        if kind == NOBITS {
            continue;
        }
        let name = until_nul(strings.get(name as usize..).unwrap_or_default());
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        out.push((
            String::from_utf8_lossy(name).into_owned(),
            address,
            start..end,
        ));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_running_program_has_code_and_sections() {
        let me = std::env::current_exe().unwrap();
        let elf = super::Elf::open(&me).unwrap().unwrap();
        assert!(!elf.segments.is_empty());
        let (address, text) = elf.section(".text").unwrap();
        assert!(address > 0 && !text.is_empty());
        assert!(super::Elf::new(crate::file::Bytes::Owned(b"\x7fELF\x02\x01".to_vec())).is_none());
    }
}
