//! Samples with their times, thread by thread. One thread of the viewer holds one kind of samples: the first measure's.

use super::super::stacks::{Owner, Stack, Stacks};
use super::meta;
use super::tables::{Identity, Tables};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The viewer takes the grey one for what has none.
const CATEGORIES: [(&str, &str); 3] = [("Other", "grey"), ("User", "yellow"), ("Kernel", "orange")];

struct Thread<'s> {
    owner: &'s Owner,
    since: u64,
    tables: Tables,
}

impl Stacks {
    /// Writes the samples of the first measure for the Firefox profiler: those in `timeline` whose owner is known.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_firefox(&self, out: &mut dyn Write) -> io::Result<()> {
        self.firefox(out, &|_| 1.0)
    }

    /// The same for stacks without times, each once: they follow each other, and weigh what they cost. Those without an
    /// owner are the title's.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_firefox_costs(&self, out: &mut dyn Write) -> io::Result<()> {
        let whole = Owner {
            process: self.title.clone(),
            pid: 0,
            tid: 0,
        };
        let mut stacks = self.clone();
        let mut now = 0u64;
        stacks.timeline.clear();
        for (number, stack) in stacks.stacks.iter_mut().enumerate() {
            stack.owner.get_or_insert_with(|| whole.clone());
            stacks.timeline.push((now, number));
            now = now.saturating_add(stack.cost);
        }
        stacks.firefox(out, &|stack| stack.cost as f64)
    }

    fn firefox(&self, out: &mut dyn Write, weight: &dyn Fn(&Stack) -> f64) -> io::Result<()> {
        let measure = self.stacks.iter().map(|s| s.measure).min().unwrap_or(0);
        let mut order: Vec<&(u64, usize)> = self.timeline.iter().collect();
        order.sort_by_key(|sample| sample.0);
        let first = order.first().map_or(0, |sample| sample.0);
        let mut processes: BTreeMap<u32, u64> = BTreeMap::new();
        let mut threads: BTreeMap<(u32, u32), Thread<'_>> = BTreeMap::new();
        for &&(time, number) in &order {
            let Some(stack) = self.stacks.get(number).filter(|s| s.measure == measure) else {
                continue;
            };
            let Some(owner) = &stack.owner else { continue };
            let at = time - first;
            processes.entry(owner.pid).or_insert(at);
            let thread = threads
                .entry((owner.pid, owner.tid))
                .or_insert_with(|| Thread {
                    owner,
                    since: at,
                    tables: Tables::default(),
                });
            let mut on = None;
            for frame in self.chain(stack) {
                let label = match frame.function.module.as_str() {
                    "" => frame.function.name.clone(),
                    module => format!("{} ({module})", frame.function.name),
                };
                let frame = thread.tables.frame(&label, 1 + usize::from(frame.kernel));
                on = Some(thread.tables.stack(on, frame));
            }
            thread.tables.sample(at, on, weight(stack));
        }
        let start = self.start.map_or(0.0, super::ms);
        let meta = meta(&self.title, 1.0, start, &CATEGORIES, json!({}));
        write!(out, "{{\"meta\":{meta},\"libs\":[],\"threads\":[")?;
        for (number, ((pid, tid), thread)) in threads.iter().enumerate() {
            if number > 0 {
                out.write_all(b",\n")?;
            }
            let identity = Identity {
                name: &thread.owner.process,
                process: &thread.owner.process,
                pid: *pid,
                tid: *tid,
                main: pid == tid,
                since: (thread.since, processes.get(pid).copied().unwrap_or(0)),
                weight_type: "samples",
            };
            thread.tables.write(&identity, out, |_| Ok(()))?;
        }
        out.write_all(b"],\"pages\":[],\"profilerOverhead\":[],\"counters\":[]}\n")
    }
}
