//! `truecount profile show`: the events, as text or as JSON lines.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use truecount_profile::export::{EventLine, event_line};
use truecount_profile::{Payload, Profile};

use super::{say_losses, unreadable};
use crate::CmdResult;
use crate::failure::Outcome;
use crate::output::Output;
use crate::render::json;

const EXAMPLES: &str = "\
EXAMPLES
  truecount profile show app-0012345 --kind Query --label typeck
  truecount profile show app-0012345 --min 1000000 --json | jq .label
  truecount profile show app-0012345 --metadata";

/// Print the events of a profile in file order, filtered
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The profile, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only events of this kind (Query, GenericActivity, QueryCacheHit, …)
    #[arg(long)]
    kind: Option<String>,
    /// Only events with this label
    #[arg(long)]
    label: Option<String>,
    /// Only events with an argument that contains this text
    #[arg(long, value_name = "TEXT")]
    argument: Option<String>,
    /// Only events of this thread
    #[arg(long)]
    thread: Option<u32>,
    /// Only events at or after this point (in the profile's unit)
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Only events at or before this point
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Only intervals at least this long
    #[arg(long, value_name = "N")]
    min: Option<u64>,
    /// Stop after this many events
    #[arg(long, short = 'n', value_name = "N")]
    number: Option<usize>,
    /// Print what the file says about itself instead
    #[arg(long)]
    metadata: bool,
    /// Print JSON lines, one event each, instead of the text; with =FILE, write them there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let profile = Profile::open(&args.file).map_err(unreadable)?;
    say_losses(&profile.path().display().to_string(), profile.losses());
    let mut out = BufWriter::new(Output::shown(args.json.as_deref())?);
    if args.metadata {
        metadata(args, &profile, &mut out)?;
    } else {
        events(args, &profile, &mut out)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn metadata(args: &Args, profile: &Profile, out: &mut dyn Write) -> std::io::Result<()> {
    let metadata = profile.metadata();
    if args.json.is_some() {
        let document = serde_json::json!({
            "schema": "truecount.profile-metadata/1",
            "version": profile.version(),
            "events": profile.events().len(),
            "start_time": metadata.start_time,
            "process_id": metadata.process_id,
            "command": metadata.command,
            "unit": metadata.unit,
            "overhead": metadata.overhead,
            "losses": profile.losses().iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        return writeln!(out, "{document}");
    }
    let unknown = || "unknown".to_owned();
    writeln!(out, "version     {}", profile.version())?;
    writeln!(out, "events      {}", profile.events().len())?;
    writeln!(out, "counter     {}", metadata.unit.counter)?;
    writeln!(out, "unit        {}", metadata.unit.name)?;
    writeln!(
        out,
        "process     {}",
        metadata
            .process_id
            .map_or_else(unknown, |id| id.to_string())
    )?;
    writeln!(
        out,
        "started     {}",
        metadata
            .start_time
            .map_or_else(unknown, |ns| format!("{ns} ns after 1970-01-01 UTC"))
    )?;
    writeln!(
        out,
        "command     {}",
        metadata.command.clone().unwrap_or_else(unknown)
    )?;
    if let Some(overhead) = metadata.overhead {
        writeln!(
            out,
            "overhead    {} inside a region, {} around it",
            overhead.inner, overhead.outer
        )?;
    }
    Ok(())
}

fn events(args: &Args, profile: &Profile, out: &mut dyn Write) -> std::io::Result<()> {
    let strings = profile.strings();
    let mut left = args.number.unwrap_or(usize::MAX);
    for event in profile.events().iter() {
        if left == 0 {
            break;
        }
        let (start, end) = match event.payload {
            Payload::Interval { start, end } => (start, end),
            Payload::Instant { at } => (at, at),
            // Without a place in time it is in no range.
            Payload::Integer { .. } if args.from.is_some() || args.to.is_some() => continue,
            Payload::Integer { .. } => (0, 0),
        };
        let long_enough = match event.payload {
            Payload::Interval { .. } => args.min.is_none_or(|min| end.saturating_sub(start) >= min),
            _ => args.min.is_none(),
        };
        if !long_enough
            || args.thread.is_some_and(|thread| thread != event.thread)
            || args.from.is_some_and(|from| start < from)
            || args.to.is_some_and(|to| end > to)
            || args
                .kind
                .as_ref()
                .is_some_and(|kind| *kind != strings.get(event.kind))
        {
            continue;
        }
        let line = event_line(profile, &event);
        if args
            .label
            .as_ref()
            .is_some_and(|label| *label != line.label)
            || args.argument.as_ref().is_some_and(|text| {
                !line
                    .arguments
                    .iter()
                    .any(|argument| argument.contains(text))
            })
        {
            continue;
        }
        left -= 1;
        if args.json.is_some() {
            json::line(out, &line)?;
        } else {
            text(&line, out)?;
        }
    }
    Ok(())
}

fn text(line: &EventLine, out: &mut dyn Write) -> std::io::Result<()> {
    let name = if line.arguments.is_empty() {
        line.label.clone()
    } else {
        format!("{}({})", line.label, line.arguments.join(", "))
    };
    // One event is one line, whatever its arguments hold.
    let name = name.replace(['\n', '\r'], " ");
    let place = match (line.start, line.end, line.at, line.value) {
        (Some(start), Some(end), _, _) => {
            format!("{start}..{end} ({})", i128::from(end) - i128::from(start))
        }
        (_, _, Some(at), _) => format!("at {at}"),
        (_, _, _, Some(value)) => format!("= {value}"),
        _ => String::new(),
    };
    writeln!(out, "thread {} {} {name} {place}", line.thread, line.kind)
}
