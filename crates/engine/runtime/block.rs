//! What is known of a translated block.

/// No block, no exit.
pub const NONE: u32 = u32::MAX;

/// A translated block.
#[derive(Clone, Copy)]
pub struct Block {
    pub pc: u64,
    pub body: u64,
    /// Where it is entered with an exact count: in front of its body, or there, if nothing is pending.
    pub enter: u64,
    /// What the running total lacks at its body.
    pub pending: i32,
    pub host_end: u64,
    pub syscall: u64,
    /// Where it goes on behind its hook; 0: it has none.
    pub hook: u64,
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
    pub records: u64,
    pub record_count: u16,
    pub insns: u16,
    /// With per-block counters: its own.
    pub counter: u32,
    /// Words that it notes of its references (`xlate::references`).
    pub words: u16,
    pub exit_count: u8,
    /// Its bytes were copied behind its cold code, to compare (0: they cannot change).
    pub copy: u64,
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
    /// No block.
    pub const NONE: Self = Self {
        pc: 0,
        body: 0,
        enter: 0,
        pending: 0,
        host_end: 0,
        syscall: 0,
        hook: 0,
        first_entry: NONE,
        incoming: NONE,
        first_exit: NONE,
        page_next: [NONE; 2],
        listed: [false; 2],
        guest_len: 0,
        records: 0,
        record_count: 0,
        insns: 0,
        counter: 0,
        words: 0,
        exit_count: 0,
        copy: 0,
        valid: false,
        unsupported: false,
        compared: false,
        hidden: false,
        gone: false,
    };
}
