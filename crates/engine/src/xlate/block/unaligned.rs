//! References that are not aligned, and of which the shadow says all, are counted in the cold code of their instruction: there
//! are programs in which most are like that, and the runtime's routine for all of them (`rt_alone`) saves more registers, and
//! has to find out what is known here.

use super::filter::Value;
use super::operand::Operand;
use super::shadow::{
    each, load_shadow, point_at_shadow, test_bits, test_byte, test_low, upper_half,
};
use super::together::displacement;
use super::{Builder, Item};
use crate::xlate::known::{AT, Does, Filter, Lies, Literal, Record, Shadow, Simple};
use core::mem::{offset_of, size_of};

/// Whether a reference is not like those that are aligned in most programs, to a structure's field or an array's element, nor
/// like those that are mostly the first to where they lead: long stores.
fn is_often_unaligned(item: &Item, one: &Simple) -> bool {
    if one.size > 8 {
        return one.does == Does::Load;
    }
    let size = i32::from(one.size);
    let away = displacement(item, one.size).unwrap_or(0);
    let index = Operand::of(&item.insn, item.code()).index;
    away % size != 0 || index.is_some_and(|(_, scale)| 1 << scale < size)
}

/// Forward jumps of a piece of code: where their displacements are.
struct Jumps([u64; 8], usize);

impl Builder<'_, '_> {
    /// Whether such references of an instruction are counted here, where it goes with what is not known to this vector.
    fn counts_unaligned(
        &self,
        (item, one): (&Item, &Simple),
        vector: u32,
        filter: &Filter,
    ) -> bool {
        one.size > 1
            && vector == filter.vector_alone
            && filter.state == Shadow::Present
            && filter.model_of_data().is_none()
            && !filter.tells
            && is_often_unaligned(item, one)
    }

    /// In cold code, flags being free: as [`Self::asks`], unless the reference to `address`, which the runtime knows, too, can be
    /// counted here.
    pub(super) fn counts_or_asks(
        &mut self,
        (item, one): (&Item, &Simple),
        (address, value): (u8, Value),
        told: (Literal, u32),
        filter: &Filter,
        back: u64,
    ) {
        if !self.counts_unaligned((item, one), told.1, filter) {
            return self.asks((address, value), told, filter, back);
        }
        let slot = filter.spill + 8;
        let other = if address == 1 { 2 } else { 1 };
        let lies = Record(told.0.record).lies();
        let place = AT as u32 + u32::from(lies.lies_place()) * size_of::<Lies>() as u32;
        let (mut aligned, mut jumps) = (Jumps([0; 8], 0), Jumps([0; 8], 0));
        let more = one.size - 1;
        test_low(self.cold, address, more);
        self.cold_jump(4, &mut aligned);
        self.cold.store_gs(slot, other);
        // An address that is none faults.
        self.cold.move_register(other, address);
        // shr other, 47; jnz
        self.cold.put(&[0x48, 0xc1, 0xe8 | other, 47]);
        self.cold_jump(5, &mut jumps);
        self.cold_last(other, address, more);
        self.cold_asks((other, 1), one.bits(), filter, &mut jumps);
        let first = (address, (one.size / 8).max(1));
        self.cold_asks(first, one.bits(), filter, &mut jumps);
        self.cold.load_gs(filter.address, address);
        self.cold_last(other, address, more);
        // xor other, address: bits 12 and 6 say whether it is in two pages, and in two lines
        self.cold.put(&[
            0x48 | (address >> 3) << 2,
            0x31,
            0xc0 | (address & 7) << 3 | other,
        ]);
        // bt other32, 12; jc
        self.cold.put(&[0x0f, 0xba, 0xe0 | other, 12]);
        self.cold_jump(2, &mut jumps);
        // Is it its place?
        self.cold.mov_imm(address, lies.0);
        // cmp gs:[place], address; jne
        let rex = 0x48 | (address >> 3) << 2;
        self.cold
            .put(&[0x65, rex, 0x39, 0x04 | (address & 7) << 3, 0x25]);
        self.cold.put(&place.to_le_bytes());
        self.cold_jump(5, &mut jumps);
        self.cold
            .add_gs(place + offset_of!(Lies, unaligned) as u32, 1);
        // bt other32, 6; adc qword gs:[…], 0
        self.cold.put(&[0x0f, 0xba, 0xe0 | other, 6]);
        self.cold.put(&[0x65, 0x48, 0x83, 0x14, 0x25]);
        let splits = place + offset_of!(Lies, line_splits) as u32;
        self.cold.put(&splits.to_le_bytes());
        self.cold.put(&[0]);
        // Who takes that back looks there. (lea address, [literal])
        self.cold
            .put(&[rex, 0x8d, 0x05 | (address & 7) << 3, 0, 0, 0, 0]);
        let literal = self.cold.here();
        self.cold.store_gs(filter.literal, address);
        self.cold.load_gs(slot, other);
        if value == Value::Spilled {
            self.cold.load_gs(self.config.offsets.spill_2, address);
        }
        let _ = self.cold.jmp(back);
        self.cold_land(&jumps);
        self.cold.load_gs(slot, other);
        self.cold_land(&aligned);
        self.asks((address, value), told, filter, back);
        // (It is what comes last.)
        let distance = self.cold.here() - size_of::<Literal>() as u64 - literal;
        self.cold.patch32(literal - 4, distance as u32);
    }

    /// `lea to, [address+more]`; `to` is one of the low eight.
    fn cold_last(&mut self, to: u8, address: u8, more: u8) {
        self.cold.put(&[
            0x48 | address >> 3,
            0x8d,
            0x40 | to << 3 | address & 7,
            more,
        ]);
    }

    /// Jumps unless so many bytes of the shadow have these bits, from that of `address` on, which is spoilt.
    fn cold_asks(
        &mut self,
        (address, bytes): (u8, u8),
        bits: u8,
        filter: &Filter,
        jumps: &mut Jumps,
    ) {
        point_at_shadow(self.cold, address, filter);
        if bytes == 1 && bits.is_power_of_two() {
            test_byte(self.cold, address, bits);
            return self.cold_jump(4, jumps);
        }
        load_shadow(self.cold, address, bytes.into());
        let each = each(bits, bytes.into());
        test_bits(self.cold, address, each);
        self.cold_jump(5, jumps);
        if bytes > 4 {
            upper_half(self.cold, address);
            test_bits(self.cold, address, each);
            self.cold_jump(5, jumps);
        }
    }

    /// `jcc` for the low four bits of `condition`, to where [`Self::cold_land`] says.
    fn cold_jump(&mut self, condition: u8, jumps: &mut Jumps) {
        self.cold.put(&[0x0f, 0x80 | condition, 0, 0, 0, 0]);
        if let Some(to) = jumps.0.get_mut(jumps.1) {
            *to = self.cold.here();
            jumps.1 += 1;
        }
    }

    fn cold_land(&mut self, jumps: &Jumps) {
        let here = self.cold.here();
        for &from in jumps.0.iter().take(jumps.1) {
            self.cold.patch32(from - 4, here.wrapping_sub(from) as u32);
        }
    }
}
