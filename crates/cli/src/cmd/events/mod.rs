//! `truecount events`: what this machine, or any CPU of the tables, can count, and how it is encoded.

mod document;
mod metrics;
mod select;
mod text;

use std::io::Write;
use std::path::PathBuf;

use truecount_events::Machine;
use truecount_events::tables::{Model, Tables};

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::json;

/// List events: what this machine (or another CPU) counts, how it is encoded, where that is from
///
/// Without PATTERN all events are listed; a PATTERN is a name, a part of a name, or a glob with * and ?.
/// Case does not matter.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A name, a part of one, or a glob
    pattern: Option<String>,
    /// The events of this CPU instead of this machine's (skl, spr, zen4, neoverse-n1 …; list: all of them)
    #[arg(long, value_name = "MODEL")]
    cpu: Option<String>,
    /// What each event means, its counters, PEBS, where it is from
    #[arg(long, short)]
    long: bool,
    /// Print one JSON document (schema truecount.events/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// The metrics of the CPU instead of its events
    #[arg(long)]
    metrics: bool,
    /// A file with further metrics (TOML, as crates/events/data/metrics.toml)
    #[arg(long, value_name = "FILE", requires = "metrics")]
    metrics_file: Vec<PathBuf>,
    /// Read events from a vendor's JSON files (Intel perfmon, or Linux' pmu-events) instead of the built-in tables
    #[arg(long, value_name = "DIR")]
    event_dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
EXAMPLES
  truecount events                            what this machine counts
  truecount events branch                     events with branch in their name
  truecount events --cpu skl MEM_LOAD_RETIRED.L1_HIT --long
  truecount events --cpu zen4 'ls_*dc*'       a glob
  truecount events --cpu list                 all CPUs of the tables
  truecount events --metrics --cpu spr topdown-1 --long
  truecount events --cpu spr --event-dir perfmon/ --json OCR";

/// Runs `truecount events`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let own;
    let tables = match &args.event_dir {
        None => Tables::embedded(),
        Some(dir) => {
            own = truecount_run::machine::read_event_dir(dir)?;
            &own
        }
    };
    let mut out = Output::shown(args.json.as_deref())?;
    if args.cpu.as_deref() == Some("list") {
        let models = document::Models::new(tables);
        if args.json.is_some() {
            json::write(&mut out, &models)?;
        } else {
            text::models(&mut out, &models)?;
        }
        out.flush()?;
        return Ok(Outcome::OK);
    }
    let machine = Machine::this();
    let model = model(args, tables, &machine)?;
    if args.metrics {
        return list_metrics(args, model, &machine, &mut out);
    }
    let mut rows = match (&args.cpu, model) {
        (None, model) => select::of_machine(&machine, model),
        (Some(_), Some(model)) => select::of_model(model),
        (Some(_), None) => Vec::new(),
    };
    if let Some(pattern) = &args.pattern {
        select::filter(&mut rows, pattern);
        if rows.is_empty() {
            return Err(select::nothing(
                pattern,
                tables,
                model,
                &machine,
                args.cpu.is_none(),
            ));
        }
    }
    let document = document::Document::new(tables, model, &machine, args.cpu.is_some(), rows);
    if args.json.is_some() {
        json::write(&mut out, &document)?;
    } else {
        text::events(&mut out, &document, args.long)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn list_metrics(
    args: &Args,
    model: Option<Model<'_>>,
    machine: &Machine,
    out: &mut Output,
) -> CmdResult {
    let metrics = truecount_run::metrics::load(&args.metrics_file)?;
    let mut names = match (&args.cpu, machine.cpu()) {
        (None, Some(cpu)) => truecount_events::metrics::names_of(cpu),
        (Some(asked), _) => vec![asked.to_ascii_lowercase()],
        (None, None) => Vec::new(),
    };
    if let Some(model) = model
        && !names.iter().any(|name| name == model.name())
    {
        names.push(model.name().to_owned());
    }
    let document = metrics::Document::new(&metrics, &names, args.pattern.as_deref());
    if document.is_empty() {
        let pattern = args.pattern.as_deref().unwrap_or("");
        let cpu: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = match metrics.find(pattern, &cpu) {
            Err(unknown) => unknown.to_string(),
            Ok(_) => format!("no metric like {pattern}"),
        };
        return Err(Failure::new(1, text));
    }
    if args.json.is_some() {
        json::write(out, &document)?;
    } else {
        document.text(out, args.long)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

/// The model that was asked for, or the one this machine has.
fn model<'a>(
    args: &Args,
    tables: &'a Tables,
    machine: &Machine,
) -> Result<Option<Model<'a>>, Failure> {
    match &args.cpu {
        None if args.event_dir.is_some() => {
            let found = machine.cpu().and_then(|cpu| tables.model_of(cpu));
            // A directory with the events of one CPU means that CPU.
            Ok(found.or_else(|| {
                let mut models = tables.models();
                models.next().filter(|_| models.next().is_none())
            }))
        }
        None => Ok(machine.cpu().and_then(|cpu| tables.model_of(cpu))),
        Some(name) => match tables.model(name) {
            Some(model) => Ok(Some(model)),
            None => {
                let failure = Failure::new(2, format!("--cpu: no model {name:?} in the tables"));
                let near = tables.near_models(name);
                Err(if near.is_empty() {
                    failure.hint("--cpu list shows them all")
                } else {
                    failure.hint(format!("did you mean {}?", near.join(", ")))
                })
            }
        },
    }
}
