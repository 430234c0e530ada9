//! The build id of an ELF file: the note that the linker leaves (type
//! `NT_GNU_BUILD_ID`, name `GNU`; elf(5), "Notes"). Reads a few kilobytes.

use std::fs::File;
use std::os::unix::fs::FileExt;

const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
/// More program headers, or longer notes, are not looked at.
const MAX_HEADERS: u64 = 128;
const MAX_NOTES: u64 = 64 << 10;
const MAX_ID: usize = 64;

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut value = [0u8; 8];
    value
        .get_mut(..size)?
        .copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(value))
}

/// The build id of a 64-bit little-endian ELF file, if it has one.
pub(super) fn read(file: &File) -> Option<Vec<u8>> {
    let mut header = [0u8; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if header.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (offset, count) = (number(&header, 32, 8)?, number(&header, 56, 2)?);
    for n in 0..count.min(MAX_HEADERS) {
        let mut entry = [0u8; 56];
        file.read_exact_at(&mut entry, offset.checked_add(n * 56)?)
            .ok()?;
        if number(&entry, 0, 4)? != u64::from(PT_NOTE) {
            continue;
        }
        let (at, size) = (number(&entry, 8, 8)?, number(&entry, 32, 8)?);
        let mut notes = vec![0u8; usize::try_from(size.min(MAX_NOTES)).ok()?];
        if file.read_exact_at(&mut notes, at).is_ok()
            && let Some(id) = in_notes(&notes)
        {
            return Some(id.to_vec());
        }
    }
    None
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
        assert_eq!(read(&file), None);
    }
}
