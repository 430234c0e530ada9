//! Symbols of data: what programs' variables are called.

use std::fs::File;

use object::elf;
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, Sym as _};

use crate::LE;

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Virtual address.
    pub address: u64,
    /// Bytes; more than none.
    pub size: u64,
    /// As the file has it.
    pub name: String,
}

/// The variables of an open file in order of addresses: those of its symbol table, or where that was stripped those that
/// are visible to others.
#[must_use]
pub fn variables(file: &File) -> Vec<Variable> {
    let cache = ReadCache::new(file);
    let all = read(&cache, elf::SHT_SYMTAB).filter(|all| !all.is_empty());
    let mut all = all
        .or_else(|| read(&cache, elf::SHT_DYNSYM))
        .unwrap_or_default();
    // Of several names of one place the shortest, then the first.
    all.sort_by(|a, b| {
        let key = |one: &Variable| (one.address, std::cmp::Reverse(one.size), one.name.len());
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    all.dedup_by_key(|one| one.address);
    all
}

fn read(data: &ReadCache<&File>, table: elf::SectionType) -> Option<Vec<Variable>> {
    let header = crate::header(data)?;
    let symbols = header
        .sections(LE, data)
        .ok()?
        .symbols(LE, data, table)
        .ok()?;
    let strings = symbols.strings();
    let variable = |symbol: &elf::Sym64<crate::LittleEndian>| {
        let size = symbol.st_size(LE);
        let is = symbol.st_type() == elf::STT_OBJECT && size != 0;
        if !is || symbol.is_undefined(LE) {
            return None;
        }
        let name = symbol.name(LE, strings).ok()?;
        Some(Variable {
            address: symbol.st_value(LE),
            size,
            name: String::from_utf8_lossy(name).into_owned(),
        })
    };
    Some(symbols.iter().filter_map(variable).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable of this test's own.
    static TRUECOUNT_ELF_OWN: [u64; 100] = [7; 100];

    #[test]
    fn our_own_variable_is_found() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let all = variables(&file);
        let own = all
            .iter()
            .find(|one| one.name.contains("TRUECOUNT_ELF_OWN"));
        let own = own.expect("the test is not stripped");
        assert_eq!(own.size, 800);
        let page = std::ptr::addr_of!(TRUECOUNT_ELF_OWN).addr() % 4096;
        assert_eq!(own.address % 4096, page as u64);
        assert!(all.is_sorted_by_key(|one| one.address));
        assert!(all.iter().all(|one| one.size != 0 && one.address != 0));
    }

    #[test]
    fn what_is_no_program_has_none() {
        assert_eq!(variables(&File::open("/proc/self/maps").unwrap()), []);
    }
}
