//! References that are looked up together: to one base, near each other, of instructions that are executed in a row.
//!
//! In front of the first of them the shadow of all is looked at. Where it does not say everything, a byte of the thread's
//! says so to the others, which go to the runtime then, each in front of its own instruction; the last one takes that back.
//! (A byte that stays, as something came between, leads later ones to the runtime for nothing, and no further.)

use super::Item;
use super::operand::Operand;
use super::shadow::{load_shadow, point_at_shadow};
use super::{Builder, MAX_INSNS};
use crate::xlate::decode::{Insn, Kind, prefix};
use crate::xlate::known::{At, Filter, GROUPS, Shadow, Simple, simple};
use crate::xlate::operand_size::displacement_factor;

/// Most that are looked for.
const FOUND: usize = 24;
/// Eights of bytes that a group may have.
const EIGHTS: i32 = 8;

pub(super) const RSP: u8 = 4;
const RBP: u8 = 5;

/// What an address is made of, beside a displacement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) base: u8,
    pub(super) index: Option<(u8, u8)>,
}

/// References that are looked up together.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) base: Base,
    /// How often each of its registers had been changed in the block (of the stack pointer: in an unknown way).
    versions: [u8; 2],
    /// From there on, at the first one: a multiple of `align`.
    pub(super) low: i32,
    /// The same, at the beginning of the registers' versions.
    from: i32,
    /// The largest one's size.
    pub(super) align: u8,
    /// What each eight bytes' shadow has to say, the lowest first.
    pub(super) bits: [u8; EIGHTS as usize],
    many: u8,
    /// Its first and its last, as in [`place`].
    first: u8,
    last: u8,
    /// Its byte.
    pub(super) byte: u8,
}

/// All of a block.
#[derive(Clone, Copy)]
pub(super) struct Together {
    groups: [Option<Group>; FOUND],
    /// Which one a reference belongs to; [`FOUND`]: none.
    of: [u8; 2 * MAX_INSNS],
}

/// How a reference is looked up.
pub(super) enum Turn {
    /// By itself.
    Alone,
    /// With others, for all of them.
    First(Group),
    /// It was, with others; this is the byte, and whether it is the last of them.
    Later(u8, bool),
}

fn place(at: usize, number: usize) -> usize {
    (2 * at + number).min(2 * MAX_INSNS - 1)
}

/// What is known of registers in front of an instruction.
struct Registers {
    versions: [u8; 16],
    /// How far the stack pointer is from where it was at the beginning of its version.
    stack: i32,
}

/// What a reference is of, without what changed.
struct Reference {
    base: Base,
    at: i32,
    size: u8,
    bits: u8,
}

impl Together {
    pub(super) const NONE: Self = Self {
        groups: [None; FOUND],
        of: [FOUND as u8; 2 * MAX_INSNS],
    };

    pub(super) fn turn(&self, at: usize, number: usize) -> Turn {
        let place = place(at, number);
        let which = self.of.get(place).copied().unwrap_or(FOUND as u8);
        match self.groups.get(usize::from(which)).copied().flatten() {
            None => Turn::Alone,
            Some(group) if usize::from(group.first) == place => Turn::First(group),
            Some(group) => Turn::Later(group.byte, usize::from(group.last) == place),
        }
    }
}

impl Builder<'_, '_> {
    /// Finds the block's.
    pub(super) fn find_together(&mut self) {
        let Some(filter) = self.config.noting.and_then(|noting| noting.filter) else {
            return;
        };
        if filter.state != Shadow::Present || filter.model_of_data().is_some() {
            return;
        }
        let mut all = Together::NONE;
        let mut registers = Registers {
            versions: [0; 16],
            stack: 0,
        };
        let (mut found, mut since) = (0, 0);
        for at in 0..self.count {
            let Some(item) = self.item(at) else { return };
            let live = self.live.get(at).is_none_or(|&live| live != 0);
            let references = simple(&item.insn, item.code(), filter.reads_fs);
            for (number, one) in references.iter().flatten().flatten().enumerate() {
                let Some(reference) = Reference::of(&item, one, registers.stack) else {
                    continue;
                };
                let versions = registers.of(reference.base);
                let place = place(at, number);
                let open = all.groups.get_mut(since..found).unwrap_or(&mut []);
                let joins = |group: &mut Option<Group>| {
                    let group = group.as_mut()?;
                    (!live && group.versions == versions)
                        .then(|| group.joined(&reference))
                        .flatten()
                        .map(|joined| {
                            *group = Group {
                                last: place as u8,
                                ..joined
                            }
                        })
                };
                let joined = open.iter_mut().position(|group| joins(group).is_some());
                let which = match joined {
                    Some(which) => since + which,
                    None if found < FOUND => {
                        let group = Group::new(&reference, versions, registers.stack, place);
                        if let Some(to) = all.groups.get_mut(found) {
                            *to = Some(group);
                        }
                        found += 1;
                        found - 1
                    }
                    None => continue,
                };
                if let Some(of) = all.of.get_mut(place) {
                    *of = which as u8;
                }
            }
            let uses = self.uses.get(at).copied().unwrap_or_default();
            registers.pass(&item.insn, item.code(), uses.writes);
            // What is left there does not execute those behind it.
            if item.insn.kind == Kind::Jcc {
                since = found;
            }
        }
        let mut byte = 0;
        for group in &mut all.groups {
            let Some(one) = group else { break };
            if one.many > 1 && byte < GROUPS as u8 {
                one.byte = byte;
                byte += 1;
            } else {
                *group = None;
            }
        }
        self.together = all;
    }

    /// Goes to `cold` unless it is known that what is looked up together, from `address` on, adds nothing.
    pub(super) fn ask_together(&mut self, group: &Group, address: u8, filter: &Filter, cold: u64) {
        if group.align > 1 {
            self.ask_alignment(address, group.align, cold);
        }
        point_at_shadow(self.hot, address, filter);
        let eights = group.bits.iter().rposition(|&bits| bits != 0).unwrap_or(0) + 1;
        let [low, high] = [0, 4].map(|from| {
            let bits = group.bits.iter().skip(from).take(4).rev();
            bits.fold(0u32, |all, &bits| all << 8 | u32::from(bits))
        });
        if eights == 1 && low.is_power_of_two() {
            return self.ask_byte(address, low as u8, cold);
        }
        load_shadow(self.hot, address, eights as u32);
        self.ask_bits(address, low, cold);
        if high != 0 {
            self.ask_upper_bits(address, high, cold);
        }
    }

    /// `lea to, [from what the group's addresses are made of, its lowest]`.
    pub(super) fn load_lowest(&mut self, group: &Group, to: u8) {
        let Base { base, index } = group.base;
        let (index, scale) = index.unwrap_or((RSP, 0));
        let rex = 0x48 | (to >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        let low = to & 7;
        // With a SIB byte and a displacement, always: no base means something else then.
        let sib = scale << 6 | (index & 7) << 3 | base & 7;
        match i8::try_from(group.low) {
            Ok(near) => self.hot.put(&[rex, 0x8d, 0x44 | low << 3, sib, near as u8]),
            Err(_) => {
                self.hot.put(&[rex, 0x8d, 0x84 | low << 3, sib]);
                self.hot.put(&group.low.to_le_bytes());
            }
        }
    }
}

impl Group {
    fn new(reference: &Reference, versions: [u8; 2], stack: i32, place: usize) -> Self {
        let mut bits = [0; EIGHTS as usize];
        bits[0] = reference.bits;
        Self {
            base: reference.base,
            versions,
            low: reference.at - if reference.base.base == RSP { stack } else { 0 },
            from: reference.at,
            align: reference.size,
            bits,
            many: 1,
            first: place as u8,
            last: place as u8,
            byte: 0,
        }
    }

    /// Of so many eights behind each other, from there on from the stack pointer; `None`: there are too many.
    pub(super) fn of_stack(low: i32, eights: usize, each: u8) -> Option<Self> {
        let mut bits = [0; EIGHTS as usize];
        bits.get_mut(..eights)?.fill(each);
        Some(Self {
            base: Base {
                base: RSP,
                index: None,
            },
            versions: [0; 2],
            low,
            from: low,
            align: 8,
            bits,
            many: eights as u8,
            first: 0,
            last: 0,
            byte: 0,
        })
    }

    /// With one more, if that fits: all are aligned where the lowest is.
    fn joined(&self, one: &Reference) -> Option<Self> {
        if self.base != one.base {
            return None;
        }
        let size = i32::from(one.size);
        // Where eights begin: the place of an eight among them, or what there is so far.
        let begin = match (self.align, one.size) {
            (8, _) => self.from,
            (_, 8) => one.at,
            _ if self.from == one.at && self.align == one.size => self.from,
            _ => return None,
        };
        let fits = |at: i32, size: i32| (at - begin).rem_euclid(size) == 0;
        if !fits(one.at, size) || !fits(self.from, i32::from(self.align)) {
            return None;
        }
        let align = self.align.max(one.size);
        let eight = |at: i32| match align {
            8 => (at - begin).div_euclid(8),
            _ => 0,
        };
        let (first, new) = (eight(self.from), eight(one.at));
        let lowest = first.min(new);
        let mut bits = [0; EIGHTS as usize];
        for (which, old) in (0..).zip(self.bits).filter(|(_, old)| *old != 0) {
            *bits.get_mut((first - lowest + which) as usize)? |= old;
        }
        *bits.get_mut((new - lowest) as usize)? |= one.bits;
        // (From the lowest eight's beginning.)
        let from = if align == 8 {
            begin + 8 * lowest
        } else {
            begin
        };
        Some(Self {
            low: self.low - self.from + from,
            from,
            align,
            bits,
            many: self.many + 1,
            ..*self
        })
    }
}

impl Registers {
    fn of(&self, base: Base) -> [u8; 2] {
        let version = |register: u8| self.versions.get(usize::from(register)).copied();
        let index = base.index.and_then(|(index, _)| version(index));
        [version(base.base).unwrap_or(0), index.unwrap_or(0)]
    }

    /// Behind an instruction.
    fn pass(&mut self, insn: &Insn, code: &[u8], mut written: u16) {
        if written >> RSP & 1 != 0
            && let Some(by) = moves_stack(insn, code)
            && let Some(stack) = self.stack.checked_add(by)
        {
            self.stack = stack;
            written &= !(1 << RSP);
        }
        if written >> RSP & 1 != 0 {
            self.stack = 0;
        }
        for (register, version) in self.versions.iter_mut().enumerate() {
            // (There are fewer instructions.)
            *version += (written >> register & 1) as u8;
        }
    }
}

impl Reference {
    fn of(item: &Item, one: &Simple, stack: i32) -> Option<Self> {
        let insn = &item.insn;
        let (base, away) = match one.at {
            At::Stack(away) => (RSP, away.into()),
            At::Frame => (RBP, 0),
            At::Absolute => return None,
            At::Operand => {
                // (What `pop` goes to is worked out with the stack pointer behind it.)
                let pops = insn.space == 0 && insn.opcode == 0x8f;
                if insn.is_rip_relative() || insn.has(prefix::FS | prefix::GS) || pops {
                    return None;
                }
                let Operand { base, index } = Operand::of(insn, item.code());
                let away = displacement(item, one.size)?;
                return Self::from(one, Base { base: base?, index }, away, stack);
            }
        };
        Self::from(one, Base { base, index: None }, away, stack)
    }

    fn from(one: &Simple, base: Base, away: i32, stack: i32) -> Option<Self> {
        let at = away.checked_add(if base.base == RSP { stack } else { 0 })?;
        // (Far from where numbers end.)
        (one.size <= 8 && at.unsigned_abs() < 1 << 30).then_some(Self {
            base,
            at,
            size: one.size,
            bits: one.bits(),
        })
    }
}

/// The displacement of an operand with a base.
pub(super) fn displacement(item: &Item, size: u8) -> Option<i32> {
    let insn = &item.insn;
    let sib = usize::from(insn.modrm & 7 == 4);
    let rest = item.code().get(usize::from(insn.modrm_at) + 1 + sib..)?;
    match insn.modrm >> 6 {
        0 => Some(0),
        1 => {
            let factor = displacement_factor(insn, size);
            rest.first().map(|&byte| factor * i32::from(byte as i8))
        }
        2 => rest.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)),
        _ => None,
    }
}

/// How far an instruction moves the stack pointer, where it is known.
pub(super) fn moves_stack(insn: &Insn, code: &[u8]) -> Option<i32> {
    if insn.space != 0 || insn.has(prefix::OPSIZE | prefix::ADDRSIZE) {
        return None;
    }
    let low = (insn.modrm & 7) | (insn.rex & 1) << 3;
    let immediate = code.get(usize::from(insn.imm_at)..)?;
    let by = match insn.opcode {
        0x50..=0x57 | 0x68 | 0x6a => return Some(-8),
        // (Not to the stack pointer itself.)
        0x58..=0x5f if insn.opcode != 0x5c || insn.rex & 1 != 0 => return Some(8),
        0x81 => i32::from_le_bytes(*immediate.first_chunk()?),
        0x83 => i32::from(*immediate.first()? as i8),
        _ => return None,
    };
    if insn.modrm < 0xc0 || low != RSP || insn.rex & 8 == 0 {
        return None;
    }
    match insn.modrm >> 3 & 7 {
        0 => Some(by),
        5 => by.checked_neg(),
        _ => None,
    }
}
