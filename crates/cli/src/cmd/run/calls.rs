//! The tree of calls that `run --calls` prints, and its exports.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use truecount_engine::virt::CallOptions;
use truecount_engine::xlate::facts::Event;
use truecount_model::number::grouped;
use truecount_profile::export::{
    CallgrindForm, FlameGraph, Function, Line, Measure, Owner, Place, Stack, Stacks,
};
use truecount_run::calls::{CallTree, Kind};
use truecount_run::functions::{
    AskedEvent, AskedMemory, Detail, Names, base_name, line_costs, merged,
};
use truecount_run::result::RunResult;

use super::told::{Calls, Costs, Shown, columns, event_cells, heads, share};
use crate::failure::Failure;
use crate::output::Picture;
use crate::program_args::parse_percent;
use crate::render::style::{HEAD, WARN, paint};
use crate::render::table::{Cell, Table, fitted};

/// The tree, folded, and the functions with the largest inclusive costs.
pub(super) fn write(out: &mut dyn Write, calls: &Calls) -> io::Result<()> {
    let tree = &calls.tree;
    let mut table = Table::of(heads(calls, &["path"]));
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
        let mut path = format!("{}{}", " ".repeat(depth), fitted(&name));
        match (&node.site_line, node.site) {
            (Some(at), _) => path.push_str(&format!(" (from {}:{})", base_name(&at.file), at.line)),
            (None, Some(site)) => path.push_str(&format!(" (from {site:#x})")),
            (None, None) => {}
        }
        let mut cells = vec![
            grouped(node.inclusive).into(),
            format!("{:.2} %", 100.0 * share(node.inclusive, tree.total)).into(),
            grouped(node.own).into(),
        ];
        cells.extend(event_cells(calls, &node.events));
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
    super::lines::write_functions(out, calls, limits.percent)?;
    if calls.lines {
        super::lines::write(out, calls)?;
    }
    if calls
        .columns
        .iter()
        .any(|&place| touched_first(tree, place))
    {
        let sentence = "lines and pages count on the path that touched them first";
        writeln!(out, "{sentence}")?;
    }
    for sentence in tree.folded_sentences() {
        writeln!(out, "{}", paint(WARN, &sentence))?;
    }
    Ok(())
}

/// Whether an event counts what was touched for the first time.
fn touched_first(tree: &CallTree, place: usize) -> bool {
    let first = ["lines-touched", "lines-written", "pages-touched"];
    tree.events
        .get(place)
        .is_some_and(|name| first.contains(&&**name))
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
    /// Source lines and inlined functions of every function, with what it executed there itself (from debug information);
    /// implies --calls
    #[arg(long)]
    lines: bool,
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
            || self.lines
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
    fn shown(&self) -> Shown {
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
    /// `of_memory`: beside facts about memory references.
    pub(super) fn options(
        &self,
        wishes: &[AskedEvent],
        of_memory: bool,
    ) -> Result<CallOptions, Failure> {
        let most = match of_memory {
            true => CallOptions::MOST_EVENTS_BESIDE_FACTS,
            false => CallOptions::MOST_EVENTS,
        };
        let mut events: Vec<Event> = Vec::new();
        for event in wishes.iter().map(|wish| wish.event) {
            if event != Event::Instructions && !events.contains(&event) {
                events.push(event);
            }
        }
        if events.len() > most {
            let beside = match of_memory {
                true => "beside instructions and memory references",
                false => "beside instructions",
            };
            let cause = format!("--calls counts {most} events {beside} at most");
            return Err(Failure::new(2, cause).hint("leave some of -e out, or run it twice"));
        }
        // In Callgrind's format calls have the lines that they are on.
        let sites = self.sites() || self.callgrind.is_some();
        Ok(CallOptions::default().sites(sites).events(&events))
    }

    /// Whether paths are told apart by call sites.
    pub(super) fn sites(&self) -> bool {
        self.calls == Some(How::Sites)
    }

    /// What the run cost by line and instruction, as far as it is wanted.
    pub(super) fn costs(&self, ran: &RunResult) -> Costs {
        let of = |wanted: bool, detail: Detail| match wanted {
            true => {
                let pieces = line_costs(ran, &mut Names::default(), detail, &|_| true);
                merged(pieces.into_values())
            }
            false => Vec::new(),
        };
        let lines = Detail {
            lines: true,
            inlined: self.lines,
            ..Detail::default()
        };
        let code = Detail {
            instructions: true,
            lines: true,
            ..Detail::default()
        };
        Costs {
            code: of(self.html.is_some(), code),
            lines: of(self.lines || self.callgrind.is_some(), lines),
            pid: ran.executed.threads.first().map_or(0, |thread| thread.pid),
        }
    }

    /// The tree with its sums; `asked`: events of memory.
    pub(super) fn told(&self, tree: CallTree, costs: &Costs, asked: &AskedMemory) -> Calls {
        let mut sums = tree.by_function();
        if self.lines {
            tree.add_lines(&mut sums, &costs.lines);
        }
        let asked: Vec<&str> = asked.iter().map(|(_, event)| event.name()).collect();
        Calls {
            sums,
            columns: columns(&tree, &asked),
            tree,
            shown: self.shown(),
            lines: self.lines,
        }
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
    /// Writes them all, whatever becomes of the others.
    pub(super) fn write(
        self,
        calls: &Calls,
        event: &str,
        title: &str,
        costs: &Costs,
    ) -> Result<(), Failure> {
        let tree = &calls.tree;
        let page = match self.html {
            Some(file) => file.write(super::page::page(tree, title, &costs.code).as_bytes()),
            None => Ok(()),
        };
        let of_stacks = [&self.folded, &self.pprof, &self.firefox];
        let stacks = match of_stacks.iter().any(|file| file.is_some()) {
            true => stacks(tree, event, title),
            false => Stacks::default(),
        };
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
            made(self.callgrind, &|out| {
                let file = super::callgrind::file(calls, costs, event, title);
                file.write(CallgrindForm::default(), out)
            }),
            made(self.firefox, &|out| stacks.write_firefox_costs(out)),
        ])
    }
}

/// The flame graph with whole stacks.
pub(super) fn flame(tree: &CallTree, event: &str, command: &str) -> String {
    let stacks = stacks(tree, event, command);
    FlameGraph::of(&stacks, 0, None, event).svg(&format!(
        "{command}: {} {event} in all",
        grouped(tree.total)
    ))
}
