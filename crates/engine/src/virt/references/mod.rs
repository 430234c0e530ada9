//! What memory a run references, one reference after the other, thread by thread.
//!
//! Translated code writes the registers of its addresses into a ring in each thread's region
//! ([`crate::xlate::references`]); a thread here reads the rings while the program runs, and what is left in them at
//! its end. It gives each executed block, with what it noted, to the run's [`Sink`]: in order for each thread, a part of
//! a ring at a time, so that threads alternate by tens of thousands of words.

mod access;
mod batch;
mod choice;
mod code;
mod codes;
mod filtered;
mod heap;
mod reader;
mod ring;
mod shadow;
mod state;

pub use access::{Access, Unknown};
pub use batch::{Batch, Known, Next};
pub use code::{Branch, Code, Executed, Form, Instruction, Operand, Run};
pub use heap::{Heap, HeapEvent};
pub(super) use reader::Reader;

use crate::heap::HEAP;
use crate::xlate::levels::Sets;
use crate::xlate::references::{COLLECTS, COUNTS, MARK, NODE, PART, RESUMES};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Most sets that [`References::recent`] takes.
pub const MOST_SETS: u32 = crate::xlate::levels::SETS;

/// Whose references they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Thread {
    /// The thread's slot: [`super::ThreadTotals::slot`].
    pub slot: u32,
    /// Slot of the first thread of its memory: threads with the same number share theirs.
    pub memory: u32,
}

/// What a thread says between two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Marked {
    /// With [`super::Options::regions`]: whether and where it is counted.
    Part(Part),
    /// With [`super::Options::calls`]: the node that it is in ([`super::CallNode::address`]).
    Node(u64),
}

/// Which part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// It is counted at all.
    pub counts: bool,
    /// What it does from here on is a part of the profile.
    pub collects: bool,
    /// How many marks of the process there were before.
    pub part: u32,
}

/// Where a thread would have gone on, if a word of the ring says that.
fn resumes(word: u64) -> Option<u64> {
    (word & (MARK | HEAP | RESUMES) == MARK | RESUMES).then_some(word & (MARK - 1))
}

impl Marked {
    /// From a word of the ring.
    fn of(word: u64) -> Option<Self> {
        if word & MARK == 0 || word & HEAP != 0 || resumes(word).is_some() {
            return None;
        }
        if word & NODE != 0 {
            return Some(Self::Node(word & (MARK - 1)));
        }
        Some(Self::Part(Part {
            counts: word & COUNTS != 0,
            collects: word & COLLECTS != 0,
            part: (word >> PART) as u32,
        }))
    }
}

/// What was done in a line of 64 bytes, with [`References::filtered`]: a bit for eight bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Its first byte.
    pub address: u64,
    /// Read.
    pub loaded: u8,
    /// Written.
    pub stored: u8,
    /// Read through the stack pointer.
    pub stack_loaded: u8,
    /// Written through it.
    pub stack_stored: u8,
    /// Read before the heap's block there was allocated, or free.
    pub was_loaded: u8,
    /// Written before that.
    pub was_stored: u8,
    /// Read or written through the stack pointer before that.
    pub was_stack: u8,
}

/// Elements of an operand that a mask chose, with [`References::filtered`]: a reference each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Elements {
    /// Where the first of all is.
    pub address: u64,
    /// Which are referenced, a bit each from the lowest on.
    pub mask: u64,
    /// With [`References::recent`]: the first level has the lines of all of them, as a reference's that is not told.
    pub in_place: bool,
}

impl Elements {
    /// Calls `f` for those that lie behind each other, from the lowest on: the number of the first, and how many.
    pub fn each_run(&self, mut f: impl FnMut(u32, u32)) {
        let (mut rest, mut first) = (self.mask, 0);
        while rest != 0 {
            first += rest.trailing_zeros();
            rest >>= rest.trailing_zeros();
            let many = rest.trailing_ones();
            rest = rest.checked_shr(many).unwrap_or(0);
            f(first, many);
            first += many;
        }
    }
}

/// How an operand's references lie, with [`References::filtered`]: of those that are not aligned (modulo 2⁶⁴).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lies {
    /// Their address is no multiple of their size.
    pub unaligned: u64,
    /// They are in two lines.
    pub line_splits: u64,
    /// They are in two pages.
    pub page_splits: u64,
}

/// The first levels of a model, for [`References::recent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "there are no other first levels")]
pub struct Levels {
    /// Sets of data, a power of two up to [`MOST_SETS`], of lines of 64 bytes.
    pub data_sets: u32,
    /// Sets of instructions, a power of two up to [`MOST_SETS`] …
    pub code_sets: u32,
    /// Lines of a set of data …
    pub data_ways: u32,
    /// … and of instructions.
    pub code_ways: u32,
    /// … and bytes of their lines.
    pub code_line: u32,
    /// Bytes that a reference to data counts for at most.
    pub longest: u32,
    /// References to data are a part of it …
    pub data: bool,
    /// … and instructions …
    pub instructions: bool,
    /// … and branches.
    pub branches: bool,
    /// They are predicted as Cachegrind does (its manual, "Branch prediction"), by the engine: [`Sink::mispredicted`] tells
    /// how often each one was predicted wrongly by a thread (with a tree of calls [`Next::Branch`] and [`Next::Jump`] tell
    /// each time), [`Sink::taken`] how often a conditional one was taken.
    pub predicted: bool,
}

impl Levels {
    /// As the runtime has them.
    pub(super) fn sets(&self) -> Sets {
        Sets {
            data: self.data_sets,
            code: self.code_sets,
            code_bits: self.code_line.trailing_zeros(),
            data_ways: self.data_ways,
            code_ways: self.code_ways,
            longest: self.longest,
        }
    }
}

/// Which facts somebody asks for, for [`References::filtered`]: what nobody asks for costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "there are no other facts")]
pub struct Facts {
    /// Lines and pages ([`Sink::line`]), and how references lie ([`Sink::lies`]).
    pub lines: bool,
    /// References and their bytes: those of [`Sink::noted`], [`Sink::masked`] and [`Sink::elements`] are not told otherwise,
    /// where no model has them.
    pub bytes: bool,
    /// How often conditional branches are taken ([`Sink::taken`]).
    pub taken: bool,
}

impl Facts {
    /// All there are.
    pub const ALL: Self = Self {
        lines: true,
        bytes: true,
        taken: true,
    };
}

/// What of an instruction is told, with [`References::recent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "there is nothing else in a model")]
pub enum Meaning {
    /// References of its operand with this number.
    Operand(usize),
    /// That it is in another line than the one before it.
    Line,
    /// It is a conditional branch.
    Conditional,
    /// It is an indirect branch.
    Indirect,
}

/// What becomes of them.
pub trait Sink: Send {
    /// What comes from here on is this thread's.
    fn turn(&mut self, thread: Thread) {
        let _ = thread;
    }
    /// A thread's state changed.
    fn marked(&mut self, thread: Thread, marked: Marked) {
        let _ = (thread, marked);
    }
    /// With [`References::allocations`]: a thread says what happened to the heap. `ahead`: it is told before what the
    /// thread did until then, and again when its turn comes; in the order of all threads' times.
    fn heap(&mut self, thread: Thread, heap: &Heap, ahead: bool) {
        let _ = (thread, heap, ahead);
    }
    /// A thread executed a block, or the beginning of one.
    fn executed(&mut self, thread: Thread, executed: &Executed<'_>);
    /// With [`References::recent`]: gives what instruction `at` of a block does a number, by which it is told from then
    /// on, of any thread; asked for again when it was forgotten. `None`: there is nothing like that.
    fn number(&mut self, code: &Code, at: usize, what: Meaning) -> Option<u32> {
        let _ = (code, at, what);
        None
    }
    /// With [`References::recent`]: what the thread did next, as far as it has numbers. All of the batch is to be taken.
    fn batch(&mut self, thread: Thread, batch: &mut Batch<'_>) {
        let _ = (thread, batch);
    }
    /// With [`References::filtered`], where there are no addresses to keep [`Line`]s: instruction `at` of a block made a
    /// reference, of its operand with this number. `hint`: what the sink left there for this operand, if it comes soon
    /// enough; `u32::MAX` at first.
    fn referenced(
        &mut self,
        thread: Thread,
        code: &Code,
        (at, operand): (usize, usize),
        address: u64,
        hint: &mut u32,
    ) {
        let _ = (thread, code, at, operand, address, hint);
    }
    /// With [`References::filtered`]: instruction `at` of a block made references to elements of its operand with this
    /// number, which has no others. `hint`: as in [`Sink::referenced`].
    fn masked(
        &mut self,
        thread: Thread,
        code: &Code,
        (at, operand): (usize, usize),
        elements: Elements,
        hint: &mut u32,
    ) {
        let _ = (thread, code, at, operand, elements, hint);
    }
    /// With [`References::filtered`]: of elements of such an operand that are not told by [`Sink::masked`] there were so many
    /// (modulo 2⁶⁴). They lie as they should, and their lines are told by [`Sink::line`] if somebody asks.
    fn elements(&mut self, thread: Thread, code: &Code, (at, operand): (usize, usize), times: u64) {
        let _ = (thread, code, at, operand, times);
    }
    /// With [`References::filtered`]: a thread executed an instruction, whose references are asked for; `executed` knows
    /// that one only.
    fn noted(&mut self, thread: Thread, executed: &Executed<'_>, at: usize) {
        let _ = (thread, executed, at);
    }
    /// With [`References::filtered`]: an operand of an instruction made references that are not aligned.
    fn lies(&mut self, thread: Thread, code: &Code, (at, operand): (usize, usize), lies: Lies) {
        let _ = (thread, code, at, operand, lies);
    }
    /// With [`References::filtered`]: what all threads of a memory did in a line; it is the turn of the first of them.
    fn line(&mut self, thread: Thread, line: &Line) {
        let _ = (thread, line);
    }
    /// With [`References::filtered`], at the end: a thread executed these instructions of a block so often (modulo 2⁶⁴:
    /// what was counted too much is taken away). `part`: how many marks of its process' profile were before.
    fn counted(
        &mut self,
        (thread, part): (Thread, u32),
        code: &Code,
        instructions: Range<usize>,
        times: u64,
    ) {
        let _ = (thread, part, code, instructions, times);
    }
    /// The same: the conditional branch with this number was taken so often.
    fn taken(&mut self, (thread, part): (Thread, u32), code: &Code, at: usize, times: u64) {
        let _ = (thread, part, code, at, times);
    }
    /// The same, with [`Levels::predicted`] and without a tree of calls: the branch with this number was predicted wrongly
    /// so often (modulo 2⁶⁴).
    fn mispredicted(&mut self, (thread, part): (Thread, u32), code: &Code, at: usize, times: u64) {
        let _ = (thread, part, code, at, times);
    }
    /// The run has ended, and everything was told.
    fn finished(&mut self) {}
    /// A thread has ended, and all that it noted was told.
    fn ended(&mut self, thread: Thread) {
        let _ = thread;
    }
    /// So many parts of rings are missing: nobody read them in time, or what was in them made no sense.
    fn lost(&mut self, parts: u32);
}

/// A sink, shared with who started the run.
#[derive(Clone)]
pub struct References {
    sink: Arc<Mutex<dyn Sink>>,
    pub(super) allocations: bool,
    /// Not `None`: what adds nothing to these is left out.
    pub(super) filtered: Option<Facts>,
    pub(super) recent: Option<Levels>,
    pub(super) modifies_as_store: bool,
}

impl References {
    /// Keep a clone of `sink` to look at it after the run.
    pub fn new(sink: Arc<Mutex<dyn Sink>>) -> Self {
        Self {
            sink,
            allocations: false,
            filtered: None,
            recent: None,
            modifies_as_store: false,
        }
    }

    /// References are not told one by one, but what was done in each line ([`Sink::line`]), what lies unaligned
    /// ([`Sink::lies`]), and instructions whose references take more to say ([`Sink::noted`]); and at the end how often
    /// blocks were executed ([`Sink::counted`], [`Sink::taken`]; not [`Sink::executed`]). With regions or a tree of calls
    /// all is told as without, but where no facts are asked for, with a model ([`References::recent`]).
    #[must_use]
    pub fn filtered(mut self, facts: Option<Facts>) -> Self {
        self.filtered = facts;
        self
    }

    /// With [`References::filtered`], for a model whose first levels of data and instructions replace the least recently
    /// used line of a set: references to lines of data (of 64 bytes) that the first level is known to have, and
    /// instructions in such a line, are not told; others, and branches, are ([`Sink::batch`]; [`Sink::taken`] with
    /// [`Levels::predicted`] alone). Who simulates a first level enters what he is told as [`Next::Reference`] and
    /// [`Next::Fetch`], and the order of lines of [`Next::Known`]. Nodes of a tree of calls then have what is not told:
    /// [`super::Calls::modelled`].
    #[must_use]
    pub fn recent(mut self, levels: Option<Levels>) -> Self {
        self.recent = levels;
        self
    }

    /// With [`References::recent`], in the nodes of a tree of calls: one that reads and writes is counted as one that
    /// writes, not as one that reads.
    #[must_use]
    pub fn modifies_as_store(mut self, on: bool) -> Self {
        self.modifies_as_store = on;
        self
    }

    /// Calls of the program's allocator are noted, too ([`Sink::heap`]).
    #[must_use]
    pub fn allocations(mut self, on: bool) -> Self {
        self.allocations = on;
        self
    }
}

impl std::fmt::Debug for References {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("References")
    }
}
