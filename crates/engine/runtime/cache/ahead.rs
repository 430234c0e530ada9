//! What the block builder asks about the program: its bytes, and which flags
//! are alive further on.

use crate::xlate::block::Source;
use crate::xlate::decode::{Kind, MAX_LEN, decode, flag};
use crate::xlate::facts::{Event, Facts};
use crate::xlate::features;
use crate::{allocations, collect, functions, machine, outside, pages, rseq};

pub(super) struct Reader<'a> {
    pub(super) live: &'a mut [(u64, u8); 512],
    pub(super) pages: &'a mut pages::Pages,
}

impl Source for Reader<'_> {
    fn fetch(&mut self, pc: u64, out: &mut [u8; MAX_LEN]) -> usize {
        self.pages.fetch(pc, out)
    }

    fn is_sequence(&mut self, address: u64) -> bool {
        rseq::is_described(address)
    }

    fn is_hook(&mut self, pc: u64) -> bool {
        collect::is_hook(pc) || allocations::is_hook(pc)
    }

    fn is_tail_call(&mut self, from: u64, to: u64) -> bool {
        functions::is_tail_call(from, to)
    }

    /// Looks a few instructions ahead, never into code that may change.
    fn live_flags(&mut self, pc: u64) -> u8 {
        let slot = (pc ^ pc >> 9) as usize & 511;
        if let Some(&(at, live)) = self.live.get(slot)
            && at == pc
        {
            return live;
        }
        let mut steps = STEPS;
        let live = self.look(pc, 0, &mut steps, BRANCHES);
        if let Some(place) = self.live.get_mut(slot) {
            *place = (pc, live);
        }
        live
    }
}

/// Instructions looked at, and conditional branches followed both ways.
const STEPS: u32 = 28;
const BRANCHES: u32 = 3;

impl Reader<'_> {
    /// Flags read from `at` on that are not in `dead`, cautiously.
    fn look(&mut self, mut at: u64, mut dead: u8, steps: &mut u32, branches: u32) -> u8 {
        let mut live = 0u8;
        loop {
            let mut bytes = [0u8; MAX_LEN];
            if *steps == 0 || !self.pages.is_constant(at) {
                break;
            }
            *steps -= 1;
            let readable = self.pages.fetch(at, &mut bytes);
            let Ok(insn) = decode(bytes.get(..readable).unwrap_or(&[])) else {
                break;
            };
            live |= insn.flags_read() & !dead;
            dead |= insn.flags_written();
            if dead == flag::ALL || live | dead == flag::ALL {
                return live;
            }
            at = at.wrapping_add(u64::from(insn.len));
            let target = at.wrapping_add_signed(i64::from(insn.rel));
            match insn.kind {
                Kind::Plain => {}
                Kind::Jmp | Kind::Call => at = target,
                Kind::Jcc if branches > 0 => live |= self.look(target, dead, steps, branches - 1),
                _ => break,
            }
        }
        live | flag::ALL & !dead
    }
}

/// Where a block is to end early, before what its first part may change (`compared`), and before an instruction of a
/// feature that is hidden: that begins a block, so that it is executed where it is translated. And whether this one does.
pub(super) fn ends_early(
    pages: &mut pages::Pages,
    pc: u64,
    insns: u16,
    [once, compared]: [bool; 2],
) -> (Option<usize>, bool) {
    if once {
        return (None, false);
    }
    let store = compared.then(|| first_store(pages, pc, insns)).flatten();
    let hidden = machine::on()
        .then(|| first_hidden(pages, pc, insns))
        .flatten();
    let limit = match (store, hidden.filter(|&count| count > 0)) {
        (Some(store), Some(hidden)) => Some(store.min(hidden)),
        (store, hidden) => store.or(hidden),
    };
    (limit, hidden == Some(0))
}

/// The first instruction that needs a feature which is hidden; the very first is named.
fn first_hidden(pages: &mut pages::Pages, mut pc: u64, insns: u16) -> Option<usize> {
    for count in 0..usize::from(insns) {
        let mut bytes = [0u8; MAX_LEN];
        let len = pages.fetch(pc, &mut bytes);
        let insn = decode(bytes.get(..len).unwrap_or(&[])).ok()?;
        let hidden = features::needed(&insn).filter(|feature| !machine::shows(feature));
        if let Some(feature) = hidden {
            if count == 0 {
                outside::hidden(feature.name);
            }
            return Some(count);
        }
        pc = pc.wrapping_add(u64::from(insn.len));
    }
    None
}

/// How many instructions of a block there are up to the first that writes memory, if more follow it.
fn first_store(pages: &mut pages::Pages, mut pc: u64, insns: u16) -> Option<usize> {
    for count in 1..usize::from(insns) {
        let mut bytes = [0u8; MAX_LEN];
        let len = pages.fetch(pc, &mut bytes);
        let insn = decode(bytes.get(..len).unwrap_or(&[])).ok()?;
        if Event::Stores.counts(Facts::of(&insn)) {
            return Some(count);
        }
        pc = pc.wrapping_add(u64::from(insn.len));
    }
    None
}
