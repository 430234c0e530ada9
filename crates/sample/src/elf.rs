//! A program's file, mapped, with what [`truecount_elf`] reads of it.

use std::borrow::Cow;
use std::path::Path;

use truecount_elf::Segment;

use crate::error::Result;
use crate::file::Bytes;

/// An ELF file, mapped.
#[derive(Debug)]
pub struct Elf {
    bytes: Bytes,
    /// `e_machine`: 62 x86-64, 183 aarch64.
    pub machine: u16,
    parsed: truecount_elf::Elf,
}

impl Elf {
    /// Opens a file; `Ok(None)` when it is no 64-bit little-endian ELF file.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let Some(bytes) = Bytes::of_regular(path)? else {
            return Ok(None);
        };
        let parsed = truecount_elf::Elf::parse(bytes.as_slice());
        Ok(parsed.map(|parsed| Self {
            machine: parsed.machine,
            bytes,
            parsed,
        }))
    }

    /// The loadable segments.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.parsed.segments
    }

    /// The GNU build id; empty when there is none.
    #[must_use]
    pub fn build_id(&self) -> &[u8] {
        &self.parsed.build_id
    }

    /// The file's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// A section's virtual address and contents.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<(u64, &[u8])> {
        let section = self.parsed.section(name)?;
        Some((section.address, self.bytes().get(section.range.clone())?))
    }

    /// Names of its sections.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &str> {
        self.parsed.sections.iter().map(|one| one.name.as_str())
    }

    /// A section's contents, inflated where they are compressed.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.parsed.contents(name, self.bytes())
    }

    /// The virtual address of an offset in the file.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.parsed.address_of(offset)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_running_program_has_code_and_sections() {
        let me = std::env::current_exe().unwrap();
        let elf = super::Elf::open(&me).unwrap().unwrap();
        assert!(!elf.segments().is_empty());
        let (address, text) = elf.section(".text").unwrap();
        assert!(address > 0 && !text.is_empty());
    }
}
