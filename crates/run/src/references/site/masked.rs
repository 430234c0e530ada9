//! References to elements that a mask chooses.

use super::super::lines::Lines;
use super::super::modelled::{Modelled, misses, references};
use super::super::step::{Step, What};
use super::{Site, by};
use truecount_engine::virt::references::Elements;
use truecount_memory::{LINE, Level};

impl Site {
    /// The step of an instruction that chooses elements.
    fn chooses(&self, at: usize) -> Option<usize> {
        let is = |step: &Step| step.what == What::General && usize::from(step.at) == at;
        self.steps.iter().position(is)
    }

    /// So many elements (modulo 2⁶⁴) were referenced.
    fn count_elements(&mut self, step: usize, many: u64) {
        let (Some(step), Some(found)) = (self.steps.get(step), self.found.get_mut(step)) else {
            return;
        };
        found.times = found.times.wrapping_add(many);
        found.bytes = found
            .bytes
            .wrapping_add(many.wrapping_mul(step.size.into()));
        match self.sizes.iter_mut().find(|(known, _)| *known == step.size) {
            Some((_, times)) => *times = times.wrapping_add(many),
            None => self.sizes.push((step.size, many)),
        }
    }

    /// Instruction `at` made so many references to elements of its operand that have nothing else to say. `false`: there is
    /// no such instruction.
    pub(in crate::references) fn elements(&mut self, at: usize, times: u64) -> bool {
        let step = self.chooses(at);
        if let Some(step) = step {
            self.count_elements(step, times);
        }
        step.is_some()
    }

    /// Instruction `at` made references to elements of its operand. `hint`: its step, once known. `false`: there is none.
    pub(in crate::references) fn masked(
        &mut self,
        at: usize,
        elements: &Elements,
        (mut touched, mut model): (Option<&mut Lines<'_>>, Option<&mut Modelled>),
        hint: &mut u32,
    ) -> bool {
        if *hint == u32::MAX {
            *hint = self.chooses(at).map_or(u32::MAX, |place| place as u32);
        }
        let number = *hint as usize;
        let many = u64::from(elements.mask.count_ones());
        self.count_elements(number, many);
        let (Some(step), Some(found)) = (self.steps.get_mut(number), self.found.get_mut(number))
        else {
            return false;
        };
        let size = u64::from(step.size);
        let by = by(&self.instructions, step);
        if let Some(model) = model.as_deref_mut() {
            model.meets(references(step.kind), many);
        }
        elements.each_run(|begin, run| {
            let (times, bytes) = (u64::from(run), u64::from(run) * size);
            let away = u64::from(begin) * size;
            let address = elements.address.wrapping_add(away);
            if address & u64::from(step.aligned) != 0 {
                found.placed.count(address, step.size, times);
            }
            if let Some(touched) = touched.as_deref_mut() {
                touched.heap_near(&mut step.near, address, bytes, step.kind);
                let (first, last) = (address / LINE, address.wrapping_add(bytes - 1) / LINE);
                if first != last || first != step.line {
                    step.line = last;
                    touched.touched.bytes(address, bytes, step.kind);
                }
            }
            let Some(model) = model.as_deref_mut().filter(|_| !elements.in_place) else {
                return;
            };
            for one in 0..times {
                let address = address.wrapping_add(one * size);
                let level = model.caches.meet_data(address, step.size, by);
                found.met(level);
                model.meet(misses(step.kind), level);
                if level != Level::First
                    && let Some(touched) = touched.as_deref_mut()
                {
                    touched.missed(address, level == Level::Memory);
                }
            }
        });
        true
    }
}
