//! Where symbols begin and end.

use object::elf;
use object::read::elf::{FileHeader as _, Sym as _};

use crate::{Elf, LE};

/// Every address at which a symbol, of whatever type, or a segment begins or ends, in order and each once: between two of
/// them next to each other all addresses are in the same symbols. Empty where the bytes are no 64-bit little-endian ELF
/// file's.
#[must_use]
pub fn borders(bytes: &[u8]) -> Vec<u64> {
    let (Some(header), Some(own)) = (crate::header(bytes), Elf::parse(bytes)) else {
        return Vec::new();
    };
    let both = |from: u64, size: u64| [from, from.saturating_add(size)];
    let segments = own.segments.iter();
    let mut all: Vec<u64> = segments
        .flat_map(|one| both(one.address, one.size))
        .collect();
    if let Ok(sections) = header.sections(LE, bytes) {
        for table in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let Ok(symbols) = sections.symbols(LE, bytes, table) else {
                continue;
            };
            let borders = |symbol: &elf::Sym64<_>| both(symbol.st_value(LE), symbol.st_size(LE));
            all.extend(symbols.iter().flat_map(borders));
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_lies_between_borders() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let all = borders(&bytes);
        assert!(all.is_sorted_by(|a, b| a < b));
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let variables = crate::data::variables(&file);
        assert!(!variables.is_empty());
        for one in variables {
            for border in [one.address, one.address + one.size] {
                assert!(all.binary_search(&border).is_ok(), "{one:?}");
            }
        }
    }

    #[test]
    fn what_is_no_program_has_none() {
        assert!(borders(b"#!/bin/sh\n").is_empty());
        assert!(borders(&[]).is_empty());
    }
}
