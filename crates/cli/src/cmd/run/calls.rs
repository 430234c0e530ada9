//! The tree of calls that `run --calls` prints, and its exports.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use truecount_engine::virt::CallOptions;
use truecount_engine::xlate::facts::Event;
use truecount_model::number::grouped;
use truecount_profile::export::{FlameGraph, Function, Line, Measure, Owner, Place, Stack, Stacks};
use truecount_run::calls::{CallTree, EventCost, FunctionCost, Kind};
use truecount_run::functions::{AskedEvent, FunctionCosts, base_name};

use crate::failure::Failure;
use crate::output::Picture;
use crate::program_args::parse_percent;
use crate::render::style::{HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table, fitted};

/// What of the tree stands in the text.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// Paths below this share of the total are folded.
    percent: f64,
    lines: usize,
    levels: usize,
}

/// Functions in the text's table.
const MAX_FUNCTIONS: usize = 20;

/// The tree as it stands in the document.
#[derive(Serialize)]
pub(super) struct Calls {
    #[serde(flatten)]
    pub(super) tree: CallTree,
    /// Sums of the functions, largest inclusive cost first.
    pub(super) sums: Vec<FunctionCost>,
    #[serde(skip)]
    shown: Shown,
}

impl Calls {
    pub(super) fn new(tree: CallTree, shown: Shown) -> Self {
        Self {
            sums: tree.by_function(),
            tree,
            shown,
        }
    }
}

fn share(part: u64, total: u64) -> f64 {
    part as f64 / total.max(1) as f64
}

/// Columns: instructions, the other events in all, calls, and what it is.
fn heads(tree: &CallTree, what: &[&str]) -> Vec<(String, Align)> {
    let names = ["inclusive", "share", "self"].map(str::to_owned);
    let events = tree.events.iter().cloned();
    let numbers = names.into_iter().chain(events).chain(["calls".to_owned()]);
    let numbers = numbers.map(|name| (name, Align::Right));
    let what = what.iter().map(|&name| (name.to_owned(), Align::Left));
    numbers.chain(what).collect()
}

fn event_cells(events: &[EventCost]) -> impl Iterator<Item = Cell> {
    events.iter().map(|event| grouped(event.inclusive).into())
}

/// The tree, folded, and the functions with the largest inclusive costs.
pub(super) fn write(out: &mut dyn Write, calls: &Calls) -> io::Result<()> {
    let tree = &calls.tree;
    let mut table = Table::of(heads(tree, &["path"]));
    let children = tree.children();
    let mut open: Vec<(usize, usize)> = Vec::new();
    let roots = children.last().into_iter().flatten();
    open.extend(roots.rev().map(|&at| (at, 0)));
    let limits = calls.shown;
    let (mut lines, mut hidden) = (0, 0u64);
    while let Some((at, depth)) = open.pop() {
        let Some(node) = tree.nodes.get(at) else {
            continue;
        };
        let is_small = 100.0 * share(node.inclusive, tree.total) < limits.percent;
        if is_small || lines >= limits.lines || depth >= limits.levels {
            hidden = hidden.wrapping_add(node.inclusive);
            continue;
        }
        lines += 1;
        let name = match node.kind {
            Kind::Signal => format!("{} (signal handler)", tree.name(node)),
            _ => tree.name(node).to_owned(),
        };
        let path = format!("{}{}", " ".repeat(depth), fitted(&name));
        let mut cells = vec![
            grouped(node.inclusive).into(),
            format!("{:.2} %", 100.0 * share(node.inclusive, tree.total)).into(),
            grouped(node.own).into(),
        ];
        cells.extend(event_cells(&node.events));
        cells.push(match node.kind {
            Kind::Thread => "".into(),
            _ => grouped(node.calls).into(),
        });
        cells.push(Cell::styled(HEAD, path));
        table.row(cells);
        let below = children.get(at).into_iter().flatten();
        open.extend(below.rev().map(|&at| (at, depth + 1)));
    }
    table.write(out)?;
    if lines < tree.nodes.len() {
        writeln!(
            out,
            "{} of {} paths shown; the others executed {} instructions ({:.2} %): less than {} % each with all below, or \
             deep; --percent-limit shows more, --json and --flamegraph have all",
            grouped(lines as u64),
            grouped(tree.nodes.len() as u64),
            grouped(hidden),
            100.0 * share(hidden, tree.total),
            limits.percent
        )?;
    }
    writeln!(out)?;
    let mut table = Table::of(heads(tree, &["function", "module"]));
    let named = calls.sums.iter().filter_map(|cost| {
        let called = tree.functions.get(cost.function)?;
        (!called.module.is_empty()).then_some((cost, called))
    });
    for (cost, called) in named.take(MAX_FUNCTIONS) {
        let mut cells = vec![
            grouped(cost.inclusive).into(),
            format!("{:.2} %", 100.0 * share(cost.inclusive, tree.total)).into(),
            grouped(cost.own).into(),
        ];
        cells.extend(event_cells(&cost.events));
        cells.push(grouped(cost.calls).into());
        cells.push(Cell::styled(HEAD, fitted(&called.name)));
        cells.push(base_name(&called.module).into());
        table.row(cells);
    }
    table.write(out)?;
    writeln!(out)?;
    for sentence in tree.folded_sentences() {
        writeln!(out, "{}", paint(WARN, &sentence))?;
    }
    Ok(())
}

/// The tree as stacks. What is deeper than this is cut off in them, and belongs to the last that is shown.
const STACK_DEPTH: usize = 1024;

/// Every path with its own cost as a stack.
pub(super) fn stacks(tree: &CallTree, event: &str, title: &str) -> Stacks {
    let functions = tree.functions.iter().map(|called| Function {
        name: called.name.clone(),
        module: called.module.clone(),
        file: None,
    });
    let places = (0..tree.functions.len()).map(|function| Place {
        address: 0,
        kernel: false,
        lines: vec![Line {
            function,
            line: None,
            inlined: false,
        }],
    });
    let shown = shown(tree);
    let mut stacks = Vec::new();
    for measure in 0..=tree.events.len() {
        stacks_of(tree, &shown, measure, &mut stacks);
    }
    let measures = std::iter::once(event).chain(tree.events.iter().map(String::as_str));
    let measures = measures.map(|name| Measure {
        name: name.to_owned(),
        occurrences: "calls".to_owned(),
        nanoseconds: false,
    });
    Stacks {
        title: title.to_owned(),
        measures: measures.collect(),
        functions: functions.collect(),
        places: places.collect(),
        stacks,
        start: None,
        duration: None,
        timeline: Vec::new(),
    }
}

/// Every path that is shown with what it executed of one event: 0: instructions.
fn stacks_of(tree: &CallTree, shown: &[(usize, usize)], measure: usize, stacks: &mut Vec<Stack>) {
    let mut costs: Vec<u64> = vec![0; tree.nodes.len()];
    for (node, &(_, place)) in tree.nodes.iter().zip(shown) {
        let own = match measure.checked_sub(1) {
            None => node.own,
            Some(event) => node.events.get(event).map_or(0, |event| event.own),
        };
        if let Some(cost) = costs.get_mut(place) {
            *cost = cost.wrapping_add(own);
        }
    }
    for (number, (node, cost)) in tree.nodes.iter().zip(costs).enumerate() {
        let is_shown = shown.get(number).is_some_and(|&(_, place)| place == number);
        if !is_shown || cost == 0 && (node.calls == 0 || measure > 0) {
            continue;
        }
        let mut chain = Vec::new();
        let mut at = Some(number);
        while let Some(node) = at.and_then(|at| tree.nodes.get(at)) {
            chain.push(node.function);
            at = node.parent;
        }
        stacks.push(Stack {
            measure,
            owner: None::<Owner>,
            places: chain,
            count: node.calls,
            cost,
        });
    }
}

/// How many nodes are above each one, and the last on its path that a stack shows: a path may be a million calls deep.
fn shown(tree: &CallTree) -> Vec<(usize, usize)> {
    let mut shown: Vec<(usize, usize)> = Vec::with_capacity(tree.nodes.len());
    for (at, node) in tree.nodes.iter().enumerate() {
        let above = node.parent.and_then(|parent| shown.get(parent));
        shown.push(match above {
            Some(&(depth, place)) if depth >= STACK_DEPTH => (depth, place),
            Some(&(depth, _)) => (depth + 1, at),
            None => (0, at),
        });
    }
    shown
}

/// Where the tree goes beside the result.
#[derive(clap::Args)]
pub(crate) struct CallArgs {
    /// The tree of calls: what every path of functions executed itself and in all, exactly; =sites tells the places apart
    /// that a function is called from
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "functions", require_equals = true, hide_possible_values = true)]
    pub(super) calls: Option<How>,
    /// Paths with fewer percent of the instructions, inclusively, are left out of the text's tree (without it: fewer than 1, and
    /// all beyond 60 lines); implies --calls
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub(super) percent_limit: Option<f64>,
    /// Compare with a saved result (of run --calls --json): what every path gained and lost; the flame graph is red where it
    /// grew, blue where it shrank; implies --calls
    #[arg(long, value_name = "OLD")]
    pub(super) diff: Option<PathBuf>,
    /// With --diff: the newer result is this saved one; nothing is run
    #[arg(
        long,
        value_name = "NEW",
        requires = "diff",
        conflicts_with = "command"
    )]
    pub(super) saved: Option<PathBuf>,
    /// Write a page: flame graph that zooms and searches, functions, who calls whom, source and instructions with their
    /// counts; implies --calls
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Write the tree of calls as folded stacks, for flame graph tools; implies --calls
    #[arg(long, value_name = "FILE")]
    pub(super) folded: Option<PathBuf>,
    /// Write it as a pprof profile; implies --calls
    #[arg(long, value_name = "FILE")]
    pub(super) pprof: Option<PathBuf>,
    /// Write it in Callgrind's format, for KCachegrind; implies --calls
    #[arg(long, value_name = "FILE")]
    pub(super) callgrind: Option<PathBuf>,
    /// Write it for the Firefox Profiler; implies --calls
    #[arg(long, value_name = "FILE")]
    pub(super) firefox: Option<PathBuf>,
}

/// What a node of the tree is.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum How {
    /// A path of functions.
    Functions,
    /// A path of call sites.
    Sites,
}

impl CallArgs {
    /// Whether a tree is wanted.
    pub(super) fn wanted(&self) -> bool {
        self.calls.is_some()
            || self.percent_limit.is_some()
            || [
                &self.diff,
                &self.html,
                &self.folded,
                &self.pprof,
                &self.callgrind,
                &self.firefox,
            ]
            .iter()
            .any(|file| file.is_some())
    }

    /// What the text shows.
    pub(super) fn shown(&self) -> Shown {
        match self.percent_limit {
            Some(percent) => Shown {
                percent,
                lines: usize::MAX,
                levels: STACK_DEPTH,
            },
            None => Shown {
                percent: 1.0,
                lines: 60,
                levels: 48,
            },
        }
    }

    /// What is kept of each path: instructions, and the other events that were asked for.
    pub(super) fn options(&self, wishes: &[AskedEvent]) -> Result<CallOptions, Failure> {
        /// Events that the engine keeps beside instructions.
        const MOST: usize = 4;
        let mut events: Vec<Event> = Vec::new();
        for event in wishes.iter().map(|wish| wish.event) {
            if event != Event::Instructions && !events.contains(&event) {
                events.push(event);
            }
        }
        if events.len() > MOST {
            let cause = format!("--calls counts {MOST} events beside instructions at most");
            return Err(Failure::new(2, cause).hint("leave some of -e out, or run it twice"));
        }
        let sites = self.calls == Some(How::Sites);
        Ok(CallOptions::default().sites(sites).events(&events))
    }

    /// Opens the files, before the run.
    pub(super) fn open(&self) -> Result<Files, Failure> {
        let open = |path: &Option<PathBuf>| Picture::create(path.as_deref().map(Path::new));
        Ok(Files {
            html: open(&self.html)?,
            folded: open(&self.folded)?,
            pprof: open(&self.pprof)?,
            callgrind: open(&self.callgrind)?,
            firefox: open(&self.firefox)?,
        })
    }
}

/// The files that were asked for.
pub(super) struct Files {
    html: Option<Picture>,
    folded: Option<Picture>,
    pprof: Option<Picture>,
    callgrind: Option<Picture>,
    firefox: Option<Picture>,
}

impl Files {
    /// A page is wanted.
    pub(super) fn page(&self) -> bool {
        self.html.is_some()
    }

    /// Writes them all, whatever becomes of the others.
    pub(super) fn write(
        self,
        tree: &CallTree,
        event: &str,
        title: &str,
        code: Vec<FunctionCosts>,
    ) -> Result<(), Failure> {
        let page = match self.html {
            Some(file) => file.write(super::page::page(tree, title, code).as_bytes()),
            None => Ok(()),
        };
        if [&self.folded, &self.pprof, &self.callgrind, &self.firefox]
            .iter()
            .all(|file| file.is_none())
        {
            return page;
        }
        let stacks = stacks(tree, event, title);
        let made = |file: Option<Picture>, make: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
            let Some(file) = file else { return Ok(()) };
            let mut bytes = Vec::new();
            make(&mut bytes)?;
            file.write(&bytes)
        };
        Failure::of_all([
            page,
            made(self.folded, &|out| stacks.write_folded(0, out)),
            made(self.pprof, &|out| stacks.write_pprof(out)),
            made(self.callgrind, &|out| stacks.write_callgrind(0, true, out)),
            made(self.firefox, &|out| timed(&stacks).write_firefox(out)),
        ])
    }
}

/// The profiler of Firefox knows samples at times only: one a path, behind each other.
fn timed(stacks: &Stacks) -> Stacks {
    let mut stacks = stacks.clone();
    let mut now = 0u64;
    stacks.timeline = stacks
        .stacks
        .iter()
        .enumerate()
        .map(|(number, stack)| {
            let at = now;
            now = now.saturating_add(stack.cost);
            (at, number)
        })
        .collect();
    stacks
}

/// The flame graph with whole stacks.
pub(super) fn flame(tree: &CallTree, event: &str, command: &str) -> String {
    let stacks = stacks(tree, event, command);
    FlameGraph::of(&stacks, 0, None, event).svg(&format!(
        "{command}: {} {event} in all",
        grouped(tree.total)
    ))
}
