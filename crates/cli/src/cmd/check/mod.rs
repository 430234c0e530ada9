//! `truecount check`: what this machine can do, one line a finding; each problem with its cause
//! and the exact hint.

use std::io::Write as _;

use serde::Serialize;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::json;
use crate::render::style::{BAD, DIM, GOOD, WARN};
use crate::render::table::{Align, Cell, Table};
use truecount_lab::check::{self, Finding, Status};
use truecount_run::env_record::{Environment, aslr_is_on};

const EXAMPLES: &str = "\
EXAMPLES
  truecount check                            what works here, and why the rest does not
  truecount check --json
  truecount check --require hardware,rdpmc   exit with 1 when one of them is missing
  truecount check --require step             a machine without a PMU can still count exactly";

/// Say what this machine can measure, and how to get the rest
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Exit with 1 unless all of these work: hardware, rdpmc, lbr, irq-event, kernel-counts,
    /// aslr-control, software, step, virtual
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    require: Vec<String>,
    /// Print one JSON document (schema truecount.check/2) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<std::path::PathBuf>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    findings: &'a [Finding],
    required: &'a [String],
    /// Those of `required` that do not work.
    missing: Vec<&'a str>,
    environment: Environment,
}

/// Runs `truecount check`.
pub(crate) fn run(args: &Args) -> CmdResult {
    let mut findings = check::all();
    findings.push(check::exactness());
    let required = requirements(&args.require, &findings)?;
    let missing: Vec<&Finding> = required
        .iter()
        .copied()
        .filter(|finding| finding.status != Status::Ok)
        .collect();
    let mut out = Output::shown(args.json.as_deref())?;
    if args.json.is_some() {
        let document = Document {
            schema: "truecount.check/2",
            findings: &findings,
            required: &args.require,
            missing: missing.iter().map(|finding| finding.name).collect(),
            environment: Environment::gather(aslr_is_on(), &[]),
        };
        json::write(&mut out, &document)?;
    } else {
        text(&mut out, &findings)?;
        out.flush()?;
    }
    match missing.first() {
        None => Ok(Outcome::OK),
        Some(first) => {
            let names: Vec<&str> = missing.iter().map(|finding| finding.name).collect();
            let failure = Failure::new(
                1,
                format!(
                    "required but missing: {} ({})",
                    names.join(", "),
                    first.detail
                ),
            );
            Err(match &first.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            })
        }
    }
}

fn requirements<'f>(
    names: &[String],
    findings: &'f [Finding],
) -> Result<Vec<&'f Finding>, Failure> {
    let known: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.requirable())
        .map(|finding| finding.name)
        .collect();
    names
        .iter()
        .map(|name| {
            findings
                .iter()
                .find(|finding| finding.name == name.trim() && finding.requirable())
                .ok_or_else(|| {
                    Failure::new(2, format!("--require: `{name}` is not known"))
                        .hint(format!("choose among {}", known.join(", ")))
                })
        })
        .collect()
}

fn text(out: &mut Output, findings: &[Finding]) -> std::io::Result<()> {
    let mut table = Table::new([("", Align::Left), ("", Align::Left), ("", Align::Left)]);
    for finding in findings {
        let mark = match finding.status {
            Status::Ok => Cell::styled(GOOD, "ok"),
            Status::Limited => Cell::styled(WARN, "limited"),
            Status::Missing => Cell::styled(BAD, "missing"),
            Status::Info => Cell::styled(DIM, "·"),
        };
        table.row(vec![
            mark,
            finding.name.into(),
            finding.detail.clone().into(),
        ]);
    }
    table.write(out)?;
    let hints: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.hint.is_some())
        .collect();
    if !hints.is_empty() {
        writeln!(out)?;
    }
    let mut told: Vec<&str> = Vec::new();
    for finding in &hints {
        let Some(hint) = finding.hint.as_deref() else {
            continue;
        };
        if told.contains(&hint) {
            continue;
        }
        told.push(hint);
        let names: Vec<&str> = hints
            .iter()
            .filter(|other| other.hint.as_deref() == Some(hint))
            .map(|other| other.name)
            .collect();
        writeln!(out, "  hint for {}: {hint}", names.join(", "))?;
    }
    Ok(())
}
