//! Rings in which only what is not known to add nothing is noted (`xlate::known`), and at the end how often each block
//! was executed.

use super::batch::Numbers;
use super::code::{Code, Executed};
use super::heap::Words;
use super::reader::Rings;
use super::{Access, Batch, Elements, Marked, Meaning, Sink, Thread};
use crate::layout::Context;
use crate::virt::blocks;
use crate::virt::bytes::field;
use crate::xlate::block::Branch;
use crate::xlate::known::{Does, Is, Record};
use crate::xlate::levels::Model;
use crate::xlate::references::MARK;
use std::mem::offset_of;
use std::sync::PoisonError;

/// Bits of the number of references that are known by their records.
const RESOLVED: u32 = 15;
/// Spreads records over those places (2⁶⁴ by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a process' records mean, as far as that was asked for lately.
pub(super) struct Resolution {
    /// Numbers of what the model's mean.
    numbers: Numbers,
    /// References, by their first words.
    references: Box<[Resolved]>,
}

impl Resolution {
    /// Nothing yet.
    pub(super) fn new(recent: bool) -> Self {
        Self {
            numbers: Numbers::new(recent),
            references: Box::default(),
        }
    }
}

/// What a reference's record means.
#[derive(Clone, Copy)]
struct Resolved {
    /// Its first word; 0: none.
    record: u64,
    code: u32,
    operand: u32,
    hint: u32,
}

/// Room for them.
fn none_resolved() -> Box<[Resolved]> {
    let none = Resolved {
        record: 0,
        code: 0,
        operand: 0,
        hint: u32::MAX,
    };
    vec![none; 1 << RESOLVED].into_boxed_slice()
}

fn access(does: Does) -> Access {
    match does {
        Does::Load => Access::Load,
        Does::Store => Access::Store,
        Does::Modify => Access::Modify,
    }
}

impl Code {
    /// The words of a block of which nothing is known but those of instruction `at`; those are put into `words`.
    pub(super) fn with_words(&self, at: usize, own: &[u64], words: &mut Vec<u64>) {
        words.clear();
        words.resize(self.words, 0);
        let first = self
            .first_words
            .get(at)
            .map_or(0, |&first| usize::from(first));
        for (to, from) in words.iter_mut().skip(first).zip(own) {
            *to = *from;
        }
    }
}

impl Rings<'_> {
    /// A part's records and marks; `base`: of its process' descriptions.
    pub(super) fn records(
        &mut self,
        (thread, base): (Thread, u64),
        buffer: &[u64],
        heap: &mut Words,
        sink: &mut dyn Sink,
    ) {
        let mut rest = buffer;
        self.turn(base);
        while !rest.is_empty() {
            if self.recent {
                let mut batch = Batch::new(rest, &self.resolution.numbers);
                sink.batch(thread, &mut batch);
                let left = batch.rest.len();
                rest = rest.get(rest.len() - left..).unwrap_or(&[]);
            }
            let Some((&head, behind)) = rest.split_first() else {
                return;
            };
            if head & MARK != 0 {
                if let Some(heap) = heap.take(head) {
                    sink.heap(thread, &heap, false);
                } else if let Some(marked) = Marked::of(head) {
                    sink.marked(thread, marked);
                }
                rest = behind;
                continue;
            }
            let record = Record(head).asked();
            let Some((own, behind)) = behind.split_at_checked(record.words()) else {
                self.lost += 1;
                return;
            };
            // (As a whole: what has a number is taken from the batch then.)
            if self.recent && head & Record::CANCELLED == 0 && self.number(record, sink).is_some() {
                continue;
            }
            rest = behind;
            if record.as_known().is_some() {
                continue;
            }
            let missed = head & Record::MISSED;
            if head & Record::CANCELLED == 0
                && self.record(thread, (record, missed), own, sink).is_none()
            {
                self.lost += 1;
                return;
            }
        }
    }

    /// What comes is of a process with these descriptions. (Others have the same records of theirs.)
    pub(super) fn turn(&mut self, base: u64) {
        /// Processes whose records are known.
        const MOST: usize = 64;
        if self.base == base {
            return;
        }
        if self.others.len() >= MOST {
            self.others.clear();
        }
        let known = self.others.remove(&base);
        let known = known.unwrap_or_else(|| Resolution::new(self.recent));
        let before = std::mem::replace(&mut self.resolution, known);
        self.others
            .insert(std::mem::replace(&mut self.base, base), before);
    }

    /// `missed`: what its head says of that. `None`: it makes no sense.
    fn record(
        &mut self,
        thread: Thread,
        (record, missed): (Record, u64),
        own: &[u64],
        sink: &mut dyn Sink,
    ) -> Option<()> {
        let at = record.number();
        match record.is()? {
            Is::Lies(_) => {
                let counts = own.first_chunk::<3>()?;
                self.lie(thread, record, *counts, sink)?;
            }
            Is::Reference(does) => {
                let place = self.resolve(record, does)?;
                let known = self.resolution.references.get_mut(place)?;
                let code = self.codes.get(known.code)?;
                let operand = (at, known.operand as usize);
                let address = *own.first()?;
                sink.referenced(thread, code, operand, address, &mut known.hint);
                if self.models_data && record.0 & Record::FACTS == 0 {
                    // (Where nothing else says what it did.)
                    let plain = Record(record.0 & !Record::ALL);
                    self.number(plain, sink)?;
                    let words = [plain.0 | missed, address];
                    sink.batch(thread, &mut Batch::new(&words, &self.resolution.numbers));
                }
            }
            Is::Masked(does) => {
                let plain = Record(record.0 & !Record::IN_PLACE);
                let place = self.resolve(plain, does)?;
                let known = self.resolution.references.get_mut(place)?;
                let code = self.codes.get(known.code)?;
                let [address, mask] = *own.first_chunk::<2>()?;
                let elements = Elements {
                    address,
                    mask,
                    in_place: record != plain,
                };
                let operand = (at, known.operand as usize);
                sink.masked(thread, code, operand, elements, &mut known.hint);
            }
            Is::Model(_) => return None,
            Is::Instruction(_) => {
                let code = self.codes.find(record.described(self.base))?;
                let code = self.codes.get(code)?;
                code.with_words(at, own, &mut self.words);
                let executed = Executed {
                    code,
                    done: at,
                    interrupted: true,
                    words: &self.words,
                    next: None,
                };
                sink.noted(thread, &executed, at);
            }
        }
        Some(())
    }

    /// Finds out what a reference's record means, unless it is known: its place among those that are.
    #[inline]
    fn resolve(&mut self, record: Record, does: Does) -> Option<usize> {
        if self.resolution.references.is_empty() {
            self.resolution.references = none_resolved();
        }
        let place = (record.0.wrapping_mul(SPREAD) >> (64 - RESOLVED)) as usize;
        if self.resolution.references.get(place)?.record != record.0 {
            let (code, operand) = self.operand(record, does)?;
            *self.resolution.references.get_mut(place)? = Resolved {
                record: record.0,
                code,
                operand,
                hint: u32::MAX,
            };
        }
        Some(place)
    }

    /// Sees to it that what a record of the model's means has a number. `None`: it has none.
    fn number(&mut self, record: Record, sink: &mut dyn Sink) -> Option<()> {
        let (described, at, what) = match record.is()? {
            Is::Reference(does) if self.models_data && !record.is_told_always() => {
                let (_, operand) = self.operand(record, does)?;
                (
                    record.described(self.base),
                    record.number(),
                    Meaning::Operand(operand as usize),
                )
            }
            Is::Model(model) => {
                let (_, at) = record.model()?;
                let described = record.described(self.base);
                let what = match model {
                    Model::Conditional(_) => Meaning::Conditional,
                    Model::Indirect => Meaning::Indirect,
                    Model::Fetch => Meaning::Line,
                    Model::Known(_) => return None,
                };
                (described, at, what)
            }
            _ => return None,
        };
        // (Of what is no reference the operands are not needed.)
        let code = match what {
            Meaning::Operand(_) => self.codes.find(described)?,
            _ => self.codes.find_brief(described)?,
        };
        let number = sink.number(self.codes.get(code)?, at, what)?;
        self.resolution.numbers.set(record, number);
        Some(())
    }

    /// The block and the operand's number that a record means.
    pub(super) fn operand(&mut self, record: Record, does: Does) -> Option<(u32, u32)> {
        let code = self.codes.find(record.described(self.base))?;
        let access = access(does);
        let mut operands = self.codes.get(code)?.operands(record.number()).iter();
        let operand = operands.position(|operand| operand.access == access)?;
        Some((code, operand as u32))
    }

    /// How often every thread executed its blocks.
    pub(super) fn count(&mut self) {
        let next = self
            .shared
            .header()
            .next_slot
            .load(std::sync::atomic::Ordering::Acquire);
        let mut reader = blocks::Reader::new(self.shared);
        reader.marks(next.min(crate::layout::MAX_SLOTS));
        let sink = self.sink.clone();
        let mut sink = sink.sink.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in 1..next.min(crate::layout::MAX_SLOTS) {
            let Ok(page) = self.shared.context(slot) else {
                continue;
            };
            let word = |at| u32::from_le_bytes(field(page.as_slice(), at));
            if word(offset_of!(Context, noted.position)) == 0 {
                continue;
            }
            let thread = Thread {
                slot,
                memory: word(offset_of!(Context, space)),
            };
            let codes = &mut self.codes;
            reader.noted(slot, page.as_slice(), &mut |part, noted| {
                let code = codes.find(noted.described);
                let Some(code) = code.and_then(|code| codes.get(code)) else {
                    return;
                };
                let end = noted.instructions.end.min(code.instructions.len());
                let instructions = noted.instructions.start..end;
                sink.counted((thread, part), code, instructions, noted.times);
                let of = (thread, part);
                match noted.branch {
                    (Branch::Taken(at), times) => sink.taken(of, code, at.into(), times),
                    (Branch::Mispredicted(at), times) => {
                        sink.mispredicted(of, code, at.into(), times);
                    }
                    (Branch::None, _) => {}
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::Choice;
    use super::super::code::Machine;
    use super::*;
    use crate::xlate::decode::Insn;
    use crate::xlate::decode::decode;
    use crate::xlate::known::{At, simple};
    use crate::xlate::masked::{Masked, masked};
    use crate::xlate::operand_size::displacement_factor;
    use crate::xlate::references::{Sort, Words};

    /// Every encoding whose references the translator looks up has just these, and no others; as iced-x86 says.
    #[test]
    fn what_is_looked_up_is_all() {
        let mut factory = iced_x86::InstructionInfoFactory::new();
        let machine = Machine {
            reads_fs: true,
            components: 7,
        };
        let (mut seen, mut chosen) = (0, 0);
        let mut check = |bytes: &[u8]| {
            let mut all = [0u8; 15];
            all[..bytes.len()].copy_from_slice(bytes);
            let Ok(insn) = decode(&all) else { return };
            let own = &all[..usize::from(insn.len)];
            if let Some(masked) = masked(&insn, own, true) {
                return chosen += u32::from(check_masked(&insn, own, &masked));
            }
            let Some(ours) = simple(&insn, own, true) else {
                return;
            };
            // What no CPU executes makes no references.
            if iced_x86::Decoder::with_ip(64, own, 0, 0)
                .decode()
                .is_invalid()
            {
                return;
            }
            let code = Code::new(0, 0x1000, own, (1, 200), &machine, Some(&mut factory)).unwrap();
            assert_eq!(code.instructions[0].unknown, None, "{own:02x?}");
            let theirs = code.operands(0);
            let ours: Vec<_> = ours.iter().flatten().collect();
            assert_eq!(ours.len(), theirs.len(), "{own:02x?}: {ours:?} {theirs:?}");
            for one in ours {
                let mut found = theirs.iter().filter(|two| two.access == access(one.does));
                let two = found
                    .next()
                    .unwrap_or_else(|| panic!("{own:02x?}: {one:?}"));
                assert!(found.next().is_none(), "{own:02x?}: two of a kind");
                let form = two.form().unwrap_or_else(|| panic!("{own:02x?}: no form"));
                assert_eq!(
                    (u32::from(one.size), one.stack),
                    (two.size, two.stack),
                    "{own:02x?}"
                );
                let away = match one.at {
                    At::Stack(away) => Some(i64::from(away)),
                    At::Absolute => {
                        let at = usize::from(insn.imm_at);
                        Some(i64::from_le_bytes(*own[at..].first_chunk().unwrap()))
                    }
                    At::Operand if insn.modrm >> 6 == 1 && !two.stack => {
                        Some(8 * i64::from(displacement_factor(&insn, one.size)))
                    }
                    _ => None,
                };
                if let Some(away) = away {
                    assert_eq!(form.displacement, away.cast_unsigned(), "{own:02x?}");
                }
            }
            seen += 1;
        };
        let legacy: [&[u8]; 5] = [&[], &[0x66], &[0xf3], &[0xf2], &[0x64]];
        let maps: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
        // [rbx+8], [rsp], [rax+rcx*8+8], [rip+…], a register
        let forms: [&[u8]; 5] = [
            &[0x43, 8],
            &[0x04, 0x24],
            &[0x44, 0xc8, 8],
            &[5, 0, 1, 0, 0],
            &[0xc3],
        ];
        for opcode in 0..=255u8 {
            for (reg, form) in (0..8u8).flat_map(|reg| forms.iter().map(move |form| (reg, form))) {
                let mut modrm = form.to_vec();
                modrm[0] |= reg << 3;
                for prefix in legacy {
                    for rex in [None, Some(0x48u8)] {
                        for map in maps {
                            let mut bytes = prefix.to_vec();
                            bytes.extend(rex);
                            bytes.extend(map);
                            bytes.push(opcode);
                            bytes.extend(&modrm);
                            bytes.truncate(15);
                            check(&bytes);
                        }
                    }
                }
                for (map, last) in (1..4u8).flat_map(|map| (0..8u8).map(move |last| (map, last))) {
                    for wide in [0, 0x80] {
                        let mut bytes = vec![0xc4, 0xe0 | map, 0x78 | wide | last, opcode];
                        bytes.extend(&modrm);
                        check(&bytes);
                    }
                }
                for (map, pp) in (1..4u8).flat_map(|map| (0..4u8).map(move |pp| (map, pp))) {
                    // Length, broadcast, mask.
                    for last in [0, 0x20, 0x40, 0x60, 0x10, 1, 0x41, 0x50, 0xc2] {
                        for wide in [0, 0x80] {
                            let mut bytes =
                                vec![0x62, 0xf0 | map, 0x7c | wide | pp, 8 | last, opcode];
                            bytes.extend(&modrm);
                            check(&bytes);
                        }
                    }
                }
            }
        }
        assert!(seen > 10_000 && chosen > 500, "{seen} {chosen}");
    }

    /// A mask chooses from just these elements. `false`: no CPU executes it.
    fn check_masked(insn: &Insn, own: &[u8], masked: &Masked) -> bool {
        if iced_x86::Decoder::with_ip(64, own, 0, 0)
            .decode()
            .is_invalid()
        {
            return false;
        }
        assert_eq!(simple(insn, own, true), None, "{own:02x?}");
        let mut factory = iced_x86::InstructionInfoFactory::new();
        let machine = Machine {
            reads_fs: true,
            components: 0xe7,
        };
        let code = Code::new(0, 0x1000, own, (1, 200), &machine, Some(&mut factory)).unwrap();
        let [operand] = code.operands(0) else {
            panic!("{own:02x?}: {:?}", code.operands(0));
        };
        let elements = operand.choice.as_ref().and_then(Choice::masked_elements);
        let ours = masked.all.size >> masked.shift;
        assert_eq!(elements, Some(ours), "{own:02x?}");
        assert_eq!(operand.size, 1 << masked.shift, "{own:02x?}");
        assert_eq!(operand.access, access(masked.all.does), "{own:02x?}");
        let words = Words::of(insn, own);
        let (_, wide) = words.wide().next().unwrap();
        assert_eq!((wide.sort, wide.register), (Sort::Mask, masked.mask));
        true
    }
}
