//! Code that notes only references that are not known to add nothing: see [`crate::xlate::known`]. Flags and registers
//! stay.

use super::lend::Flags;
use super::shadow::{
    each, load_shadow, point_at_shadow, test_bits, test_byte, test_low, upper_half,
};
use super::together::{Group, Turn};
use super::{Builder, Item, record};
use crate::layout::COUNTERS;
use crate::xlate::decode::prefix;
use crate::xlate::emit::{Buffer, reaches};
use crate::xlate::known::{At, Does, Filter, Literal, Record, Shadow, Simple, alone, simple};
use crate::xlate::levels::{LINE_BITS, Recent};
use crate::xlate::masked::masked;
use crate::xlate::operand_size::displacement_factor;
use crate::xlate::recent::{self, SLOTS, TABLE};
use crate::xlate::references::{Noting, Words};
use core::mem::offset_of;

/// Places of lines in what is known of a first level …
pub(super) const LINES_AT: u32 =
    (offset_of!(recent::Cache, places) + offset_of!(recent::Place, line)) as u32;
/// … and of their times.
pub(super) const TIMES_AT: u32 =
    (offset_of!(recent::Cache, places) + offset_of!(recent::Place, time)) as u32;

/// What a register has that is to say something to the runtime.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// The program's …
    Own,
    /// … which is in its spill slot already.
    Spilled,
    /// Nothing: it is lent.
    Lent,
}

impl Builder<'_, '_> {
    /// In front of an instruction.
    pub(super) fn filter(&mut self, item: &Item, at: usize, noting: &Noting, filter: &Filter) {
        let words = Words::of(&item.insn, item.code());
        // (Without words it may be relative to the next instruction.)
        if !item.insn.is_load() && !item.insn.is_store() {
            return;
        }
        match simple(&item.insn, item.code(), filter.reads_fs) {
            // Blocks and their counters say it all.
            Some(_) if !filter.looks_up() => {}
            None if !filter.notes_words() => {}
            Some(_) if self.is_of_tail(at) => {}
            Some(references) => {
                for (number, one) in references.iter().flatten().enumerate() {
                    let time = (recent::AT * at + 2 * number) as u16;
                    let group = match self.together.turn(at, number) {
                        Turn::Alone => None,
                        Turn::First(group) => Some(group),
                        Turn::Later(byte, last) => {
                            let here = self.hot.here();
                            self.looked_up(item, (at, byte, last), one, &words, (noting, filter));
                            self.record(here, record::HEAD);
                            continue;
                        }
                    };
                    self.look_up(item, (at, time), (one, group), &words, (noting, filter));
                }
            }
            None => {
                if let Some(one) = masked(&item.insn, item.code(), filter.reads_fs) {
                    return self.note_masked(item, at, &one, &words, (noting, filter));
                }
                let here = self.hot.here();
                // (Who is interrupted behind this finds a record to take back.)
                self.begin_record(at, &words, noting, filter);
                self.record(here, record::HEAD);
                let here = self.hot.here();
                self.note_words(item, noting, false);
                self.record(here, record::HEAD);
            }
        }
    }

    /// Looks a reference up, or all of a group's.
    fn look_up(
        &mut self,
        item: &Item,
        (at, time): (usize, u16),
        (one, group): (&Simple, Option<Group>),
        words: &Words,
        (noting, filter): (&Noting, &Filter),
    ) {
        let flags = self.save_flags(at, words, filter);
        let live = flags != Flags::Dead;
        let two = item.insn.has(prefix::FS) || filter.model_of_data().is_some();
        let (address, other) = self.lend(at, words, (live, two));
        let here = self.hot.here();
        match &group {
            Some(group) => self.load_lowest(group, address),
            None => load_address(self.hot, item, one, (address, other)),
        }
        if flags == Flags::Apart {
            self.flags_to_rax(filter);
        }
        let cold = self.cold.here();
        match &group {
            Some(group) => {
                self.ask_together(group, address, filter, cold);
                self.cold.set_gs8(apart(filter, group.byte), 1);
            }
            None => self.ask(one, time, (address, other), filter, cold),
        }
        let back = self.hot.here();
        if flags == Flags::Apart {
            self.flags_from_rax(filter);
        }
        self.record(here, record::HEAD);
        self.cold_address(item, one, (address, other), (flags, filter));
        let told = self.told(item, (at, time), one, (noting, filter));
        self.counts_or_asks((item, one), (address, Value::Lent), told, filter, back);
    }

    /// What is said of a reference, and to which routine.
    fn told(
        &self,
        item: &Item,
        (at, time): (usize, u16),
        one: &Simple,
        (noting, filter): (&Noting, &Filter),
    ) -> (Literal, u32) {
        let record = Record::reference(noting.described, at, one.does);
        let references = simple(&item.insn, item.code(), filter.reads_fs);
        let alone = references.and_then(|references| alone(&item.insn, &references));
        let literal = Literal {
            record: record.0,
            counter: self.counter_at(),
            size: one.size,
            bits: one.bits(),
            time: match filter.model_of_data() {
                Some(_) => time,
                None => record.lies_place(),
            },
            ..Literal::default()
        };
        match alone {
            Some(_) => (literal, filter.vector_alone),
            None => (literal, filter.vector_note),
        }
    }

    /// Looks a reference up that was looked up with others, by this byte, if not all was known. (Flags are dead.)
    fn looked_up(
        &mut self,
        item: &Item,
        (at, byte, last): (usize, u8, bool),
        one: &Simple,
        words: &Words,
        (noting, filter): (&Noting, &Filter),
    ) {
        let offsets = self.config.offsets;
        let apart = apart(filter, byte);
        // cmp byte gs:[apart], 0; jne cold
        self.hot.put(&[0x65, 0x80, 0x3c, 0x25]);
        self.hot.put(&apart.to_le_bytes());
        self.hot.put(&[0, 0x0f, 0x85]);
        let cold = self.cold.here();
        self.jumps_to(cold);
        let back = self.hot.here();
        // One that is lent, or for a moment.
        let lent = self.lent(0);
        let address = lent.unwrap_or_else(|| {
            let mut all = [1u8, 2, 3, 6, 7].into_iter();
            let free = |register: &u8| words.before().all(|other| other != *register);
            all.find(free).unwrap_or(1)
        });
        let value = if lent.is_some() {
            Value::Lent
        } else {
            Value::Spilled
        };
        if lent.is_none() {
            self.cold.store_gs(offsets.spill_2, address);
        }
        load_address(self.cold, item, one, (address, address));
        self.cold.store_gs(filter.address, address);
        if last {
            self.cold.set_gs8(apart, 0);
        }
        let told = self.told(item, (at, 0), one, (noting, filter));
        self.counts_or_asks((item, one), (address, value), told, filter, back);
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
            self.ask_alignment(address, one.size, cold);
        }
        match filter.model_of_data() {
            None => self.ask_shadow(one, address, filter, cold),
            Some(recent) => {
                if filter.state == Shadow::Present {
                    self.hot.move_register(other, address);
                    self.ask_shadow(one, other, filter, cold);
                }
                self.ask_recent((address, other), (recent, time), filter.rotates, cold);
            }
        }
    }

    /// Behind the opcode of a jump.
    pub(super) fn jumps_to(&mut self, cold: u64) {
        let end = self.hot.here() + 4;
        self.hot.put(&(cold.wrapping_sub(end) as u32).to_le_bytes());
    }

    /// Goes to `cold` unless an address is a multiple of a size, a power of two.
    pub(super) fn ask_alignment(&mut self, address: u8, size: u8, cold: u64) {
        test_low(self.hot, address, size - 1);
        // jnz cold
        self.hot.put(&[0x0f, 0x85]);
        self.jumps_to(cold);
    }

    /// Goes to `cold` unless the byte of the shadow at `address` has one of these bits.
    pub(super) fn ask_byte(&mut self, address: u8, bits: u8, cold: u64) {
        test_byte(self.hot, address, bits);
        // jz cold
        self.hot.put(&[0x0f, 0x84]);
        self.jumps_to(cold);
    }

    /// `test register32, bits; jnz cold`.
    pub(super) fn ask_bits(&mut self, register: u8, bits: u32, cold: u64) {
        test_bits(self.hot, register, bits);
        self.hot.put(&[0x0f, 0x85]);
        self.jumps_to(cold);
    }

    /// Goes to `cold` unless its line is known.
    fn ask_recent(
        &mut self,
        (address, other): (u8, u8),
        (recent, time): (&Recent, u16),
        rotates: bool,
        cold: u64,
    ) {
        let hot = &mut *self.hot;
        let (low, high) = (address & 7, address >> 3);
        let (other_low, other_high) = (other & 7, other >> 3);
        // (A place has two words.)
        let bits = LINE_BITS as u8 - 1;
        if rotates {
            // rorx other32, address32, bits
            let wide = (other_high ^ 1) << 7 | 1 << 6 | (high ^ 1) << 5 | 3;
            hot.put(&[0xc4, wide, 0x7b, 0xf0, 0xc0 | other_low << 3 | low, bits]);
        } else {
            // mov other32, address32; shr other32, bits
            hot.rex(address, other);
            hot.put(&[0x89, 0xc0 | low << 3 | other_low]);
            hot.rex(0, other);
            hot.put(&[0xc1, 0xe8 | other_low, bits]);
        }
        // and other32, places
        hot.rex(0, other);
        hot.put(&[0x81, 0xe0 | other_low]);
        hot.put(&(2 * (SLOTS - 1)).to_le_bytes());
        // shr address, bits
        hot.put(&[0x48 | high, 0xc1, 0xe8 | low, LINE_BITS as u8]);
        // cmp gs:[other*8+lines], address; jne cold
        let rex = 0x48 | high << 2 | other_high << 1;
        hot.put(&[0x65, rex, 0x39, 0x04 | low << 3, 0xc5 | other_low << 3]);
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
        point_at_shadow(self.hot, address, filter);
        let bits = one.bits();
        if one.size <= 8 && one.does != Does::Modify {
            return self.ask_byte(address, bits, cold);
        }
        let bytes = u32::from(one.size / 8).max(1);
        let each = each(bits, bytes);
        load_shadow(self.hot, address, bytes);
        self.ask_bits(address, each, cold);
        if bytes > 4 {
            self.ask_upper_bits(address, each, cold);
        }
    }

    /// [`ask_bits`](Self::ask_bits) of the upper half of a register, which is spoilt.
    pub(super) fn ask_upper_bits(&mut self, register: u8, bits: u32, cold: u64) {
        upper_half(self.hot, register);
        self.ask_bits(register, bits, cold);
    }

    pub(super) fn counter_at(&self) -> u32 {
        COUNTERS + 8 * self.config.counter.unwrap_or(0)
    }

    /// `lea register, [literal]; mov gs:[…], register`: the literal is so far behind the first of them. (A move has nine
    /// bytes, a jump eight.)
    fn say_literal(&mut self, register: u8, filter: &Filter, distance: u32) {
        let rex = 0x48 | (register >> 3) << 2;
        self.cold.put(&[rex, 0x8d, 0x05 | (register & 7) << 3]);
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
    pub(super) fn asks(
        &mut self,
        (register, value): (u8, Value),
        (literal, vector): (Literal, u32),
        filter: &Filter,
        back: u64,
    ) {
        let slot = self.config.offsets.spill_2;
        if value == Value::Own {
            self.cold.store_gs(slot, register);
        }
        if value == Value::Lent {
            self.say_literal(register, filter, 9 + 8);
        } else {
            self.say_literal(register, filter, 9 + 9 + 8);
            self.cold.load_gs(slot, register);
        }
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
        let told = (literal, filter.vector_room);
        self.asks((pointer, Value::Own), told, filter, back);
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

/// See [`crate::xlate::known::Known::apart`].
fn apart(filter: &Filter, byte: u8) -> u32 {
    filter.apart + u32::from(byte)
}

/// The address of a reference; `by` is free meanwhile.
pub(super) fn load_address(code: &mut Buffer<'_>, item: &Item, one: &Simple, (to, by): (u8, u8)) {
    let (low, wide) = (to & 7, 0x48 | (to >> 3) << 2);
    match one.at {
        // lea to, [rsp+away]
        At::Stack(away) => code.put(&[wide, 0x8d, 0x44 | low << 3, 0x24, away as u8]),
        At::Absolute => {
            let address = item.code().get(usize::from(item.insn.imm_at)..);
            let address = address.and_then(|bytes| bytes.first_chunk());
            code.mov_imm(to, u64::from_le_bytes(*address.unwrap_or(&[0; 8])));
        }
        // mov to, rbp
        At::Frame => code.move_register(to, 5),
        At::Operand => {
            let insn = &item.insn;
            if insn.is_rip_relative() {
                let end = code.here().wrapping_add(7);
                if reaches(end, item.operand()) {
                    code.put(&[wide, 0x8d, 0x05 | low << 3]);
                    code.put(&(item.operand().wrapping_sub(end) as u32).to_le_bytes());
                } else {
                    code.mov_imm(to, item.operand());
                }
            } else {
                // Not what is behind the displacement.
                let rest = item
                    .code()
                    .get(usize::from(insn.modrm_at) + 1..usize::from(insn.imm_at))
                    .unwrap_or(&[]);
                let factor = displacement_factor(insn, one.size);
                let (modrm, rex) = (insn.modrm & 0xc7 | low << 3, wide | insn.rex & 3);
                match rest.split_last() {
                    // A byte that means a multiple: it is said in four.
                    Some((&byte, sib)) if factor != 1 && insn.modrm >> 6 == 1 => {
                        code.put(&[rex, 0x8d, modrm ^ 0xc0]);
                        code.put(sib);
                        code.put(&(factor * i32::from(byte as i8)).to_le_bytes());
                    }
                    _ => {
                        code.put(&[rex, 0x8d, modrm]);
                        code.put(rest);
                    }
                }
            }
            if insn.has(prefix::FS) {
                // rdfsbase by; lea to, [to+by]
                code.put(&[0xf3, 0x48 | by >> 3, 0x0f, 0xae, 0xc0 | by & 7]);
                let rex = wide | (by >> 3) << 1 | to >> 3;
                code.put(&[rex, 0x8d, 0x04 | low << 3, (by & 7) << 3 | low]);
            }
        }
    }
}
