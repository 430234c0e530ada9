//! `truecount report`: where the samples of a recording fell.

mod annotate;
mod diff;
mod exports;
mod table;
mod view;

use std::io::Write as _;
use std::path::PathBuf;

use truecount_sample::symbols::SearchPath;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, cannot_write};
use view::View;

const EXAMPLES: &str = "\
EXAMPLES
  truecount report                            functions of perf.data, those with most samples first
  truecount report perf.data --by line        source lines
  truecount report perf.data --by caller      who calls whom (recorded with -g)
  truecount report perf.data --annotate main  instructions of a function with their samples
  truecount report perf.data --flamegraph flame.svg
  truecount report perf.data --firefox profile.json   for https://profiler.firefox.com
  truecount report before.data --diff after.data      what changed, with intervals";

/// What rows of the table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum By {
    /// Functions; inlined ones on their own
    Symbol,
    /// Files: programs, libraries, the kernel
    Dso,
    /// Source lines
    Line,
    /// Addresses
    Address,
    /// Processes
    Process,
    /// Threads
    Thread,
    /// CPUs
    Cpu,
    /// Pairs of caller and function
    Caller,
    /// Whole call chains
    Chain,
}

/// Show where the samples of a recording fell
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples: truecount report --help")]
pub(crate) struct Args {
    /// A recording of `truecount record` or `perf record`
    #[arg(default_value = "perf.data")]
    file: PathBuf,
    /// What the rows are
    #[arg(long, value_enum, default_value_t = By::Symbol)]
    by: By,
    /// Rows to show
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Instructions of a function, with samples and source lines
    #[arg(long, value_name = "FUNCTION")]
    annotate: Option<String>,
    /// A second recording: what changed from FILE to it, with 95 % intervals
    #[arg(long, value_name = "FILE")]
    diff: Option<PathBuf>,
    /// The program, where it is not at the path of the recording
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Look for all programs and libraries below this directory
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Print one JSON document (schema truecount.report/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// Write a flame graph
    #[arg(long, value_name = "OUT.svg")]
    flamegraph: Option<PathBuf>,
    /// Write a profile for the Firefox Profiler
    #[arg(long, value_name = "OUT.json")]
    firefox: Option<PathBuf>,
    /// Write a profile for pprof
    #[arg(long, value_name = "OUT")]
    pprof: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> CmdResult {
    let search = SearchPath {
        symfs: args.symfs.clone(),
        binary: args.binary.clone(),
    };
    let mut view = View::load(&args.file, &search)?;
    if view.profile.entries.is_empty() {
        return Err(Failure::new(
            1,
            format!("{}: no sample has an address", args.file.display()),
        )
        .hint("record for longer, or with a shorter period (-c)"));
    }
    if args.flamegraph.is_some() || args.firefox.is_some() || args.pprof.is_some() {
        view.name_all();
    }
    let mut written = false;
    let mut write = |path: &Option<PathBuf>,
                     content: &dyn Fn(&mut View) -> Result<Vec<u8>, Failure>,
                     view: &mut View| {
        let Some(path) = path else { return Ok(()) };
        let content = content(view)?;
        std::fs::write(path, content).map_err(|e| cannot_write(path, &e))?;
        written = true;
        writeln!(
            anstream::stderr(),
            "truecount report: wrote {}",
            path.display()
        )
        .map_err(Failure::from)
    };
    write(
        &args.flamegraph,
        &|v| Ok(exports::flame_graph(v)),
        &mut view,
    )?;
    write(&args.firefox, &exports::firefox, &mut view)?;
    write(&args.pprof, &exports::pprof, &mut view)?;
    let mut out = Output::shown(args.json.as_deref())?;
    if let Some(path) = &args.diff {
        let mut other = View::load(path, &search)?;
        diff::print(
            &mut out,
            &mut view,
            &mut other,
            args.by,
            args.top,
            args.json.is_some(),
        )?;
    } else if let Some(function) = &args.annotate {
        annotate::print(&mut out, &mut view, function)?;
    } else if args.json.is_some() {
        table::json(&mut out, &mut view, args.by, args.top)?;
    } else if !written {
        table::print(&mut out, &mut view, args.by, args.top)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}
