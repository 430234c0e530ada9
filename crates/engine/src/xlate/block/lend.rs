//! Registers that are lent to code which looks references up.
//!
//! What a register had goes to a slot of the thread's, and comes back in front of the first instruction that needs it, or at
//! the block's end; an instruction that overwrites it makes that needless. A conditional branch that leaves the block
//! brings it back on its way. In between any number of references are looked up. Who finds the thread there learns from the
//! block's records what is in the slots (`record::LENT`).
//!
//! In the same way flags go to RAX, and RAX to its spill slot (`record::FLAGS`).

use super::uses::Uses;
use super::uses::keeps_flags;
use super::{Builder, Item, record};
use crate::xlate::decode::Kind;
use crate::xlate::emit::RAX;
use crate::xlate::known::{Filter, LENT};
use crate::xlate::references::Words;

/// All that can be lent: not RSP and RBP, nor R12 and R13, which have longer forms as bases.
const ALL: [u8; 12] = [1, 2, 6, 7, 8, 9, 10, 11, 3, 14, 15, 0];

/// Where the flags are while something is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    /// Nobody needs them.
    Dead,
    /// In RAX, and they stay there.
    Lent,
    /// In RAX, for a moment.
    Apart,
}

impl Builder<'_, '_> {
    /// Finds what each instruction uses.
    pub(super) fn find_uses(&mut self) {
        if self.filtering().is_none() {
            return;
        }
        let items = self.items.iter().take(self.count);
        for (uses, item) in self.uses.iter_mut().zip(items) {
            *uses = item.as_ref().map(Uses::of).unwrap_or_default();
        }
    }

    pub(super) fn filtering(&self) -> Option<Filter> {
        self.config.noting.and_then(|noting| noting.filter)
    }

    /// For the reference of instruction `at` whose address has these words: a register for it, and, if it needs one, another.
    /// `flags`: RAX has the flags.
    pub(super) fn lend(
        &mut self,
        at: usize,
        words: &Words,
        (flags, two): (bool, bool),
    ) -> (u8, u8) {
        let Some(filter) = self.filtering() else {
            return (0, 0);
        };
        let mut registers = [0; LENT];
        for (slot, register) in (0..).zip(&mut registers).take(if two { 2 } else { 1 }) {
            if flags && self.lent(slot) == Some(RAX) {
                self.come_back(slot);
            }
            *register = match self.lent(slot) {
                Some(register) => register,
                None => {
                    let register = self.longest(at, words, flags);
                    let here = self.hot.here();
                    self.hot.store_gs(filter.slot(slot), register);
                    let guest = record::LENT | record::slot(slot) | register;
                    self.record(here, guest);
                    if let Some(place) = self.lent.get_mut(slot) {
                        *place = Some(register);
                    }
                    register
                }
            };
        }
        (registers[0], registers[1])
    }

    /// In front of instruction `at`: saves the flags in RAX, if they are alive, and RAX in its slot. Where a word of the address is
    /// in RAX that is the caller's, for the time of the look-up ([`Flags::Apart`]).
    pub(super) fn save_flags(&mut self, at: usize, words: &Words, filter: &Filter) -> Flags {
        if self.live.get(at).is_some_and(|&live| live == 0) {
            return Flags::Dead;
        }
        if words.before().any(|register| register == RAX) {
            return Flags::Apart;
        }
        self.lend_flags(filter);
        Flags::Lent
    }

    /// The same, where no address is wanted before they come back.
    pub(super) fn lend_flags(&mut self, filter: &Filter) {
        if self.flags_lent {
            return;
        }
        for slot in 0..LENT {
            if self.lent(slot) == Some(RAX) {
                self.come_back(slot);
            }
        }
        let here = self.hot.here();
        self.flags_to_rax(filter);
        self.record(here, record::FLAGS);
        self.flags_lent = true;
    }

    /// Flags go to RAX, and RAX to its slot …
    pub(super) fn flags_to_rax(&mut self, filter: &Filter) {
        self.hot.store_gs(filter.spill, RAX);
        self.hot.flags_to_rax();
    }

    /// … and both come back.
    pub(super) fn flags_from_rax(&mut self, filter: &Filter) {
        self.hot.flags_from_rax();
        self.hot.load_gs(filter.spill, RAX);
    }

    /// What is lent already.
    pub(super) fn lent(&self, slot: usize) -> Option<u8> {
        self.lent.get(slot).copied().flatten()
    }

    /// The register that nobody needs for the longest time.
    fn longest(&self, at: usize, words: &Words, flags: bool) -> u8 {
        let taken = |register: u8| {
            let lent = self.lent.contains(&Some(register));
            lent || flags && register == RAX || words.before().any(|other| other == register)
        };
        // In turn: each comes back from memory, and the next block to take it away would wait for that.
        let turn = self
            .item(at)
            .map_or(0, |item| (item.pc ^ (item.pc >> 4)) as usize);
        let all = (turn..turn + ALL.len()).filter_map(|turn| ALL.get(turn % ALL.len()));
        let mut best = (0, 1);
        for &register in all.filter(|register| !taken(**register)) {
            let rest = self.rest(at, register);
            if rest > best.0 {
                best = (rest, register);
            }
        }
        best.1
    }

    /// For how many instructions nobody needs what a register has, at least 1.
    fn rest(&self, at: usize, register: u8) -> usize {
        let bit = 1u16 << register;
        let all = self.uses.iter().take(self.count).enumerate().skip(at);
        for (many, (_, uses)) in (1..).zip(all) {
            // (One that overwrites it is as good as two more.)
            match uses {
                uses if (uses.reads | uses.writes) & bit == 0 => {}
                uses if uses.sets & bit != 0 => return many + 2,
                _ => return many,
            }
        }
        self.count + 1
    }

    /// In front of instruction `at`, and behind the look-ups of its references: what it needs comes back.
    pub(super) fn give_back_for(&mut self, item: &Item, at: usize) {
        let uses = self.uses.get(at).copied().unwrap_or_default();
        let needs = match item.insn.kind {
            Kind::Plain => (uses.reads | uses.writes) & !uses.sets,
            // Where it is taken they come back on its way.
            Kind::Jcc if at + 1 < self.count => 0,
            _ => u16::MAX,
        };
        for slot in 0..LENT {
            if self.lent(slot).is_some_and(|lent| needs >> lent & 1 != 0) {
                self.come_back(slot);
            }
        }
        if (uses.reads | uses.writes) & 1 != 0 || !keeps_flags(&item.insn) {
            self.flags_come_back();
        }
    }

    /// Flags and RAX, if they are lent.
    pub(super) fn flags_come_back(&mut self) {
        let Some(filter) = self.filtering().filter(|_| self.flags_lent) else {
            return;
        };
        let here = self.hot.here();
        self.flags_from_rax(&filter);
        self.record(here, record::FLAGS | 1);
        self.flags_lent = false;
    }

    /// Behind instruction `at`: what it has overwritten need not come back.
    pub(super) fn keep_set(&mut self, at: usize) {
        let sets = self.uses.get(at).copied().unwrap_or_default().sets;
        for slot in 0..LENT {
            if self.lent(slot).is_some_and(|lent| sets >> lent & 1 != 0) {
                let here = self.hot.here();
                self.is_back(slot, here);
            }
        }
    }

    /// Everything comes back.
    pub(super) fn give_back(&mut self) {
        for slot in 0..LENT {
            self.come_back(slot);
        }
        self.flags_come_back();
    }

    fn come_back(&mut self, slot: usize) {
        let (Some(register), Some(filter)) = (self.lent(slot), self.filtering()) else {
            return;
        };
        let here = self.hot.here();
        self.hot.load_gs(filter.slot(slot), register);
        self.is_back(slot, here);
    }

    /// From here on, with code from `here`.
    fn is_back(&mut self, slot: usize, here: u64) {
        self.record(here, record::BACK | record::slot(slot));
        if let Some(place) = self.lent.get_mut(slot) {
            *place = None;
        }
    }
}
