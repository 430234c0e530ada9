//! `truecount blocks`: how many cycles each block takes, from recorded branch stacks.

mod compare;
mod detail;
mod html;
mod json;
mod text;
mod view;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use truecount_sample::blocks::{Program, Refusal};
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{self, SearchPath};
use truecount_sample::{Recording, blocks};

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, ResultFile};
use crate::recording::{Given, given, unreadable};
use crate::render::charts::Frame;
use crate::render::waiting::watched;
use view::View;

const EXAMPLES: &str = "\
EXAMPLES
  truecount record -b -- ./program            record branch stacks (or: perf record -b ./program)
  truecount blocks perf.data                  the blocks that take most cycles, loops, paths
  truecount blocks perf.data --block main+69  one block: histogram, modes, instructions ...
  truecount blocks before.data --compare after.data --block 0x1287 --svg chart.svg
                                              two recordings in one chart
  perf script -F ip,brstack | truecount blocks -
                                              perf's text as input (addresses only)

  Without branch stacks, `truecount latency` times chosen blocks under the virtual PMU.";

/// How many cycles each block of code takes, from recorded branch stacks (LBR)
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples: truecount blocks --help")]
pub(crate) struct Args {
    /// A recording, or the text of `perf script -F ip,brstack`; - is stdin
    #[arg(default_value = "perf.data")]
    file: PathBuf,
    /// The program, where it is not at the path of the recording
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Look for all programs and libraries below this directory
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Blocks, loops and paths to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// One block in detail: an address, an offset in the file, or SYMBOL+OFFSET (0x for hexadecimal)
    #[arg(long, value_name = "ADDR|SYMBOL+OFF")]
    block: Option<String>,
    /// Moved to `truecount latency`
    #[arg(long, value_name = "BLOCK", hide = true)]
    time: Vec<String>,
    /// A second recording, to compare the block's time with (before and after a change)
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Print one JSON document (schema truecount.blocks/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, conflicts_with = "csv")]
    json: Option<PathBuf>,
    /// Print comma-separated values, one line a block
    #[arg(long)]
    csv: bool,
    /// Write a page with charts and annotated code
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write the chart of the block (the first one without --block)
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Of `truecount latency`, taken here to say so
    #[arg(value_name = "CMD", last = true, hide = true)]
    command: Vec<OsString>,
}

fn load<'a>(path: &'a Path, search: &SearchPath) -> Result<View<'a>, Failure> {
    let recording = match given(path, text_holds_stacks)? {
        Given::Recording(recording) => recording,
        Given::Text(text) => return from_text(path, &text, search),
    };
    let share = || recording.passes() / Recording::PASSES;
    let what = format!("reading {}", path.display());
    let analysis = watched(&what, share, || blocks::analyze(&recording))
        .map_err(|e| unreadable(path, &e))?
        .map_err(|refusal| Failure::new(1, format!("{}: {refusal}", path.display())))?;
    View::new(path, analysis, Some(&recording), search.clone())
}

fn text_holds_stacks(head: &str) -> bool {
    blocks::analyze_text(head, None).is_ok()
}

/// The text of `perf script`.
fn from_text<'a>(path: &'a Path, text: &str, search: &SearchPath) -> Result<View<'a>, Failure> {
    let program = search.binary.as_deref().map(program).transpose()?;
    let analysis =
        blocks::analyze_text(text, program.as_ref()).map_err(|refusal| match refusal {
            Refusal::NotThere => {
                let binary = search.binary.as_deref().unwrap_or(path).display();
                Failure::new(1, format!("--binary {binary} cannot be used: {refusal}"))
                    .hint("give the perf.data file itself")
            }
            _ => Failure::new(1, format!("{}: text without branch stacks", path.display()))
                .hint("give a perf.data file, or the output of `perf script -F ip,brstack`"),
        })?;
    View::new(path, analysis, None, search.clone())
}

/// The program whose addresses a text has.
fn program(binary: &Path) -> Result<Program, Failure> {
    let elf = symbols::binary(binary).map_err(|e| Failure::new(1, e.to_string()))?;
    Ok(Program {
        file: MappedFile {
            path: binary.display().to_string(),
            build_id: elf.build_id().to_vec(),
        },
        segments: elf.segments().to_vec(),
    })
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> CmdResult {
    if let Some(spec) = args.time.first() {
        return Err(
            Failure::new(2, "blocks reads recordings, it times no command")
                .hint(format!("write: truecount latency {spec} -- CMD")),
        );
    }
    if !args.command.is_empty() {
        return Err(
            Failure::new(2, "blocks reads recordings, it runs no command")
                .hint("record first: truecount record -b -- CMD"),
        );
    }
    let search = SearchPath {
        symfs: args.symfs.clone(),
        binary: args.binary.clone(),
    };
    let mut view = load(&args.file, &search)?;
    let chosen = match &args.block {
        Some(spec) => Some(view.choose(spec)?),
        None => None,
    };
    let mut other = match &args.compare {
        Some(path) => {
            let mut other = load(path, &search)?;
            let at = match &args.block {
                Some(spec) => other.choose(spec)?,
                None => 0,
            };
            Some((other, at))
        }
        None => None,
    };
    let shown = show(args, &mut view, chosen, &mut other);
    let other = other.as_ref();
    let picture = args.svg.as_ref().map_or(Ok(()), |path| {
        let svg = compare::svg(&mut view, chosen.unwrap_or(0), other, Frame::File)?;
        ResultFile::open(path)?.write(svg.as_bytes())
    });
    let page = args.html.as_ref().map_or(Ok(()), |path| {
        let page = html::page(&mut view, args.top, chosen, other);
        ResultFile::open(path)?.write(page.as_bytes())
    });
    Failure::of_all([shown, picture, page])?;
    Ok(Outcome::OK)
}

/// Prints the result.
fn show(
    args: &Args,
    view: &mut View<'_>,
    chosen: Option<usize>,
    other: &mut Option<compare::Other<'_>>,
) -> Result<(), Failure> {
    let mut out = Output::shown(args.json.as_deref())?;
    if args.json.is_some() {
        json::json(&mut out, view, args.top, chosen, other)?;
    } else if args.csv {
        out = out.raw();
        json::csv(&mut out, view)?;
    } else if let Some(at) = chosen {
        detail::print(&mut out, view, at)?;
        if let Some((other, at_other)) = other {
            writeln!(out)?;
            detail::print(&mut out, other, *at_other)?;
            compare::print(&mut out, view, at, other, *at_other)?;
        }
    } else {
        text::print(&mut out, view, args.top)?;
        if let Some((other, at)) = other {
            compare::print(&mut out, view, 0, other, *at)?;
        }
    }
    Ok(out.flush()?)
}
