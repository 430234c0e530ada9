//! Code that predicts a branch, and counts the predictions that are wrong, or notes them: see
//! [`crate::xlate::predictor`]. Flags and registers stay.

use super::Builder;
use super::filter::Value;
use crate::xlate::emit::{Buffer, RCX, RDX};
use crate::xlate::known::{Filter, Literal, Record};
use crate::xlate::predictor::{place, row, target};
use crate::xlate::references::Noting;

const RBX: u8 = 3;
const RSI: u8 = 6;
const RDI: u8 = 7;

/// Which way a branch goes.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// It is taken if this is so: the low four bits of its opcode.
    If(u8),
    /// It is taken, or not.
    Known(bool),
}

impl Builder<'_, '_> {
    /// Predictions are counted that are wrong.
    pub(super) fn counts_mispredicted(&self) -> bool {
        let filter = self.config.noting.and_then(|noting| noting.filter);
        let recent = filter.and_then(|filter| filter.recent);
        recent.is_some_and(|recent| recent.branches && recent.predicted)
            && self.config.counter.is_some()
            && self.config.calls.is_none()
    }

    /// Predicts the branch at `pc`, instruction `at`.
    pub(super) fn predict(
        &mut self,
        (pc, at): (u64, usize),
        record: Record,
        way: Way,
        (noting, filter): (&Noting, &Filter),
    ) {
        match self.mispredicted(at) {
            Some(counted) => self.predict_counting(pc, counted.offset, way, filter),
            None => self.predict_noting(pc, record, way, (noting, filter)),
        }
    }

    /// Counts wrong predictions there. (To branch to code that does so would be foreseen no better than the program's branch.)
    fn predict_counting(&mut self, pc: u64, counted: u32, way: Way, filter: &Filter) {
        // Registers that are lent are free; others are for a moment.
        let lent = [0, 1].map(|slot| self.lent(slot));
        let own = [RCX, RDX, RBX, RSI, RDI].map(Some);
        let own = own.into_iter().filter(|register| !lent.contains(register));
        let mut free = lent
            .into_iter()
            .filter(Option::is_some)
            .chain(own)
            .flatten();
        let registers = [RCX, RDX, RBX].map(|usual| free.next().unwrap_or(usual));
        let spilled = [
            self.config.offsets.spill_2,
            self.config.offsets.spill,
            filter.spill,
        ];
        let spilled = spilled.into_iter().zip(registers);
        let spilled = spilled.filter(|(_, register)| !lent.contains(&Some(*register)));
        for (slot, register) in spilled.clone() {
            self.hot.store_gs(slot, register);
        }
        self.predicted(pc, way, registers);
        let [wrong, total, _] = registers;
        self.hot.load_gs(counted, total);
        lea_sum(self.hot, total, wrong, true);
        self.hot.store_gs(counted, total);
        for (slot, register) in spilled {
            self.hot.load_gs(slot, register);
        }
    }

    /// The first register says whether the prediction was wrong; all are spoilt.
    fn predicted(&mut self, pc: u64, way: Way, [history, counter, taken]: [u8; 3]) {
        let hot = &mut *self.hot;
        byte(hot, history, place::HISTORY);
        byte_at(hot, counter, history, place::COUNTERS + row(pc));
        match way {
            Way::If(condition) => {
                // setcc taken8; movzx taken32, taken8
                rex(hot, [0, 0, taken], true);
                hot.put(&[0x0f, 0x90 | condition, 0xc0 | taken & 7]);
                rex(hot, [taken, 0, taken], true);
                hot.put(&[0x0f, 0xb6, 0xc0 | ((taken & 7) * 9)]);
                // movzx counter, byte gs:[taken+counter*2+next]
                hot.put(&[0x65]);
                rex(hot, [counter, counter, taken], false);
                let sib = 0x40 | (counter & 7) << 3 | taken & 7;
                hot.put(&[0x0f, 0xb6, 0x84 | (counter & 7) << 3, sib]);
                hot.put(&place::NEXT.to_le_bytes());
            }
            Way::Known(taken) => {
                // movzx counter, byte gs:[counter*2+next]
                hot.put(&[0x65]);
                rex(hot, [counter, counter, 0], false);
                let sib = 0x40 | (counter & 7) << 3 | 5;
                hot.put(&[0x0f, 0xb6, 0x04 | (counter & 7) << 3, sib]);
                hot.put(&(place::NEXT + u32::from(taken)).to_le_bytes());
            }
        }
        // mov gs:[history+counters], counter8
        hot.put(&[0x65]);
        rex(hot, [counter, 0, history], true);
        hot.put(&[0x88, 0x80 | (counter & 7) << 3 | history & 7]);
        hot.put(&(place::COUNTERS + row(pc)).to_le_bytes());
        if let Way::If(_) = way {
            lea_sum(hot, history, taken, false);
        }
        lea_sum(hot, history, history, false);
        if let Way::Known(true) = way {
            hot.add_by_lea(history, 2);
        }
        // (Nine bits: the oldest outcome is above the byte that is looked at.)
        store_half(hot, history, place::HISTORY);
        byte_at(hot, history, counter, place::WRONG);
    }

    /// Notes a wrong prediction.
    fn predict_noting(
        &mut self,
        pc: u64,
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
        let wrong = self.cold.here();
        for (slot, register) in slots {
            self.hot.store_gs(slot, register);
        }
        self.predicted(pc, way, [RCX, RBX, RDX]);
        // jrcxz +5; jmp wrong
        self.hot.put(&[0xe3, 5, 0xe9]);
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
            (Literal::behind(1), recent.vector_ring),
            filter,
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
            (Literal::behind(2), recent.vector_ring),
            filter,
            behind,
        );
    }
}

/// The prefix that names registers in `reg`, as an index and as a base or in `rm`, where it needs one; `byte`: one of the
/// first and the last is named as a byte.
fn rex(code: &mut Buffer<'_>, [reg, index, base]: [u8; 3], byte: bool) {
    let bits = (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3;
    if bits != 0 || byte && reg.max(base) > RBX {
        code.put(&[0x40 | bits]);
    }
}

/// `movzx register32, byte gs:[place]`.
fn byte(code: &mut Buffer<'_>, register: u8, place: u32) {
    code.put(&[0x65]);
    rex(code, [register, 0, 0], false);
    code.put(&[0x0f, 0xb6, 0x04 | (register & 7) << 3, 0x25]);
    code.put(&place.to_le_bytes());
}

/// `movzx to32, byte gs:[base+place]`; `base` is none of RSP's and R12's.
fn byte_at(code: &mut Buffer<'_>, to: u8, base: u8, place: u32) {
    code.put(&[0x65]);
    rex(code, [to, 0, base], false);
    code.put(&[0x0f, 0xb6, 0x80 | (to & 7) << 3 | base & 7]);
    code.put(&place.to_le_bytes());
}

/// `mov word gs:[place], register16`.
fn store_half(code: &mut Buffer<'_>, register: u8, place: u32) {
    code.put(&[0x65, 0x66]);
    rex(code, [register, 0, 0], false);
    code.put(&[0x89, 0x04 | (register & 7) << 3, 0x25]);
    code.put(&place.to_le_bytes());
}

/// `lea to, [to+other]`, of 32 bits or 64; `to` is none of RBP's and R13's.
fn lea_sum(code: &mut Buffer<'_>, to: u8, other: u8, wide: bool) {
    if wide {
        code.put(&[0x48 | ((to >> 3) * 5) | (other >> 3) << 1]);
    } else {
        rex(code, [to, other, to], false);
    }
    let sib = (other & 7) << 3 | to & 7;
    code.put(&[0x8d, 0x04 | (to & 7) << 3, sib]);
}
