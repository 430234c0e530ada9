//! What each process cost, and the files in Callgrind's and Cachegrind's formats.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use truecount_engine::virt::{Blocks, CommandLine, Mark};
use truecount_engine::xlate::facts::Event;
use truecount_profile::export::{CallgrindFile, CostedFunction};
use truecount_run::functions::{Addresses, Edge, FunctionCosts, LineCost, Piece, matches};
use truecount_run::references::SIMULATED;
use truecount_run::result::RunResult;

use super::options::{Options, Tool, expand};
use crate::failure::Failure;
use crate::render::callgrind::functions;

/// Where an event's count comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// The virtual PMU: instructions.
    Counted,
    /// The simulation: the place in [`SIMULATED`].
    Simulated(usize),
}

impl Column {
    fn of(self, cost: &LineCost) -> u64 {
        match self {
            Self::Counted => count(cost.counts, Event::Instructions),
            Self::Simulated(place) => cost.simulated.get(place).copied().unwrap_or(0),
        }
    }

    fn of_edge(self, edge: &Edge) -> u64 {
        match self {
            Self::Counted => edge.inclusive,
            Self::Simulated(place) => edge.events.get(place).copied().unwrap_or(0),
        }
    }
}

/// The events that the options ask for, by Valgrind's names and in the tool's order.
pub(super) fn events(options: &Options) -> Vec<(&'static str, Column)> {
    let caches: &[&str] = match (options.cache_sim, options.tool) {
        (false, _) => &[],
        (true, Tool::Cachegrind) => &["I1mr", "ILmr", "Dr", "D1mr", "DLmr", "Dw", "D1mw", "DLmw"],
        (true, _) => &["Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw"],
    };
    let branches: &[&str] = match options.branch_sim {
        false => &[],
        true => &["Bc", "Bcm", "Bi", "Bim"],
    };
    let simulated = |name: &&str| {
        let place = SIMULATED.iter().position(|known| known == name)?;
        Some((*SIMULATED.get(place)?, Column::Simulated(place)))
    };
    let events = caches.iter().chain(branches).filter_map(simulated);
    std::iter::once(("Ir", Column::Counted))
        .chain(events)
        .collect()
}

/// What the simulated caches are, as Valgrind says it.
fn descriptions(options: &Options) -> Vec<String> {
    if !options.cache_sim {
        return Vec::new();
    }
    let caches = options.simulated_caches();
    let gap = if options.tool == Tool::Cachegrind {
        "         "
    } else {
        " "
    };
    let named = [("I1", caches.i1), ("D1", caches.d1), ("LL", caches.ll)];
    named
        .map(|(name, cache)| {
            let ways = match cache.ways {
                1 => "direct-mapped".to_owned(),
                ways => format!("{ways}-way associative"),
            };
            format!(
                "{name} cache:{gap}{} B, {} B, {ways}",
                cache.size, cache.line
            )
        })
        .into()
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
    /// The parts of its profile, in order.
    parts: Vec<Part>,
    /// Instructions of parts that were dropped (`--zero-before`, the request that sets all to zero).
    dropped: u64,
}

/// A part of a profile: a file of its own, or a piece of one.
struct Part {
    /// From 1 on.
    number: u32,
    /// From 1 on, where threads are apart.
    thread: Option<u32>,
    /// What ended it; none: the end of the program.
    trigger: Option<String>,
    functions: Vec<FunctionCosts>,
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
        let skipped = skipped(&images, commands, options);
        let wanted = |image: &Image| {
            let by_exec = commands.contains_key(&image.number) && Some(image.number) != first;
            last(image) && (options.trace_children || !by_exec) && !skipped.contains(&image.number)
        };
        let chosen = images.iter().filter(|image| wanted(image));
        chosen
            .map(|image| Self {
                image: image.number,
                pid: image.pid,
                parent: image.parent,
                command: command_of(image, &images, commands),
                counted: image.counted,
                parts: Vec::new(),
                dropped: 0,
            })
            .collect()
    }

    /// Takes the parts of its profile out of what the run cost.
    pub(super) fn take_parts(
        &mut self,
        options: &Options,
        blocks: &Blocks,
        costs: &mut BTreeMap<Piece, Vec<FunctionCosts>>,
    ) {
        let image = self.image;
        let marks = blocks.marks().iter();
        let marks: Vec<&Mark> = marks.filter(|mark| mark.image == image).collect();
        let threads = match options.separate_threads {
            true => blocks.threads(image),
            false => BTreeSet::from([0]),
        };
        let mut take = |part, thread, apart, number, end: Option<&&Mark>| {
            let piece = Piece {
                image,
                thread,
                part,
            };
            let functions = costs.remove(&piece).unwrap_or_default();
            if end.is_some_and(|mark| mark.drops) {
                self.dropped = self.dropped.wrapping_add(instructions(&functions));
                return;
            }
            self.parts.push(Part {
                number,
                thread: apart,
                trigger: end.map(|mark| mark.name.clone()),
                functions,
            });
        };
        // Parts have one row of numbers, whosever they are.
        let number_of = |end: Option<&&Mark>| {
            let before = |mark: &&&Mark| !mark.drops && end.is_none_or(|e| mark.number < e.number);
            u32::try_from(marks.iter().filter(before).count() + 1).unwrap_or(u32::MAX)
        };
        for (&thread, at) in threads.iter().zip(1..) {
            let apart = options.separate_threads.then_some(at);
            let mut part = 0;
            let own = |mark: &&&Mark| !options.separate_threads || mark.by == thread;
            for mark in marks.iter().filter(own) {
                take(part, thread, apart, number_of(Some(mark)), Some(mark));
                part = mark.number;
            }
            take(part, thread, apart, number_of(None), None);
        }
        self.parts.sort_by_key(|part| (part.number, part.thread));
    }

    /// The sum over all functions, by event.
    pub(super) fn totals(&self, options: &Options) -> Vec<u64> {
        let sum = |column: Column| {
            let functions = self.parts.iter().flat_map(|part| &part.functions);
            let costs = functions.flat_map(|function| &function.costs);
            costs.fold(0u64, |sum, cost| sum.wrapping_add(column.of(cost)))
        };
        events(options)
            .into_iter()
            .map(|(_, column)| sum(column))
            .collect()
    }

    /// What the functions cost is what the threads executed, to the instruction.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let parts = self.parts.iter();
        let sum = parts.fold(self.dropped, |sum, part| {
            sum.wrapping_add(instructions(&part.functions))
        });
        if sum == self.counted {
            return Ok(());
        }
        let cause = format!(
            "an internal check failed: the functions of process {} cost {sum} instructions, its threads {}",
            self.pid, self.counted
        );
        Err(Failure::new(123, cause).hint("the files of this run are void; please report it"))
    }

    /// Writes its files.
    pub(super) fn write(&self, options: &Options) -> Result<(), Failure> {
        let option = out_option(options);
        let plain = expand(option, &options.out_file, self.pid, 0)?;
        let mut written: Vec<PathBuf> = Vec::new();
        for part in &self.parts {
            let mut name = plain.clone();
            if !options.combine_dumps && options.tool == Tool::Callgrind {
                if part.trigger.is_some() {
                    name.push(format!(".{}", part.number));
                }
                if let Some(thread) = part.thread {
                    name.push(format!("-{thread:02}"));
                }
            }
            let path = PathBuf::from(name);
            let again = written.contains(&path);
            let opened = File::options()
                .create(true)
                .write(true)
                .append(again)
                .truncate(!again)
                .open(&path);
            let file = self.file(options, part);
            let done = opened.and_then(|opened| {
                let mut out = io::BufWriter::new(opened);
                match options.tool {
                    Tool::Cachegrind => file.write_cachegrind(&mut out)?,
                    _ => file.write(options.form, &mut out)?,
                }
                out.flush()
            });
            done.map_err(|error| {
                Failure::new(1, format!("cannot write {}: {error}", path.display()))
            })?;
            written.push(path);
        }
        Ok(())
    }

    fn file(&self, options: &Options, part: &Part) -> CallgrindFile {
        let events = events(options);
        let mut functions = functions(
            &part.functions,
            &|cost| events.iter().map(|(_, column)| column.of(cost)).collect(),
            &|edge| {
                let columns = events.iter();
                columns.map(|(_, column)| column.of_edge(edge)).collect()
            },
        );
        if options.form.instructions {
            to_addresses(&mut functions);
        }
        CallgrindFile {
            creator: format!("truecount-{}", env!("CARGO_PKG_VERSION")),
            pid: self.pid,
            command: self.command.clone(),
            part: part.number,
            thread: part.thread,
            descriptions: {
                let trigger = part.trigger.as_deref().unwrap_or("Program termination");
                let mut all = descriptions(options);
                all.push(format!("Trigger: {trigger}"));
                all
            },
            events: events
                .iter()
                .map(|&(name, _)| (name.to_owned(), None))
                .collect(),
            functions,
        }
    }
}

/// Offsets in files become the addresses that the files say.
fn to_addresses(functions: &mut [CostedFunction]) {
    let objects: Vec<String> = functions
        .iter()
        .map(|function| function.object.clone())
        .collect();
    let mut addresses = Addresses::default();
    for function in functions {
        for cost in &mut function.costs {
            cost.address = addresses.of(&function.object, cost.address);
        }
        for call in &mut function.calls {
            call.site.address = addresses.of(&function.object, call.site.address);
            if let Some(object) = objects.get(call.callee) {
                call.callee_address = addresses.of(object, call.callee_address);
            }
        }
    }
}

/// Instructions of all functions.
fn instructions(functions: &[FunctionCosts]) -> u64 {
    let costs = functions.iter().flat_map(|function| &function.costs);
    costs.fold(0u64, |sum, cost| {
        sum.wrapping_add(count(cost.counts, Event::Instructions))
    })
}

fn count(counts: truecount_engine::virt::Counts, event: Event) -> u64 {
    counts.get(event as usize).copied().unwrap_or(0)
}

/// Program and arguments of an image: a forked process has those of its parent.
fn command_of(image: &Image, images: &[Image], commands: &BTreeMap<u32, CommandLine>) -> String {
    let mut at = image;
    loop {
        if let Some(command) = commands.get(&at.number) {
            return command.to_string();
        }
        // Parents are older: this ends.
        match newest(images, at.number, at.parent) {
            Some(parent) => at = parent,
            None => return image.name.clone(),
        }
    }
}

/// The newest image of a process that is older than one with this number.
fn newest(images: &[Image], than: u32, pid: u32) -> Option<&Image> {
    let older = images.iter().filter(|image| image.number < than);
    older
        .filter(|image| image.pid == pid)
        .max_by_key(|image| image.number)
}

/// The images that are not profiled by `--trace-children-skip` and `--trace-children-skip-by-arg`, with all that follows
/// them in their processes, and the children of these. (Valgrind leaves them to the kernel at their `execve`.)
fn skipped(
    images: &[Image],
    commands: &BTreeMap<u32, CommandLine>,
    options: &Options,
) -> BTreeSet<u32> {
    let mut skipped = BTreeSet::new();
    if options.skip_files.is_empty() && options.skip_words.is_empty() {
        return skipped;
    }
    let mut by_age: Vec<&Image> = images.iter().collect();
    by_age.sort_by_key(|image| image.number);
    for image in by_age {
        let before = newest(images, image.number, image.pid);
        let before = before.or_else(|| newest(images, image.number, image.parent));
        let chosen = |command: &CommandLine| {
            let files = options.skip_files.iter();
            let mut words = options.skip_words.iter();
            files.clone().any(|pattern| matches(pattern, &command.file))
                || words.any(|pattern| command.words.iter().any(|word| matches(pattern, word)))
        };
        let inherits = before.is_some_and(|before| skipped.contains(&before.number));
        // (What the command itself is, is profiled whatever it is called.)
        if inherits || before.is_some() && commands.get(&image.number).is_some_and(chosen) {
            skipped.insert(image.number);
        }
    }
    skipped
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
