//! The program's GS. The segment is the engine's (a thread's context); the program's base is a word in there. An
//! operand relative to it becomes one relative to a spilled register that holds the sum; flags stay.
//!
//! Facts: Intel SDM volume 2, sections 2.1 (`ModRM`, SIB, prefixes), 2.7.5 (EVEX's displacements), `RDGSBASE`,
//! `WRGSBASE`; volume 1, 3.7.5 (which operands a segment prefix concerns).

use super::operand::{Operand, far_register, implied_base, is_absolute, uses_gs};
use super::{Builder, Item};
use crate::xlate::decode::{Insn, Kind, MAX_LEN, prefix};
use crate::xlate::emit::SCRATCH;
use crate::xlate::references::has_vector_index;

/// Operands that cannot be reached from where the copy is.
pub(super) fn unsupported(item: &Item) -> bool {
    let insn = &item.insn;
    uses_gs(insn) && !can_be_reached(item)
}

/// Whether [`Builder::copy_gs`] knows how.
fn can_be_reached(item: &Item) -> bool {
    let insn = &item.insn;
    if insn.has(prefix::FS) {
        return false;
    }
    if implied_base(insn).is_some() {
        return !insn.has(prefix::ADDRSIZE);
    }
    if is_absolute(insn) {
        return small(absolute(item));
    }
    // Rows of tiles.
    if insn.space == 5 && matches!(insn.opcode, 0x49 | 0x4b) {
        return false;
    }
    // The address is one with RSP after the `pop`.
    let pops = insn.space == 0 && insn.opcode == 0x8f;
    let operand = Operand::of(insn, item.code());
    let register = far_register(insn, item.code());
    let by_sum = if has_vector_index(insn) {
        // In front of a byte, a register that names another kind of operand with it.
        !insn.has(prefix::ADDRSIZE) && register != 5
    } else {
        // (Displacements of EVEX may be multiples; branches have no place for a second register.)
        !needs_sum(item) || matches!(insn.space, 0..=3) && insn.kind == Kind::Plain
    };
    insn.has_memory_operand()
        && by_sum
        && (!pops || operand.base != Some(4))
        && free_of(register, insn, operand)
}

fn small(address: u64) -> bool {
    i32::try_from(address.cast_signed()).is_ok()
}

/// Whether the base has to be added to the whole address: one of 32 bits, or one that is far from 0.
fn needs_sum(item: &Item) -> bool {
    let insn = &item.insn;
    insn.has(prefix::ADDRSIZE) || insn.is_rip_relative() && !small(item.operand())
}

fn free_of(register: u8, insn: &Insn, operand: Operand) -> bool {
    insn.reg() != register
        && insn.vvvv != register
        && operand.base != Some(register)
        && operand.index.is_none_or(|(index, _)| index != register)
}

/// The address in a `mov` of that kind.
fn absolute(item: &Item) -> u64 {
    let mut address = [0u8; 8];
    let len = if item.insn.has(prefix::ADDRSIZE) {
        4
    } else {
        8
    };
    let bytes = item
        .code()
        .iter()
        .skip(usize::from(item.insn.imm_at))
        .take(len);
    for (to, from) in address.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(address)
}

/// An instruction's bytes without the prefixes that choose a segment, and without the one for addresses of 32 bits; and how
/// many those are.
fn without_prefix(item: &Item) -> ([u8; MAX_LEN], usize, usize) {
    let mut code = [0u8; MAX_LEN];
    let (mut len, mut taken_out, mut in_front) = (0, 0, true);
    for &byte in item.code() {
        in_front &= matches!(
            byte,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
        );
        if in_front && matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67) {
            taken_out += 1;
        } else if let Some(place) = code.get_mut(len) {
            *place = byte;
            len += 1;
        }
    }
    (code, len, taken_out)
}

/// Bytes of SIB and displacement behind `ModRM`.
fn rest_of_operand(insn: &Insn, code: &[u8]) -> usize {
    let has_sib = insn.modrm & 7 == 4;
    let no_base = has_sib && Operand::of(insn, code).base.is_none();
    let displacement = match insn.modrm & 0xc0 {
        0x40 => 1,
        0x80 => 4,
        _ if no_base || insn.is_rip_relative() => 4,
        _ => 0,
    };
    usize::from(has_sib) + displacement
}

impl Builder<'_, '_> {
    /// `lea to, [base+index*factor]`, `to` among the low eight registers.
    fn lea(&mut self, to: u8, base: u8, index: u8, factor: u8) {
        self.hot.put(&[
            0x48 | base >> 3 | (index >> 3) << 1,
            0x8d,
            0x44 | to << 3,
            factor << 6 | (index & 7) << 3 | base & 7,
            0,
        ]);
    }

    /// Adds the operand's registers to what `register` holds.
    fn add_registers(&mut self, register: u8, operand: Operand) {
        if let Some(base) = operand.base {
            self.lea(register, base, register, 0);
        }
        if let Some((index, factor)) = operand.index {
            self.lea(register, register, index, factor);
        }
    }

    /// Copies an instruction with an operand in GS.
    pub(super) fn copy_gs(&mut self, item: &Item) {
        let offsets = self.config.offsets;
        let insn = &item.insn;
        let (code, len, taken_out) = without_prefix(item);
        let code = code.get(..len).unwrap_or(&[]);
        let register = far_register(insn, item.code());
        self.hot.store_gs(offsets.spill_2, register);
        self.hot.load_gs(self.config.program_gs, register);
        if is_absolute(insn) {
            let opcode_at = usize::from(insn.opcode_at) - taken_out;
            self.hot.put(code.get(..opcode_at).unwrap_or(&[]));
            // A0 to A3: AL or EAX from memory, to memory.
            let opcode = 0x88 | insn.opcode & 1 | (!insn.opcode & 2);
            self.hot.put(&[opcode, 0x80 | register]);
            self.hot.put(&(absolute(item) as u32).to_le_bytes());
        } else if let Some(base) = implied_base(insn) {
            // lea base, [base+register]; the instruction; not register; lea base, [base+register+1]
            self.lea(base, base, register, 0);
            self.hot.put(code);
            self.hot.put(&[0x48, 0xf7, 0xd0 | register]);
            self.hot
                .put(&[0x48, 0x8d, 0x44 | base << 3, register << 3 | base, 1]);
        } else if has_vector_index(insn) {
            let operand = Operand::of(insn, item.code());
            if let Some(base) = operand.base {
                self.lea(register, base, register, 0);
            }
            self.put_head(insn, code, taken_out);
            self.put_vector_operand(item, code, taken_out, register, operand.base.is_some());
        } else if needs_sum(item) {
            self.load_address(item, register);
            // mov gs:[spill], rcx; mov rcx, gs:[base]; lea register, [register+rcx]; mov rcx, gs:[spill]
            self.hot.store_gs(offsets.spill, SCRATCH);
            self.hot.load_gs(self.config.program_gs, SCRATCH);
            self.lea(register, register, SCRATCH, 0);
            self.hot.load_gs(offsets.spill, SCRATCH);
            self.put_head(insn, code, taken_out);
            self.put_at_register(item, register);
        } else {
            let operand = Operand::of(insn, item.code());
            self.add_registers(register, operand);
            self.put_head(insn, code, taken_out);
            self.put_operand(item, code, taken_out, register);
        }
        self.hot.load_gs(offsets.spill_2, register);
    }

    /// What is behind the base, as an instruction names it, into `register`.
    fn load_address(&mut self, item: &Item, register: u8) {
        let insn = &item.insn;
        if insn.is_rip_relative() {
            self.hot.mov_imm(register, item.operand());
            return;
        }
        // lea, with an address of 32 bits
        let modrm_at = usize::from(insn.modrm_at);
        self.hot.put(&[0x67, 0x48 | insn.rex & 3, 0x8d]);
        self.hot.put(&[insn.modrm & 0xc7 | register << 3]);
        let end = modrm_at + 1 + rest_of_operand(insn, item.code());
        self.hot
            .put(item.code().get(modrm_at + 1..end).unwrap_or(&[]));
    }

    /// `ModRM` for `[register]`, and what followed the operand.
    fn put_at_register(&mut self, item: &Item, register: u8) {
        let insn = &item.insn;
        let end = usize::from(insn.modrm_at) + 1 + rest_of_operand(insn, item.code());
        let reg = insn.modrm & 0x38;
        match register {
            5 => self.hot.put(&[0x40 | reg | register, 0]),
            _ => self.hot.put(&[reg | register]),
        }
        self.hot.put(item.code().get(end..).unwrap_or(&[]));
    }

    /// `ModRM`, SIB and what follows, where the index is a vector: `register` is the base.
    fn put_vector_operand(
        &mut self,
        item: &Item,
        code: &[u8],
        taken_out: usize,
        register: u8,
        has_base: bool,
    ) {
        let modrm_at = usize::from(item.insn.modrm_at) - taken_out;
        // Without a base there are always four bytes of displacement.
        let form = if has_base {
            item.insn.modrm
        } else {
            item.insn.modrm | 0x80
        };
        let sib = code.get(modrm_at + 1).copied().unwrap_or(0);
        self.hot.put(&[form, sib & 0xf8 | register]);
        self.hot.put(code.get(modrm_at + 2..).unwrap_or(&[]));
    }

    /// `ModRM` and what follows it: the displacement stays (EVEX's may mean a multiple), the registers' sum is in one.
    fn put_operand(&mut self, item: &Item, code: &[u8], taken_out: usize, register: u8) {
        let insn = &item.insn;
        let modrm_at = usize::from(insn.modrm_at) - taken_out;
        let has_sib = insn.modrm & 7 == 4;
        let displacement_at = modrm_at + 1 + usize::from(has_sib);
        let no_base = has_sib && Operand::of(insn, item.code()).base.is_none();
        let form = insn.modrm & 0xc0;
        let reg = insn.modrm & 0x38;
        if insn.is_rip_relative() {
            self.hot.put(&[0x80 | reg | register]);
            self.hot.put(&(item.operand() as u32).to_le_bytes());
            self.hot.put(code.get(displacement_at + 4..).unwrap_or(&[]));
            return;
        }
        match form {
            0 if no_base => self.hot.put(&[0x80 | reg | register]),
            0 if register == 5 => self.hot.put(&[0x40 | reg | register, 0]),
            _ => self.hot.put(&[form | reg | register]),
        }
        self.hot.put(code.get(displacement_at..).unwrap_or(&[]));
    }

    /// Loads the target of a branch through memory in GS into the scratch register, which has been spilled.
    pub(super) fn load_target_gs(&mut self, item: &Item) {
        let offsets = self.config.offsets;
        let insn = &item.insn;
        let register = far_register(insn, item.code());
        self.hot.store_gs(offsets.spill_2, register);
        self.hot.load_gs(self.config.program_gs, register);
        self.add_registers(register, Operand::of(insn, item.code()));
        // mov rcx, [register+displacement]
        self.hot.put(&[0x48, 0x8b]);
        let with_scratch = Item {
            insn: Insn {
                modrm: insn.modrm & 0xc7 | SCRATCH << 3,
                ..*insn
            },
            ..*item
        };
        self.put_operand(&with_scratch, item.code(), 0, register);
        self.hot.load_gs(offsets.spill_2, register);
    }

    /// `rdgsbase`, `wrgsbase`.
    pub(super) fn gs_base(&mut self, item: &Item) {
        let here = self.hot.here();
        let insn = &item.insn;
        let register = (insn.modrm & 7) | (insn.rex & 1) << 3;
        let base = self.config.program_gs;
        let whole = insn.rex & 8 != 0;
        let (opcode, writes) = match insn.modrm >> 3 & 7 {
            1 => (0x8b, false),
            _ => (0x89, true),
        };
        let rex = 0x40 | (register >> 3) << 2 | u8::from(whole) << 3;
        self.hot
            .put(&[0x65, rex, opcode, 0x04 | (register & 7) << 3, 0x25]);
        self.hot.put(&base.to_le_bytes());
        if writes && !whole {
            self.hot.set_gs32(base + 4, 0);
        }
        self.record(here, insn.len);
    }
}
