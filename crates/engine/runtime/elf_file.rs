//! Files with code, read while the program runs: what their headers say of sections and of what is mapped where.
//!
//! Sources: elf(5).

use crate::own_memory;
use crate::sys;
use crate::syscall_table as nr;
use core::ops::Range;

/// The bytes of a file, mapped for reading.
pub struct File {
    at: u64,
    pub len: u64,
}

impl File {
    /// `None`: it is not there any more, or cannot be read.
    fn open(path: &[u8], inode: u64) -> Option<Self> {
        let mut name = [0u8; 4096];
        name.get_mut(..path.len())?.copy_from_slice(path);
        if path.first() != Some(&b'/') || path.len() + 1 > name.len() {
            return None;
        }
        // SAFETY: open with our own path; O_RDONLY|O_CLOEXEC.
        let fd = unsafe { sys::call(nr::OPEN, [name.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]) };
        if fd < 0 {
            return None;
        }
        let fd = fd as u64;
        let mut stat = [0u64; 18];
        // SAFETY: fstat into struct stat's 144 bytes.
        let known = unsafe { sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
        let len = stat[6];
        let mut file = None;
        if known == 0 && stat[1] == inode && (64..1 << 32).contains(&len) {
            let at = own_memory::addresses(len);
            // PROT_READ; MAP_PRIVATE|FIXED_NOREPLACE
            // SAFETY: a fresh mapping at addresses of ours, or an error.
            let got = unsafe { sys::call(nr::MMAP, [at, len, 1, 0x10_0002, fd, 0]) };
            if got == at as i64 {
                file = Some(Self { at, len });
            }
        }
        // SAFETY: our descriptor.
        unsafe { sys::call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
        file
    }

    /// The file of a mapping that may be executed, and where that has its addresses. `None`: no 64-bit ELF file, or not of this mapping.
    pub fn of_mapping(
        range: &Range<u64>,
        offset: u64,
        inode: u64,
        path: &[u8],
    ) -> Option<(Self, Place)> {
        let file = Self::open(path, inode)?;
        if file.bytes(0) != Some([0x7f, b'E', b'L', b'F', 2, 1]) {
            return None;
        }
        let len = range.end - range.start;
        // Segments may share a page of the file (lld's do): only one of them is mapped for execution.
        let (_, _, at, address, _) = segments(&file).find(|&(kind, flags, at, _, size)| {
            kind == PT_LOAD
                && flags & PF_X != 0
                && at < offset.saturating_add(len)
                && offset < at.saturating_add(size)
        })?;
        let from = address.wrapping_add(offset).wrapping_sub(at);
        let place = Place {
            from,
            to: from.wrapping_add(len),
            bias: range.start.wrapping_sub(from),
        };
        Some((file, place))
    }

    /// Bytes in it; `None`: it is shorter.
    pub fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        if at.checked_add(N as u64)? > self.len {
            return None;
        }
        let mut bytes = [0; N];
        // The file may have become shorter: what cannot be read is not there.
        crate::program_memory::read_bytes(&mut bytes, self.at + at).then_some(bytes)
    }

    pub fn half(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    pub fn word(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    pub fn long(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        own_memory::give_back(self.at, self.len);
    }
}

/// Where a mapped part of a file's addresses are in memory.
pub struct Place {
    /// Addresses in the file that it has.
    pub from: u64,
    pub to: u64,
    /// What is added to them.
    pub bias: u64,
}

const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;

/// Program headers: type, flags, offset, address, size in the file.
pub fn segments(file: &File) -> impl Iterator<Item = (u32, u32, u64, u64, u64)> + '_ {
    let (at, size, count) = (
        file.long(32).unwrap_or(0),
        u64::from(file.half(54).unwrap_or(0)),
        file.half(56).unwrap_or(0),
    );
    (0..u64::from(count)).filter_map(move |number| {
        let at = at.checked_add(number * size)?;
        Some((
            file.word(at)?,
            file.word(at + 4)?,
            file.long(at + 8)?,
            file.long(at + 16)?,
            file.long(at + 32)?,
        ))
    })
}

/// Where the headers of sections are.
pub fn sections(file: &File) -> impl Iterator<Item = u64> + use<> {
    let (at, size, count) = (
        file.long(40).unwrap_or(0),
        u64::from(file.half(58).unwrap_or(0)),
        file.half(60).unwrap_or(0),
    );
    (0..u64::from(count)).map_while(move |number| at.checked_add(number * size))
}

/// A symbol that the file defines.
#[derive(Clone, Copy)]
pub struct Symbol {
    /// As `st_info` has it: the low four bits …
    pub kind: u8,
    /// … and the high ones.
    pub binding: u8,
    /// In the file's own terms.
    pub address: u64,
    pub size: u64,
    /// Where in the file its name begins, which ends with a zero.
    pub name: u64,
}

/// Calls `see` for every defined symbol of both tables. True where the whole table of symbols is there, not only that
/// for linking.
pub fn each_symbol(file: &File, see: &mut dyn FnMut(Symbol)) -> bool {
    const SYMTAB: u32 = 2;
    const DYNSYM: u32 = 11;
    let mut whole = false;
    for section in sections(file) {
        let kind = file.word(section + 4).unwrap_or(0);
        if kind != SYMTAB && kind != DYNSYM {
            continue;
        }
        whole |= kind == SYMTAB;
        let start = file.long(section + 24).unwrap_or(0);
        let bytes = file.long(section + 32).unwrap_or(0).min(file.len);
        let names = file.word(section + 40).unwrap_or(0);
        let names = sections(file).nth(names as usize);
        let names = names.and_then(|names| file.long(names.checked_add(24)?));
        for symbol in 0..bytes / 24 {
            let Some(info) = start
                .checked_add(symbol * 24)
                .and_then(|at| file.bytes::<24>(at))
            else {
                break;
            };
            let [n0, n1, n2, n3, kind, _, section, high, rest @ ..] = info;
            let (mut value, mut length) = ([0; 8], [0; 8]);
            value.copy_from_slice(&rest[..8]);
            length.copy_from_slice(&rest[8..]);
            if (section, high) != (0, 0) {
                let name = u64::from(u32::from_le_bytes([n0, n1, n2, n3]));
                see(Symbol {
                    kind: kind & 15,
                    binding: kind >> 4,
                    address: u64::from_le_bytes(value),
                    size: u64::from_le_bytes(length),
                    name: names.unwrap_or(u64::MAX).saturating_add(name),
                });
            }
        }
    }
    whole
}
