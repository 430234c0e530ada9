//! What truecount needs of ELF files, in one place: 64-bit little-endian ones (x86-64, aarch64), read by the crate
//! `object`. Nothing here panics or believes a size: what lies outside the file is not there.
//!
//! Layout: System V gABI, chapters 4 and 5; `NT_GNU_BUILD_ID`: elf(5), "Notes".
//!
//! ```
//! let me = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
//! let elf = truecount_elf::Elf::read(&me).expect("a program");
//! assert!(elf.segments.iter().any(|segment| segment.executable));
//! assert!(truecount_elf::Elf::parse(b"#!/bin/sh").is_none());
//! ```
#![forbid(unsafe_code)]

mod borders;
pub mod data;
pub mod plt;

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;

use object::elf::{self, CompressionHeader64, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::read::{ReadCache, ReadRef};
use object::{LittleEndian, elf::PT_LOAD};

pub use borders::borders;

type Header = FileHeader64<LittleEndian>;
type ProgramHeader = ProgramHeader64<LittleEndian>;

const LE: LittleEndian = LittleEndian;
/// Longer notes, ids and names are not looked at: linkers write some hundred bytes.
const MAX_NOTES: u64 = 1 << 20;
const MAX_BUILD_ID: usize = 64;
const MAX_PATH: u64 = 4096;
/// Deflate makes at most 1032 bytes of one (zlib's technical details).
const MAX_RATIO: usize = 1032;
/// Longer contents of compressed sections are not looked at.
const MAX_CONTENTS: usize = 1 << 29;

/// A loadable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Offset in the file.
    pub offset: u64,
    /// Virtual address.
    pub address: u64,
    /// Bytes in the file.
    pub size: u64,
    /// Bytes in memory.
    pub memory: u64,
    /// Mapped for execution.
    pub executable: bool,
}

/// A section that has bytes in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// `.text`, `.eh_frame`, …
    pub name: String,
    /// Virtual address.
    pub address: u64,
    /// Where its bytes are; they may lie outside a damaged file.
    pub range: Range<usize>,
    /// Its bytes are compressed (`SHF_COMPRESSED`): see [`Elf::contents`].
    pub compressed: bool,
}

/// What an ELF file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// `e_machine`: 62 x86-64, 183 aarch64.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
    /// The loadable segments, in the file's order.
    pub segments: Vec<Segment>,
    /// The sections; none where the table is damaged or stripped.
    pub sections: Vec<Section>,
    /// The GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
    /// The loader that it asks for (`PT_INTERP`).
    pub interpreter: Option<String>,
}

impl Elf {
    /// From a file's bytes; `None` where they are not a 64-bit little-endian ELF file's.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Self::from(bytes)
    }

    /// From an open file, of which only the tables are read.
    #[must_use]
    pub fn read(file: &File) -> Option<Self> {
        Self::from(&ReadCache::new(file))
    }

    fn from<'d, R: ReadRef<'d>>(data: R) -> Option<Self> {
        let (header, programs) = headers(data)?;
        let segments = programs
            .iter()
            .filter(|p| p.p_type(LE) == PT_LOAD)
            .map(|p| Segment {
                offset: p.p_offset(LE),
                address: p.p_vaddr(LE),
                size: p.p_filesz(LE),
                memory: p.p_memsz(LE),
                executable: p.p_flags(LE).0 & elf::PF_X.0 != 0,
            })
            .collect();
        Some(Self {
            machine: header.e_machine(LE).0,
            entry: header.e_entry(LE),
            segments,
            sections: sections(header, data).unwrap_or_default(),
            build_id: build_id_of(programs, data).unwrap_or_default().to_vec(),
            interpreter: interpreter_of(programs, data),
        })
    }

    /// A section by its name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The contents of a section of the file with these bytes; what is compressed by zlib (debug information, as the
    /// linkers of Go and C do it) is inflated. `None` where they are damaged or compressed in another way.
    #[must_use]
    pub fn contents<'a>(&self, name: &str, bytes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let section = self.section(name)?;
        let stored = bytes.get(section.range.clone())?;
        if !section.compressed {
            return Some(Cow::Borrowed(stored));
        }
        let (header, packed): (&CompressionHeader64<LittleEndian>, _) =
            object::pod::from_bytes(stored).ok()?;
        if header.ch_type.get(LE) != elf::ELFCOMPRESS_ZLIB {
            return None;
        }
        // No more than zlib can make of so many bytes, whatever the header claims.
        let most = packed.len().saturating_mul(MAX_RATIO).min(MAX_CONTENTS);
        let size = usize::try_from(header.ch_size.get(LE)).ok()?;
        let inflated =
            miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, size.min(most));
        inflated.ok().map(Cow::Owned)
    }

    /// The virtual address of an offset in the file.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| offset >= s.offset && offset - s.offset < s.size;
        let segment = self.segments.iter().find(inside)?;
        segment.address.checked_add(offset - segment.offset)
    }
}

/// Whether a file that begins with these bytes is an ELF file, of whatever class and machine.
#[must_use]
pub fn is_elf(start: &[u8]) -> bool {
    start.starts_with(&elf::ELFMAG)
}

/// Whether a file that begins with these bytes is a 64-bit ELF file.
#[must_use]
pub fn is_64_bit(start: &[u8]) -> bool {
    is_elf(start) && start.get(elf::ELFMAG.len()) == Some(&elf::ELFCLASS64.0)
}

/// The GNU build id of an open file, read from its program headers' notes: a few kilobytes.
#[must_use]
pub fn build_id(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let (_, programs) = headers(&cache)?;
    build_id_of(programs, &cache).map(<[u8]>::to_vec)
}

/// The loader that an open file asks for (`PT_INTERP`); `None` for static programs and what is not ELF.
#[must_use]
pub fn interpreter(file: &File) -> Option<String> {
    let cache = ReadCache::new(file);
    let (_, programs) = headers(&cache)?;
    interpreter_of(programs, &cache)
}

/// Where an open file's program starts (`e_entry`), as the file has it.
#[must_use]
pub fn entry(file: &File) -> Option<u64> {
    let cache = ReadCache::new(file);
    Some(header(&cache)?.e_entry(LE))
}

fn header<'d, R: ReadRef<'d>>(data: R) -> Option<&'d Header> {
    let header = Header::parse(data).ok()?;
    header.is_little_endian().then_some(header)
}

fn headers<'d, R: ReadRef<'d>>(data: R) -> Option<(&'d Header, &'d [ProgramHeader])> {
    let header = header(data)?;
    Some((header, header.program_headers(LE, data).unwrap_or_default()))
}

fn sections<'d, R: ReadRef<'d>>(header: &Header, data: R) -> Option<Vec<Section>> {
    let table = header.sections(LE, data).ok()?;
    let named = table.iter().filter_map(|section| {
        if section.sh_type(LE) == elf::SHT_NOBITS {
            return None;
        }
        let name = table.section_name(LE, section).ok()?;
        let start = usize::try_from(section.sh_offset(LE)).ok()?;
        let size = usize::try_from(section.sh_size(LE)).ok()?;
        Some(Section {
            name: String::from_utf8_lossy(name).into_owned(),
            address: section.sh_addr(LE),
            range: start..start.checked_add(size)?,
            compressed: section.sh_flags(LE).contains(elf::SHF_COMPRESSED),
        })
    });
    Some(named.collect())
}

fn build_id_of<'d, R: ReadRef<'d>>(programs: &[ProgramHeader], data: R) -> Option<&'d [u8]> {
    programs
        .iter()
        .filter(|p| p.p_type(LE) == elf::PT_NOTE && p.p_filesz(LE) <= MAX_NOTES)
        .find_map(|p| {
            let mut notes = p.notes(LE, data).ok()??;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
                    let id = note.desc();
                    return (!id.is_empty() && id.len() <= MAX_BUILD_ID).then_some(id);
                }
            }
            None
        })
}

fn interpreter_of<'d, R: ReadRef<'d>>(programs: &[ProgramHeader], data: R) -> Option<String> {
    programs
        .iter()
        .filter(|p| p.p_filesz(LE) <= MAX_PATH)
        .find_map(|p| p.interpreter(LE, data).ok()?)
        .and_then(|path| String::from_utf8(path.to_vec()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn a_program_from_memory_and_from_its_file() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::read(&file).unwrap();
        assert_eq!(Elf::parse(&program()).unwrap(), elf);
        let text = elf.section(".text").unwrap();
        let of_text =
            |s: &&Segment| (s.address..s.address + s.size).contains(&text.address) && s.executable;
        assert_eq!(elf.segments.iter().filter(of_text).count(), 1);
        assert_eq!(elf.address_of(text.range.start as u64), Some(text.address));
        assert_eq!(interpreter(&file), elf.interpreter);
        assert_eq!(build_id(&file).unwrap_or_default(), elf.build_id);
        assert_eq!(entry(&file), Some(elf.entry));
        assert!(is_elf(&program()) && is_64_bit(&program()[..5]));
        assert!(!is_64_bit(b"\x7fELF") && !is_64_bit(b"\x7fELF\x01") && !is_elf(b"#!"));
        assert!(elf.interpreter.is_none_or(|path| path.starts_with('/')));
    }

    #[test]
    fn compressed_sections_are_inflated_and_bombs_are_not() {
        let text = b"unwind table ".repeat(1000);
        let packed = |claimed: u64, text: &[u8]| {
            let mut bytes = Vec::new();
            for word in [1_u64, claimed, 1] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(miniz_oxide::deflate::compress_to_vec_zlib(text, 6));
            bytes
        };
        let elf = |bytes: &[u8]| {
            let section = Section {
                name: ".debug_frame".to_owned(),
                address: 0,
                range: 0..bytes.len(),
                compressed: true,
            };
            Elf {
                sections: vec![section],
                ..Elf::parse(&program()).unwrap()
            }
        };
        let whole = packed(text.len() as u64, &text);
        let found = elf(&whole).contents(".debug_frame", &whole);
        assert_eq!(found.as_deref(), Some(&text[..]));
        // More than was said, cut off, and not zlib.
        let more = packed(10, &text);
        assert_eq!(elf(&more).contents(".debug_frame", &more), None);
        for cut in 0..whole.len() {
            assert_eq!(elf(&whole[..cut]).contents(".debug_frame", &whole), None);
        }
        let mut other = whole.clone();
        other[0] = 2;
        assert_eq!(elf(&other).contents(".debug_frame", &other), None);
    }

    #[test]
    fn what_is_not_a_program_is_none() {
        assert_eq!(Elf::parse(b"\x7fELF\x02\x01"), None);
        let mut bytes = program();
        bytes[4] = 1; // 32-bit
        assert_eq!(Elf::parse(&bytes), None);
        bytes[4] = 2;
        bytes[5] = 2; // big-endian
        assert_eq!(Elf::parse(&bytes), None);
        assert_eq!(build_id(&File::open("/proc/self/maps").unwrap()), None);
    }

    /// Cut off anywhere and with any byte of the tables changed it ends, and memory stays small.
    #[test]
    fn damage_is_survived() {
        let whole = program();
        for cut in (0..4096).chain([whole.len() / 2]) {
            let _ = Elf::parse(&whole[..cut]);
        }
        let mut bytes = whole[..1 << 16].to_vec();
        let sections = Elf::parse(&whole).unwrap().sections.len();
        for at in 0..1024 {
            for value in [0, 0xff] {
                let old = std::mem::replace(&mut bytes[at], value);
                let found = Elf::parse(&bytes).map_or(0, |elf| elf.sections.len());
                assert!(found <= sections.max(1024 * 64), "{at}: {found}");
                bytes[at] = old;
            }
        }
    }
}
