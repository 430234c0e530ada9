//! `truecount run`: a program under the virtual PMU, with its exact counts after it has ended.

mod callgrind;
mod calls;
mod diff;
mod document;
mod lines;
mod memory;
mod page;
mod region;
mod text;
mod told;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use truecount_engine::virt::CallOptions;
use truecount_engine::xlate::facts::Event as StaticEvent;
use truecount_profile::export::{FlameGraph, Level};

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Picture, programs_stdout};
use crate::render::json;
use document::Document;
use truecount_model::number::grouped;
use truecount_run::calls::diff::CallDiff;
use truecount_run::calls::{Apart, tree_of};
use truecount_run::determinism::Fixed;
use truecount_run::env_record::Environment;
use truecount_run::functions::{Names, asked, base_name, functions_of};
use truecount_run::runner::{Launch, Signals, resolve};
use truecount_run::source::virtual_pmu;

const EXAMPLES: &str = "\
EXAMPLES
  truecount run -- gzip -k file             exact user-mode instructions, without a PMU
  truecount run --per-process -- make       what each program that make started took
  truecount run --per-thread -- ./prog      each thread of each process
  truecount run -e instructions:u,branches:u,loads:u -- ./prog
  truecount run --functions -- ./prog       an exact profile: every function's instructions
  truecount run --functions -e loads:u --flamegraph loads.svg -- ./prog
  truecount run --calls -- ./prog           the tree of calls: what each path cost itself and in all
  truecount run --calls --flamegraph calls.svg -- ./prog
  truecount run --lines -- ./prog           … with source lines and inlined functions
  truecount run --callgrind callgrind.out -- ./prog           for KCachegrind
  truecount run --html calls.html -- ./prog                   a page to look through
  truecount run --diff old.json -- ./prog   what every path gained and lost since a saved result
  truecount run --toggle parse -- ./prog    inside parse alone, and what it calls
  truecount run --memory -- ./prog          bytes, lines and pages that it touches, exactly
  truecount run --model -- ./prog           … and what caches and branch predictors would make of it
  truecount run --model=zen4 --prefetch=stride --predictor=tage -- ./prog
  truecount run --memory --calls -- ./prog  … for each path of functions
  truecount run --json -o out.json -- ./prog

EVENTS (each with :u; all cost the same, and any number of them costs what one does)
  instructions           retired instructions; a repeated string instruction is one
  branches               near branches: conditional, jumps, calls, returns
  conditional-branches   conditional ones, taken or not
  indirect-branches      jumps and calls through a register or memory
  calls, returns         near ones
  loads, stores          instructions that read or write data memory, the stack included
  locked                 atomic read-modify-writes
  vector-instructions    those with an MMX, SSE, AVX or AVX-512 register
  These note every reference, and take some times as long (see --memory, --model):
  load-bytes, store-bytes, lines-touched, lines-written, pages-touched, line-splits, page-splits,
  unaligned, taken-branches                          facts, exact
  l1i-misses, l1d-misses, l2-misses, ll-misses, dtlb-misses, itlb-misses, mispredicts
                                                     what a model says, not counts

run exits with the status of the program, 128+N when signal N ended it, 123 when an internal check
of the virtual PMU failed (the counts are void then), 126 or 127 when the program cannot be executed
or found. Its result goes to stderr after the program has ended, or to the file of --output; with
--json it goes to stdout, and the program's own stdout to stderr.
Addresses are not randomised unless --aslr is given, so that runs repeat. Ctrl-C ends the program
and prints what was counted; a second Ctrl-C kills it.

LIMITS
  It runs 64-bit programs on x86-64 Linux. Cycles, cache misses and mispredictions do not follow
  from the instructions: not available, except as a model (--model), which is not a count.
  Inside the program perf_event_open works, rdpmc only with instructions:u alone. Programs that call
  vsyscall, or make far calls or jumps, end with a report and status 123; 32-bit and
  set-user-id children run uncounted, and the result says so. For a second opinion: truecount stat
  --source step (slow).";

/// What the tree of calls counts.
const INSTRUCTIONS: &str = "instructions:u";

/// Run a program under the virtual PMU and count its instructions, branches, loads … exactly
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Events, separated by commas (see EVENTS below)
    #[arg(
        short,
        long = "event",
        value_name = "EVENTS",
        default_value = "instructions:u"
    )]
    event: Vec<String>,
    /// Print one JSON document (schema truecount.run/2) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// List every thread
    #[arg(long)]
    per_thread: bool,
    /// List every process, once for each program that it executed
    #[arg(long)]
    per_process: bool,
    /// Events of every function, exactly: from the executions of every block
    #[arg(long)]
    functions: bool,
    #[command(flatten)]
    calls: calls::CallArgs,
    /// Draw a flame graph: with --calls of whole stacks, else of functions (program, module, function), which it implies
    #[arg(long, value_name = "SVG")]
    flamegraph: Option<PathBuf>,
    #[command(flatten)]
    region: region::RegionArgs,
    #[command(flatten)]
    memory: memory::MemoryArgs,
    /// Write the result to FILE instead of stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave the randomisation of addresses on
    #[arg(long)]
    aslr: bool,
    #[command(flatten)]
    fixed: crate::program_args::FixedArgs,
    #[command(flatten)]
    cache: crate::program_args::CacheArgs,
    /// Remove the translations kept from earlier runs, and do nothing else
    #[arg(long)]
    clear_cache: bool,
    /// The command and its arguments
    #[arg(
        value_name = "CMD",
        required_unless_present_any = ["clear_cache", "saved"],
        trailing_var_arg = true
    )]
    command: Vec<OsString>,
}

/// Runs `truecount run`.
pub(crate) fn run(args: &Args) -> CmdResult {
    if args.clear_cache {
        let (count, directory) = virtual_pmu::clear_cache()?;
        let mut out = Output::open(None, true)?;
        writeln!(out, "{count} file(s) removed from {}", directory.display())?;
        out.flush()?;
        return Ok(Outcome::OK);
    }
    if let (Some(old), Some(new)) = (&args.calls.diff, &args.calls.saved) {
        let (json, output) = (args.json.as_deref(), args.output.as_ref());
        return diff::of_saved((old, new), json, output, args.flamegraph.as_ref());
    }
    args.cache.apply();
    let (wishes, of_memory) = asked(&args.event)?;
    virtual_pmu::available().map_err(|reason| Failure::new(1, reason.to_string()))?;
    let Some(first) = args.command.first() else {
        return Err(Failure::new(2, "no command to run")
            .hint("write it after --, as in: truecount run -- ls -l"));
    };
    let signals = Signals::block()
        .map_err(|error| Failure::new(125, format!("cannot block signals: {error}")))?;
    let program = resolve(first)?;
    // Opened before the run: a wrong path must not cost a run.
    let mut output = Output::result(args.json.as_deref(), args.output.as_deref(), true)?;
    let moved = programs_stdout(args.json.as_deref(), args.output.as_deref())?;
    let fixed = args.fixed.fixed()?;
    let launch = Launch {
        argv: &args.command,
        stdio: [None, moved.as_ref(), None],
        cpus: fixed.as_ref().map_or(&[], Fixed::cpus),
        keep_aslr: args.aslr,
        fixed: fixed.as_ref(),
        ..Launch::default()
    };
    let mut environment = Environment::gather(args.aslr, launch.cpus);
    environment.add_command(&args.command, Some(&program));
    let picture = Picture::create(args.flamegraph.as_deref())?;
    let files = args.calls.open()?;
    let old = args.calls.diff.as_deref();
    let old = old.map(|path| diff::saved("--diff", path)).transpose()?;
    let wants_calls = args.calls.wanted();
    let functions = args.functions || picture.is_some() && !wants_calls;
    let per_block = functions
        || wishes
            .iter()
            .any(|wish| wish.event != StaticEvent::Instructions);
    let region = args.region.wanted(&program)?;
    let noted = args.memory.wanted(&of_memory, wants_calls)?;
    let of_memory_is_wanted = noted.is_some();
    let options = match wants_calls {
        true => args.calls.options(&wishes, of_memory_is_wanted)?,
        false => CallOptions::default(),
    };
    let mut ran = match (noted, &region) {
        (Some(_), Some(_)) => {
            let cause = "memory references are those of the whole run, not of a part of it";
            return Err(Failure::new(2, cause).hint("leave --toggle, --from and --to out"));
        }
        (Some(wanted), None) => {
            let calls = wants_calls.then_some(options);
            virtual_pmu::execute_noting(&signals, &program, &launch, wanted, calls)?
        }
        (None, Some(region)) => {
            // The tree tells the share of the whole, and whether the region was reached.
            let (regions, calls) = (region.regions(), Some(options));
            virtual_pmu::execute_regions(&signals, &program, &launch, true, regions, calls, None)?
        }
        (None, None) if wants_calls => {
            virtual_pmu::execute_calls(&signals, &program, &launch, options)?
        }
        (None, None) => virtual_pmu::execute(&signals, &program, &launch, per_block)?,
    };
    let status = ran.exit().shell_code();
    let apart = match (args.per_thread, args.per_process) {
        (true, _) => Apart::Threads,
        (_, true) => Apart::Processes,
        _ => Apart::Programs,
    };
    let costs = args.calls.costs(&ran);
    let tree = tree_of(&ran, &mut Names::default(), apart, args.calls.sites())
        .map_err(|cause| Failure::new(123, cause))?
        .filter(|_| wants_calls)
        .map(|tree| args.calls.told(tree, &costs, &of_memory));
    let region = region.map(|region| region.of(&ran)).transpose()?;
    let functions = functions.then(|| functions_of(&ran, &wishes, &mut Names::default()));
    let functions = functions.flatten();
    let of_memory = args.memory.readings(&mut ran, &of_memory);
    let held = fixed
        .as_ref()
        .map(|fixed| fixed.record(&ran.missing, &mut environment));
    let mut document = Document::new(args, &wishes, ran, functions, environment);
    document.add_memory(of_memory, args.memory.shown());
    document.calls_diff = match (&old, &tree) {
        (Some(old), Some(new)) => Some(CallDiff::of(old, &new.tree)),
        _ => None,
    };
    document.calls = tree;
    if let Some((region, said)) = region {
        document.region = Some(region);
        document.notes.insert(0, said);
    }
    document.notes.extend(held.into_iter().flatten());
    // The result first: a picture that fails must not cost it.
    let shown = if args.json.is_some() {
        json::write(&mut output, &document)
    } else {
        text::write(&mut output, &document)
    };
    let drawn = picture.map_or(Ok(()), |picture| picture.write(&flame(&document)?));
    let exported = match &document.calls {
        Some(calls) => {
            let command = truecount_run::runner::command_line(&document.command);
            files.write(calls, INSTRUCTIONS, &command, &costs)
        }
        None => Ok(()),
    };
    Failure::of_all([shown.map_err(Failure::from), drawn, exported])?;
    Ok(Outcome(status))
}

/// The flame graph: program, module, function; as wide as the first event.
fn flame(document: &Document) -> Result<String, Failure> {
    if let Some(diff) = &document.calls_diff {
        return Ok(diff::flame(diff));
    }
    if let Some(calls) = &document.calls {
        let command = truecount_run::runner::command_line(&document.command);
        return Ok(calls::flame(&calls.tree, INSTRUCTIONS, &command));
    }
    let (Some(first), Some(functions)) = (document.counters.first(), document.functions.as_ref())
    else {
        return Err(Failure::new(
            1,
            "no flame graph: nothing was counted per function",
        ));
    };
    let mut flame = FlameGraph::new("all", &first.event, None);
    for function in functions {
        let chain = [
            &*function.program,
            base_name(&function.module),
            &*function.function,
        ];
        flame.add(chain.map(Level::new), function.first, 0);
    }
    let command = truecount_run::runner::command_line(&document.command);
    let counted = match first.value() {
        Some(value) => format!("{} {} in all", grouped(value), first.event),
        None => format!("{}, the sum is not available", first.event),
    };
    Ok(flame.svg(&format!("{command}: {counted}")))
}
