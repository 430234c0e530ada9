//! What is known of a translated block.

use crate::layout::{COUNTERS, Context};

/// No block, no exit.
pub const NONE: u32 = u32::MAX;

/// An address in the same code area, told by its distance from another one: half as long.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Near(i32);

impl Near {
    /// No address.
    pub const NONE: Self = Self(i32::MIN);

    /// `address` as seen from `base`; 0: none.
    pub fn new(base: u64, address: u64) -> Self {
        match address {
            0 => Self::NONE,
            _ => Self(address.wrapping_sub(base) as i32),
        }
    }

    /// The address, seen from the same `base`.
    pub fn from(self, base: u64) -> u64 {
        match self {
            Self::NONE => 0,
            Self(distance) => base.wrapping_add_signed(i64::from(distance)),
        }
    }
}

/// A translated block. There are many: each byte of it counts.
#[derive(Clone, Copy)]
pub struct Block {
    pub pc: u64,
    pub body: u64,
    /// Where it is entered with an exact count: in front of its body, or there, if nothing is pending.
    pub enter: Near,
    /// What the running total lacks at its body.
    pub pending: i32,
    pub host_end: Near,
    pub syscall: Near,
    /// Where it goes on behind its hook.
    pub hook: Near,
    /// Its entries for indirect branches.
    pub first_entry: u32,
    /// Exits that lead here.
    pub incoming: u32,
    pub first_exit: u32,
    /// Next block on the same page, for the first and the last page.
    pub page_next: [u32; 2],
    /// It is in the list of its first, of its last page.
    pub listed: [bool; 2],
    pub guest_len: u32,
    /// Where its records are, in the cold code.
    pub records: Near,
    pub record_count: u16,
    pub insns: u16,
    /// With per-block counters: its own.
    pub counter: u32,
    /// Words that it notes of its references (`xlate::references`).
    pub words: u16,
    pub exit_count: u8,
    /// Its bytes were copied behind its cold code, to compare (none: they cannot change).
    pub copy: Near,
    /// Reachable; else *dormant* until its page is executed again unchanged.
    pub valid: bool,
    pub unsupported: bool,
    /// Its bytes are compared whenever it is entered, so nothing leads to it directly.
    pub compared: bool,
    /// It begins with an instruction of a feature that is hidden.
    pub hidden: bool,
    /// Withdrawn for good, with all of its section.
    pub gone: bool,
}

impl Block {
    /// How often a thread executed it, with counters of blocks.
    pub fn executions(&self, context: &Context) -> u64 {
        let at = context.this + u64::from(COUNTERS) + u64::from(self.counter) * 8;
        // SAFETY: the thread's own counter.
        unsafe { (at as *const u64).read_volatile() }
    }

    /// No block.
    pub const NONE: Self = Self {
        pc: 0,
        body: 0,
        enter: Near::NONE,
        pending: 0,
        host_end: Near::NONE,
        syscall: Near::NONE,
        hook: Near::NONE,
        first_entry: NONE,
        incoming: NONE,
        first_exit: NONE,
        page_next: [NONE; 2],
        listed: [false; 2],
        guest_len: 0,
        records: Near::NONE,
        record_count: 0,
        insns: 0,
        counter: 0,
        words: 0,
        exit_count: 0,
        copy: Near::NONE,
        valid: false,
        unsupported: false,
        compared: false,
        hidden: false,
        gone: false,
    };

    /// The address that is told by its distance from the body; 0: there is none.
    pub fn at(&self, near: Near) -> u64 {
        near.from(self.body)
    }
}

const _: () = assert!(core::mem::size_of::<Block>() <= 88);
