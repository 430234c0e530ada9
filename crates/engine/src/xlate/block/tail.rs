//! What a function's end takes from the stack, registers and where it returns to, and what a call puts there, is looked up
//! where flags are dead for the last time: behind that it is not known who needs them.
//!
//! That is only a look: nothing is entered. Where it is not known that all of it adds nothing, the block is left in front of
//! that instruction, which begins another one, where each is looked up by itself.

use super::exits::Way;
use super::together::{Group, RSP, moves_stack};
use super::{Builder, Item, record};
use crate::xlate::decode::{Kind, prefix};
use crate::xlate::known::{Filter, Shadow, did};
use crate::xlate::references::Words;

/// How far in front of it flags are looked for that are dead.
const FAR: usize = 16;

/// A block's end.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    /// The instruction in front of which it is looked up.
    at: usize,
    /// The first of those that are looked up there.
    first: usize,
    group: Group,
}

impl Builder<'_, '_> {
    /// Finds the block's, if it has one.
    pub(super) fn find_tail(&self, filter: &Filter) -> Option<Tail> {
        if filter.state != Shadow::Present || filter.model_of_data().is_some() {
            return None;
        }
        let last = self.count.checked_sub(1)?;
        let is_alive = |at: usize| self.live.get(at).is_none_or(|&live| live != 0);
        let end = self.item(last)?.insn;
        let returns = end.kind == Kind::Ret;
        let calls = matches!(end.kind, Kind::Call | Kind::CallInd) && !end.has_memory_operand();
        if !(returns || calls) || end.has(prefix::OPSIZE) || !is_alive(last) {
            return None;
        }
        let pops = |item: &Item| {
            let moves = moves_stack(&item.insn, item.code());
            matches!(item.insn.opcode, 0x58..=0x5f) && moves == Some(8)
        };
        let before = (0..last).rev();
        let popped = before.take_while(|&at| self.item(at).as_ref().is_some_and(pops));
        let (first, mut low, does) = match returns {
            true => (last - popped.count(), 0i32, did::STACK_LOADED),
            false => (last, -8, did::STACK_STORED),
        };
        // (A block that is left for another one begins before that.)
        for at in (1..first).rev().take(FAR) {
            let item = self.item(at)?;
            let writes = self.uses.get(at)?.writes >> RSP & 1 != 0;
            low = match moves_stack(&item.insn, item.code()) {
                Some(by) => low.checked_add(by)?,
                None if writes => return None,
                None => low,
            };
            let refers = item.insn.is_load() || item.insn.is_store();
            if !is_alive(at) && !refers {
                let group = Group::of_stack(low, last - first + 1, does)?;
                return Some(Tail { at, first, group });
            }
        }
        None
    }

    /// Instruction `at` was looked up with the block's end.
    pub(super) fn is_of_tail(&self, at: usize) -> bool {
        self.tail.is_some_and(|tail| at >= tail.first)
    }

    /// In front of instruction `at`: looks the block's end up, if that is to be done here.
    pub(super) fn look_at_tail(&mut self, item: &Item, at: usize, counted: bool) {
        let (Some(tail), Some(filter)) = (self.tail, self.filtering()) else {
            return;
        };
        if tail.at != at {
            return;
        }
        self.flags_come_back();
        let words = Words::of(&item.insn, item.code());
        let (address, _) = self.lend(at, &words, (false, false));
        let here = self.hot.here();
        self.load_lowest(&tail.group, address);
        let cold = self.cold.here();
        self.ask_together(&tail.group, address, &filter, cold);
        self.record(here, record::HEAD);
        let way = Way {
            added: self.early(at, counted),
            ..self.way(0)
        };
        way.emit(self.cold, &self.config.offsets, Some(&filter));
        self.cold_exit(item.pc, None);
    }
}
