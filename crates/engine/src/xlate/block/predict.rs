//! Code that predicts a branch, and counts the predictions that are wrong, or notes them: see
//! [`crate::xlate::predictor`]. Flags and registers stay.

use super::Builder;
use super::filter::Value;
use crate::xlate::emit::{Buffer, RCX, RDX};
use crate::xlate::known::{Filter, Literal, Record};
use crate::xlate::predictor::{place, row, target};
use crate::xlate::references::Noting;

const RBX: u8 = 3;

/// Which way a branch goes.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// It is taken if this is so: the low four bits of its opcode.
    If(u8),
    /// It is taken, or not.
    Known(bool),
}

impl Builder<'_, '_> {
    /// Predicts the branch at `pc`, instruction `at`.
    pub(super) fn predict(
        &mut self,
        (pc, at): (u64, usize),
        record: Record,
        way: Way,
        (noting, filter): (&Noting, &Filter),
    ) {
        let Some(recent) = filter.recent else { return };
        let slots = [
            (self.config.offsets.spill_2, RCX),
            (self.config.offsets.spill, RDX),
            (filter.spill, RBX),
        ];
        let counted = self.mispredicted(at);
        let wrong = self.cold.here();
        let hot = &mut *self.hot;
        for (slot, register) in slots {
            hot.store_gs(slot, register);
        }
        // RCX: the history. RBX: the counter. RDX: the way.
        byte(hot, RCX, place::HISTORY);
        byte_at(hot, RBX, RCX, place::COUNTERS + row(pc));
        store_byte(hot, RCX, place::HISTORY_BEFORE);
        store_byte(hot, RBX, place::COUNTER_BEFORE);
        match way {
            Way::If(condition) => {
                // setcc dl; movzx edx, dl
                hot.put(&[0x0f, 0x90 | condition, 0xc2, 0x0f, 0xb6, 0xd2]);
                // movzx ebx, byte gs:[rbx+rdx*8+next]
                hot.put(&[0x65, 0x0f, 0xb6, 0x9c, 0xd3]);
                hot.put(&place::NEXT.to_le_bytes());
            }
            // movzx ebx, byte gs:[rbx+next]
            Way::Known(taken) => {
                let next = place::NEXT + 8 * u32::from(taken);
                byte_at(hot, RBX, RBX, next);
            }
        }
        // mov gs:[rcx+counters], bl
        hot.put(&[0x65, 0x88, 0x99]);
        hot.put(&(place::COUNTERS + row(pc)).to_le_bytes());
        match way {
            // lea ecx, [rcx+rdx]; lea ecx, [rcx+rcx]
            Way::If(_) => hot.put(&[0x8d, 0x0c, 0x11, 0x8d, 0x0c, 0x09]),
            // lea ecx, [rcx+rcx+2 or 0]
            Way::Known(taken) => hot.put(&[0x8d, 0x4c, 0x09, 2 * u8::from(taken)]),
        }
        // (The oldest outcome falls off the byte's end.)
        store_byte(hot, RCX, place::HISTORY);
        byte_at(hot, RCX, RBX, place::WRONG);
        if let Some(counted) = counted {
            // (A branch here would be foreseen no better than the program's.)
            hot.load_gs(counted.offset, RBX);
            // lea rbx, [rbx+rcx]
            hot.put(&[0x48, 0x8d, 0x1c, 0x0b]);
            hot.store_gs(counted.offset, RBX);
            for (slot, register) in slots {
                hot.load_gs(slot, register);
            }
            return;
        }
        // jrcxz +5; jmp wrong
        hot.put(&[0xe3, 5, 0xe9]);
        self.jumps_to(wrong);
        let back = self.hot.here();
        for (slot, register) in slots {
            self.hot.load_gs(slot, register);
        }
        let behind = self.hot.here();

        let cold = &mut *self.cold;
        cold.load_gs32(noting.position, RCX);
        for half in 0..2u32 {
            // mov dword gs:[rcx*8+ring+4*half], half of it
            cold.put(&[0x65, 0xc7, 0x04, 0xcd]);
            cold.put(&(noting.ring + 4 * half).to_le_bytes());
            cold.put(&((record.0 >> (32 * half)) as u32).to_le_bytes());
        }
        if let Way::If(condition) = way {
            // setcc byte gs:[rcx*8+ring+which]
            cold.put(&[0x65, 0x0f, 0x90 | condition, 0x04, 0xcd]);
            cold.put(&(noting.ring + Record::TAKEN).to_le_bytes());
        }
        // lea ecx, [rcx+1]; mov gs:[position], ecx; movzx ecx, ch
        cold.put(&[0x8d, 0x49, 1, 0x65, 0x89, 0x0c, 0x25]);
        cold.put(&noting.position.to_le_bytes());
        cold.put(&[0x0f, 0xb6, 0xcd]);
        let full = cold.jrcxz();
        let _ = cold.jmp(back);
        cold.land(full);
        for (slot, register) in slots.into_iter().skip(1) {
            cold.load_gs(slot, register);
        }
        self.asks(
            (RCX, Value::Spilled),
            Literal::behind(1),
            (filter, recent.vector_ring),
            behind,
        );
    }
}

impl Builder<'_, '_> {
    /// Predicts the indirect branch at `pc`, instruction `at`, which goes where `register` leads.
    pub(super) fn predict_target(
        &mut self,
        (pc, at): (u64, usize),
        record: Record,
        register: u8,
        (noting, filter): (&Noting, &Filter),
    ) {
        let Some(recent) = filter.recent else { return };
        let slot = self.config.offsets.spill_2;
        let pointer = if register == RCX { RDX } else { RCX };
        let place = place::TARGETS + 8 * target(pc);
        // xchg rcx, rdx
        let swap: &[u8] = if pointer == RCX {
            &[]
        } else {
            &[0x48, 0x87, 0xca]
        };
        let (low, high) = (register & 7, register >> 3);
        let counted = self.mispredicted(at);
        let wrong = self.cold.here();
        let hot = &mut *self.hot;
        hot.store_gs(slot, pointer);
        hot.set_gs8(place::TARGET_WRONG, 0);
        hot.load_gs(place, pointer);
        // not pointer; lea pointer, [pointer+register+1]
        hot.put(&[0x48, 0xf7, 0xd0 | pointer]);
        hot.put(&[
            0x48 | high << 1,
            0x8d,
            0x44 | pointer << 3,
            low << 3 | pointer,
            1,
        ]);
        hot.put(swap);
        // jrcxz +5; jmp wrong
        hot.put(&[0xe3, 5, 0xe9]);
        self.jumps_to(wrong);
        self.hot.put(swap);
        let back = self.hot.here();
        self.hot.load_gs(slot, pointer);
        let behind = self.hot.here();

        let cold = &mut *self.cold;
        cold.put(swap);
        cold.set_gs8(place::TARGET_WRONG, 1);
        cold.load_gs(place, pointer);
        cold.store_gs(place::TARGET_BEFORE, pointer);
        cold.store_gs(place, register);
        if let Some(counted) = counted {
            cold.load_gs(counted.offset, pointer);
            cold.add_by_lea(pointer, 1);
            cold.store_gs(counted.offset, pointer);
            let _ = cold.jmp(back);
            return;
        }
        cold.load_gs32(noting.position, pointer);
        for half in 0..2u32 {
            // mov dword gs:[pointer*8+ring+4*half], half of it
            cold.put(&[0x65, 0xc7, 0x04, 0xc5 | pointer << 3]);
            cold.put(&(noting.ring + 4 * half).to_le_bytes());
            cold.put(&((record.0 >> (32 * half)) as u32).to_le_bytes());
        }
        // mov gs:[pointer*8+ring+8], register
        cold.put(&[
            0x65,
            0x48 | high << 2,
            0x89,
            0x04 | low << 3,
            0xc5 | pointer << 3,
        ]);
        cold.put(&(noting.ring + 8).to_le_bytes());
        // lea pointer, [pointer+2]; mov gs:[position], pointer
        cold.put(&[0x8d, 0x40 | pointer << 3 | pointer, 2]);
        cold.put(&[0x65, 0x89, 0x04 | pointer << 3, 0x25]);
        cold.put(&noting.position.to_le_bytes());
        // movzx pointer, bits 8 to 15 of it
        cold.put(&[0x0f, 0xb6, 0xc0 | pointer << 3 | (4 + pointer)]);
        cold.put(swap);
        let full = cold.jrcxz();
        cold.put(swap);
        let _ = cold.jmp(back);
        cold.land(full);
        cold.put(swap);
        self.asks(
            (pointer, Value::Spilled),
            Literal::behind(2),
            (filter, recent.vector_ring),
            behind,
        );
    }
}

/// `movzx register, byte gs:[place]`.
fn byte(code: &mut Buffer<'_>, register: u8, place: u32) {
    code.put(&[0x65, 0x0f, 0xb6, 0x04 | register << 3, 0x25]);
    code.put(&place.to_le_bytes());
}

/// `movzx to, byte gs:[base+place]`.
fn byte_at(code: &mut Buffer<'_>, to: u8, base: u8, place: u32) {
    code.put(&[0x65, 0x0f, 0xb6, 0x80 | to << 3 | base]);
    code.put(&place.to_le_bytes());
}

/// `mov byte gs:[place], register`: one of the low four.
fn store_byte(code: &mut Buffer<'_>, register: u8, place: u32) {
    code.put(&[0x65, 0x88, 0x04 | register << 3, 0x25]);
    code.put(&place.to_le_bytes());
}
