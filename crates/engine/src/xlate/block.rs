//! One superblock: from a program address on through not-taken conditional
//! branches to the first other branch, copied with its exits and its count.
//!
//! The count of the whole block is added once, at a point where backward
//! liveness proves the arithmetic flags dead; an exit elsewhere corrects it in
//! a cold stub. For every copied instruction a [`Record`] remembers where it
//! landed, so that any fault or signal maps back to the program exactly.

mod calls;
mod copy;
mod count;
mod exits;
mod filter;
mod gs;
mod item;
mod lend;
mod masked;
mod model;
mod operand;
mod place;
mod predict;
mod rdpmc;
pub mod record;
mod references;
mod request;
mod shadow;
mod source;
mod tail;
mod terminate;
mod together;
mod turn;
mod unaligned;
mod uses;
mod xsave;

pub use calls::CallOffsets;
use gs::unsupported;
use item::{Item, surely_invalid};
pub use operand::{Operand, far_register, implied_base, is_absolute};
pub use request::{Request, meaning};
pub use source::Source;
use tail::Tail;
use together::Together;
pub use turn::FUEL;
use uses::Uses;

pub use count::{Added, Branch, Part};
pub use exits::Way;

use super::decode::{DecodeError, Kind, MAX_LEN, decode, flag};
use super::emit::Buffer;
use super::entry::{Offsets, Via};
use super::facts::Facts;
use super::known::LENT;
use super::references::Noting;
use super::time;
use crate::layout::{MAX_WATCHES, Watch};

/// Most instructions in a block.
pub const MAX_INSNS: usize = 64;
/// Most exits of a block.
pub const MAX_EXITS: usize = 20;
/// Most counters of a block beside its own: one an early exit, one for the branch at its end, and for each branch that is
/// predicted one a way.
pub const MAX_PARTS: usize = 2 * MAX_EXITS + 3;
/// Most records of a block: an instruction's own, its lines, a branch, two references, two registers that are lent and
/// come back.
pub const MAX_RECORDS: usize = 14 * MAX_INSNS + 5 + MAX_WATCHES;

/// One copied instruction or one insertion of the translator's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Program bytes (0: an insertion), and what happens here: see [`record`].
    pub guest: u8,
    /// Host bytes.
    pub host: u8,
}

/// A direct exit, linked later by patching.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    /// Program address it goes to.
    pub target: u64,
    /// Address of its 32-bit displacement.
    pub patch: u64,
    /// Where it goes while it is not linked.
    pub stub: u64,
    /// A conditional branch to a cold correction of the count, which jumps on.
    pub side: Option<Side>,
}

/// The hot part of an exit that does something on its way: a block translated for it
/// can have that in front and be branched to directly.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// Address of the branch's displacement.
    pub branch: u64,
    /// Where it leads: the cold code that does it.
    pub cold: u64,
    /// What.
    pub way: Way,
}

/// What ends a block, for the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// Branches only.
    Branch,
    /// A system call.
    Syscall,
    /// An instruction that the runtime answers: it reads the time stamp counter, or asks for the machine.
    Answered,
    /// An instruction the translator does not know or cannot run.
    Unsupported,
    /// The bytes at the block's start cannot be read.
    Unreadable,
}

/// A translated block.
pub struct Block {
    /// Host address of the body.
    pub body: u64,
    /// Program bytes covered, counted from its first.
    pub guest_len: u32,
    /// Instructions.
    pub insns: u16,
    /// Flags live at the start.
    pub live_in: u8,
    /// How it ends.
    pub end: End,
    /// Address of the copied `syscall`, or 0.
    pub syscall: u64,
    /// Where a block with a hook goes on behind it, or 0.
    pub hook: u64,
    /// The table that the indirect branch at its end uses.
    pub via: Option<Via>,
    /// Direct exits.
    pub exits: [Exit; MAX_EXITS],
    /// How many.
    pub exit_count: usize,
    /// One a host item, in order from `body`.
    pub records: [Record; MAX_RECORDS],
    /// How many.
    pub record_count: usize,
    /// With per-block counters: facts of the instructions …
    pub facts: [Facts; MAX_INSNS],
    /// … and what the counters behind the block's own correct, in order.
    pub parts: [Part; MAX_PARTS],
    /// How many.
    pub part_count: usize,
    /// Words that it notes of its references, the head included; 0: none.
    pub words: u16,
    /// What is to be put at [`Config::literal`].
    pub literal: Option<u64>,
}

/// Fixed facts of a run.
#[derive(Clone, Copy)]
pub struct Config {
    /// Field offsets in the context.
    pub offsets: Offsets,
    /// Tables of entries, one a [`Via`] (an address below 2 GiB).
    pub tables: u32,
    /// Where the program's GS base is in the context.
    pub program_gs: u32,
    /// Where the number of watched pages is kept (an address below 2 GiB).
    pub watched: u32,
    /// Address of the word that is not 0 once a program has opened an event of
    /// the engine's: until then calls on descriptors need no look.
    pub events_word: u64,
    /// Treat every RIP-relative operand as out of reach (tests).
    pub force_far: bool,
    /// Most instructions in the next block (1 to step over one).
    pub limit: usize,
    /// The block's counter (those of its early exits follow); `None` adds the
    /// instructions to the running total at `offsets.count`.
    pub counter: Option<u32>,
    /// What the running total lacks when the block is entered.
    pub pending: i32,
    /// Addresses with a time stamp: a block begins there.
    pub watches: [Watch; MAX_WATCHES],
    /// The runtime answers what reads a clock.
    pub own_clock: bool,
    /// Threads execute in turn: every system call goes to the runtime, and backward branches are counted.
    pub in_turn: bool,
    /// The runtime answers what asks for the CPU: it shows another machine.
    pub own_machine: bool,
    /// The runtime answers `rdrand` and `rdseed`.
    pub own_random: bool,
    /// Where a return address that a call pushes from memory is to be, 0: in the cold code.
    pub literal: u64,
    /// Client requests are answered.
    pub requests: bool,
    /// With `own_machine`: components of the extended state that there are (XCR0).
    pub components: u32,
    /// Calls, returns and jumps from function to function are noted in a tree; with `counter`.
    pub calls: Option<CallOffsets>,
    /// Memory references are noted.
    pub noting: Option<Noting>,
}

/// Translates the block at `pc` into `hot` and its cold parts into `cold`.
/// `first_exit` is the number of the first exit. A buffer that overflowed
/// voids the result.
pub fn build<'b>(
    source: &mut dyn Source,
    config: &Config,
    pc: u64,
    first_exit: u32,
    hot: &mut Buffer<'b>,
    cold: &mut Buffer<'b>,
) -> Block {
    let mut builder = Builder {
        config,
        first_exit,
        hot,
        cold,
        items: [const { None }; MAX_INSNS],
        count: 0,
        end: End::Branch,
        block: Block {
            body: 0,
            guest_len: 0,
            insns: 0,
            live_in: flag::ALL,
            end: End::Branch,
            syscall: 0,
            hook: 0,
            via: None,
            exits: [Exit::default(); MAX_EXITS],
            exit_count: 0,
            records: [Record::default(); MAX_RECORDS],
            record_count: 0,
            facts: [Facts(0); MAX_INSNS],
            parts: [Part::default(); MAX_PARTS],
            part_count: 0,
            words: 0,
            literal: None,
        },
        words: 0,
        noted: 0,
        live: [flag::ALL; MAX_INSNS],
        together: Together::NONE,
        tail: None,
        uses: [Uses::ALL; MAX_INSNS],
        lent: [None; LENT],
        flags_lent: false,
    };
    builder.block.body = builder.hot.here();
    builder.gather(source, pc);
    builder.emit(source, pc);
    builder.block
}

/// Where a block's count goes: in front of instruction `at`.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    /// The register that the instruction sets anyway; `None`: flags are dead.
    through: Option<u8>,
}

struct Builder<'a, 'b> {
    config: &'a Config,
    first_exit: u32,
    hot: &'a mut Buffer<'b>,
    cold: &'a mut Buffer<'b>,
    items: [Option<Item>; MAX_INSNS],
    count: usize,
    end: End,
    block: Block,
    /// Words of the block that are counted, and those that code has been written for.
    words: usize,
    noted: usize,
    /// Flags that are alive in front of each instruction.
    live: [u8; MAX_INSNS],
    together: Together,
    tail: Option<Tail>,
    /// Registers of each instruction, where some are lent …
    uses: [Uses; MAX_INSNS],
    /// … and those that are, by slot.
    lent: [Option<u8>; LENT],
    /// Flags are in RAX.
    flags_lent: bool,
}

impl Builder<'_, '_> {
    /// Decodes up to the end of the block.
    fn gather(&mut self, source: &mut dyn Source, start: u64) {
        let mut pc = start;
        let mut side_exits = 0;
        while self.count < self.config.limit.min(MAX_INSNS) {
            let apart = time::is_watched(&self.config.watches, pc) || source.is_hook(pc);
            if self.count > 0 && apart {
                break;
            }
            let mut bytes = [0u8; MAX_LEN];
            let readable = source.fetch(pc, &mut bytes);
            let mut insn = match decode(bytes.get(..readable).unwrap_or(&[])) {
                Ok(insn)
                    if !unsupported(&Item::new(insn, bytes, pc))
                        && insn.kind != Kind::Unsupported =>
                {
                    insn
                }
                Ok(_) => {
                    self.end = End::Unsupported;
                    break;
                }
                // What is too long faults by itself, as code that cannot be read does.
                Err(error) if readable < MAX_LEN || error == DecodeError::Long => {
                    self.end = End::Unreadable;
                    break;
                }
                Err(_) if surely_invalid(bytes[0]) => {
                    // Becomes UD2: the same fault at the same place.
                    let Ok(mut insn) = decode(&[0x0f, 0x0b]) else {
                        break;
                    };
                    bytes[..2].copy_from_slice(&[0x0f, 0x0b]);
                    insn.kind = Kind::Trap;
                    insn
                }
                Err(_) => {
                    self.end = End::Unsupported;
                    break;
                }
            };
            if !self.config.answers(&insn) {
                insn.kind = Kind::Plain;
            }
            let mut item = Item::new(insn, bytes, pc);
            if self.config.requests {
                request::put(source, &mut item);
            }
            let insn = item.insn;
            if insn.loads_address() && source.is_sequence(item.operand()) {
                self.end = End::Unsupported;
                break;
            }
            if !self.has_room_for(&item) {
                break;
            }
            if let Some(place) = self.items.get_mut(self.count) {
                *place = Some(item);
            }
            let facts = self.facts_of(&item);
            if let Some(place) = self.block.facts.get_mut(self.count) {
                *place = facts;
            }
            self.count += 1;
            pc = item.next();
            match insn.kind {
                Kind::Plain | Kind::Rdpmc | Kind::GsBase | Kind::Xsave => {}
                // Forward conditional branches are left behind; a backward one is
                // probably a loop's end and deserves a direct link.
                Kind::Jcc if insn.rel >= 0 && side_exits < MAX_EXITS - 4 => side_exits += 1,
                _ => break,
            }
        }
        // An obstacle after some good instructions gets a block of its own.
        if self.count > 0 {
            self.end = End::Branch;
        }
        self.block.guest_len = pc.wrapping_sub(start) as u32;
        self.block.insns = self.count as u16;
        self.block.words = self.words as u16;
    }

    fn item(&self, at: usize) -> Option<Item> {
        self.items.get(at).copied().flatten()
    }

    fn record(&mut self, start: u64, guest: u8) {
        let host = self.hot.here().wrapping_sub(start);
        let is_back = guest & record::BACK == record::BACK;
        if host == 0 && guest & record::LEN == 0 && !is_back {
            return;
        }
        if let Some(place) = self.block.records.get_mut(self.block.record_count) {
            *place = Record {
                guest,
                // (A longer one ends the block: nobody looks behind it.)
                host: u8::try_from(host).unwrap_or(u8::MAX),
            };
            self.block.record_count += 1;
        }
    }

    fn emit(&mut self, source: &mut dyn Source, start: u64) {
        let offsets = self.config.offsets;
        let next = start.wrapping_add(u64::from(self.block.guest_len));
        if self.count == 0 {
            self.block.end = self.end;
            let number = self.first_exit;
            self.hot.set_gs32(offsets.exit_id, number);
            self.hot.jump_gs(offsets.vector_special);
            self.exit(start, 0, 0, None);
            return;
        }
        let watches = self.config.watches;
        for stamp in time::due(&watches, start) {
            let here = self.hot.here();
            time::stamp(self.hot, stamp);
            self.record(here, 0);
        }
        if source.is_hook(start) {
            self.hook(start);
        }
        let total = self.whole();
        let point = self.place_count(source, next);
        self.find_uses();
        self.find_together();
        self.tail = self.filtering().and_then(|filter| self.find_tail(&filter));
        self.note_head(start);
        let mut counted = false;
        for at in 0..self.count {
            let Some(item) = self.item(at) else { return };
            if at == 0 && point.is_none_or(|place| place.through.is_some()) {
                self.fuel_keeping_flags(&item);
            }
            // (Registers that are lent are free for a prediction.)
            if item.insn.kind != Kind::Jcc || !self.counts_mispredicted() {
                self.give_back_for(&item, at);
            }
            self.model(&item, at);
            self.give_back_for(&item, at);
            let here = self.hot.here();
            let mut mark = 0;
            match point {
                Some(place) if place.at != at => {}
                Some(Place { through: None, .. }) => {
                    // Whatever was taken over, which may be just what the block takes away: where turns end must not
                    // depend on who came here first.
                    self.fuel(at, &item);
                    if !total.is_nothing() {
                        let here = self.hot.here();
                        total.plainly(self.hot, &offsets);
                        self.record(here, record::COUNTS);
                    }
                    counted = true;
                }
                Some(_) if total.is_nothing() => counted = true,
                Some(Place {
                    through: Some(reg), ..
                }) => {
                    // One record with the instruction: in between the register is not the program's.
                    total.through(reg, self.hot, &offsets);
                    mark = record::COUNTS;
                    counted = true;
                }
                None => {}
            }
            let last = at + 1 == self.count;
            self.pause(&item);
            self.use_vectors(&item);
            let here = match mark {
                0 => {
                    self.look_at_tail(&item, at, counted);
                    self.noted(&item, at)
                }
                _ => here,
            };
            match item.insn.kind {
                Kind::Plain | Kind::Rdpmc | Kind::GsBase | Kind::Xsave => {
                    if item.insn.kind == Kind::Xsave {
                        self.xsave(&item, here, mark);
                    } else if item.insn.kind == Kind::GsBase {
                        self.gs_base(&item);
                    } else if item.insn.kind == Kind::Rdpmc {
                        // What is added already, or not yet, for this block.
                        self.rdpmc(&item, self.pending(at, counted));
                    } else {
                        self.copy(&item, here, mark);
                    }
                    self.keep_set(at);
                    if last {
                        self.give_back();
                    }
                    if last && !counted {
                        self.count_spilling(total);
                    }
                    if last {
                        let here = self.hot.here();
                        self.exit_jmp(next);
                        self.record(here, 0);
                    }
                }
                Kind::Jcc if !last => self.side_exit(source, &item, (at, here), counted),
                _ => self.terminate(source, &item, counted, total),
            }
        }
    }
}
