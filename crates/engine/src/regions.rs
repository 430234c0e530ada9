//! Which part of a run is counted, or timed, as launcher and runtime both see it: `core` only.

/// With `option::REQUESTS`: where in a slot's region the launcher leaves the hooks of an image ([`Hook`]), in front of
/// the counters …
pub const HOOKS: u32 = 0x8000;
/// … so many at most, and one of zeros.
pub const MAX_HOOKS: usize = 2047;
/// Behind the last hook.
pub const END: u32 = HOOKS + (MAX_HOOKS as u32 + 1) * size_of::<Hook>() as u32;
/// Chosen functions that a thread can be inside of at the same time.
pub const MAX_REGIONS: usize = 16;

/// Bits of `Header::front`.
pub mod front {
    /// Requests to Callgrind are answered …
    pub const CALLGRIND: u32 = 1;
    /// … or to Cachegrind.
    pub const CACHEGRIND: u32 = 2;
    /// Threads begin without collecting.
    pub const COLLECT_OFF: u32 = 4;
    /// Processes begin without counting.
    pub const INSTRUMENTATION_OFF: u32 = 8;
    /// Threads have profiles of their own: a part that ends is the thread's that ended it.
    pub const THREADS_APART: u32 = 16;
}

/// Bits of [`Hook::actions`].
pub mod hook {
    /// Collecting is switched over when the function is entered, and when it is left.
    pub const TOGGLE: u32 = 1;
    /// A part ends where it is entered …
    pub const DUMP_BEFORE: u32 = 2;
    /// … or all is zero there.
    pub const ZERO_BEFORE: u32 = 4;
    /// A part ends where it is left.
    pub const DUMP_AFTER: u32 = 8;
    /// A call of such a function returns here.
    pub const RETURN: u32 = 16;
    /// Collecting begins here …
    pub const START: u32 = 32;
    /// … or ends.
    pub const STOP: u32 = 64;
}

/// Values of `Context::mark_kind`.
pub mod mark {
    /// A part of the profile ends.
    pub const DUMP: u32 = 1;
    /// What was counted before is dropped.
    pub const ZERO: u32 = 2;
    /// Bytes of its name.
    pub const MAX_NAME: usize = 1024;
}

/// A function of an image that the runtime is to be asked at.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hook {
    /// Its first instruction; 0: the end of the list.
    pub address: u64,
    /// See [`hook`]; in the high half its number among those that were found, from 1 on.
    pub actions: u64,
}

/// What programs print by client requests (`VALGRIND_PRINTF`): records in region 0 of the totals file, one behind the other.
pub mod texts {
    use core::sync::atomic::AtomicU64;

    /// Where they begin in the region …
    pub const AT: u64 = 24 << 20;
    /// … and how many bytes there are.
    pub const BYTES: u64 = 8 << 20;
    /// Of a record: slot of the process image's first thread and [`kind`], length and [`DONE`], in words of 4 bytes. The
    /// next one begins at a multiple of 8.
    pub const HEAD: u64 = 16;
    /// In a record's fourth word: its bytes are there.
    pub const DONE: u32 = 1;

    /// What a record is.
    pub mod kind {
        /// Text.
        pub const TEXT: u32 = 0;
        /// Where the thread is: the address behind the request, and where its callers go on.
        pub const TRACE: u32 = 1;
    }

    /// How much there is.
    #[repr(C)]
    pub struct Texts {
        /// Bytes of all records.
        pub used: AtomicU64,
        /// Bytes for which there was no room.
        pub lost: AtomicU64,
    }
}

/// Which part of a thread is counted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Region {
    /// Where GS is, at the context or …
    pub counts_at: u64,
    /// … at a region aside, whose counters nobody reads; 0: there is none.
    pub aside: u64,
    /// The thread collects (`--collect-atstart`, `--toggle-collect`).
    pub collects: u32,
    /// Chosen functions that it is inside of: address, return address, stack pointer at its first instruction …
    pub depth: u32,
    /// … the outermost first.
    pub inside: [[u64; 3]; MAX_REGIONS],
    /// In a slot of `state::MARK`: number of the mark in its process, from 1 on …
    pub mark: u32,
    /// … the slot of the thread …
    pub mark_of: u32,
    /// … of the one that made the mark …
    pub mark_by: u32,
    /// … what was done: see [`mark`] …
    pub mark_kind: u32,
    /// … and at which chosen function (see [`Hook::actions`]); 0: at none.
    pub mark_at: u32,
    /// With `front::THREADS_APART`: number of the last mark that this thread made.
    pub part: u32,
    /// With `option::REFERENCES`: the word of the ring that says so (`xlate::references::MARK`); 0: none yet.
    pub noted: u64,
    /// How often collecting began.
    pub entered: u64,
    /// With `option::ALLOCATIONS`: calls of the program's allocator that it is inside of.
    pub allocating: crate::heap::Calls,
    /// Inside a function that a request called (`VALGRIND_NON_SIMD_CALL`): where its caller's state is kept; 0: not.
    pub native: u64,
}

/// What became of a watch point in a thread: the word behind its time stamp.
pub mod time_state {
    /// A start is noted.
    pub const ARMED: u32 = 1;
    /// An end took it.
    pub const USED: u32 = 2;
}

/// Two program addresses between which the time is taken, or one (`end` 0): between two executions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// 0: none.
    pub start: u64,
    /// See above.
    pub end: u64,
}
