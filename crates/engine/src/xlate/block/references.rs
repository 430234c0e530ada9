//! Code that notes what memory the program references: see [`crate::xlate::references`]. Flags and registers stay.

use super::{Builder, Item, record};
use crate::xlate::decode::prefix;
use crate::xlate::emit::{RCX, RDX};
use crate::xlate::references::{FS, GS, HEADER, HEADER_AT, MAX_WORDS, Noting, Sort, Wide, Words};

impl Builder<'_, '_> {
    /// Whether another instruction's words have room in the block; then they are counted.
    pub(super) fn has_room_for(&mut self, item: &Item) -> bool {
        if self.config.noting.is_none() {
            return true;
        }
        let words = Words::of(&item.insn, item.code()).len();
        if self.words == 0 {
            self.words = 1;
        }
        if self.words + words > MAX_WORDS {
            return false;
        }
        self.words += words;
        true
    }

    /// The head, at the block's beginning.
    pub(super) fn note_head(&mut self, start: u64) {
        let Some(noting) = self.config.noting.filter(|noting| noting.filter.is_none()) else {
            return;
        };
        let offsets = self.config.offsets;
        let here = self.hot.here();
        let flags_are_dead = self.block.live_in == 0;
        let cold = self.cold.here();
        self.hot.store_gs(offsets.spill_2, RDX);
        if flags_are_dead {
            self.hot.load_gs32(noting.position, RDX);
            self.hot.put(&[0x84, 0xf6]); // test dh, dh
            self.hot.put(&[0x0f, 0x84]); // je cold
            let end = self.hot.here() + 4;
            self.hot.put(&(cold.wrapping_sub(end) as u32).to_le_bytes());
        } else {
            self.hot.store_gs(offsets.spill, RCX);
            self.hot.load_gs32(noting.position, RDX);
            self.hot.put(&[0x0f, 0xb6, 0xce]); // movzx ecx, dh
            self.hot.put(&[0xe3, 2, 0xeb, 5, 0xe9]); // jrcxz +2; jmp +5; jmp cold
            let end = self.hot.here() + 4;
            self.hot.put(&(cold.wrapping_sub(end) as u32).to_le_bytes());
            self.cold.load_gs(offsets.spill, RCX);
        }
        // Nothing of the block has been done: it is entered again with room.
        self.cold.load_gs(offsets.spill_2, RDX);
        let number = self.first_exit + self.block.exit_count as u32;
        self.cold.set_gs32(offsets.exit_id, number);
        self.cold.jump_gs(noting.vector);
        self.exit(start, 0, 0, None);
        // mov qword gs:[rdx*8+ring], described
        match i32::try_from(noting.described) {
            Ok(small) => {
                self.hot.put(&[0x65, 0x48, 0xc7, 0x04, 0xd5]);
                self.hot.put(&noting.ring.to_le_bytes());
                self.hot.put(&small.to_le_bytes());
            }
            Err(_) => {
                for half in 0..2u32 {
                    self.hot.put(&[0x65, 0xc7, 0x04, 0xd5]);
                    self.hot.put(&(noting.ring + 4 * half).to_le_bytes());
                    let value = (noting.described >> (32 * half)) as u32;
                    self.hot.put(&value.to_le_bytes());
                }
            }
        }
        // lea edx, [rdx+words]; mov gs:[position], edx
        self.hot.put(&[0x8d, 0x92]);
        self.hot.put(&(self.words as u32).to_le_bytes());
        self.hot.put(&[0x65, 0x89, 0x14, 0x25]);
        self.hot.put(&noting.position.to_le_bytes());
        if !flags_are_dead {
            self.hot.load_gs(offsets.spill, RCX);
        }
        self.hot.load_gs(offsets.spill_2, RDX);
        self.record(here, record::HEAD);
        self.noted = 1;
    }

    /// Notes what instruction `at` references, in front of it; returns where it begins.
    pub(super) fn noted(&mut self, item: &Item, at: usize) -> u64 {
        self.note(item, at);
        self.give_back_for(item, at);
        self.hot.here()
    }

    /// In front of instruction `at`: the registers of its addresses.
    fn note(&mut self, item: &Item, at: usize) {
        let Some(noting) = self.config.noting else {
            return;
        };
        if let Some(filter) = &noting.filter {
            return self.filter(item, at, &noting, filter);
        }
        let here = self.hot.here();
        if self.note_words(item, &noting, false) {
            self.record(here, 0);
        }
    }

    /// The same behind one that is repeated or moves the extended state.
    pub(super) fn note_behind(&mut self, item: &Item) {
        if let Some(noting) = self.config.noting
            && noting.filter.is_none_or(|filter| filter.notes_words())
        {
            self.note_words(item, &noting, true);
        }
    }

    /// Whether there are any.
    pub(super) fn note_words(&mut self, item: &Item, noting: &Noting, behind: bool) -> bool {
        let words = Words::of(&item.insn, item.code());
        let mut registers = [0u8; 10];
        let mut count = 0;
        let mut take = |register| {
            if let Some(place) = registers.get_mut(count) {
                *place = register;
                count += 1;
            }
        };
        match behind {
            false => words.before().for_each(&mut take),
            true => words.after().for_each(&mut take),
        }
        let registers = registers.get(..count).unwrap_or(&[]);
        let long = if behind { count } else { words.in_front() };
        if long == 0 {
            return false;
        }
        let offsets = self.config.offsets;
        // RCX, RDX, RBX, RSI, RDI, RBP: no instruction names more than four.
        let mut free = [1u8, 2, 3, 6, 7, 5]
            .into_iter()
            .filter(|register| words.before().all(|other| other != *register));
        let pointer = free.next().unwrap_or(RCX);
        // The others than general registers need one to come through.
        let helper = free.next().unwrap_or(RDX);
        self.hot.store_gs(offsets.spill_2, pointer);
        self.hot.load_gs32(noting.position, pointer);
        let first = self.noted;
        self.noted += long;
        for (at, &register) in registers.iter().enumerate() {
            if register < FS {
                self.store_word(noting, pointer, first + at, register);
            }
        }
        for (at, &register) in registers.iter().enumerate() {
            if register < FS {
                continue;
            }
            self.hot.store_gs(offsets.spill, helper);
            match register {
                FS if noting.reads_fs => {
                    self.hot.put(&[0xf3, 0x48, 0x0f, 0xae, 0xc0 | helper]); // rdfsbase
                }
                FS => self.hot.mov_imm(helper, 0),
                GS => self.hot.load_gs(self.config.program_gs, helper),
                header => self.load_header(item, helper, header),
            }
            self.store_word(noting, pointer, first + at, helper);
            self.hot.load_gs(offsets.spill, helper);
        }
        if !behind {
            for (at, wide) in words.wide() {
                self.store_wide(noting, pointer, first + at, wide);
            }
        }
        self.hot.load_gs(offsets.spill_2, pointer);
        true
    }

    /// A word of the header of the state that the instruction saved or restored: it is there, or that had faulted.
    fn load_header(&mut self, item: &Item, to: u8, word: u8) {
        let insn = &item.insn;
        if insn.is_rip_relative() {
            self.hot.mov_imm(to, item.operand());
        } else {
            if insn.has(prefix::ADDRSIZE) {
                self.hot.put(&[0x67]);
            }
            // lea to, [the operand]
            self.hot
                .put(&[0x48 | insn.rex & 3, 0x8d, insn.modrm & 0xc7 | to << 3]);
            let rest = item.code().get(usize::from(insn.modrm_at) + 1..);
            self.hot.put(rest.unwrap_or(&[]));
        }
        // mov to, [to+where it is]
        let at = HEADER_AT + 8 * u32::from(word - HEADER);
        self.hot.put(&[0x48, 0x8b, 0x80 | to << 3 | to]);
        self.hot.put(&at.to_le_bytes());
    }

    /// As `store_word`, for all words of a register.
    fn store_wide(&mut self, noting: &Noting, pointer: u8, word: usize, wide: Wide) {
        let Wide {
            sort,
            register,
            words,
        } = wide;
        let (low, high) = (register & 7, register >> 3 & 1);
        self.hot.put(&[0x65]);
        match sort {
            Sort::Mmx => self.hot.put(&[0x0f, 0x7f]),
            // movdqu
            Sort::Sse => self.hot.put(&[0xf3, 0x40 | high << 2, 0x0f, 0x7f]),
            // vmovdqu
            Sort::Avx => {
                let long = u8::from(words > 2);
                self.hot
                    .put(&[0xc5, (high ^ 1) << 7 | 0x7a | long << 2, 0x7f]);
            }
            // vmovdqu64
            Sort::Avx512 => {
                let upper = register >> 4 & 1;
                self.hot.put(&[
                    0x62,
                    (high ^ 1) << 7 | 0x61 | (upper ^ 1) << 4,
                    0xfe,
                    (words >> 2) << 5 | 8,
                    0x7f,
                ]);
            }
            Sort::Mask if noting.wide_masks => self.hot.put(&[0xc4, 0xe1, 0xf8, 0x91]),
            Sort::Mask => self.hot.put(&[0xc5, 0xf8, 0x91]),
            // sttilecfg
            Sort::Tiles => self.hot.put(&[0xc4, 0xe2, 0x79, 0x49]),
        }
        self.hot.put(&[0x04 | low << 3, 0xc5 | pointer << 3]);
        let back = (self.words - word) as u32 * 8;
        self.hot.put(&noting.ring.wrapping_sub(back).to_le_bytes());
    }

    /// A register's value is the block's word; the position is behind the block already.
    fn store_word(&mut self, noting: &Noting, pointer: u8, word: usize, register: u8) {
        let back = (self.words - word) as u32 * 8;
        self.put_word(noting.ring.wrapping_sub(back), pointer, register);
    }

    /// `mov gs:[pointer*8+at], register`.
    pub(super) fn put_word(&mut self, at: u32, pointer: u8, register: u8) {
        self.hot.put(&[
            0x65,
            0x48 | (register >> 3) << 2 | (pointer >> 3) << 1,
            0x89,
            0x04 | (register & 7) << 3,
            0xc5 | (pointer & 7) << 3,
        ]);
        self.hot.put(&at.to_le_bytes());
    }

    /// In a cold exit: the block is left after `done` instructions.
    pub(super) fn note_left(&mut self, done: usize) {
        let Some(noting) = self.config.noting.filter(|noting| noting.filter.is_none()) else {
            return;
        };
        let offsets = self.config.offsets;
        self.cold.store_gs(offsets.spill_2, RDX);
        self.cold.load_gs32(noting.position, RDX);
        // mov word gs:[rdx*8+head+6], done+1
        let head = noting.ring.wrapping_sub(self.words as u32 * 8) + 6;
        self.cold.put(&[0x65, 0x66, 0xc7, 0x04, 0xd5]);
        self.cold.put(&head.to_le_bytes());
        self.cold.put(&(done as u16 + 1).to_le_bytes());
        self.cold.load_gs(offsets.spill_2, RDX);
    }
}
