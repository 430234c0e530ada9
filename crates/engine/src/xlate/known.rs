//! References that are known to add nothing are left out (`option::FILTERED`): where only lines, pages and how
//! references lie are asked for.
//!
//! A byte for each eight bytes of the program's memory says what was done there: its *shadow*, at an eighth of the
//! address, in one reservation of addresses that all threads of a memory share. In front of an instruction translated
//! code looks there whether such a reference was made before ([`did`]); one that was, and is aligned, adds nothing. What
//! is new is entered by the runtime's routine, and who reads the run finds it there at the end. When a block of the heap
//! is allocated or free again, what was done there until then is put aside, and told.
//!
//! Behind the addresses are *pieces* of 256 KiB, where there was a reference: parts of the totals file, so that nothing
//! is lost when the program is killed. A memory's first ones are in the region of its first thread, others in slots of
//! their own; a directory says which addresses each is the shadow of.
//!
//! How references lie that are not aligned is counted by operand in a table of the thread's ([`Lies`]), as are elements that
//! a mask chooses, where they lie behind each other and aligned; what has no place there is said in the ring. How often
//! instructions were executed follows from the counters of their blocks; so blocks are not in the ring, which is a row of
//! records:
//!
//! | record | words |
//! |---|---|
//! | a reference, where there is no shadow; with a tree of calls (`option::BY_PATH`) one that is new, or not aligned | [`Record`]; the address |
//! | elements of an operand that a mask chooses (`xlate::masked`), where they are not counted | [`Record`]; the operand's address; the mask |
//! | how references of an operand lie, or how many elements were counted | [`Record`]; three counts |
//! | an instruction whose references are worked out from its registers | [`Record`]; the words of `Words::of` |
//! | marks | as without the shadow |
//!
//! `core` only.

use super::levels::{Model, Recent};
pub use super::simple::{At, Does, Simple, alone, did, simple};
use core::sync::atomic::AtomicU64;

/// The lowest bit of each byte.
pub const EACH: u64 = 0x0101_0101_0101_0101;

/// Which bytes of eight have this bit (one of [`did`]), a bit each.
pub const fn which(bytes: u64, bit: u8) -> u8 {
    let lowest = bytes >> bit.trailing_zeros() & EACH;
    (lowest.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Bytes of the shadow of all memory that a program can have.
pub const SHADOW: u64 = 1 << (47 - 3);
/// Bits of an address below the number of its shadow's piece …
pub const PIECE_BITS: u32 = 21;
/// … and page.
pub const PAGE_BITS: u32 = 15;
/// Bytes of a piece.
pub const PIECE: u64 = 1 << (PIECE_BITS - 3);
/// Where what belongs to this is in a slot's region: first the table of [`Lies`].
pub const AT: u64 = 50 << 20;
/// Bits of an operand's number that choose its place there.
pub const LIES_BITS: u32 = 16;
/// What the number of an operand's other place differs by.
pub const LIES_OTHER: u64 = 1 << (LIES_BITS - 1);
/// Bytes of that table.
pub const LIES_BYTES: u64 = (size_of::<Lies>() as u64) << LIES_BITS;
/// Where the directory of pieces is in the region of a memory's first thread: how many there are, and one more than the
/// number of each.
pub const DIRECTORY: u64 = AT + LIES_BYTES;
/// Where they begin.
pub const PIECES: u64 = AT + (3 << 20);
/// How many.
pub const OWN_PIECES: u64 = 28;
/// Where they end.
pub const END: u64 = PIECES + OWN_PIECES * PIECE;
/// Bytes of all this.
pub const BYTES: u64 = END - AT;
/// In a slot of pieces: the directory …
pub const POOL_DIRECTORY: u64 = 1 << 16;
/// … where they begin …
pub const POOL_PIECES: u64 = PIECE;
/// … and how many there are.
pub const POOL: u64 = 255;
/// Words of a directory.
pub const DIRECTORY_WORDS: usize = 512;

/// How references of an operand lie that are not aligned, of one thread; or how many elements of one a mask chose
/// ([`Record::is_chosen`]) that were not noted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lies {
    /// [`Record::lies`]; 0: none.
    pub record: u64,
    /// Not aligned, or elements …
    pub unaligned: u64,
    /// … in two lines …
    pub line_splits: u64,
    /// … in two pages.
    pub page_splits: u64,
}

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record(pub u64);

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// A reference; what it does.
    Reference(Does),
    /// Elements that a mask chooses; what they do.
    Masked(Does),
    /// How references lie: of an operand that does this.
    Lies(Does),
    /// An instruction with so many words.
    Instruction(usize),
    /// Something of the model's (`xlate::recent`).
    Model(Model),
}

/// Where a block is described that records, and the log, say so of ([`Record::ABSOLUTE`]).
pub fn described(said: u64, base: u64) -> u64 {
    match said & Record::ABSOLUTE {
        0 => base + said,
        _ => said & !Record::ABSOLUTE,
    }
}

impl Record {
    /// Where the instruction's number begins.
    pub const NUMBER: u32 = 48;
    /// Where what it does begins, or how many words there are.
    pub const COUNT: u32 = 54;
    const REFERENCE: u64 = 1 << 60;
    const INSTRUCTION: u64 = 2 << 60;
    const LIES: u64 = 3 << 60;
    /// In a reference's: a mask chooses elements …
    const CHOSEN: u64 = 1 << 56;
    /// … and the first level of a model has all that they are in.
    pub const IN_PLACE: u64 = 1 << 57;
    /// In a reference's without elements: it changes nothing in a model, which is not told.
    pub const FACTS: u64 = 1 << 57;
    /// In where a block is described, as records and the log say it: what is below is an offset in the totals file. Without it,
    /// it is one from [`Ring::base`](super::references::Ring::base) on: so code that is kept for other runs names its
    /// descriptions. (Above all offsets in words, and below the number of a conditional branch.)
    pub const ABSOLUTE: u64 = 1 << 39;
    /// It was not executed: it says nothing.
    pub const CANCELLED: u64 = 1 << 62;
    /// It is a string instruction that was interrupted; what it did so far counts.
    pub const INTERRUPTED: u64 = 1 << 63;

    /// For a reference of the instruction `number` of the block that is described there.
    pub fn reference(described: u64, number: usize, does: Does) -> Self {
        Self(
            Self::REFERENCE
                | described
                | (number as u64) << Self::NUMBER
                | (does as u64) << Self::COUNT,
        )
    }

    /// For elements that a mask chooses.
    pub fn masked(described: u64, number: usize, does: Does) -> Self {
        Self(Self::reference(described, number, does).0 | Self::CHOSEN)
    }

    /// For how such references lie.
    pub const fn lies(self) -> Self {
        Self(self.0 & !(3 << 60) | Self::LIES)
    }

    /// For an instruction with so many words.
    pub fn instruction(described: u64, number: usize, words: usize) -> Self {
        Self(
            Self::INSTRUCTION
                | described
                | (number as u64) << Self::NUMBER
                | (words as u64) << Self::COUNT,
        )
    }

    /// Elements that a mask chooses are meant.
    pub const fn is_chosen(self) -> bool {
        self.0 & Self::CHOSEN != 0
    }

    /// Where the block is described: offset in the totals file, in words.
    pub fn described(self, base: u64) -> u64 {
        described(self.0 & (2 * Self::ABSOLUTE - 1), base)
    }

    /// The number of an operand's place in the table of [`Lies`]: near to those of its block, and of blocks that were
    /// translated next.
    pub const fn lies_place(self) -> u16 {
        (self.0 as u16).wrapping_add((self.0 >> Self::NUMBER) as u16 & 63)
    }

    /// The instruction's number in its block.
    pub fn number(self) -> usize {
        (self.0 >> Self::NUMBER) as usize & 63
    }

    /// What it is; `None`: it makes no sense.
    pub fn is(self) -> Option<Is> {
        let count = (self.0 >> Self::COUNT) as usize & 63;
        let does = match count & 3 {
            0 => Does::Load,
            1 => Does::Store,
            _ => Does::Modify,
        };
        match self.0 & (3 << 60) {
            Self::REFERENCE if self.0 & Self::CHOSEN != 0 => Some(Is::Masked(does)),
            Self::REFERENCE => Some(Is::Reference(does)),
            Self::LIES => Some(Is::Lies(does)),
            Self::INSTRUCTION => Some(Is::Instruction(count)),
            0 => self.model().map(|(model, ..)| Is::Model(model)),
            _ => None,
        }
    }

    /// Words behind it.
    pub fn words(self) -> usize {
        match self.is() {
            Some(Is::Instruction(words)) => words,
            Some(Is::Lies(_)) => 3,
            Some(Is::Masked(_)) => 2,
            Some(Is::Model(Model::Conditional(_) | Model::Fetch)) => 0,
            Some(Is::Model(Model::Known(known))) => known.lines,
            _ => 1,
        }
    }
}

/// What cold code says of a reference, or asks for room alone, to the runtime's routine: in the code itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Literal {
    /// The record's first word.
    pub record: u64,
    /// Where it goes on, from here …
    pub back: i32,
    /// … and where it comes again, once the ring has room.
    pub again: i32,
    /// The block's counter, in the thread's region.
    pub counter: u32,
    /// Bytes that are referenced, a power of two up to 64; without a record: words that were noted just now.
    pub size: u8,
    /// See [`Simple::bits`]; where a mask chooses, the binary logarithm of the bytes of an element.
    pub bits: u8,
    /// When it is, by the block's clock (`xlate::recent::TICKS`); without a model of data: see [`Record::lies_place`].
    pub time: u16,
}

impl Literal {
    /// For room alone, behind a record of so many words.
    pub fn behind(words: u8) -> Self {
        Self {
            size: words,
            ..Self::default()
        }
    }

    /// Words at the ring's end that may have to be taken back.
    pub fn last(&self) -> u32 {
        match self.record {
            0 => self.size.into(),
            _ => 0,
        }
    }
}

/// Whether there is a shadow of the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadow {
    /// There is.
    Present,
    /// No addresses were free for it: every reference is noted.
    Absent,
    /// Nobody asks for what it says.
    Unasked,
}

/// Most registers that are lent at a time.
pub const LENT: usize = 2;
/// Most groups of references in a block that are looked up together.
pub const GROUPS: usize = 8;

/// Where the pieces for this are in a thread's context.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// The address that is noted.
    pub address: u32,
    /// Address of the [`Literal`].
    pub literal: u32,
    /// Flags' register meanwhile.
    pub spill: u32,
    /// Where the shadow is: see [`Known::shadow`].
    pub shadow: u32,
    /// See [`Known::apart`].
    pub apart: u32,
    /// See [`Known::lent`].
    pub lent: u32,
    /// What is known to add nothing to it is left out.
    pub state: Shadow,
    /// Somebody asks for references and their bytes …
    pub bytes: bool,
    /// … and for how often branches are taken.
    pub taken: bool,
    /// What changes nothing in a model is left out.
    pub recent: Option<Recent>,
    /// Entry of the runtime for a reference that is not known …
    pub vector_note: u32,
    /// … and for one that [`alone`] finds …
    pub vector_alone: u32,
    /// … and for an instruction's record, which needs room …
    pub vector_room: u32,
    /// … and for elements that a mask chooses …
    pub vector_masked: u32,
    /// … which is here then.
    pub mask: u32,
    /// The program's FS base can be read.
    pub reads_fs: bool,
    /// The CPU has `rorx` (BMI2).
    pub rotates: bool,
    /// What is not aligned is told, not counted.
    pub tells: bool,
}

impl Filter {
    /// The model, if it has references to data.
    pub fn model_of_data(&self) -> Option<&Recent> {
        self.recent.as_ref().filter(|recent| recent.data)
    }

    /// What the register that is lent in this slot has.
    pub fn slot(&self, number: usize) -> u32 {
        self.lent + 8 * number as u32
    }

    /// Something is looked up in front of references.
    pub fn looks_up(&self) -> bool {
        self.state != Shadow::Unasked || self.model_of_data().is_some()
    }

    /// Instructions whose references do not follow from how often they were executed are noted.
    pub fn notes_words(&self) -> bool {
        self.bytes || self.looks_up()
    }

    /// Counters of blocks tell how often conditional branches are taken: somebody asks, and they are not noted one by one.
    pub fn counts_taken(&self) -> bool {
        let noted = |recent: &Recent| recent.branches && !recent.predicted;
        self.taken && !self.recent.as_ref().is_some_and(noted)
    }
}

/// What the thread entered last: it is taken back where the instruction was not executed.
#[repr(C)]
pub struct Made {
    /// First byte of the shadow.
    pub at: u64,
    /// Bytes from there on, as they were.
    pub before: [u64; 2],
    /// The literal's record; 0: nothing.
    pub record: AtomicU64,
    /// Bytes of the shadow; 0: it is in the ring.
    pub many: u32,
    /// See [`Simple::bits`]; 0: nothing is new.
    pub bits: u32,
    /// Where its [`Lies`] are in the region, if how it lies was counted …
    pub lies: u32,
    /// … and what: bits, unaligned first; or elements.
    pub counted: u32,
    /// Not 0: it was told, too (`option::BY_PATH`).
    pub told: u32,
    /// Nothing.
    pub rest: [u32; 3],
}

/// The thread's part of it: in its context.
#[repr(C)]
pub struct Known {
    /// See [`Filter`].
    pub address: u64,
    /// See [`Filter`].
    pub literal: u64,
    /// Where the routine goes back to.
    pub resume: u64,
    /// The block's counter when a reference was entered last …
    pub seen: u64,
    /// … and how many were entered since it is so …
    pub since: u64,
    /// … the last two of them.
    pub made: [Made; 2],
    /// Registers on the way.
    pub spill: [u64; 8],
    /// See [`Filter`].
    pub vector_note: u64,
    /// See [`Filter`].
    pub vector_alone: u64,
    /// See [`Filter`].
    pub vector_room: u64,
    /// Where the shadow of address 0 is; 0: there is none.
    pub shadow: u64,
    /// By group of the block that is being executed: not 0: its references are not known together, and looked up each by
    /// itself.
    pub apart: [u8; GROUPS],
    /// What registers have that are lent to look-ups (`xlate::block::record::LENT`).
    pub lent: [u64; LENT],
    /// A bit for each page of it that can be used.
    pub pages: u64,
    /// Not a thread's slot: pieces are in it.
    pub pool: u32,
    /// With `option::RECENT`: not 0 …
    pub recent: u32,
    /// … one less than there are sets of data …
    pub mask: u32,
    /// … and of instructions.
    pub code_mask: u32,
    /// See [`Recent`].
    pub vector_code: u64,
    /// See there, too.
    pub vector_ring: u64,
    /// The block's counter when a reference was noted last …
    pub told: u64,
    /// … and when an instruction was, in another line.
    pub fetched: u64,
    /// Most lines of a set of data that are known …
    pub ways: u32,
    /// … and of instructions.
    pub code_ways: u32,
    /// Not 0: no set has more …
    pub whole: u32,
    /// … of instructions.
    pub code_whole: u32,
    /// Not 0: lines of data may be known.
    pub any: u32,
    /// 1: what is known of the data that an instruction references is to be told, and forgotten; 2: it was.
    pub forget: u32,
    /// The time: see `xlate::recent::TICKS`.
    pub clock: u64,
    /// Where in the ring what was noted last of data, and of instructions, begins.
    pub from: [u32; 2],
    /// On the way: where that is …
    pub began: u32,
    /// See `levels::Sets`.
    pub longest: u32,
    /// … what a record says beside what it is of …
    pub says: u64,
    /// … its first line, and its last.
    pub lines: [u64; 2],
    /// The last line of data that came in, and of instructions.
    pub came: [super::levels::Came; 2],
    /// More registers on the way.
    pub spill_more: [u64; 8],
    /// See [`Filter`].
    pub vector_masked: u64,
    /// See there: which elements a reference has.
    pub chosen: u64,
    /// On the way: [`Made::many`] and [`Made::bits`].
    pub entering: [u32; 2],
    /// Not 0: what is entered is told, and what is not aligned (`option::BY_PATH`).
    pub tells: u32,
}

const _: () = assert!(
    DIRECTORY + 8 * DIRECTORY_WORDS as u64 <= PIECES && OWN_PIECES < DIRECTORY_WORDS as u64
);
const _: () = assert!(size_of::<Made>() == 64 && size_of::<Lies>() == 32);
