//! `truecount latency`: how long each pass through chosen blocks of a program takes, by inline time stamps under the
//! virtual PMU. For machines without a PMU or branch stacks.

mod document;
mod html;
mod measure;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) use measure::run;

/// Reads a result and writes it beside itself; false where it is none. For [`crate::parsers`].
pub(crate) fn takes(text: &str) -> bool {
    let out = &mut std::io::sink();
    document::parse(text).is_ok_and(|run| {
        text::print(out, &run, Some(&run)).is_ok() && !document::of(&run, None).is_null()
    })
}

const EXAMPLES: &str = "\
EXAMPLES
  truecount latency look_up -- ./plain            from one execution of look_up to the next
  truecount latency look_up..+0x15 -- ./plain     from its start to its return
  truecount latency 0x1300..0x1315 -- ./plain     between addresses (of objdump -d)
  truecount latency main+48..main+116 look_up -- ./plain   several blocks (up to 4) in one run
  truecount latency look_up --json -o plain.json -- ./plain
  truecount latency look_up --compare plain.json --svg chart.svg -- ./prefetched
                                                  two runs in one chart

WHAT THE NUMBERS MEAN
  The program runs under the virtual PMU; the chosen blocks get inline time stamps (rdtsc between
  lfence), whose own cost is measured at the start of each process, subtracted and stated. Units are
  cycles of the time stamp counter, whose rate is constant: not core clock cycles. Where that
  counter advances by more than a cycle at a time, modes and bars are spread over its step. Each
  stamp waits for what came before, so executions do not overlap as they do natively.

EXIT STATUS
  that of CMD; 1: not measured, or a result could not be written; 2: wrong arguments";

/// How long each pass through chosen blocks takes: every execution timed, without a PMU (x86-64 Linux)
///
/// The distribution of the time between two executions of an instruction, or from one to another: modes, percentiles,
/// what a prefetch could win. The result goes to stderr, which stdout of CMD does not disturb, or to FILE.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples: truecount latency --help")]
pub(crate) struct Args {
    /// From an address to the next execution of it, or to END (also +OFFSET from the start); up to 4
    #[arg(value_name = "ADDR|SYMBOL[+OFF][..END]", required = true)]
    blocks: Vec<String>,
    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    command: Vec<OsString>,
    /// The program with the blocks, where CMD is a wrapper
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Write the result to FILE instead of stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The JSON of an earlier run, to compare with (before and after a change)
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Print one JSON document (schema truecount.latency/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// Write a page with charts
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write the chart of the first block
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
}
