//! What each process cost, and the files in Callgrind's and Cachegrind's formats.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use truecount_engine::xlate::facts::Event;
use truecount_profile::export::{CallgrindFile, CostedFunction, PlaceCost};
use truecount_run::functions::FunctionCosts;
use truecount_run::result::RunResult;

use super::options::{Options, Tool, expand};
use crate::failure::Failure;

/// The events that the options ask for, by Valgrind's names.
pub(super) fn events(options: &Options) -> Vec<(&'static str, Event)> {
    let mut events = vec![("Ir", Event::Instructions)];
    if options.cache_sim {
        events.extend([("Dr", Event::Loads), ("Dw", Event::Stores)]);
    }
    if options.branch_sim {
        events.extend([
            ("Bc", Event::ConditionalBranches),
            ("Bi", Event::IndirectBranches),
        ]);
    }
    events
}

/// A process that has files of its own.
pub(super) struct Process {
    /// Which process image it is.
    pub(super) image: u32,
    pub(super) pid: u32,
    pub(super) parent: u32,
    /// Program and arguments.
    pub(super) command: String,
    /// Instructions of its threads, as the virtual PMU adds them up.
    counted: u64,
    /// What its functions cost.
    pub(super) functions: Vec<FunctionCosts>,
}

/// A process image: its first thread's slot, and what is known of it.
struct Image {
    number: u32,
    pid: u32,
    parent: u32,
    name: String,
    counted: u64,
}

impl Process {
    /// The processes of a run, in order of appearance: each as the program that it executed last, as Valgrind has it.
    pub(super) fn all(ran: &RunResult, options: &Options) -> Vec<Self> {
        let mut images: Vec<Image> = Vec::new();
        for thread in &ran.executed.threads {
            if let Some(known) = images.iter_mut().find(|image| image.number == thread.image) {
                known.counted = known.counted.wrapping_add(thread.instructions);
                continue;
            }
            images.push(Image {
                number: thread.image,
                pid: thread.pid,
                parent: thread.parent,
                name: thread.program.clone(),
                counted: thread.instructions,
            });
        }
        let commands = &ran.executed.commands;
        let first = images.iter().map(|image| image.number).min();
        let last = |image: &Image| {
            let later = |other: &Image| other.pid == image.pid && other.number > image.number;
            !images.iter().any(later)
        };
        // Without --trace-children a process is left at its `execve`.
        let wanted = |image: &Image| {
            let by_exec = commands.contains_key(&image.number) && Some(image.number) != first;
            last(image) && (options.trace_children || !by_exec)
        };
        let chosen = images.iter().filter(|image| wanted(image));
        chosen
            .map(|image| Self {
                image: image.number,
                pid: image.pid,
                parent: image.parent,
                command: command_of(image, &images, commands),
                counted: image.counted,
                functions: Vec::new(),
            })
            .collect()
    }

    /// The sum over all functions, by event.
    pub(super) fn totals(&self, options: &Options) -> Vec<u64> {
        let sum = |event: Event| {
            let costs = self.functions.iter().flat_map(|function| &function.costs);
            costs.fold(0u64, |sum, cost| {
                sum.wrapping_add(count(cost.counts, event))
            })
        };
        events(options)
            .into_iter()
            .map(|(_, event)| sum(event))
            .collect()
    }

    /// What the functions cost is what the threads executed, to the instruction.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let costs = self.functions.iter().flat_map(|function| &function.costs);
        let sum = costs.fold(0u64, |sum, cost| {
            sum.wrapping_add(count(cost.counts, Event::Instructions))
        });
        if self.functions.is_empty() || sum == self.counted {
            return Ok(());
        }
        let cause = format!(
            "an internal check failed: the functions of process {} cost {sum} instructions, its threads {}",
            self.pid, self.counted
        );
        Err(Failure::new(123, cause).hint("the files of this run are void; please report it"))
    }

    /// Writes its file.
    pub(super) fn write(&self, options: &Options) -> Result<(), Failure> {
        let option = out_option(options);
        let path = PathBuf::from(expand(option, &options.out_file, self.pid, 0)?);
        let file = self.file(options);
        let done = File::create(&path).and_then(|opened| {
            let mut out = io::BufWriter::new(opened);
            match options.tool {
                Tool::Cachegrind => file.write_cachegrind(&mut out)?,
                _ => file.write(options.form, &mut out)?,
            }
            out.flush()
        });
        done.map_err(|error| Failure::new(1, format!("cannot write {}: {error}", path.display())))
    }

    fn file(&self, options: &Options) -> CallgrindFile {
        let events = events(options);
        let costs = |counts| {
            events
                .iter()
                .map(|&(_, event)| count(counts, event))
                .collect()
        };
        let functions = self.functions.iter().map(|function| CostedFunction {
            object: function.object.clone(),
            file: function.file.clone(),
            name: function.name.clone(),
            costs: function
                .costs
                .iter()
                .map(|cost| PlaceCost {
                    file: cost.file.clone(),
                    address: cost.address,
                    line: cost.line,
                    costs: costs(cost.counts),
                })
                .collect(),
            calls: Vec::new(),
        });
        CallgrindFile {
            creator: format!("truecount-{}", env!("CARGO_PKG_VERSION")),
            pid: self.pid,
            command: self.command.clone(),
            part: 1,
            thread: None,
            descriptions: vec!["Trigger: Program termination".to_owned()],
            events: events
                .iter()
                .map(|&(name, _)| (name.to_owned(), None))
                .collect(),
            functions: functions.collect(),
        }
    }
}

fn count(counts: truecount_engine::virt::Counts, event: Event) -> u64 {
    counts.get(event as usize).copied().unwrap_or(0)
}

/// Program and arguments of an image: a forked process has those of its parent.
fn command_of(image: &Image, images: &[Image], commands: &BTreeMap<u32, String>) -> String {
    let mut at = image;
    loop {
        if let Some(command) = commands.get(&at.number) {
            return command.clone();
        }
        // Parents are older: this ends.
        let older = images.iter().rev();
        let parent = older
            .filter(|other| other.number < at.number)
            .find(|other| other.pid == at.parent);
        match parent {
            Some(parent) => at = parent,
            None => return image.name.clone(),
        }
    }
}

fn out_option(options: &Options) -> &'static str {
    match options.tool {
        Tool::Cachegrind => "--cachegrind-out-file",
        _ => "--callgrind-out-file",
    }
}

/// Whether the files can be written, before anything is run.
pub(super) fn can_be_written(options: &Options) -> Result<(), Failure> {
    can_be_created(out_option(options), &options.out_file)
}

/// Whether a file by this pattern can be created: tried with this process' own number.
pub(super) fn can_be_created(option: &str, pattern: &str) -> Result<(), Failure> {
    let path = PathBuf::from(expand(option, pattern, std::process::id(), 0)?);
    let path: &Path = &path;
    let existed = path.symlink_metadata().is_ok();
    // A FIFO would wait for its reader.
    if existed && !path.is_file() && !path.is_dir() {
        return Ok(());
    }
    let opened = File::options().create(true).append(true).open(path);
    opened.map_err(|error| {
        Failure::new(
            1,
            format!("{option}: cannot write {}: {error}", path.display()),
        )
    })?;
    if !existed {
        // What cannot be removed is empty, and in nobody's way.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}
