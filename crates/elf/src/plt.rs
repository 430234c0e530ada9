//! The stubs of a procedure linkage table: which function each one jumps to. They have no symbols, so that a symbol table
//! gives them the name of what happens to stand before them (`_init`).
//!
//! A stub jumps through a slot of the global offset table; the dynamic relocation of the slot names the function. x86-64:
//! psABI, "Procedure Linkage Table" (with IBT: appendix "Linker Optimization"); aarch64: ELF for the Arm 64-bit
//! Architecture, "PLT sequences".

use std::collections::HashMap;
use std::ops::Range;

use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _,
    RelocationFlags, RelocationTarget, elf,
};

/// A stub, or what a table of stubs has beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stub {
    /// Virtual addresses.
    pub range: Range<u64>,
    /// `puts@plt`; `[plt]` for what belongs to no function.
    pub name: String,
}

/// Bytes of a stub at most: between two of them no larger gap belongs to the first.
const LONGEST: u64 = 24;

/// All stubs, by address; none where the file has no such tables.
#[must_use]
pub fn stubs(data: &[u8]) -> Vec<Stub> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(data) else {
        return Vec::new();
    };
    let slots = Slots::of(&file);
    let mut all = Vec::new();
    for section in file.sections() {
        let Ok(name) = section.name() else { continue };
        if !matches!(
            name,
            ".plt" | ".plt.sec" | ".plt.got" | ".plt.bnd" | ".iplt"
        ) {
            continue;
        }
        let (address, Ok(code)) = (section.address(), section.data()) else {
            continue;
        };
        let found = match file.architecture() {
            object::Architecture::X86_64 => x86_64(address, code, &slots),
            object::Architecture::Aarch64 => aarch64(address, code, &slots),
            _ => continue,
        };
        fill(&mut all, address, code.len() as u64, &found);
    }
    all.sort_by_key(|stub| stub.range.start);
    all
}

/// Gives each stub its end, and the rest of the section a name of its own.
fn fill(all: &mut Vec<Stub>, address: u64, length: u64, found: &[(u64, String)]) {
    let end = address.saturating_add(length);
    let mut at = address;
    let mut next = found.iter().map(|(start, _)| *start).skip(1);
    let rest = |all: &mut Vec<Stub>, range: Range<u64>| {
        if !range.is_empty() {
            let name = "[plt]".to_owned();
            all.push(Stub { range, name });
        }
    };
    for (start, name) in found {
        rest(all, at..*start);
        let until = next.next().unwrap_or(end);
        let stop = until.min(start.saturating_add(LONGEST));
        // A last stub, and one before a gap, is as long as its alignment says.
        let stop = if until > stop {
            start.saturating_add(16).min(until)
        } else {
            stop
        };
        all.push(Stub {
            range: *start..stop,
            name: format!("{name}@plt"),
        });
        at = stop;
    }
    rest(all, at..end);
}

/// The functions whose addresses stand in the global offset table.
struct Slots<'d> {
    by_address: HashMap<u64, &'d str>,
    /// Those of the lazily bound, in the order of their relocations.
    in_order: Vec<Option<&'d str>>,
}

impl<'d> Slots<'d> {
    fn of(file: &ElfFile64<'d, LittleEndian>) -> Self {
        let mut slots = Self {
            by_address: HashMap::new(),
            in_order: Vec::new(),
        };
        let (Some(relocations), Some(symbols)) =
            (file.dynamic_relocations(), file.dynamic_symbol_table())
        else {
            return slots;
        };
        for (address, relocation) in relocations {
            let name = match relocation.target() {
                RelocationTarget::Symbol(index) => symbols
                    .symbol_by_index(index)
                    .ok()
                    .and_then(|symbol| symbol.name().ok())
                    .filter(|name| !name.is_empty()),
                _ => None,
            };
            if let Some(name) = name {
                slots.by_address.insert(address, name);
            }
            let lazily = match relocation.flags() {
                RelocationFlags::Elf { r_type } => {
                    r_type == elf::R_X86_64_JUMP_SLOT || r_type == elf::R_X86_64_IRELATIVE
                }
                _ => false,
            };
            if lazily {
                slots.in_order.push(name);
            }
        }
        slots
    }
}

fn word(code: &[u8], at: usize) -> Option<u32> {
    let bytes = code.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// `[endbr64] [bnd] jmp *slot(%rip)`, or `[endbr64] push $number; jmp` of the lazily bound with IBT.
fn x86_64(address: u64, code: &[u8], slots: &Slots<'_>) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for start in (0..code.len()).step_by(8) {
        let mut at = start;
        let skips =
            |at: usize, prefix: &[u8]| code.get(at..).is_some_and(|rest| rest.starts_with(prefix));
        if skips(at, &[0xf3, 0x0f, 0x1e, 0xfa]) {
            at += 4;
            if skips(at, &[0x68]) {
                let number = word(code, at + 1).and_then(|n| usize::try_from(n).ok());
                let name = number.and_then(|n| slots.in_order.get(n).copied().flatten());
                found.extend(name.map(|name| (address + start as u64, name.to_owned())));
                continue;
            }
        }
        if skips(at, &[0xf2]) {
            at += 1;
        }
        if !skips(at, &[0xff, 0x25]) {
            continue;
        }
        let Some(distance) = word(code, at + 2) else {
            continue;
        };
        let next = address.wrapping_add(at as u64 + 6);
        let slot = next.wrapping_add_signed(i64::from(distance.cast_signed()));
        if let Some(name) = slots.by_address.get(&slot) {
            found.push((address + start as u64, (*name).to_owned()));
        }
    }
    found
}

/// `[bti c] adrp x16, page; ldr x17, [x16, offset]; …`.
fn aarch64(address: u64, code: &[u8], slots: &Slots<'_>) -> Vec<(u64, String)> {
    /// `bti c`.
    const BTI: u32 = 0xd503_245f;
    let mut found = Vec::new();
    for at in (0..code.len()).step_by(4) {
        let (Some(adrp), Some(load)) = (word(code, at), word(code, at + 4)) else {
            continue;
        };
        if adrp & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
            continue;
        }
        // 21 bits with a sign, in pages.
        let pages = ((adrp >> 5 & 0x7_ffff) << 2 | (adrp >> 29 & 3)) << 11;
        let pages = i64::from(pages.cast_signed() >> 11) * 4096;
        let here = address + at as u64;
        let slot = (here & !0xfff)
            .wrapping_add_signed(pages)
            .wrapping_add(u64::from(load >> 10 & 0xfff) * 8);
        let Some(name) = slots.by_address.get(&slot) else {
            continue;
        };
        let marked = at >= 4 && word(code, at - 4) == Some(BTI);
        found.push((here - if marked { 4 } else { 0 }, (*name).to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Slots<'static> {
        Slots {
            by_address: HashMap::from([(0x4018, "puts"), (0x4020, "free")]),
            in_order: vec![Some("puts"), Some("free")],
        }
    }

    #[test]
    fn stubs_of_x86_are_named_by_the_slots_they_jump_through() {
        // The header, then a lazily bound stub; 0x1020 + 6 + 0x2ff2 = 0x4018.
        let mut code = vec![
            0xff, 0x35, 0xe2, 0x2f, 0, 0, 0xff, 0x25, 0xe4, 0x2f, 0, 0, 0x0f, 0x1f, 0x40, 0,
        ];
        code.extend([
            0xff, 0x25, 0x02, 0x30, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff,
        ]);
        let found = x86_64(0x1000, &code, &slots());
        assert_eq!(found, [(0x1010, "puts".to_owned())]);
        let mut all = Vec::new();
        fill(&mut all, 0x1000, 32, &found);
        let names: Vec<_> = all
            .iter()
            .map(|stub| (stub.range.clone(), stub.name.as_str()))
            .collect();
        assert_eq!(
            names,
            [(0x1000..0x1010, "[plt]"), (0x1010..0x1020, "puts@plt")]
        );
        // With IBT: the part that binds.
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1, 0, 0, 0, 0xf2, 0xe9, 0, 0, 0, 0, 0x90,
        ];
        assert_eq!(
            x86_64(0x1000, &code, &slots()),
            [(0x1000, "free".to_owned())]
        );
    }

    #[test]
    fn stubs_of_arm_are_named_by_the_slots_they_jump_through() {
        // adrp x16, 0x4000 from 0x1000; ldr x17, [x16, 0x20]; add; br x17
        let pages: u32 = 3;
        let adrp = 0x9000_0010 | (pages & 3) << 29 | (pages >> 2) << 5;
        let load = 0xf940_0211 | (0x20 / 8) << 10;
        let mut code = Vec::new();
        for word in [0xd503_245f, adrp, load, 0x9100_8210, 0xd61f_0220] {
            code.extend(u32::to_le_bytes(word));
        }
        assert_eq!(
            aarch64(0x1000, &code, &slots()),
            [(0x1000, "free".to_owned())]
        );
    }

    #[test]
    fn this_program_calls_functions_of_its_libraries() {
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for stub in stubs(&me) {
            assert!(stub.range.start < stub.range.end, "{stub:?}");
        }
        assert!(stubs(b"#!/bin/sh").is_empty());
        for cut in (0..me.len().min(4096)).step_by(7) {
            let _ = stubs(me.get(..cut).unwrap());
        }
    }
}
