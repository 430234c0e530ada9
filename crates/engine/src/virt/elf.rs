//! The few things that the engine reads in ELF files (elf(5)): the header, segments, and the build id,
//! the note that the linker leaves (type `NT_GNU_BUILD_ID`, name `GNU`).

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A segment that is loaded.
pub(super) const PT_LOAD: u64 = 1;
const PT_NOTE: u64 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
/// More program headers, or longer notes, are not looked at.
const MAX_HEADERS: u64 = 128;
const MAX_NOTES: u64 = 64 << 10;
const MAX_ID: usize = 64;

/// A little-endian number of `size` bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut value = [0u8; 8];
    value
        .get_mut(..size)?
        .copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(value))
}

/// What is read of the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The program's first instruction, as its file has it.
    pub(super) entry: u64,
    segments_at: u64,
    segments: u64,
}

/// A program header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// [`PT_LOAD`], …
    pub(super) kind: u64,
    flags: u64,
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// Where it is loaded, as the file has it.
    pub(super) address: u64,
    /// Bytes in the file.
    pub(super) file_bytes: u64,
    /// Bytes in memory.
    pub(super) memory_bytes: u64,
}

impl Segment {
    /// Its bytes are instructions.
    pub(super) fn is_executable(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// The header of a 64-bit little-endian file, of which `bytes` are the first 64 or more.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    Some(Header {
        entry: number(bytes, 24, 8)?,
        segments_at: number(bytes, 32, 8)?,
        segments: number(bytes, 56, 2)?.min(MAX_HEADERS),
    })
}

/// The header of a file.
pub(super) fn header_of(file: &File) -> Option<Header> {
    let mut bytes = [0u8; 64];
    file.read_exact_at(&mut bytes, 0).ok()?;
    header(&bytes)
}

impl Header {
    /// The program headers, as far as `read` (from a place in the file) has them.
    pub(super) fn segments(
        self,
        read: impl Fn(u64, &mut [u8]) -> Option<()>,
    ) -> impl Iterator<Item = Segment> {
        (0..self.segments).map_while(move |n| {
            let mut entry = [0u8; 56];
            read(self.segments_at.checked_add(n * 56)?, &mut entry)?;
            Some(Segment {
                kind: number(&entry, 0, 4)?,
                flags: number(&entry, 4, 4)?,
                offset: number(&entry, 8, 8)?,
                address: number(&entry, 16, 8)?,
                file_bytes: number(&entry, 32, 8)?,
                memory_bytes: number(&entry, 40, 8)?,
            })
        })
    }
}

/// The build id of a 64-bit little-endian ELF file, if it has one.
pub(super) fn build_id(file: &File) -> Option<Vec<u8>> {
    let read = |at, to: &mut [u8]| file.read_exact_at(to, at).ok();
    header_of(file)?.segments(read).find_map(|segment| {
        if segment.kind != PT_NOTE {
            return None;
        }
        let size = usize::try_from(segment.file_bytes.min(MAX_NOTES)).ok()?;
        let mut notes = vec![0u8; size];
        read(segment.offset, &mut notes)?;
        in_notes(&notes).map(<[u8]>::to_vec)
    })
}

fn in_notes(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let size = |at| usize::try_from(number(notes, at, 4)?).ok();
        let (name, description) = (size(0)?, size(4)?);
        let kind = number(notes, 8, 4)?;
        let from = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let to = from.checked_add(description)?;
        let id = notes.get(from..to)?;
        if kind == u64::from(NT_GNU_BUILD_ID) && notes.get(12..16) == Some(b"GNU\0") {
            return (!id.is_empty() && id.len() <= MAX_ID).then_some(id);
        }
        notes = notes.get(to.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_walked_and_damage_is_survived() {
        let note = |kind: u32, name: &[u8], text: &[u8]| {
            let mut bytes = Vec::new();
            for value in [name.len() as u32, text.len() as u32, kind] {
                bytes.extend(value.to_le_bytes());
            }
            for part in [name, text] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let mut notes = note(1, b"GNU\0", &[0; 16]);
        notes.extend(note(5, b"Linux\0", &[1, 2, 3]));
        notes.extend(note(3, b"GNU\0", &[7; 20]));
        assert_eq!(in_notes(&notes), Some(&[7u8; 20][..]));
        for len in 0..notes.len() {
            assert_eq!(in_notes(&notes[..len]), None, "cut at {len}");
        }
        for at in 0..notes.len() {
            let mut damaged = notes.clone();
            damaged[at] = 0xff;
            let _ = in_notes(&damaged); // must end
        }
    }

    #[test]
    fn a_file_that_is_no_program_has_none() {
        let file = File::open("/proc/self/maps").unwrap();
        assert!(header_of(&file).is_none());
        assert_eq!(build_id(&file), None);
    }
}
