//! Folded stacks: `root;outer;inner cost`, one line a stack, as measureme's `stack_collapse` has them.

use super::process_name;
use super::tree::Tree;
use crate::file::Profile;
use std::io::{self, Write};

/// Every stack with its own cost, in the profile's unit; the first frame is the process, whose own
/// cost is the time between the recorded intervals. Stacks without own cost are left out.
#[must_use]
pub fn stacks(profile: &Profile) -> Vec<(String, u64)> {
    let tree = Tree::new(profile);
    let mut stacks: Vec<(String, u64)> = Vec::new();
    let root = process_name(profile);
    for node in 0..tree.nodes.len() {
        let Some(own) = tree
            .nodes
            .get(node)
            .and_then(|node| u64::try_from(node.own).ok())
            .filter(|&own| own > 0)
        else {
            continue;
        };
        let mut frames = Vec::new();
        let mut at = node;
        while at != 0 {
            let Some(inner) = tree.nodes.get(at) else {
                break;
            };
            frames.push(tree.label(inner));
            at = inner.parent as usize;
        }
        frames.push(root);
        frames.reverse();
        // The separator of the format cannot stand in a frame.
        let frames: Vec<String> = frames
            .iter()
            .map(|frame| frame.replace(';', ":").replace(['\n', '\r'], " "))
            .collect();
        stacks.push((frames.join(";"), own));
    }
    stacks.sort();
    stacks
}

pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    for (stack, own) in stacks(profile) {
        writeln!(out, "{stack} {own}")?;
    }
    Ok(())
}
