//! A block with what is known of its references before they are made, and what was found out while they were.
//!
//! Most of what is counted follows from how often a block was executed. What depends on an address is one step of a
//! list: where a reference lies, whether its line was touched before, what a model makes of it.

mod masked;
mod modelled;

pub(super) use modelled::Told;

use super::costs::{Costs, Simulated};
use super::lines::Lines;
use super::modelled::{Modelled, misses, references};
use super::quick::Quick;
use super::step::{Found, Known, Step, What, add, is_always_taken, touch};
use std::ops::Range;
use truecount_engine::virt::references::{
    Access, Branch, Code, Executed, Form, Lies, Run, Unknown,
};
use truecount_memory::{By, Kind, Level, Machine, Near, aligned_bits};

/// A block.
pub(super) struct Site {
    steps: Box<[Step]>,
    found: Box<[Found]>,
    /// For most of its executions in the model.
    quick: Option<Quick>,
    /// What it always meets, where it is executed as a whole: places of `Simulated`, and how often.
    always: Box<[(usize, u64)]>,
    /// Executed as a whole.
    whole: u64,
    /// Left after so many instructions.
    left: Box<[u64]>,
    /// Executions of each instruction that somebody else counted.
    counted: Box<[u64]>,
    instructions: Box<[Known]>,
    /// Room for what one instruction references.
    runs: Vec<(usize, Kind, Run)>,
    /// Bytes of a reference, and how many there were: of those whose addresses have no form.
    sizes: Vec<(u32, u64)>,
}

impl Site {
    /// Of a block; with a `model`, what that needs. Without `branches` they are no part of it.
    pub(super) fn new(
        code: &Code,
        model: Option<&Machine>,
        branches: bool,
        kind_of: impl Fn(Access) -> Kind,
    ) -> Self {
        let mut steps = Vec::with_capacity(2 * code.instructions.len());
        let mut line = u64::MAX;
        for (number, instruction) in code.instructions.iter().enumerate() {
            let mut step = |what, (kind, operand), size, stack, form| {
                steps.push(Step {
                    what,
                    kind,
                    stack,
                    at: number as u8,
                    operand,
                    size,
                    aligned: aligned_bits(size),
                    form,
                    line: u64::MAX,
                    near: Near::default(),
                });
            };
            let none = (Kind::Load, 0);
            let constant = |displacement| Form {
                displacement,
                ..Form::default()
            };
            if let Some(machine) = model {
                let bits = machine.i1.line.trailing_zeros();
                let end = instruction
                    .pc
                    .wrapping_add(u64::from(instruction.length.max(1)) - 1);
                if instruction.pc >> bits != line || end >> bits != line {
                    let form = constant(instruction.pc);
                    step(What::Fetch, none, instruction.length, false, form);
                }
                line = end >> bits;
            }
            let operands = code.operands(number);
            let simple = operands.iter().all(|operand| operand.form().is_some());
            for (place, operand) in operands.iter().enumerate() {
                let kind = (kind_of(operand.access), place as u8);
                match (operand.form(), place) {
                    (Some(form), _) if simple => {
                        step(What::Data, kind, operand.size, operand.stack, form);
                    }
                    (_, 0) => step(What::General, kind, operand.size, false, Form::default()),
                    _ => step(What::Rest, kind, operand.size, false, Form::default()),
                }
            }
            match instruction.branch {
                Branch::Conditional { target } if branches => {
                    step(What::Conditional, none, 0, false, constant(target));
                }
                Branch::Indirect if branches && model.is_some() => {
                    step(What::Indirect, none, 0, false, Form::default());
                }
                _ => {}
            }
        }
        let instructions = code.instructions.iter().map(|instruction| Known {
            pc: instruction.pc,
            taken: is_always_taken(instruction.branch),
            unknown: instruction.unknown,
        });
        let mut always = Simulated::default();
        for place in steps.iter().filter_map(Step::counted) {
            if let Some(times) = always.get_mut(place) {
                *times += 1;
            }
        }
        let always = always.into_iter().enumerate();
        let quick = model.and_then(|machine| {
            let bits = machine.i1.line.trailing_zeros();
            Quick::new(code, &steps, bits)
        });
        Self {
            quick,
            always: always.filter(|(_, times)| *times != 0).collect(),
            found: vec![Found::default(); steps.len()].into_boxed_slice(),
            steps: steps.into_boxed_slice(),
            whole: 0,
            left: Box::default(),
            counted: Box::default(),
            instructions: instructions.collect(),
            runs: Vec::new(),
            sizes: Vec::new(),
        }
    }

    /// The block is executed. Without `touched` lines and pages are not kept.
    #[inline]
    pub(super) fn execute(
        &mut self,
        executed: &Executed<'_>,
        touched: Option<Lines<'_>>,
        model: Option<&mut Modelled>,
    ) {
        self.executed(executed.done);
        match (touched, model) {
            (Some(mut touched), None) => self.touch(executed, &mut touched),
            (touched, Some(model)) => self.model(executed, touched, model),
            (None, None) => {}
        }
    }

    /// As [`Site::execute`], for a model of nothing but the caches of the first and the last level, and branches. `false`:
    /// nothing was done, and it has to be executed so.
    #[inline]
    pub(super) fn goes_on(&mut self, executed: &Executed<'_>, model: &mut Modelled) -> bool {
        if executed.reached() != executed.done {
            return false;
        }
        let quick = self.quick.as_ref();
        let done = quick.is_some_and(|quick| quick.execute(executed, &mut self.found, model));
        if done {
            self.executed(executed.done);
        }
        done
    }

    /// It was, up to there.
    #[inline]
    fn executed(&mut self, done: usize) {
        if done == self.instructions.len() {
            self.whole += 1;
            return;
        }
        if self.left.is_empty() {
            self.left = vec![0; self.instructions.len()].into_boxed_slice();
        }
        if let Some(left) = self.left.get_mut(done) {
            *left += 1;
        }
    }

    /// Instructions were executed so often more, modulo 2⁶⁴.
    pub(super) fn count(&mut self, instructions: Range<usize>, times: u64) {
        if self.counted.is_empty() {
            self.counted = vec![0; self.instructions.len()].into_boxed_slice();
        }
        for counted in self.counted.get_mut(instructions).unwrap_or(&mut []) {
            *counted = counted.wrapping_add(times);
        }
    }

    fn steps_of(&self, at: usize) -> Range<usize> {
        let from = self.steps.partition_point(|step| usize::from(step.at) < at);
        let to = self
            .steps
            .partition_point(|step| usize::from(step.at) <= at);
        from..to
    }

    /// A conditional branch was taken so often more.
    pub(super) fn taken(&mut self, at: usize, times: u64) {
        for step in self.steps_of(at) {
            if let (Some(one), Some(found)) = (self.steps.get(step), self.found.get_mut(step))
                && one.what == What::Conditional
            {
                found.first = found.first.wrapping_add(times);
            }
        }
    }

    /// A branch was predicted wrongly so often more.
    pub(super) fn mispredicted(&mut self, at: usize, times: u64) {
        for step in self.steps_of(at) {
            if let (Some(one), Some(found)) = (self.steps.get(step), self.found.get_mut(step))
                && matches!(one.what, What::Conditional | What::Indirect)
            {
                found.last = found.last.wrapping_add(times);
            }
        }
    }

    /// The step of an instruction's operand.
    fn step_of(&self, at: usize, operand: usize) -> Option<usize> {
        let of = |step: &Step| (step.what, step.at.into(), step.operand.into());
        let mut steps = self.steps.iter().map(of);
        steps.position(|step| step == (What::Data, at, operand))
    }

    /// An operand of an instruction made references that are not aligned: `false`: there is none.
    pub(super) fn lies(&mut self, (at, operand): (usize, usize), lies: &Lies) -> bool {
        let step = self.step_of(at, operand);
        let found = step.and_then(|step| self.found.get_mut(step));
        let Some(Found { placed, .. }) = found else {
            return false;
        };
        placed.unaligned = placed.unaligned.wrapping_add(lies.unaligned);
        placed.line_splits = placed.line_splits.wrapping_add(lies.line_splits);
        placed.page_splits = placed.page_splits.wrapping_add(lies.page_splits);
        true
    }

    /// An operand of an instruction referenced an address: `false`: there is none. `hint` is its step, once known.
    pub(super) fn reference(
        &mut self,
        (at, operand): (usize, usize),
        address: u64,
        touched: &mut Lines<'_>,
        hint: &mut u32,
    ) -> bool {
        if *hint == u32::MAX {
            *hint = self
                .step_of(at, operand)
                .map_or(u32::MAX, |step| step as u32);
        }
        let number = *hint as usize;
        let (Some(step), Some(found)) = (self.steps.get_mut(number), self.found.get_mut(number))
        else {
            return false;
        };
        touch(step, found, address, touched);
        true
    }

    /// An instruction made its references.
    pub(super) fn references(
        &mut self,
        executed: &Executed<'_>,
        at: usize,
        mut touched: Option<&mut Lines<'_>>,
        mut model: Option<&mut Modelled>,
    ) {
        for number in self.steps_of(at) {
            let (Some(step), Some(found)) =
                (self.steps.get_mut(number), self.found.get_mut(number))
            else {
                return;
            };
            match step.what {
                What::Data => {
                    let address = executed.at(&step.form);
                    let level = model.as_mut().map_or(Level::First, |model| {
                        let by = by(&self.instructions, step);
                        let level = model.caches.meet_data(address, step.size, by);
                        model.meets(references(step.kind), 1);
                        model.meet(misses(step.kind), level);
                        level
                    });
                    found.met(level);
                    if let Some(touched) = touched.as_deref_mut() {
                        touch(step, found, address, touched);
                        if level != Level::First {
                            touched.missed(address, level == Level::Memory);
                        }
                    }
                }
                What::General => {
                    self.general(
                        number,
                        executed,
                        touched.as_deref_mut(),
                        model.as_deref_mut(),
                    );
                }
                What::Rest | What::Fetch | What::Conditional | What::Indirect => {}
            }
        }
    }

    fn touch(&mut self, executed: &Executed<'_>, touched: &mut Lines<'_>) {
        let reached = executed.reached();
        for at in 0..self.steps.len() {
            let (Some(step), Some(found)) = (self.steps.get_mut(at), self.found.get_mut(at)) else {
                return;
            };
            if usize::from(step.at) >= reached {
                return;
            }
            match step.what {
                What::Data => touch(step, found, executed.at(&step.form), touched),
                What::General => self.general(at, executed, Some(touched), None),
                What::Conditional => found.first += u64::from(step.is_taken(executed)),
                What::Rest | What::Fetch | What::Indirect => {}
            }
        }
    }

    /// References whose addresses have no form: bits, repeated strings, short addresses.
    fn general(
        &mut self,
        first: usize,
        executed: &Executed<'_>,
        mut touched: Option<&mut Lines<'_>>,
        model: Option<&mut Modelled>,
    ) {
        let Some(step) = self.steps.get(first) else {
            return;
        };
        let instruction = usize::from(step.at);
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        let (sizes, steps) = (&mut self.sizes, &self.steps);
        let modelled = model.is_some();
        let mut by_turns = false;
        executed.references(instruction, |number, operand, run| {
            let step = steps.get(first + number);
            let kind = step.map_or(Kind::Load, |step| step.kind);
            if let Some(found) = self.found.get_mut(first + number) {
                found.times += run.times;
                found.bytes += u64::from(run.size).wrapping_mul(run.times);
                found.placed.count(run.address, run.size, run.times);
            }
            match sizes.iter_mut().find(|(size, _)| *size == run.size) {
                Some((_, times)) => *times += run.times,
                None => sizes.push((run.size, run.times)),
            }
            if let Some(touched) = touched.as_deref_mut() {
                let bytes = u64::from(run.size).wrapping_mul(run.times);
                touched.bytes(run.address, bytes, kind);
            }
            by_turns |= operand.is_repeated();
            if modelled {
                runs.push((first + number, kind, run));
            }
        });
        if let Some(model) = model {
            for &(_, kind, run) in &runs {
                model.meets(references(kind), run.times);
            }
            // Elements of repeated instructions come by turns: one is read, then written.
            let longest = runs.iter().map(|(.., run)| run.times).max().unwrap_or(0);
            let turns = if by_turns { longest } else { 1 };
            for turn in 0..turns {
                for (place, kind, run) in &runs {
                    let times = if by_turns {
                        turn..(turn + 1).min(run.times)
                    } else {
                        0..run.times
                    };
                    for time in times {
                        let away = time.wrapping_mul(u64::from(run.size));
                        let address = run.address.wrapping_add(away);
                        let by = self
                            .steps
                            .get(*place)
                            .map(|step| by(&self.instructions, step));
                        let size = run.size;
                        let level = model
                            .caches
                            .meet_data(address, size, by.unwrap_or_default());
                        if let Some(found) = self.found.get_mut(*place) {
                            found.met(level);
                        }
                        model.meet(misses(*kind), level);
                        if level != Level::First
                            && let Some(touched) = touched.as_deref_mut()
                        {
                            touched.missed(address, level == Level::Memory);
                        }
                    }
                }
            }
        }
        self.runs = runs;
    }

    /// How often each instruction was executed.
    fn executions(&self, executions: &mut Vec<u64>) {
        let mut times = self.whole;
        executions.clear();
        executions.resize(self.instructions.len(), 0);
        for (at, executed) in executions.iter_mut().enumerate().rev() {
            // Who left after more instructions has executed this one.
            times += self.left.get(at + 1).copied().unwrap_or(0);
            *executed = times;
        }
        for (executed, counted) in executions.iter_mut().zip(&self.counted) {
            *executed = executed.wrapping_add(*counted);
        }
    }

    /// How many references had each size; 65 stands for all that are longer than 64 bytes. `executions` is room.
    pub(super) fn sizes(&self, executions: &mut Vec<u64>, sizes: &mut [u64; 66]) {
        self.executions(executions);
        let simple = self.steps.iter().filter(|step| step.what == What::Data);
        let simple = simple.map(|step| {
            let times = executions.get(usize::from(step.at));
            (step.size, times.copied().unwrap_or(0))
        });
        let all = simple.chain(self.sizes.iter().copied());
        for (size, times) in all {
            if let Some(sum) = sizes.get_mut(size.min(65) as usize) {
                *sum += times;
            }
        }
    }

    /// What each instruction cost: its address, its costs, what is not known of it. `executions` is room.
    pub(super) fn each(
        &self,
        executions: &mut Vec<u64>,
        see: &mut dyn FnMut(u64, &Costs, Option<Unknown>),
    ) {
        self.executions(executions);
        let (mut step, mut rest) = (0, executions.iter());
        for (number, known) in self.instructions.iter().enumerate() {
            let times = rest.next().copied().unwrap_or(0);
            let mut costs = Costs {
                instructions: times,
                taken: if known.taken { times } else { 0 },
                ..Costs::default()
            };
            while let (Some(one), Some(found)) = (self.steps.get(step), self.found.get(step))
                && usize::from(one.at) == number
            {
                add(&mut costs, one, found, times);
                step += 1;
            }
            if costs != Costs::default() {
                see(known.pc, &costs, known.unknown);
            }
        }
    }
}

/// Who makes a step's references.
#[inline]
fn by(instructions: &[Known], step: &Step) -> By {
    By {
        pc: instructions
            .get(usize::from(step.at))
            .map_or(0, |known| known.pc),
        operand: step.operand,
    }
}
