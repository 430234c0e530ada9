//! What the launcher and the runtime in the target share: addresses, the totals file, one context page a thread. `core`
//! only; both sides compile this same source, so a field has one offset.
//! The totals file is a sparse memfd. Region 0 holds [`Header`]; behind it the slots' regions follow each other, the
//! [`Context`] of slot *k* in the first page of region *k* ([`region_offset`]). Every process maps the file at
//! `TOTALS_BASE` as far as slots are in use (`runtime/totals.rs`). `GS` of a translated thread is at its context.
//!
//! Only what code refers to by 32-bit addresses is low ([`LOW`]), at a place that the launcher finds free, and moves
//! when the program wants it. All else lies between the places of sanitizers' shadow memory and of programs loaded
//! anywhere: from 0x5510_0000_0000 to 0x5554_0000_0000 is memory of the program's own for the address, thread and memory
//! sanitizers of GCC and LLVM, and below 0x5555_5555_4000, where the kernel puts programs that can be loaded anywhere.

pub use crate::regions::{Watch, time_state};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Where the runtime is linked and mapped in every target.
pub const RUNTIME_BASE: u64 = 0x5510_0000_0000;
/// Places for what has to be below 2 GiB, the usual one first; the first that is free is taken. It is below the
/// address sanitizer's shadow (0x7fff_8000) and what Wine keeps for itself (0x7f00_0000). All are away from
/// round addresses, where programs like to map, or are linked to, by hand.
pub const LOW: [u64; 8] = [
    0x7e80_0000,
    0x6ec8_0000,
    0x3ec8_0000,
    0x1ec8_0000,
    0x5ac8_0000,
    0x4ac8_0000,
    0x2ac8_0000,
    0x0ac8_0000,
];
/// At a place of [`LOW`]: tables of translated targets of indirect branches, 65,536 code addresses each: for returns, for
/// branches through memory, and through RAX, RCX, RDX. They change only while a thread has the engine's lock.
pub const TABLES: u64 = 5;
/// Bytes of each table.
pub const TABLE_BYTES: u64 = 65_536 * 8;
/// Behind them: a page with the number of watched pages, which changes at any time.
pub const WATCHED: u64 = TABLES * TABLE_BYTES;
/// Bytes of a huge page (kernel `Documentation/admin-guide/mm/transhuge.rst`).
pub const HUGE: u64 = 2 << 20;
/// Bytes at a place of [`LOW`].
pub const LOW_BYTES: u64 = WATCHED + 0x1000;
/// Where the totals file is mapped …
pub const TOTALS_BASE: u64 = 0x5520_0000_0000;
/// … up to this offset; what is behind it …
pub const TOTALS_NEAR: u64 = 0x5554_0000_0000 - TOTALS_BASE;
/// … lies at its offset from here (with counters for each block, from the 3,328th slot on).
pub const TOTALS_FAR: u64 = 0x4000_0000_0000;
/// Bytes of region 0, and of the others where more than a context is in them.
pub const REGION: u64 = 64 << 20;
/// Bytes of a region that is only a context.
pub const CONTEXT_BYTES: u64 = (size_of::<Context>() as u64).next_multiple_of(4096);

/// Where the region of a slot is in the totals file, if regions are [`Header::apart`].
pub const fn region_offset(slot: u32, apart: u64) -> u64 {
    match slot {
        0 => 0,
        _ => REGION + (slot as u64 - 1) * apart,
    }
}
/// Slots a run can use at the same time (threads and processes together).
pub const MAX_SLOTS: u32 = 65_536;
const _: () = assert!(size_of::<Header>() as u64 <= EVENT_TABLE - TOTALS_BASE);
/// Table of the events that programs opened (`pmu::table`), in region 0.
pub const EVENT_TABLE: u64 = TOTALS_BASE + (1 << 20);
/// Their pages, up to the end of region 0.
pub const EVENT_PAGES: u64 = TOTALS_BASE + (32 << 20);
/// Who executes and who waits (`schedule::State`), with [`option::SCHEDULE`].
pub const SCHEDULE: u64 = TOTALS_BASE + (16 << 20);
/// With [`option::BLOCKS`]: where a slot's execution counters (8 bytes each) are in its region.
pub const COUNTERS: u32 = 0x1_0000;
/// Where its log is, which says what each counter counts (`log`); it ends at `xlate::known::AT`.
pub const LOG: u64 = REGION / 2;
/// With [`option::REFERENCES`]: where a slot's ring of noted references is (`xlate::references`).
pub const RING: u64 = REGION - (4 << 20);
const _: () = assert!(crate::xlate::references::RING as u64 * 8 <= REGION - RING);
/// Counters a process can have.
pub const MAX_COUNTERS: u32 = ((LOG - COUNTERS as u64) / 8) as u32;
const _: () = assert!(crate::regions::END <= COUNTERS);
/// Most watch points of a run ([`Watch`]).
pub const MAX_WATCHES: usize = 4;
/// With watch points (never with [`option::BLOCKS`], whose counters lie there): four words for
/// registers and flags in a slot's region …
pub const TIME_SPILL: u32 = COUNTERS;
/// … the last start of each watch point: time stamp (8 bytes), one of [`time_state`] …
pub const TIME_STATE: u32 = TIME_SPILL + 64;
/// … and how often each number of cycles was seen, the calibration's behind the last one.
pub const TIME_HISTOGRAMS: u32 = COUNTERS + 0x1000;
/// Numbers of cycles told apart; the last is "that many or more".
pub const TIME_BINS: u32 = 65_536;
/// Bytes of one histogram.
pub const TIME_HISTOGRAM_BYTES: u32 = TIME_BINS * 8;
const _: () =
    assert!(TIME_HISTOGRAMS as u64 + TIME_HISTOGRAM_BYTES as u64 * (MAX_WATCHES as u64 + 1) <= LOG);
/// The runtime's own memory (block descriptions, stacks).
pub const ARENA_BASE: u64 = RUNTIME_BASE + 0x1000_0000;
const _: () = assert!(TOTALS_NEAR.is_multiple_of(REGION));
/// Stack of the first thread until it has its own; the start arguments above.
pub const BOOT_STACK: u64 = RUNTIME_BASE + 0x3f_0000;
/// The first word of [`Header`].
pub const MAGIC: u64 = 0x3150_4d56_5543_5254;
/// In RAX at a breakpoint of the runtime: it cannot start, RDI and RSI say why (address and length).
pub const CANNOT_START: u64 = 0x7472_6174_735f_6f6e;
/// Exit status of a run that an internal check ended.
pub const INTERNAL_EXIT: i32 = 123;

/// Region 0 of the totals file.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// Next slot that nobody had yet; slots start at 1.
    pub next_slot: AtomicU32,
    /// Incremented, and woken as a futex, for every request in `requests`.
    pub doorbell: AtomicU32,
    /// Process id of the launcher.
    pub launcher: u32,
    /// The totals file's descriptor in the launcher.
    pub totals_fd: u32,
    /// The runtime image's descriptor in the launcher.
    pub image_fd: u32,
    /// Programs started without being counted (setuid, 32-bit, not traceable).
    pub uncounted: AtomicU32,
    /// Set once an internal check failed.
    pub failed: AtomicU32,
    /// Options: see [`option`].
    pub options: u32,
    /// The launcher takes translations to be saved.
    pub saving: AtomicU32,
    /// Slots whose thread asks the launcher for something: a bit a slot, so that no request is in another's way.
    pub requests: [AtomicU32; MAX_SLOTS as usize / 32],
    /// Slots that can be taken again: a bit a slot.
    pub reusable: [AtomicU32; MAX_SLOTS as usize / 32],
    /// Slots of this run, at most [`MAX_SLOTS`].
    pub slot_limit: u32,
    /// Slots of threads that are gone may be taken again (where nothing but the count is in them).
    pub reuse: u32,
    /// Not 0 once processes of several namespaces take part: thread ids say nothing any more.
    pub strangers: AtomicU32,
    /// Slots taken again so far …
    pub retired: AtomicU32,
    /// … what their threads had executed …
    pub retired_instructions: AtomicU64,
    /// … and had translated, and taken over from disk.
    pub retired_blocks: [AtomicU64; 2],
    /// Text of the first failure, zero-terminated.
    pub report: [u8; 1024],
    /// Lock over the events that programs opened: thread id of who holds it.
    pub events_lock: AtomicU32,
    /// Not 0 once a program has opened an event of the engine's.
    pub events_open: AtomicU32,
    /// Not 0: the runtime looks at calls on descriptors, for such an event or for what is from outside.
    pub descriptors: AtomicU32,
    /// Device and inode of the totals file: by these an event's descriptor is known.
    pub events_file: [AtomicU64; 2],
    /// From one slot's region to the next: [`REGION`], or [`CONTEXT_BYTES`] where a context is all there is.
    pub apart: u64,
    /// Bytes that translated code may take in a process; 0: as many as by default.
    pub code_cache: u64,
    /// Not 0: the kernel gives huge pages to who asks for them.
    pub huge_pages: u32,
    /// The launcher is about to end and follows nobody any more.
    pub closed: AtomicU32,
    /// With [`option::CLOCK`]: how often a process's clock had to be set on after the real one.
    pub clock_followed: AtomicU32,
    /// How far such a clock may be behind, nanoseconds.
    pub clock_behind: u64,
    /// When the run began, `CLOCK_MONOTONIC` in nanoseconds.
    pub started: u64,
    /// Writes of code that a process of the run may not have learned of.
    pub unseen_writes: AtomicU32,
    /// What programs did out of our sight: how often …
    pub unfollowed: AtomicU32,
    /// … not 0 once the rest is, or is being, written …
    pub unfollowed_claimed: AtomicU32,
    /// … and what it was the first time, zero-terminated.
    pub unfollowed_first: [AtomicU8; 128],
    /// How often forked children have offered what they translated.
    pub saved_by_forks: AtomicU32,
    /// Not 0 once a process blocked signals of the faults' kind natively: a fault may have ended it unseen.
    pub faults_left: AtomicU32,
    /// Threads whose slots were taken again and that had been killed in translated code.
    pub retired_cut: AtomicU32,
    /// Not 0 once [`Header::left_out`] is, or is being, written.
    pub left_out_claimed: AtomicU32,
    /// The first program that ran without being counted, and why; zero-terminated.
    pub left_out: [AtomicU8; 256],
    /// With [`option::MACHINE`]: what is shown.
    pub shown: crate::shown::Shown,
    /// With [`option::RANDOM`]: path of the file behind the random devices, zero-terminated …
    pub random_path: [u8; 40],
    /// … and how often one has been opened, or `rdrand` executed.
    pub random_uses: AtomicU64,
    /// Random devices that were the kernel's because that file could not be opened.
    pub random_missed: AtomicU32,
    /// The bytes behind the random devices have been made.
    pub random_made: AtomicU32,
    /// With [`option::REQUESTS`]: see [`crate::regions::front`].
    pub front: u32,
    /// With [`option::REQUESTS`]: what programs printed.
    pub texts: crate::regions::texts::Texts,
    /// With [`option::CALLS`]: what the run's trees are like.
    pub tree: crate::calls::Tree,
    /// With [`option::RECENT`]: the model's first levels.
    pub sets: crate::xlate::levels::Sets,
    /// With [`option::REFERENCES`]: who reads the rings.
    pub rings: crate::xlate::references::Readers,
    /// What came in from outside.
    pub inputs: crate::inputs::Inputs,
}

impl Header {
    /// A slot that nobody has: a new one, else one given back. `None`: all are in use.
    pub fn take_slot(&self) -> Option<u32> {
        let fresh = |next: u32| (next < self.slot_limit.min(MAX_SLOTS)).then(|| next + 1);
        if let Ok(slot) = self.next_slot.fetch_update(Relaxed, Relaxed, fresh) {
            return Some(slot);
        }
        self.reusable.iter().enumerate().find_map(|(at, word)| {
            let without_lowest = |bits: u32| (bits != 0).then(|| bits & (bits - 1));
            let before = word.fetch_update(Acquire, Relaxed, without_lowest).ok()?;
            Some(at as u32 * 32 + before.trailing_zeros())
        })
    }

    /// Whether [`Header::take_slot`] would find one now.
    pub fn has_slot(&self) -> bool {
        self.next_slot.load(Relaxed) < self.slot_limit.min(MAX_SLOTS)
            || self.reusable.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// Notes the first program that ran without being counted, and why.
    pub fn name_left_out(&self, name: &[u8], why: &str) {
        let claim = self
            .left_out_claimed
            .compare_exchange(0, 1, Acquire, Relaxed);
        if claim.is_err() {
            return;
        }
        put(
            &self.left_out,
            name.iter().chain(b": ").chain(why.as_bytes()),
        );
    }

    /// Notes that a program did something out of our sight, and of the first time what.
    pub fn note_unfollowed(&self, what: &[u8]) {
        self.unfollowed.fetch_add(1, Relaxed);
        let claim = self
            .unfollowed_claimed
            .compare_exchange(0, 1, Acquire, Relaxed);
        if claim.is_ok() {
            put(&self.unfollowed_first, what.iter());
        }
    }

    /// Gives a slot back whose context is zero.
    pub fn give_slot(&self, slot: u32) {
        mark(&self.reusable, slot);
    }

    /// Asks the launcher to look at a slot, also if it has been asked already.
    pub fn request(&self, slot: u32) {
        mark(&self.requests, slot);
        self.doorbell.fetch_add(1, AcqRel);
    }
}

/// Writes a text, zero-terminated, as far as there is room.
fn put<'a>(to: &[AtomicU8], text: impl Iterator<Item = &'a u8>) {
    let room = to.split_last().map_or(&[][..], |(_zero, room)| room);
    for (to, &from) in room.iter().zip(text) {
        to.store(from, Relaxed);
    }
}

/// Sets a slot's bit.
fn mark(bits: &[AtomicU32], slot: u32) {
    if let Some(word) = bits.get(slot as usize / 32) {
        word.fetch_or(1 << (slot % 32), AcqRel);
    }
}

pub use crate::option;

/// States of [`Context::exec`].
pub mod exec {
    /// Nothing asked.
    pub const NONE: u32 = 0;
    /// The thread wants to be followed through `execve`.
    pub const WANTED: u32 = 1;
    /// The launcher watches it.
    pub const WATCHED: u32 = 2;
    /// `execve` failed: the launcher lets go.
    pub const FAILED: u32 = 3;
    /// The launcher cannot watch it.
    pub const REFUSED: u32 = 4;
    /// The launcher has seen the request.
    pub const SEEN: u32 = 5;
}

/// What became of a slot: values of [`Context::state`].
pub mod state {
    /// Never used.
    pub const FREE: u32 = 0;
    /// A thread runs here (or was killed here).
    pub const LIVE: u32 = 1;
    /// The thread ended by `exit` or `exit_group`.
    pub const ENDED: u32 = 2;
    /// The process image was replaced by `execve`, or is about to be.
    pub const REPLACED: u32 = 3;
    /// No thread: the region continues a log, or holds nodes or frames of a tree.
    pub const LOG: u32 = 4;
    /// The thread is gone; what it executed is being added to the sums in the header.
    pub const RETIRING: u32 = 5;
    /// No thread: the counters of one as they were where a part ended.
    pub const MARK: u32 = 6;
}

/// XMM0 to XMM15, aligned for MOVAPS.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Vectors(pub [[u64; 2]; 16]);

/// One thread: counter, spilled registers, and what the runtime keeps about it. Its first page is all that translated code touches.
#[repr(C, align(64))]
pub struct Context {
    /// Instructions retired: the sum of this and `lanes`. Blocks share the eight
    /// words out, so that consecutive additions do not wait for each other.
    pub count: AtomicU64,
    /// The other seven words.
    pub lanes: [AtomicU64; 7],
    /// The program's RCX while translated code uses it.
    pub spill: u64,
    /// Program target of an indirect branch in flight.
    pub target: u64,
    /// A second spilled register.
    pub spill_2: u64,
    /// Index of the exit taken.
    pub exit_id: u32,
    /// Which entry of the runtime was taken.
    pub exit_kind: u32,
    /// Host address to continue at.
    pub resume: u64,
    /// This context's address.
    pub this: u64,
    /// Top of the runtime's stack for this thread.
    pub stack: u64,
    /// Entry for unlinked direct exits.
    pub vector_exit: u64,
    /// Entry for system calls.
    pub vector_syscall: u64,
    /// Entry for instructions that need the runtime.
    pub vector_special: u64,
    /// Signals were deferred: enter translated code through `rt_sigreturn`.
    pub pending: u32,
    /// In a roll-forward (single-stepping to an instruction boundary).
    pub rolling: u32,
    /// Mask to restore when entering with `pending` or after `rolling`.
    pub pending_mask: u64,
    /// General registers in encoding order (RAX RCX RDX RBX RSP RBP RSI RDI R8…).
    pub regs: [u64; 16],
    /// Flags.
    pub rflags: u64,
    /// Program counter.
    pub pc: u64,
    /// XMM0 to XMM15.
    pub xmm: Vectors,
    /// Program address at which a native fault is expected (`own_memory::NOWHERE`: none; a program may jump to 0).
    pub native_pc: u64,
    /// Program's alternate signal stack: base, size, flags.
    pub altstack: [u64; 3],
    /// Program's blocked signals that are not blocked natively (SEGV, BUS …).
    pub virtual_mask: u64,
    /// The signal action table (shared by threads that share handlers).
    pub actions: u64,
    /// Arguments for a thread about to start.
    pub start: [u64; 4],
    /// See [`exec`]. A futex.
    pub exec: AtomicU32,
    /// See [`state`].
    pub state: AtomicU32,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Parent's process id when the slot started.
    pub parent: u32,
    /// First slot of this process image.
    pub leader: u32,
    /// Name of the program (last part of the path), zero-terminated.
    pub name: [u8; 64],
    /// Blocks translated by this thread, for curiosity.
    pub translated: u64,
    /// Entries into the runtime.
    pub entries: u64,
    /// The event that the descriptor of the call under way is.
    pub event: u32,
    /// Slot that this thread had before `execve`, or 0.
    pub previous: u32,
    /// Nanoseconds the thread had run when it ended (0: it has not, or was killed).
    pub ran: AtomicU64,
    /// Blocks taken over from disk.
    pub cached: u64,
    /// Where a [`crate::snapshot::Request`] is.
    pub save_request: u64,
    /// First slot of the image that the process is of, by `fork` perhaps, and [`StartArgs::cache_key`] of it.
    pub save_image: u32,
    /// See `save_image`.
    pub save_key: u64,
    /// See [`crate::snapshot::save`]. A futex.
    pub save: AtomicU32,
    /// With [`option::BLOCKS`]: the slot whose log describes this thread's counters (that of the first thread of its memory).
    pub space: u32,
    /// In the slot of a space: counters described so far, those of `base` included.
    pub counters: AtomicU32,
    /// Space whose counters below `base_counters` this one took over by `fork`; 0: none.
    pub base: AtomicU32,
    /// See `base`.
    pub base_counters: AtomicU32,
    /// Where the log of `base` stood then: segment's slot, bytes.
    pub base_log: [AtomicU32; 2],
    /// Bytes of log in this slot's region.
    pub log_len: AtomicU32,
    /// Slot where the log goes on; 0: not yet.
    pub log_more: AtomicU32,
    /// Look where the program is without correcting the count.
    pub probing: u32,
    /// With [`option::CLOCK`]: instructions whose time has been counted.
    pub clock_seen: u64,
    /// Messages of this thread's that other processes have taken. A futex.
    pub told: AtomicU32,
    /// Not 0 while the thread that makes this one has not noted its numbers: the slot is not given back before.
    pub unborn: AtomicU32,
    /// SIGTRAPs that came during steps (`siginfo_t`; 0: none).
    pub kept_traps: [[u64; 16]; 2],
    /// SIGSEGV and SIGBUS that were sent and found the runtime's own handler (`siginfo_t`; 0: none).
    pub kept_faults: [[u64; 16]; 2],
    /// `PR_SET_SYSCALL_USER_DISPATCH`: on, offset, length, address of the selector.
    pub user_dispatch: [u64; 4],
    /// What had been retired of translated code when the thread went on in it the last time.
    pub epoch: AtomicU64,
    /// Backward branches until the token moves on, with [`option::SCHEDULE`].
    pub fuel: i64,
    /// The thread's number in the schedule; 0: none.
    pub turn: u32,
    /// Turns that it has had.
    pub turns: u32,
    /// Entry for a thread whose fuel is used up.
    pub vector_turn: u64,
    /// Where a zero is to be written when the thread ends (`CLONE_CHILD_CLEARTID`); 0: nowhere.
    pub clear_tid: u64,
    /// Not 0: the thread is in a system call or in the runtime, and its count is whole. 0: it is in translated
    /// code; killed there, up to a block's instructions are counted too many or too few.
    pub whole: AtomicU32,
    /// The program's GS base: the segment itself is the engine's.
    pub program_gs: u64,
    /// Entry in front of a block with a hook.
    pub vector_hook: u64,
    /// With [`option::REQUESTS`]: which part of the run is counted.
    pub region: crate::regions::Region,
    /// With [`option::CALLS`]: where in the tree of its calls the thread is.
    pub calls: crate::calls::Thread,
    /// With [`option::REFERENCES`]: where its ring stands, and the entry for a thread whose ring has no room.
    pub noted: crate::xlate::references::Ring,
}

/// What the launcher leaves for the runtime at the start of its stack page.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StartArgs {
    /// The program's first instruction.
    pub pc: u64,
    /// The program's stack pointer.
    pub sp: u64,
    /// The program's flags.
    pub rflags: u64,
    /// Slot of this image.
    pub slot: u64,
    /// Remaining general registers, in encoding order.
    pub regs: [u64; 16],
    /// Totals file descriptor opened in the target.
    pub totals_fd: u64,
    /// Descriptor of a snapshot of translations (`u64::MAX`: none).
    pub cache_fd: u64,
    /// How much must be new before it is worth saving, as a binary logarithm; `u64::MAX`: save nothing.
    pub cache_effort: u64,
    /// What the launcher keeps translations of this image under; 0: it keeps none.
    pub cache_key: u64,
    /// Not 0: the program may register restartable sequences.
    pub sequences: u64,
    /// The place of [`LOW`] that was free.
    pub low: u64,
    /// What is timed in this image.
    pub watches: [Watch; MAX_WATCHES],
}
