//! Code that notes what a model of caches and branch predictors has to know beside references: see
//! [`crate::xlate::recent`]. Flags and registers stay.

use super::filter::{LINES_AT, TIMES_AT, Value};
use super::predict::Way;
use super::{Builder, Item, record};
use crate::xlate::decode::Kind;
use crate::xlate::emit::RCX;
use crate::xlate::known::{Filter, Literal, Record};
use crate::xlate::levels::Recent;
use crate::xlate::recent::{self, CODE_TABLE, SLOTS, TICKS};
use crate::xlate::references::{Noting, Words};

const RDX: u8 = 2;
const RBX: u8 = 3;
/// Bytes of a line's place.
const PLACE: u32 = size_of::<recent::Place>() as u32;

impl Builder<'_, '_> {
    /// Notes, in front of an instruction, its lines, and whether it is a branch that is taken.
    pub(super) fn model(&mut self, item: &Item, at: usize) {
        let Some(noting) = &self.config.noting else {
            return;
        };
        let Some(filter) = &noting.filter else { return };
        let Some(recent) = &filter.recent else { return };
        let line = |address: u64| address >> recent.code_bits;
        let end = item.pc.wrapping_add(u64::from(item.insn.len.max(1)) - 1);
        let before = at
            .checked_sub(1)
            .and_then(|before| self.item(before))
            .map(|before| line(before.next().wrapping_sub(1)));
        if !recent.fetches {
            if at == 0 && recent.data {
                self.set_clock_on(item, recent);
            }
        } else if before != Some(line(item.pc)) || line(item.pc) != line(end) {
            let fetch = Record::fetch(noting.described, at);
            let lines = [line(item.pc), line(end)];
            self.look_at_lines(fetch, (item, at), lines, (filter, recent));
        }
        if item.insn.kind == Kind::Jcc && recent.branches {
            self.flags_come_back();
            let here = self.hot.here();
            let branch = Record::conditional(noting.described, at);
            let condition = item.insn.opcode & 15;
            if recent.predicted {
                self.predict((item.pc, at), branch, Way::If(condition), (noting, filter));
            } else {
                self.note_branch(branch, Some(condition), (noting, filter));
            }
            self.record(here, record::BRANCH);
        }
    }

    /// In front of a block: its clock.
    fn set_clock_on(&mut self, item: &Item, recent: &Recent) {
        let words = Words::of(&item.insn, item.code());
        let (clock, _) = self.lend(0, &words, (false, false));
        let here = self.hot.here();
        self.hot.load_gs(recent.clock, clock);
        self.hot.add_by_lea(clock, TICKS as i32);
        self.hot.store_gs(recent.clock, clock);
        self.record(here, record::HEAD);
    }

    /// Goes to the runtime unless an instruction's lines are known.
    fn look_at_lines(
        &mut self,
        record: Record,
        (item, at): (&Item, usize),
        lines: [u64; 2],
        (filter, recent): (&Filter, &Recent),
    ) {
        let live = self.live.get(at).is_none_or(|&live| live != 0);
        if live {
            self.lend_flags(filter);
        }
        let words = Words::of(&item.insn, item.code());
        let (clock, _) = self.lend(at, &words, (live, false));
        let here = self.hot.here();
        self.hot.load_gs(recent.clock, clock);
        // (A block's first instruction is always looked at.)
        if at == 0 {
            self.hot.add_by_lea(clock, TICKS as i32);
            self.hot.store_gs(recent.clock, clock);
        }
        let cold = self.cold.here();
        let many = if lines[0] == lines[1] { 1 } else { 2 };
        let place = |line: u64| CODE_TABLE as u32 + PLACE * (line as u32 & (SLOTS - 1));
        for line in lines.into_iter().take(many) {
            // cmp dword gs:[its place+4], what is above its number; jne cold
            self.hot.put(&[0x65, 0x81, 0x3c, 0x25]);
            self.hot.put(&(place(line) + LINES_AT + 4).to_le_bytes());
            let above = (recent::code_line(line) >> 32) as u32;
            self.hot.put(&above.to_le_bytes());
            self.hot.put(&[0x0f, 0x85]);
            self.jumps_to(cold);
        }
        let time = recent::AT * at;
        for (number, line) in lines.into_iter().take(many).enumerate() {
            let more = if number == 0 { time as i32 } else { 1 };
            if more != 0 {
                self.hot.add_by_lea(clock, more);
            }
            self.hot.store_gs(place(line) + TIMES_AT, clock);
        }
        let back = self.hot.here();
        self.record(here, record::HEAD);
        let literal = Literal {
            record: record.0,
            counter: self.counter_at(),
            time: time as u16,
            ..Literal::default()
        };
        self.asks(
            (clock, Value::Lent),
            (literal, recent.vector_code),
            filter,
            back,
        );
        for line in lines {
            self.cold.put(&recent::code_line(line).to_le_bytes());
        }
    }

    /// Notes a conditional branch; `condition`: the low four bits of its opcode, none: it is taken, or not, as the record
    /// says.
    fn note_branch(
        &mut self,
        record: Record,
        condition: Option<u8>,
        (noting, filter): (&Noting, &Filter),
    ) {
        self.begin_words(RCX, record, noting);
        if let Some(condition) = condition {
            // setcc byte gs:[rcx*8+ring+which]
            self.hot.put(&[0x65, 0x0f, 0x90 | condition, 0x04, 0xcd]);
            self.hot.put(&(noting.ring + Record::TAKEN).to_le_bytes());
        }
        self.end_words(RCX, 1, (noting, filter));
    }

    /// A conditional branch that has no condition of flags alone goes this way.
    pub(super) fn note_way(&mut self, at: usize, taken: bool) {
        let Some(noting) = self.config.noting else {
            return;
        };
        let Some(filter) = noting.filter else { return };
        let Some(recent) = filter.recent.filter(|recent| recent.branches) else {
            return;
        };
        let record = Record::conditional(noting.described, at).0;
        let record = Record(record | u64::from(taken) << (8 * Record::TAKEN));
        if !recent.predicted {
            self.note_branch(record, None, (&noting, &filter));
        } else if let Some(item) = self.item(at) {
            self.predict((item.pc, at), record, Way::Known(taken), (&noting, &filter));
        }
    }

    /// Notes that the block's last instruction goes where a register leads; whether that is asked for.
    pub(super) fn note_target(&mut self, register: u8) -> bool {
        let Some(noting) = self.config.noting else {
            return false;
        };
        let Some(filter) = noting.filter else {
            return false;
        };
        if !filter.recent.is_some_and(|recent| recent.branches) {
            return false;
        }
        let at = self.count.saturating_sub(1);
        let record = Record::indirect(noting.described, at);
        if filter.recent.is_some_and(|recent| recent.predicted)
            && let Some(item) = self.item(at)
        {
            self.predict_target((item.pc, at), record, register, (&noting, &filter));
            return true;
        }
        let pointer = if register == RDX { RBX } else { RDX };
        self.begin_words(pointer, record, &noting);
        self.put_word(noting.ring + 8, pointer, register);
        self.end_words(pointer, 2, (&noting, &filter));
        true
    }

    /// Behind a record of so many words: whether there is room for the next one.
    fn end_words(&mut self, pointer: u8, words: u8, (noting, filter): (&Noting, &Filter)) {
        let offsets = self.config.offsets;
        let Some(recent) = filter.recent else { return };
        // lea pointer, [pointer+words]; mov gs:[position], pointer
        self.hot.put(&[0x8d, 0x40 | pointer << 3 | pointer, words]);
        self.hot.put(&[0x65, 0x89, 0x04 | pointer << 3, 0x25]);
        self.hot.put(&noting.position.to_le_bytes());
        // movzx pointer, bits 8 to 15 of it
        self.hot
            .put(&[0x0f, 0xb6, 0xc0 | pointer << 3 | (4 + pointer)]);
        // xchg rcx, pointer
        let exchange = [0x48, 0x87, 0xc8 | pointer];
        if pointer != RCX {
            self.hot.put(&exchange);
        }
        let cold = self.cold.here();
        // jrcxz +2; jmp +5; jmp cold
        self.hot.put(&[0xe3, 2, 0xeb, 5, 0xe9]);
        self.jumps_to(cold);
        if pointer != RCX {
            self.hot.put(&exchange);
            self.cold.put(&exchange);
        }
        self.hot.load_gs(offsets.spill_2, pointer);
        let back = self.hot.here();
        self.asks(
            (pointer, Value::Spilled),
            (Literal::behind(words), recent.vector_ring),
            filter,
            back,
        );
    }
}
