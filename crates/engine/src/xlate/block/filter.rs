//! Code that notes only references that are not known to add nothing: see [`crate::xlate::known`]. Flags and registers
//! stay.

use super::{Builder, Item, record};
use crate::layout::COUNTERS;
use crate::xlate::decode::prefix;
use crate::xlate::emit::{Buffer, RAX, reaches};
use crate::xlate::known::{At, Does, Filter, Literal, Record, Shadow, Simple, simple};
use crate::xlate::levels::{LINE_BITS, Recent};
use crate::xlate::recent::{self, SLOTS, TABLE};
use crate::xlate::references::{Noting, Words};
use core::mem::offset_of;

/// Places of lines in what is known of a first level …
pub(super) const LINES_AT: u32 = offset_of!(recent::Cache, lines) as u32;
/// … and of their times.
pub(super) const TIMES_AT: u32 = offset_of!(recent::Cache, times) as u32;

/// Registers for a reference's address.
const FREE: [u8; 5] = [1, 2, 3, 6, 7];

impl Builder<'_, '_> {
    /// In front of an instruction.
    pub(super) fn filter(&mut self, item: &Item, at: usize, noting: &Noting, filter: &Filter) {
        let words = Words::of(&item.insn, item.code());
        // (Without words it may be relative to the next instruction.)
        if !item.insn.is_load() && !item.insn.is_store() {
            return;
        }
        let mut here = self.hot.here();
        match simple(&item.insn, item.code(), filter.reads_fs) {
            Some(references) => {
                for (number, one) in references.iter().flatten().enumerate() {
                    let time = (recent::AT * at + 2 * number) as u16;
                    self.look_up(item, (at, time), one, &words, (noting, filter));
                    self.record(here, record::HEAD);
                    here = self.hot.here();
                }
            }
            None => {
                self.begin_record(at, &words, noting, filter);
                self.record(here, 0);
                here = self.hot.here();
                self.note_words(item, noting, false);
                self.record(here, record::HEAD);
            }
        }
    }

    /// Looks a reference up.
    fn look_up(
        &mut self,
        item: &Item,
        (at, time): (usize, u16),
        one: &Simple,
        words: &Words,
        (noting, filter): (&Noting, &Filter),
    ) {
        let offsets = self.config.offsets;
        let live = self.live.get(at).is_none_or(|&live| live != 0);
        // Neither RAX, where flags are kept, nor RBP and RSP, which have longer forms. In turn: each comes back from memory,
        // and the next to take it away waits for that.
        let mut free = (0..FREE.len())
            .filter_map(|turn| FREE.get((turn + at) % FREE.len()).copied())
            .filter(|register| words.before().all(|other| other != *register));
        let (address, other) = (free.next().unwrap_or(1), free.next().unwrap_or(2));
        let needs_other = item.insn.has(prefix::FS) || filter.recent.is_some();
        self.hot.store_gs(offsets.spill_2, address);
        if needs_other {
            self.hot.store_gs(offsets.spill, other);
        }
        load_address(self.hot, item, one, (address, other));
        if live {
            self.hot.store_gs(filter.spill, RAX);
            self.hot.flags_to_rax();
        }
        let cold = self.cold.here();
        self.ask(one, time, (address, other), filter, cold);
        let back = self.hot.here();
        if live {
            self.hot.flags_from_rax();
            self.hot.load_gs(filter.spill, RAX);
        }
        if needs_other {
            self.hot.load_gs(offsets.spill, other);
        }
        self.hot.load_gs(offsets.spill_2, address);
        if !needs_other {
            self.cold.store_gs(offsets.spill, other);
        }
        // The register with the flags may be one of the address'.
        let swap = live && words.before().any(|register| register == RAX);
        let exchange = |code: &mut Buffer<'_>| {
            if swap {
                // xchg gs:[spill], rax
                code.put(&[0x65, 0x48, 0x87, 0x04, 0x25]);
                code.put(&filter.spill.to_le_bytes());
            }
        };
        exchange(self.cold);
        load_address(self.cold, item, one, (address, other));
        exchange(self.cold);
        self.cold.store_gs(filter.address, address);
        self.say_literal(other, filter, if needs_other { 9 + 8 } else { 9 + 9 + 8 });
        if !needs_other {
            self.cold.load_gs(offsets.spill, other);
        }
        let again = self.cold.here();
        self.cold.jump_gs(filter.vector_note);
        self.literal(
            Literal {
                record: Record::reference(noting.described, at, one.does).0,
                back: 0,
                again: 0,
                counter: self.counter_at(),
                size: one.size,
                bits: one.bits(),
                time,
            },
            back,
            again,
        );
    }

    /// Goes to `cold` unless it is known that what `address` leads to adds nothing; `other` is free where a model asks.
    fn ask(
        &mut self,
        one: &Simple,
        time: u16,
        (address, other): (u8, u8),
        filter: &Filter,
        cold: u64,
    ) {
        if filter.state == Shadow::Absent {
            self.hot.put(&[0xe9]);
            return self.jumps_to(cold);
        }
        if one.size > 1 {
            // test address8, size-1; jnz cold
            self.hot
                .put(&[0x40, 0xf6, 0xc0 | address, one.size - 1, 0x0f, 0x85]);
            self.jumps_to(cold);
        }
        match &filter.recent {
            None => self.ask_shadow(one, address, filter, cold),
            Some(recent) => {
                if filter.state == Shadow::Present {
                    self.hot.move_register(other, address);
                    self.ask_shadow(one, other, filter, cold);
                }
                self.ask_recent((address, other), (recent, time), cold);
            }
        }
    }

    /// Behind the opcode of a jump.
    pub(super) fn jumps_to(&mut self, cold: u64) {
        let end = self.hot.here() + 4;
        self.hot.put(&(cold.wrapping_sub(end) as u32).to_le_bytes());
    }

    /// Goes to `cold` unless its line is known.
    fn ask_recent(
        &mut self,
        (address, other): (u8, u8),
        (recent, time): (&Recent, u16),
        cold: u64,
    ) {
        let hot = &mut *self.hot;
        // shr address, bits; mov other32, address32; and other32, places
        hot.put(&[0x48, 0xc1, 0xe8 | address, LINE_BITS as u8]);
        hot.put(&[0x89, 0xc0 | address << 3 | other]);
        hot.put(&[0x81, 0xe0 | other]);
        hot.put(&(SLOTS - 1).to_le_bytes());
        // cmp gs:[other*8+lines], address; jne cold
        hot.put(&[0x65, 0x48, 0x39, 0x04 | address << 3, 0xc5 | other << 3]);
        hot.put(&(TABLE as u32 + LINES_AT).to_le_bytes());
        hot.put(&[0x0f, 0x85]);
        self.jumps_to(cold);
        // lea address, [clock+time]; mov gs:[other*8+times], address
        self.hot.load_gs(recent.clock, address);
        if time != 0 {
            self.hot.add_by_lea(address, time.into());
        }
        self.put_word(TABLE as u32 + TIMES_AT, other, address);
    }

    /// Goes to `cold` unless the shadow of what `address` leads to says all that there is to say.
    fn ask_shadow(&mut self, one: &Simple, address: u8, filter: &Filter, cold: u64) {
        let hot = &mut *self.hot;
        // shr address, 3; add address, gs:[shadow]
        hot.put(&[0x48, 0xc1, 0xe8 | address, 3]);
        hot.put(&[0x65, 0x48, 0x03, 0x04 | address << 3, 0x25]);
        hot.put(&filter.shadow.to_le_bytes());
        let bits = one.bits();
        if one.size <= 8 && one.does != Does::Modify {
            // test byte [address], bits; jz cold
            hot.put(&[0xf6, address, bits, 0x0f, 0x84]);
            return self.jumps_to(cold);
        }
        let form = address << 3 | address;
        match one.size {
            // movzx address32, byte [address]
            ..=8 => hot.put(&[0x0f, 0xb6, form]),
            // movzx address32, word [address]
            16 => hot.put(&[0x0f, 0xb7, form]),
            // mov address32, [address]
            _ => hot.put(&[0x8b, form]),
        }
        // not address32; test address32, bits of each byte; jnz cold
        hot.put(&[0xf7, 0xd0 | address, 0xf7, 0xc0 | address]);
        let bytes = u32::from(one.size / 8).max(1);
        let each = (0..bytes).fold(0, |all, at| all | u32::from(bits) << (8 * at));
        hot.put(&each.to_le_bytes());
        hot.put(&[0x0f, 0x85]);
        self.jumps_to(cold);
    }

    pub(super) fn counter_at(&self) -> u32 {
        COUNTERS + 8 * self.config.counter.unwrap_or(0)
    }

    /// `lea register, [literal]; mov gs:[…], register`: the literal is so far behind the first of them. (A move has nine
    /// bytes, a jump eight.)
    fn say_literal(&mut self, register: u8, filter: &Filter, distance: u32) {
        self.cold.put(&[0x48, 0x8d, 0x05 | register << 3]);
        self.cold.put(&distance.to_le_bytes());
        self.cold.store_gs(filter.literal, register);
    }

    fn literal(&mut self, literal: Literal, back: u64, again: u64) {
        let here = self.cold.here();
        self.cold.put(&literal.record.to_le_bytes());
        self.cold
            .put(&(back.wrapping_sub(here) as u32).to_le_bytes());
        self.cold
            .put(&(again.wrapping_sub(here) as u32).to_le_bytes());
        self.cold.put(&literal.counter.to_le_bytes());
        self.cold.put(&[literal.size, literal.bits]);
        self.cold.put(&literal.time.to_le_bytes());
    }

    /// In cold code: to a routine of the runtime's, which goes on at `back`, with a literal that is said through a register.
    /// (It may be in its spill slot already.)
    pub(super) fn asks(
        &mut self,
        (register, is_spilled): (u8, bool),
        literal: Literal,
        (filter, vector): (&Filter, u32),
        back: u64,
    ) {
        let slot = self.config.offsets.spill_2;
        if !is_spilled {
            self.cold.store_gs(slot, register);
        }
        self.say_literal(register, filter, 9 + 9 + 8);
        self.cold.load_gs(slot, register);
        let again = self.cold.here();
        self.cold.jump_gs(vector);
        self.literal(literal, back, again);
    }

    /// A record's first word; the pointer to it has come in place of a register's value, which is in its spill slot.
    pub(super) fn begin_words(&mut self, pointer: u8, record: Record, noting: &Noting) {
        self.hot.store_gs(self.config.offsets.spill_2, pointer);
        self.hot.load_gs32(noting.position, pointer);
        for half in 0..2u32 {
            // mov dword gs:[pointer*8+ring+4*half], half of it
            self.hot.put(&[0x65, 0xc7, 0x04, 0xc5 | pointer << 3]);
            self.hot.put(&(noting.ring + 4 * half).to_le_bytes());
            self.hot
                .put(&((record.0 >> (32 * half)) as u32).to_le_bytes());
        }
    }

    /// An instruction's record: its first word, and room for the others.
    fn begin_record(&mut self, at: usize, words: &Words, noting: &Noting, filter: &Filter) {
        let record = Record::instruction(noting.described, at, words.len());
        let pointer = 1u8;
        // Through the runtime's routine, which sees to it that there is room.
        let cold = self.cold.here();
        let _ = self.hot.jmp(cold);
        let back = self.hot.here();
        let literal = Literal {
            record: record.0,
            counter: self.counter_at(),
            ..Literal::default()
        };
        self.asks(
            (pointer, false),
            literal,
            (filter, filter.vector_room),
            back,
        );
        self.begin_words(pointer, record, noting);
        self.words = words.len() + 1;
        self.noted = 1;
        // lea ecx, [rcx+words]; mov gs:[position], ecx
        self.hot.put(&[0x8d, 0x80 | pointer << 3 | pointer]);
        self.hot.put(&(self.words as u32).to_le_bytes());
        self.hot.put(&[0x65, 0x89, 0x04 | pointer << 3, 0x25]);
        self.hot.put(&noting.position.to_le_bytes());
        self.hot.load_gs(self.config.offsets.spill_2, pointer);
    }
}

/// The address of a reference; `by` is free meanwhile.
fn load_address(code: &mut Buffer<'_>, item: &Item, one: &Simple, (to, by): (u8, u8)) {
    match one.at {
        // lea to, [rsp+away]
        At::Stack(away) => code.put(&[0x48, 0x8d, 0x44 | to << 3, 0x24, away as u8]),
        // mov to, rbp
        At::Frame => code.move_register(to, 5),
        At::Operand => {
            let insn = &item.insn;
            if insn.is_rip_relative() {
                let end = code.here().wrapping_add(7);
                if reaches(end, item.operand()) {
                    code.put(&[0x48, 0x8d, 0x05 | to << 3]);
                    code.put(&(item.operand().wrapping_sub(end) as u32).to_le_bytes());
                } else {
                    code.mov_imm(to, item.operand());
                }
            } else {
                code.put(&[0x48 | insn.rex & 3, 0x8d, insn.modrm & 0xc7 | to << 3]);
                // Not what is behind the displacement.
                let rest = item
                    .code()
                    .get(usize::from(insn.modrm_at) + 1..usize::from(insn.imm_at));
                code.put(rest.unwrap_or(&[]));
            }
            if insn.has(prefix::FS) {
                // rdfsbase by; lea to, [to+by]
                code.put(&[0xf3, 0x48, 0x0f, 0xae, 0xc0 | by]);
                code.put(&[0x48, 0x8d, 0x04 | to << 3, by << 3 | to]);
            }
        }
    }
}
