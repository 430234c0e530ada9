//! The result of `run` as a document: schema `truecount.run/2` (`docs/schemas/run.json`).

use serde::Serialize;
use serde_json::{Map, Value};

use super::Args;
use truecount_model::{Reading, SourceKind};
use truecount_run::closed::{Closed, named};
use truecount_run::env_record::Environment;
use truecount_run::functions::{AskedEvent, Function};
use truecount_run::references::Memory;
use truecount_run::result::{RunResult, Thread};
use truecount_run::runner::Exit;

/// Everything that one run told.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    pub(super) command: Vec<String>,
    source: SourceKind,
    pub(super) counters: Vec<Reading>,
    exit: Exit,
    /// With the engine: not the program's own time.
    wall_ns: u64,
    /// The signal by which the user stopped it.
    pub(super) interrupted: Option<i32>,
    /// Programs that ran without being counted.
    uncounted_programs: u32,
    /// Blocks of code that the engine had to translate: nearly none in a second run.
    translated_blocks: u64,
    /// Blocks of code that came from earlier runs.
    cached_blocks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) processes: Option<Vec<Process>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<Vec<Thread>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) functions: Option<Vec<Function>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) calls: Option<super::told::Calls>,
    /// With --diff: what became of every path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) calls_diff: Option<truecount_run::calls::diff::CallDiff>,
    /// With --toggle, --from, --to: what was counted of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<super::region::Region>,
    /// What was referenced of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    pub(super) notes: Vec<String>,
    /// Whether the counts will repeat, from this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outside: Option<Closed>,
    environment: Environment,
}

/// A program that a process executed.
#[derive(Debug, Serialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) program: String,
    pub(super) threads: usize,
    pub(super) instructions: u64,
    /// The events asked for, by name.
    pub(super) events: Map<String, Value>,
}

/// Adds up the threads of each process image, in order of appearance.
fn processes(threads: &[Thread]) -> Vec<Process> {
    let mut places = std::collections::HashMap::new();
    let mut found: Vec<Process> = Vec::new();
    for thread in threads {
        let place = *places.entry(thread.image).or_insert_with(|| {
            found.push(Process {
                pid: thread.pid,
                parent: thread.parent,
                program: thread.program.clone(),
                threads: 0,
                instructions: 0,
                events: Map::new(),
            });
            found.len() - 1
        });
        if let Some(process) = found.get_mut(place) {
            process.threads += 1;
            process.instructions = process.instructions.wrapping_add(thread.instructions);
            for (name, value) in &thread.events {
                let before = process.events.get(name).and_then(Value::as_u64);
                let sum = before
                    .unwrap_or(0)
                    .wrapping_add(value.as_u64().unwrap_or(0));
                process.events.insert(name.clone(), sum.into());
            }
        }
    }
    found
}

impl Document {
    /// Adds events of memory; unless all is `shown`, what must be known of them is a note.
    pub(super) fn add_memory(&mut self, readings: Vec<Reading>, shown: bool) {
        self.counters.extend(readings);
        if !shown {
            let memory = self.memory.take();
            self.notes.extend(memory.and_then(|memory| memory.note()));
        }
    }

    pub(super) fn new(
        args: &Args,
        wishes: &[AskedEvent],
        mut ran: RunResult,
        functions: Option<Vec<Function>>,
        mut environment: Environment,
    ) -> Self {
        for thread in &mut ran.executed.threads {
            thread.events = wishes
                .iter()
                .filter_map(|wish| {
                    let count = thread.event(wish.event)?;
                    Some((wish.wanted.name.clone(), count.into()))
                })
                .collect();
        }
        let mut notes = ran.virtual_notes();
        if ran.ended.is_some_and(|ended| ended.aslr_refused) {
            environment.aslr = Some(true);
            notes.push(
                "The kernel refused to switch randomisation of addresses off: counts may vary."
                    .to_owned(),
            );
        }
        Self {
            schema: "truecount.run/2",
            command: args
                .command
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            source: SourceKind::Virtual,
            counters: wishes
                .iter()
                .map(|wish| ran.reading(&wish.wanted, wish.event))
                .collect(),
            exit: ran.exit(),
            wall_ns: ran.wall_ns,
            interrupted: ran.interrupted,
            uncounted_programs: ran.executed.uncounted,
            translated_blocks: ran.executed.translated_blocks,
            cached_blocks: ran.executed.cached_blocks,
            processes: args.per_process.then(|| processes(&ran.executed.threads)),
            threads: args.per_thread.then_some(ran.executed.threads),
            functions,
            calls: None,
            calls_diff: None,
            region: None,
            memory: ran.executed.memory,
            notes,
            outside: named(ran.executed.closed),
            environment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_to_process_images() {
        let thread = |image, pid, program: &str, instructions| Thread {
            pid,
            tid: pid,
            parent: 1,
            program: program.into(),
            instructions,
            counts: None,
            events: Map::from_iter([("loads:u".to_owned(), instructions.into())]),
            image,
            slot: image,
            ended: true,
        };
        let found = processes(&[
            thread(1, 10, "sh", 5),
            thread(2, 11, "sh", 1),
            thread(3, 11, "ls", 7),
            thread(1, 10, "sh", 6),
        ]);
        let rows: Vec<_> = found
            .iter()
            .map(|p| (p.pid, p.program.as_str(), p.threads, p.instructions))
            .collect();
        assert_eq!(
            rows,
            [(10, "sh", 2, 11), (11, "sh", 1, 1), (11, "ls", 1, 7)]
        );
        assert_eq!(found[0].events["loads:u"], 11);
    }
}
