//! Names of places that a program was at: where it asked for a trace of its calls.

use std::collections::{BTreeMap, BTreeSet};

use truecount_engine::virt::{Mapping, Printed, PrintedWhat};

use super::Names;
use super::jit_name;
use crate::result::RunResult;

/// A function in a trace: the one that was called, or one that is inlined there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFrame {
    /// The place that was asked for.
    pub address: u64,
    /// Empty: not known.
    pub function: String,
    /// Empty: not known.
    pub object: String,
    /// Source file and line, where they are known.
    pub line: Option<(String, u32)>,
}

/// The frames of every trace in `ran`'s printed texts, in their order.
pub fn traces_of(ran: &RunResult, names: &mut Names) -> Vec<Vec<TraceFrame>> {
    let printed = &ran.executed.printed;
    let traces = printed.iter().filter_map(|printed| match &printed.what {
        PrintedWhat::Trace(addresses) => Some((printed, addresses)),
        _ => None,
    });
    let traces: Vec<(&Printed, &Vec<u64>)> = traces.collect();
    if traces.is_empty() {
        return Vec::new();
    }
    let wanted: BTreeSet<u32> = traces.iter().map(|(printed, _)| printed.image).collect();
    let mut mappings: BTreeMap<(u32, u64), Mapping> = BTreeMap::new();
    if let Some(blocks) = &ran.executed.blocks {
        blocks.each_translated(&mut |executed| {
            if let Some(mapping) = executed
                .mapping
                .filter(|_| wanted.contains(&executed.image))
            {
                let key = (executed.image, mapping.start);
                mappings.entry(key).or_insert_with(|| mapping.clone());
            }
        });
    }
    let of = |(printed, addresses): (&Printed, &Vec<u64>)| {
        let image = printed.image;
        let threads = &ran.executed.threads;
        let pid = threads.iter().find(|thread| thread.image == image);
        let pid = pid.map_or(0, |thread| thread.pid);
        let mut frames = Vec::new();
        for (number, &address) in addresses.iter().enumerate() {
            // Where a call returns to is behind it.
            let at = address.wrapping_sub(1);
            let known = mappings.range((image, 0)..=(image, at)).next_back();
            let mapping = known.map(|(_, mapping)| mapping);
            let mapping = mapping.filter(|mapping| at < mapping.end);
            let shown = if number == 0 { address } else { at };
            names.frames_at(mapping, at, shown, pid, &mut frames);
        }
        frames
    };
    traces.into_iter().map(of).collect()
}

impl Names {
    /// Adds the function at `pc`, and in front of it those that are inlined there.
    fn frames_at(
        &mut self,
        mapping: Option<&Mapping>,
        pc: u64,
        shown: u64,
        pid: u32,
        frames: &mut Vec<TraceFrame>,
    ) {
        let mut add = |function: &str, object: &str, line| {
            frames.push(TraceFrame {
                address: shown,
                function: function.to_owned(),
                object: object.to_owned(),
                line,
            });
        };
        let Some(mapping) = mapping else {
            return add("", "", None);
        };
        let module = self.module(mapping);
        let Some(known) = self.known.get(module) else {
            return add("", "", None);
        };
        let object = known.path.clone();
        let Some(file) = known.file.clone() else {
            let map = self.jit.entry(pid).or_insert_with(|| super::jit_map(pid));
            return match object.as_str() {
                "[jit]" => add(jit_name(map, pc).0, "", None),
                other => add(other, "", None),
            };
        };
        let offset = pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
        let location = self.kept.locate(&mut self.symbols, &file, offset);
        if location.frames.is_empty() {
            return add("", &object, None);
        }
        for frame in &location.frames {
            let line = frame.file.clone().zip(frame.line);
            add(&frame.function, &object, line);
        }
    }
}
