//! `truecount profile export`: profiles for other people's viewers.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use truecount_profile::Profile;
use truecount_profile::export::{ExportOptions, Format, export};

use super::{files, say_losses, unreadable};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{ResultFile, cannot_write};

const EXAMPLES: &str = "\
EXAMPLES
  truecount profile export --to firefox app-0012345 -o app.json      for profiler.firefox.com
  truecount profile export --to perfetto app-0012345 -o app.pftrace  for ui.perfetto.dev
  truecount profile export --to svg app-0012345 -o app.svg           a flame graph
  truecount profile export --to pprof runs/ -o pprofs/               a directory, file by file
  truecount profile export --to folded - < app.mm_profdata           stdin and stdout";

/// Convert profiles for chrome://tracing, Perfetto, the Firefox Profiler, flame graphs, pprof, or to JSON
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The profile, a directory of profiles, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to write
    #[arg(long, value_enum)]
    to: To,
    /// The file (for a directory: the directory) to write, or - for stdout
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    output: PathBuf,
    /// Leave out intervals shorter than this (in the profile's unit: ns, instructions, …)
    #[arg(long, value_name = "N", default_value_t = 0)]
    minimum_duration: u64,
    /// Draw threads that do not overlap on one line
    #[arg(long)]
    collapse_threads: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum To {
    /// Trace event JSON (chrome://tracing, Perfetto, speedscope)
    Chrome,
    /// Perfetto trace
    Perfetto,
    /// Processed profile of the Firefox Profiler
    Firefox,
    /// Folded stacks (flamegraph.pl, inferno, speedscope)
    Folded,
    /// Flame graph
    Svg,
    /// pprof
    Pprof,
    /// Callgrind's profile format (KCachegrind, callgrind_annotate)
    Callgrind,
    /// Every event as JSON (schema truecount.profile/1)
    Json,
}

impl To {
    fn format(self) -> (Format, &'static str) {
        match self {
            Self::Chrome => (Format::Chrome, "chrome.json"),
            Self::Perfetto => (Format::Perfetto, "pftrace"),
            Self::Firefox => (Format::Firefox, "firefox.json"),
            Self::Folded => (Format::Folded, "folded"),
            Self::Svg => (Format::Svg, "svg"),
            Self::Pprof => (Format::Pprof, "pb.gz"),
            Self::Callgrind => (Format::Callgrind, "callgrind"),
            Self::Json => (Format::Json, "json"),
        }
    }
}

pub(super) fn run(args: &Args) -> CmdResult {
    if !args.file.is_dir() {
        let profile = Profile::open(&args.file).map_err(unreadable)?;
        say_losses(&profile.path().display().to_string(), profile.losses());
        convert(args, &profile, &args.output)?;
        return Ok(Outcome::OK);
    }
    if args.output.as_os_str() == "-" {
        return Err(Failure::new(
            2,
            format!(
                "{} is a directory: its exports do not go to stdout",
                args.file.display()
            ),
        )
        .hint("name a directory with -o"));
    }
    std::fs::create_dir_all(&args.output).map_err(|error| cannot_write(&args.output, &error))?;
    for file in files(std::slice::from_ref(&args.file))? {
        let profile = Profile::open(&file).map_err(unreadable)?;
        say_losses(&file.display().to_string(), profile.losses());
        let inside = file.strip_prefix(&args.file).unwrap_or(&file);
        let name = inside.to_string_lossy().replace('/', "-");
        let name = name.strip_suffix(".mm_profdata").unwrap_or(&name);
        convert(
            args,
            &profile,
            &args.output.join(format!("{name}.{}", args.to.format().1)),
        )?;
    }
    Ok(Outcome::OK)
}

fn convert(args: &Args, profile: &Profile, output: &Path) -> Result<(), Failure> {
    let options = ExportOptions {
        minimum_duration: args.minimum_duration,
        collapse_threads: args.collapse_threads,
    };
    let format = args.to.format().0;
    if output.as_os_str() == "-" {
        let mut out = BufWriter::new(io::stdout().lock());
        export(profile, format, &options, &mut out).map_err(unreadable)?;
        out.flush()?;
        return Ok(());
    }
    if std::fs::canonicalize(output)
        .is_ok_and(|output| std::fs::canonicalize(profile.path()).is_ok_and(|path| path == output))
    {
        return Err(Failure::new(
            2,
            format!("{} would overwrite the profile itself", output.display()),
        )
        .hint("choose another file with -o"));
    }
    ResultFile::stream(output, |out| {
        export(profile, format, &options, out).map_err(unreadable)
    })
}
