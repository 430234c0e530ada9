//! What a model makes of a block: of all that it did, or of what changes something in the model.

use super::super::Wanted;
use super::super::costs::place;
use super::super::lines::Lines;
use super::super::modelled::{Modelled, misses};
use super::super::step::{Found, Known, Step, What, touch};
use super::{Site, by};
use truecount_engine::virt::references::{Code, Executed, Meaning};
use truecount_memory::Level;

/// Something that an instruction does, as the model has to know it.
#[derive(Clone, Copy)]
pub(in crate::references) struct Told {
    /// Address of the instruction.
    pub(in crate::references) pc: u64,
    /// Bytes.
    pub(in crate::references) size: u32,
    /// Number of its operand.
    pub(in crate::references) operand: u8,
    /// Where its misses of the first level are counted.
    pub(in crate::references) misses: u8,
}

impl Told {
    /// Of an instruction of a block; `None`: it does nothing like that.
    pub(in crate::references) fn new(
        code: &Code,
        at: usize,
        what: Meaning,
        wanted: &Wanted,
    ) -> Option<Self> {
        let instruction = code.instructions.get(at)?;
        let (size, operand, misses) = match what {
            Meaning::Operand(number) => {
                let operand = code.operands(at).get(number)?;
                (operand.size, number, misses(wanted.kind_of(operand.access)))
            }
            Meaning::Line => (instruction.length, 0, place::FETCH_L1),
            Meaning::Conditional | Meaning::Indirect => (0, 0, 0),
        };
        Some(Self {
            pc: instruction.pc,
            size,
            operand: operand as u8,
            misses: misses as u8,
        })
    }
}

impl Site {
    /// References and branches whose number follows from how much of the block was executed.
    fn counted_steps(&self, executed: &Executed<'_>, model: &mut Modelled) {
        if executed.done == self.instructions.len() {
            for &(place, times) in &self.always {
                model.meets(place, times);
            }
        } else {
            let done = |step: &&Step| usize::from(step.at) < executed.done;
            for place in self.steps.iter().filter(done).filter_map(Step::counted) {
                model.meets(place, 1);
            }
        }
    }

    /// The number of a step.
    fn number_of(&self, at: usize, what: Meaning) -> Option<usize> {
        let wanted = match what {
            Meaning::Operand(operand) => return self.step_of(at, operand),
            Meaning::Line => What::Fetch,
            Meaning::Conditional => What::Conditional,
            Meaning::Indirect => What::Indirect,
        };
        let mut steps = self.steps.iter();
        steps.position(|step| step.what == wanted && usize::from(step.at) == at)
    }

    /// What was counted elsewhere of something that an instruction does. `false`: there is nothing like that.
    pub(in crate::references) fn adds(
        &mut self,
        (at, what): (usize, Meaning),
        [first, last]: [u64; 2],
    ) -> bool {
        let step = self.number_of(at, what);
        let found = step.and_then(|step| self.found.get_mut(step));
        found.is_some_and(|found| {
            found.first += first;
            found.last += last;
            true
        })
    }

    pub(super) fn model(
        &mut self,
        executed: &Executed<'_>,
        mut touched: Option<Lines<'_>>,
        model: &mut Modelled,
    ) {
        let reached = executed.reached();
        self.counted_steps(executed, model);
        for at in 0..self.steps.len() {
            let (Some(step), Some(found)) = (self.steps.get_mut(at), self.found.get_mut(at)) else {
                return;
            };
            if usize::from(step.at) >= reached {
                return;
            }
            match step.what {
                What::Data => {
                    let address = executed.at(&step.form);
                    let by = by(&self.instructions, step);
                    let level = model.caches.meet_data(address, step.size, by);
                    found.met(level);
                    model.meet(misses(step.kind), level);
                    if let Some(touched) = &mut touched {
                        touch(step, found, address, touched);
                        if level != Level::First {
                            touched.missed(address, level == Level::Memory);
                        }
                    }
                }
                What::Fetch => fetch(step, found, model),
                What::General => self.general(at, executed, touched.as_mut(), Some(model)),
                What::Conditional | What::Indirect => {
                    branch(step, found, &self.instructions, executed, model);
                }
                What::Rest => {}
            }
        }
    }
}

fn fetch(step: &Step, found: &mut Found, model: &mut Modelled) {
    if let Some(level) = model.fetch(step.form.displacement, step.size) {
        found.met(level);
        model.meet(place::FETCH_L1, level);
    }
}

fn branch(
    step: &Step,
    found: &mut Found,
    instructions: &[Known],
    executed: &Executed<'_>,
    model: &mut Modelled,
) {
    let pc = instructions.get(usize::from(step.at));
    let pc = pc.map_or(0, |known| known.pc);
    if step.what == What::Conditional {
        let taken = step.is_taken(executed);
        found.first += u64::from(taken);
        let wrong = model.branches.conditional(pc, taken);
        found.last += u64::from(wrong);
        model.meets(place::CONDITIONAL_WRONG, u64::from(wrong));
        return;
    }
    if let Some(next) = executed.next {
        let wrong = model.branches.indirect(pc, next);
        found.last += u64::from(wrong);
        model.meets(place::INDIRECT_WRONG, u64::from(wrong));
    }
}
