//! What the translator is told of a thread's context and of this process.

use crate::layout::{Context, MAX_WATCHES, Watch};
use crate::xlate::block::{self, CallOffsets, Config};
use crate::xlate::entry::Offsets;
use core::mem::offset_of;

pub const OFFSETS: Offsets = Offsets {
    count: offset_of!(Context, count) as u32,
    lanes: offset_of!(Context, count) as u32,
    spill: offset_of!(Context, spill) as u32,
    target: offset_of!(Context, target) as u32,
    spill_2: offset_of!(Context, spill_2) as u32,
    exit_id: offset_of!(Context, exit_id) as u32,
    vector_exit: offset_of!(Context, vector_exit) as u32,
    vector_syscall: offset_of!(Context, vector_syscall) as u32,
    vector_special: offset_of!(Context, vector_special) as u32,
    vector_turn: offset_of!(Context, vector_turn) as u32,
    vector_hook: offset_of!(Context, vector_hook) as u32,
    fuel: offset_of!(Context, fuel) as u32,
    whole: offset_of!(Context, whole) as u32,
    events: offset_of!(Context, calls.events) as u32,
};

pub const CONFIG: Config = Config {
    offsets: OFFSETS,
    tables: 0,
    program_gs: offset_of!(Context, program_gs) as u32,
    watched: 0,
    events_word: crate::layout::TOTALS_BASE + offset_of!(crate::layout::Header, descriptors) as u64,
    force_far: false,
    limit: block::MAX_INSNS,
    counter: None,
    pending: 0,
    watches: [Watch { start: 0, end: 0 }; MAX_WATCHES],
    own_clock: false,
    in_turn: false,
    own_machine: false,
    own_random: false,
    literal: 0,
    requests: false,
    components: 0,
    noting: None,
    calls: None,
};

/// The tree of calls in a thread's context.
pub const CALL_OFFSETS: CallOffsets = CallOffsets {
    spill: offset_of!(Context, calls.spill) as u32,
    resume: offset_of!(Context, calls.resume) as u32,
    vector_call: offset_of!(Context, calls.vector_call) as u32,
    vector_return: offset_of!(Context, calls.vector_return) as u32,
    vector_jump: offset_of!(Context, calls.vector_jump) as u32,
    events: [0; crate::calls::EVENTS],
};
