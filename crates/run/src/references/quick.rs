//! Blocks as most executions of them go: with the lines of their instructions in front of their sets, and with no
//! references but those whose addresses have a form. What the caches make of these is decided by a comparison each.
//! (What is in front of its set is there, and nothing moves: so the order of instructions and data does not matter.)

use super::costs::{EVERY_TIME, place};
use super::modelled::{Modelled, misses};
use super::step::{Found, Step, What};
use truecount_engine::virt::references::{Code, Executed, Form};
use truecount_memory::Level;

/// A line of instructions.
struct Line {
    number: u64,
    /// The first instruction that is in it.
    at: u8,
}

/// A reference.
struct Reference {
    form: Form,
    size: u32,
    /// Number of its step.
    step: u16,
    /// Where its misses of the first level are counted.
    misses: u8,
    /// Number of its instruction.
    at: u8,
}

/// A conditional branch.
struct Conditional {
    pc: u64,
    target: u64,
    /// Number of its step.
    step: u16,
    /// Number of its instruction.
    at: u8,
}

/// What a block does, in short.
pub(super) struct Quick {
    /// Instructions.
    whole: usize,
    lines: Box<[Line]>,
    references: Box<[Reference]>,
    conditional: Box<[Conditional]>,
    /// An indirect branch, which ends it: its address, the number of its step.
    indirect: Option<(u64, u16)>,
    /// Times of [`EVERY_TIME`].
    always: [u8; 4],
}

impl Quick {
    /// Of a block with these steps; `line_bits`: of the cache of instructions. `None`: it has other references.
    pub(super) fn new(code: &Code, steps: &[Step], line_bits: u32) -> Option<Self> {
        let mut lines: Vec<Line> = Vec::new();
        let (mut all, mut conditional, mut indirect) = (Vec::new(), Vec::new(), None);
        let mut always = [0u8; 4];
        for (at, instruction) in (0u8..).zip(&code.instructions) {
            let end = u64::from(instruction.length.max(1)) - 1;
            for address in [instruction.pc, instruction.pc.wrapping_add(end)] {
                let number = address >> line_bits;
                if lines.last().is_none_or(|line| line.number != number) {
                    lines.push(Line { number, at });
                }
            }
        }
        for (number, step) in steps.iter().enumerate() {
            let number = u16::try_from(number).ok()?;
            let pc = code.instructions.get(usize::from(step.at))?.pc;
            match step.what {
                What::Data => all.push(Reference {
                    form: step.form,
                    size: step.size,
                    step: number,
                    misses: misses(step.kind) as u8,
                    at: step.at,
                }),
                What::Conditional => conditional.push(Conditional {
                    pc,
                    target: step.form.displacement,
                    step: number,
                    at: step.at,
                }),
                What::Indirect => indirect = Some((pc, number)),
                What::Fetch => {}
                What::General | What::Rest => return None,
            }
            if let Some(counted) = step.counted() {
                let place = EVERY_TIME.iter().position(|&place| place == counted)?;
                let times = always.get_mut(place)?;
                *times = times.checked_add(1)?;
            }
        }
        Some(Self {
            whole: code.instructions.len(),
            lines: lines.into_boxed_slice(),
            references: all.into_boxed_slice(),
            conditional: conditional.into_boxed_slice(),
            indirect,
            always,
        })
    }

    /// The block is executed by a thread whose model has nothing beside the caches of the first and the last level.
    /// `false`: nothing was done; its instructions have to be looked at.
    #[inline]
    pub(super) fn execute(
        &self,
        executed: &Executed<'_>,
        found: &mut [Found],
        model: &mut Modelled,
    ) -> bool {
        let done = executed.done;
        let whole = done == self.whole;
        let lines = self.lines.iter();
        let lines = lines.take_while(|line| whole || usize::from(line.at) < done);
        if !model.goes_on(lines.map(|line| line.number)) {
            return false;
        }
        if whole {
            for (place, times) in EVERY_TIME.into_iter().zip(self.always) {
                model.meets(place, u64::from(times));
            }
        }
        for reference in &self.references {
            if !whole {
                if usize::from(reference.at) >= done {
                    break;
                }
                let reads = usize::from(reference.misses) == place::READ_L1;
                model.meets(if reads { place::READS } else { place::WRITES }, 1);
            }
            let address = executed.at(&reference.form);
            if model.caches.is_in_front(address, reference.size) {
                continue;
            }
            let level = model.caches.meet_plain(address, reference.size);
            if level != Level::First {
                if let Some(found) = found.get_mut(usize::from(reference.step)) {
                    found.met(level);
                }
                model.meet(usize::from(reference.misses), level);
            }
        }
        for branch in &self.conditional {
            let at = usize::from(branch.at);
            if at >= done {
                break;
            }
            // One that is not the last thing done was not taken.
            let taken = at + 1 == done && executed.next == Some(branch.target);
            let wrong = model.branches.conditional(branch.pc, taken);
            if let Some(found) = found.get_mut(usize::from(branch.step)) {
                found.first += u64::from(taken);
                found.last += u64::from(wrong);
            }
            model.meets(place::CONDITIONAL, u64::from(!whole));
            model.meets(place::CONDITIONAL_WRONG, u64::from(wrong));
        }
        if whole
            && let Some((pc, step)) = self.indirect
            && let Some(found) = found.get_mut(usize::from(step))
            && let Some(next) = executed.next
        {
            let wrong = model.branches.indirect(pc, next);
            found.last += u64::from(wrong);
            model.meets(place::INDIRECT_WRONG, u64::from(wrong));
        }
        true
    }
}
