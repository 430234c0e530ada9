//! Folded stacks: `root;outer;inner cost`, one line a stack, as measureme's `stack_collapse` and Brendan Gregg's tools
//! have them.

use super::stacks::Stacks;
use crate::file::Profile;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Every stack of a region profile with its own cost, in the profile's unit; the first frame is the process, whose own
/// cost is the time between the recorded intervals. Stacks without own cost are left out.
#[must_use]
pub fn stacks(profile: &Profile) -> Vec<(String, u64)> {
    Stacks::of_regions(profile).folded(0)
}

impl Stacks {
    /// The stacks of one measure as `outermost;…;innermost` with their cost, by name; the process comes first where it
    /// is known. Equal ones are summed up, those without cost are left out.
    #[must_use]
    pub fn folded(&self, measure: usize) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for stack in self.stacks.iter().filter(|s| s.measure == measure) {
            if stack.cost == 0 {
                continue;
            }
            let process = stack.owner.iter().map(|owner| owner.process.as_str());
            let functions = self.chain(stack).map(|frame| frame.function.name.as_str());
            // The separator of the format cannot stand in a frame.
            let frames: Vec<String> = process
                .chain(functions)
                .map(|frame| frame.replace(';', ":").replace(['\n', '\r'], " "))
                .collect();
            let sum = sums.entry(frames.join(";")).or_default();
            *sum = sum.saturating_add(stack.cost);
        }
        sums.into_iter().collect()
    }

    /// Writes [`Stacks::folded`], one line a stack.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_folded(&self, measure: usize, out: &mut dyn Write) -> io::Result<()> {
        for (stack, cost) in self.folded(measure) {
            writeln!(out, "{stack} {cost}")?;
        }
        Ok(())
    }
}
