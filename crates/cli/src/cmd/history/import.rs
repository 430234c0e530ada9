//! `truecount history import`: results of other tools, as records of a commit.

use std::path::PathBuf;

use truecount_history::import::{self, Format};

use super::StoreArgs;
use super::add::{OfArgs, keep, modified, read, record};
use crate::CmdResult;
use crate::failure::Failure;

const EXAMPLES: &str = "\
EXAMPLES
  hyperfine --export-json h.json ./prog && truecount history import h.json
  go test -bench . -count 10 | tee go.txt && truecount history import go.txt
  truecount history import --commit v1.2 --fact machine=ci google-benchmark.json pyperf.json
  for f in target/criterion/*/new/sample.json; do
    truecount history import --name \"$(basename \"${f%/new/*}\")\" \"$f\"; done

Which tool wrote a file is detected from its content; --format says it where that fails. Numbers of
other tools are not exact counts: they are compared by statistics, and need several runs.";

/// Import results of other tools as records of a commit
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Results; - is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The tool that wrote them (default: detected in each file)
    #[arg(long, value_enum)]
    format: Option<Tool>,
    #[command(flatten)]
    of: OfArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Tools, as options name them.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Tool {
    Hyperfine,
    GoogleBenchmark,
    Pyperf,
    PytestBenchmark,
    Criterion,
    #[value(alias = "iai-callgrind")]
    Gungraun,
    Go,
    Bmf,
    Smaller,
    Bigger,
}

impl Tool {
    fn format(self) -> Format {
        match self {
            Self::Hyperfine => Format::Hyperfine,
            Self::GoogleBenchmark => Format::GoogleBenchmark,
            Self::Pyperf => Format::Pyperf,
            Self::PytestBenchmark => Format::PytestBenchmark,
            Self::Criterion => Format::Criterion,
            Self::Gungraun => Format::Gungraun,
            Self::Go => Format::Go,
            Self::Bmf => Format::Bmf,
            Self::Smaller => Format::CustomSmaller,
            Self::Bigger => Format::CustomBigger,
        }
    }
}

pub(super) fn run(args: &Args) -> CmdResult {
    let repository = args.store.repository()?;
    let mut records = Vec::new();
    for path in &args.files {
        let shown = path.display();
        let text = read(path)?;
        let format = args.format.map(Tool::format).or_else(|| Format::of(&text));
        let Some(format) = format else {
            let cause = format!("{shown} is of no tool that is known");
            return Err(Failure::new(1, cause)
                .hint("--format names the tool; results of truecount: history add"));
        };
        let found = import::parse(&text, format, args.of.name.as_deref()).map_err(|error| {
            let failure = Failure::from(error);
            Failure {
                cause: format!("{shown} ({}): {}", format.tool(), failure.cause),
                ..failure
            }
        })?;
        records.push(record(found, modified(path), &args.of, &repository)?);
    }
    keep(&mut args.store.open(true)?, &records)
}
