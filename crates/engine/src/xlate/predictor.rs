//! Branches are predicted by translated code (`option::PREDICTED`, with `option::RECENT`): it counts by branch how often
//! that was wrong, or, with a tree of calls, notes it.
//!
//! The rules are Cachegrind's (Valgrind's manual, "Branch prediction"): conditional ones by 16,384 two-bit counters, chosen
//! by the outcomes of the last seven branches and the seven low bits of the branch's address; indirect ones go where the
//! last one at one of 512 places (nine low bits) went. Code has no flags to spare in front of a branch; so what a counter
//! becomes, and whether it was wrong, is looked up, and targets are subtracted by `lea`.
//!
//! `core` only.

use super::recent::{END, TABLE};
use crate::layout::REGION;
use core::mem::{offset_of, size_of};

const COUNTERS: usize = 1 << 14;
const TARGETS: usize = 1 << 9;

/// A thread's predictor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct State {
    /// The two-bit counters, what each was before its last branch in two more bits, and a fifth one where the prediction
    /// was wrong: a branch's are every other one from [`row`] on, chosen by [`State::history`].
    pub counters: [u8; COUNTERS],
    /// Outcomes of the last seven branches, 1: taken; the last one is bit 1, bit 0 is 0. (Bit 8 is of the one in front of
    /// them, so that it is known what was in front of the last branch.)
    pub history: u16,
    /// 1: the last indirect branch was predicted wrongly.
    pub target_wrong: u8,
    /// Nothing.
    pub rest: [u8; 5],
    /// Where indirect branches went …
    pub targets: [u64; TARGETS],
    /// … and where the last one's place had led, if that was predicted wrongly.
    pub target_before: u64,
}

/// What a thread's region has of it.
#[repr(C)]
pub struct Predictor {
    /// What it is now …
    pub state: State,
    /// … and what it was when the thread began to do what is of no use to anybody.
    pub kept: State,
    /// What a counter becomes: where its branch is not taken, and where it is.
    pub next: [[u8; 2]; STATES],
    /// 1: a counter says that its last prediction was wrong.
    pub wrong: [u8; STATES],
}

/// Where it is in a thread's region.
pub const PREDICTOR: u64 = END;

/// From the tables of [`super::recent`] to its end.
pub const BYTES: u64 = PREDICTOR + size_of::<Predictor>() as u64 - TABLE;

const _: () = assert!(TABLE + BYTES <= super::known::PIECES && PREDICTOR < REGION);

/// What a counter can be.
const STATES: usize = 32;
/// What it was before.
const BEFORE: u32 = 2;
/// The bit of a wrong prediction.
const WRONG: u8 = 16;

/// [`Predictor::next`].
pub const NEXT: [[u8; 2]; STATES] = {
    let mut next = [[0; 2]; STATES];
    let mut state = 0;
    while state < STATES {
        let now = state as u8 & 3;
        let up = if now < 2 { now + 1 } else { 3 };
        let down = if now > 0 { now - 1 } else { 0 };
        // Not taken where it predicted that, and the other way round.
        next[state][0] = down | now << BEFORE | if now >= 2 { WRONG } else { 0 };
        next[state][1] = up | now << BEFORE | if now < 2 { WRONG } else { 0 };
        state += 1;
    }
    next
};

/// [`Predictor::wrong`].
pub const IS_WRONG: [u8; STATES] = {
    let mut wrong = [0; STATES];
    let mut state = 0;
    while state < STATES {
        wrong[state] = (state as u8 & WRONG != 0) as u8;
        state += 1;
    }
    wrong
};

/// The first counter of a branch at this address.
pub const fn row(pc: u64) -> u32 {
    (pc as u32 & 0x7e) << 7 | pc as u32 & 1
}

/// The place of an indirect branch at this address, in [`State::targets`].
pub const fn target(pc: u64) -> u32 {
    pc as u32 % TARGETS as u32
}

/// Places in a region, for translated code.
pub mod place {
    use super::*;

    /// See [`State::counters`].
    pub const COUNTERS: u32 = at(offset_of!(Predictor, state.counters));
    /// See [`State::history`].
    pub const HISTORY: u32 = at(offset_of!(Predictor, state.history));
    /// See [`State::target_wrong`].
    pub const TARGET_WRONG: u32 = at(offset_of!(Predictor, state.target_wrong));
    /// See [`State::targets`].
    pub const TARGETS: u32 = at(offset_of!(Predictor, state.targets));
    /// See [`State::target_before`].
    pub const TARGET_BEFORE: u32 = at(offset_of!(Predictor, state.target_before));
    /// See [`Predictor::next`].
    pub const NEXT: u32 = at(offset_of!(Predictor, next));
    /// See [`Predictor::wrong`].
    pub const WRONG: u32 = at(offset_of!(Predictor, wrong));

    const fn at(offset: usize) -> u32 {
        PREDICTOR as u32 + offset as u32
    }
}

impl State {
    /// The last indirect branch, which was at this address, was not executed; whether it was predicted wrongly.
    pub fn take_target_back(&mut self, pc: u64) -> bool {
        let wrong = core::mem::take(&mut self.target_wrong) != 0;
        if let Some(place) = self.targets.get_mut(target(pc) as usize).filter(|_| wrong) {
            *place = self.target_before;
        }
        wrong
    }

    /// The last branch, which was at this address, was not executed; whether it was predicted wrongly.
    pub fn take_back(&mut self, pc: u64) -> bool {
        self.history = self.history >> 1 & 0xfe;
        let place = row(pc) as usize + usize::from(self.history);
        let Some(counter) = self.counters.get_mut(place) else {
            return false;
        };
        let after = core::mem::replace(counter, *counter >> BEFORE & 3);
        after & WRONG != 0
    }
}
