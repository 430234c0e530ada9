//! `truecount report`: where the samples of a recording fell.

mod annotate;
mod chosen;
mod diff;
mod dump;
mod exports;
mod rows;
mod select;
mod table;
mod tree;
mod view;

use std::io::Write as _;
use std::path::PathBuf;

use truecount_sample::symbols::SearchPath;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, ResultFile};
use crate::program_args::{parse_cpus, parse_percent};
use crate::recording::{Given, given};
use rows::{Rows, SortKey};
use select::{Selection, Span};
use table::Form;
use tree::Order;
use view::View;

const EXAMPLES: &str = "\
EXAMPLES
  truecount report                            functions of perf.data, those with most samples first
  truecount report perf.data --by line        source lines
  truecount report perf.data --by caller      who calls whom (recorded with -g)
  truecount report perf.data --tree           what calls what, from the outermost callers
  truecount report perf.data -g callee        from each function to its callers
  truecount report perf.data --children       by the share with callees
  truecount report perf.data --sort comm,dso,symbol --time 10%-20%
  perf script | truecount report -            perf's text as input, with perf's names
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
    /// A recording of `truecount record` or `perf record`, or the text of `perf script`; - is stdin
    #[arg(default_value = "perf.data")]
    file: PathBuf,
    /// What the rows are
    #[arg(long, value_enum, default_value_t = By::Symbol)]
    by: By,
    /// What the rows are, by perf's names; several make rows of their combinations
    #[arg(
        short,
        long,
        value_name = "KEY,...",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "by"
    )]
    sort: Vec<SortKey>,
    /// Sort by the share with callees
    #[arg(long, overrides_with = "no_children")]
    children: bool,
    /// Leave out the share with callees
    #[arg(long)]
    no_children: bool,
    /// A tree of calls instead of the table (without a word: caller)
    #[arg(short = 'g', long, value_name = "ORDER", value_enum, num_args = 0..=1, default_missing_value = "caller")]
    call_graph: Option<Order>,
    /// The same as -g caller
    #[arg(long, conflicts_with = "call_graph")]
    tree: bool,
    /// Nodes of a tree with fewer percent are left out
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = parse_percent)]
    percent_limit: f64,
    /// Rows to show; of a tree, functions without callers
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Only samples of processes of these names
    #[arg(long, alias = "comms", value_name = "NAME,...", value_delimiter = ',')]
    comm: Vec<String>,
    /// Only samples of these processes
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Only samples of these threads
    #[arg(long, value_name = "TID,...", value_delimiter = ',')]
    tid: Vec<u32>,
    /// Only samples on these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = cpus)]
    cpu: Option<Cpus>,
    /// Only samples of this time: seconds of the recording's clock, or shares (10%-20%)
    #[arg(long, value_name = "START,STOP", value_parser = select::span)]
    time: Option<Span>,
    /// Only rows of these files; shares stay those of all samples
    #[arg(
        short = 'd',
        long,
        alias = "dsos",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    dso: Vec<String>,
    /// Only rows of these functions; shares stay those of all samples
    #[arg(
        short = 'S',
        long,
        alias = "symbols",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    symbol: Vec<String>,
    /// Count inlined functions as the function around them
    #[arg(long)]
    no_inline: bool,
    /// List every record as it was read
    #[arg(short = 'D', long, alias = "dump", conflicts_with_all = ["json", "diff", "annotate", "call_graph", "tree"])]
    dump_raw_trace: bool,
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

/// Numbers of CPUs.
#[derive(Debug, Clone)]
struct Cpus(Vec<u32>);

fn cpus(text: &str) -> Result<Cpus, String> {
    let numbers = parse_cpus(text)?;
    let numbers = numbers
        .into_iter()
        .filter_map(|cpu| u32::try_from(cpu).ok());
    Ok(Cpus(numbers.collect()))
}

impl Args {
    fn selection(&self) -> Selection {
        Selection {
            comms: self.comm.clone(),
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            cpus: self.cpu.clone().map_or_else(Vec::new, |cpus| cpus.0),
            time: self.time,
            dsos: self.dso.clone(),
            symbols: self.symbol.clone(),
            no_inline: self.no_inline,
        }
    }

    fn form(&self) -> Form {
        Form {
            rows: if self.sort.is_empty() {
                Rows::By(self.by)
            } else {
                Rows::Sort(self.sort.clone())
            },
            top: self.top,
            children: match (self.children, self.no_children) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            tree: self.call_graph.or(self.tree.then_some(Order::Caller)),
            percent_limit: self.percent_limit,
        }
    }
}

/// Lists the records of a recording.
fn dump(args: &Args) -> CmdResult {
    let Given::Recording(recording) = given(&args.file, |_| false)? else {
        return Err(Failure::new(
            1,
            format!("{}: a text has no records to list", args.file.display()),
        )
        .hint("give the perf.data file itself"));
    };
    let mut out = Output::stdout();
    dump::print(&mut out, &args.file, &recording)?;
    out.flush()?;
    Ok(Outcome::OK)
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> CmdResult {
    if args.dump_raw_trace {
        return dump(args);
    }
    let search = SearchPath {
        symfs: args.symfs.clone(),
        binary: args.binary.clone(),
    };
    let mut view = View::load(&args.file, &search, args.selection())?;
    view.select()?;
    let form = args.form();
    if form.tree.is_some() && !view.has_chains() {
        return Err(Failure::new(
            1,
            format!(
                "{}: no sample has a caller, of which a tree is made",
                args.file.display()
            ),
        )
        .hint(
            "record call chains: truecount record -g, and -g dwarf for programs without frame pointers",
        ));
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
        ResultFile::open(path)?.write(&content)?;
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
        let mut other = View::load(path, &search, args.selection())?;
        other.select()?;
        diff::print(
            &mut out,
            &mut view,
            &mut other,
            &form.rows,
            args.top,
            args.json.is_some(),
        )?;
    } else if let Some(function) = &args.annotate {
        // Source code is as it is.
        out = out.raw();
        annotate::print(&mut out, &mut view, function)?;
    } else if args.json.is_some() {
        table::json(&mut out, &mut view, &form)?;
    } else if !written {
        table::print(&mut out, &mut view, &form)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}
