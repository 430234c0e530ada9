//! The steps of a block: what has to be looked at each time it is executed.

use super::Wanted;
use super::costs::{Costs, place};
use super::lines::Lines;
use super::modelled::references;
use truecount_engine::virt::references::{Access, Branch, Executed, Form, Unknown};
use truecount_memory::{Kind, LINE, Level, Near, Placed};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A reference whose address has a [`Form`].
    Data,
    /// The first of an instruction whose references are asked for.
    General,
    /// Another one of that instruction.
    Rest,
    /// Instructions from here on are in another line.
    Fetch,
    Conditional,
    Indirect,
}

/// A step of a block.
pub(super) struct Step {
    pub(super) what: What,
    pub(super) kind: Kind,
    /// The stack pointer leads there.
    pub(super) stack: bool,
    /// Number of its instruction.
    pub(super) at: u8,
    /// Number of its operand there.
    pub(super) operand: u8,
    /// Bytes.
    pub(super) size: u32,
    /// See [`aligned_bits`].
    pub(super) aligned: u32,
    pub(super) form: Form,
    /// The line that it touched last.
    pub(super) line: u64,
    /// What it used of the heap last.
    pub(super) near: Near,
}

impl Step {
    /// What is counted each time it is executed.
    pub(super) fn counted(&self) -> Option<usize> {
        match self.what {
            What::Data => Some(references(self.kind)),
            What::Conditional => Some(place::CONDITIONAL),
            What::Indirect => Some(place::INDIRECT),
            What::General | What::Rest | What::Fetch => None,
        }
    }
}

/// What a step met.
#[derive(Clone, Copy, Default)]
pub(super) struct Found {
    /// References, where a block's executions do not say how many …
    pub(super) times: u64,
    /// … and their bytes.
    pub(super) bytes: u64,
    pub(super) placed: Placed,
    /// First-level misses; branches: taken.
    pub(super) first: u64,
    /// Last-level misses; branches: predicted wrongly.
    pub(super) last: u64,
}

impl Found {
    #[inline]
    pub(super) fn met(&mut self, level: Level) {
        if level != Level::First {
            self.first += 1;
            self.last += u64::from(level == Level::Memory);
        }
    }
}

/// What is known of an instruction.
pub(super) struct Known {
    pub(super) pc: u64,
    pub(super) taken: bool,
    pub(super) unknown: Option<Unknown>,
}

pub(super) fn kind_of(access: Access) -> Kind {
    match access {
        Access::Load => Kind::Load,
        Access::Store => Kind::Store,
        Access::Modify => Kind::Modify,
    }
}

impl Wanted {
    /// What the model makes of an access.
    pub(super) fn kind_of(&self, access: Access) -> Kind {
        match kind_of(access) {
            Kind::Modify if self.modifies_as_store => Kind::Store,
            kind => kind,
        }
    }
}

/// Adds what a step came to, whose instruction was executed so often.
pub(super) fn add(costs: &mut Costs, step: &Step, found: &Found, times: u64) {
    let (times, bytes) = match step.what {
        What::Data => (times, u64::from(step.size).wrapping_mul(times)),
        What::General | What::Rest => (found.times, found.bytes),
        What::Fetch => {
            costs.fetch_l1 += found.first;
            costs.fetch_ll += found.last;
            return;
        }
        What::Conditional => {
            costs.taken += found.first;
            costs.conditional += times;
            costs.conditional_wrong += found.last;
            return;
        }
        What::Indirect => {
            costs.indirect += times;
            costs.indirect_wrong += found.last;
            return;
        }
    };
    costs.made(bytes, step.kind, times);
    found.placed.add_to(&mut costs.totals);
    match step.kind {
        Kind::Store => {
            costs.write_l1 += found.first;
            costs.write_ll += found.last;
        }
        Kind::Load | Kind::Modify => {
            costs.read_l1 += found.first;
            costs.read_ll += found.last;
        }
    }
}

/// Whether a branch is taken whenever it is executed.
pub(super) fn is_always_taken(branch: Branch) -> bool {
    matches!(branch, Branch::Direct | Branch::Return | Branch::Indirect)
}

/// Whether instruction `at` is a conditional branch that was taken: it was the last thing done, and the next block is its
/// target.
#[inline]
pub(super) fn is_taken(at: usize, branch: Branch, executed: &Executed<'_>) -> bool {
    let Branch::Conditional { target } = branch else {
        return false;
    };
    at + 1 == executed.done && executed.next == Some(target)
}

impl Step {
    /// The same of a conditional branch's step.
    #[inline]
    pub(super) fn is_taken(&self, executed: &Executed<'_>) -> bool {
        let target = self.form.displacement;
        is_taken(self.at.into(), Branch::Conditional { target }, executed)
    }
}

#[inline]
pub(super) fn touch(step: &mut Step, found: &mut Found, address: u64, touched: &mut Lines<'_>) {
    touched.heap_near(&mut step.near, address, u64::from(step.size), step.kind);
    if address & u64::from(step.aligned) != 0 {
        return touch_two(step, found, address, touched);
    }
    let line = address / LINE;
    if line != step.line {
        step.line = line;
        touched.touched.line(line, step.kind);
        if step.stack {
            touched.touched.is_stack(line);
        }
    }
}

/// A reference that may lie in two lines.
#[inline(never)]
fn touch_two(step: &mut Step, found: &mut Found, address: u64, touched: &mut Lines<'_>) {
    found.placed.count(address, step.size, 1);
    let (first, last) = (
        address / LINE,
        address.wrapping_add(u64::from(step.size.max(1)) - 1) / LINE,
    );
    if first == last && first == step.line {
        return;
    }
    step.line = last;
    touched
        .touched
        .bytes(address, u64::from(step.size), step.kind);
    if step.stack {
        touched.touched.is_stack(first);
    }
}
