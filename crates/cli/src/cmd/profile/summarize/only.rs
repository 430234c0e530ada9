//! `--only LABEL`: one label in detail.

use std::io::Write;

use serde_json::json;
use truecount_model::number::grouped;
use truecount_profile::drill::{Part, drill};
use truecount_profile::{Profile, Unit};

use super::super::{amount, counted, files, say_losses, unreadable};
use super::Args;
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::render::style::{DIM, HEAD, paint};
use crate::render::table::{Align, Table};

pub(super) fn only(args: &Args, label: &str, out: &mut Output) -> CmdResult {
    let files = files(&args.files)?;
    let [file] = files.as_slice() else {
        return Err(Failure::new(
            2,
            format!("--only {label}: {} profiles were given", files.len()),
        )
        .hint("give one"));
    };
    let profile = Profile::open(file).map_err(unreadable)?;
    say_losses(&file.display().to_string(), profile.losses());
    let Some(drill) = drill(&profile, label) else {
        let known = truecount_profile::summarize(&profile);
        let near: Vec<_> = known
            .labels
            .iter()
            .map(|row| row.label.as_str())
            .filter(|name| name.contains(label) || label.contains(name))
            .take(5)
            .collect();
        let failure = Failure::new(
            1,
            format!(
                "{}: no interval has the label {label}",
                profile.path().display()
            ),
        );
        return Err(if near.is_empty() {
            failure.hint("list the labels with `truecount profile summarize`")
        } else {
            failure.hint(format!("did you mean {}?", near.join(", ")))
        });
    };
    let unit = profile.unit();
    if args.json.is_some() {
        let document = json!({"schema": "truecount.profile-label/1", "unit": unit, "label": drill});
        writeln!(out, "{document:#}")?;
        out.flush()?;
        return Ok(Outcome::OK);
    }
    writeln!(
        out,
        "{}, {} intervals, {}",
        paint(HEAD, label),
        grouped(drill.count),
        counted(unit)
    )?;
    for (title, parts) in [
        ("arguments", &drill.arguments),
        ("callers", &drill.callers),
        ("callees", &drill.callees),
        ("threads", &drill.threads),
    ] {
        list(title, parts, args.number, unit, out)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn list(
    title: &str,
    parts: &[Part],
    most: usize,
    unit: &Unit,
    out: &mut Output,
) -> std::io::Result<()> {
    if parts.is_empty() || (title == "arguments" && parts.iter().all(|part| part.name.is_empty())) {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::of(vec![
        (title.to_owned(), Align::Left),
        ("time".to_owned(), Align::Right),
        ("self".to_owned(), Align::Right),
        ("count".to_owned(), Align::Right),
    ]);
    for part in parts.iter().take(most) {
        let name = match (title, part.name.as_str()) {
            ("callers", "") => "(top level)",
            (_, "") => "(none)",
            (_, name) => name,
        };
        table.row(vec![
            name.into(),
            amount(part.time as f64, unit).into(),
            amount(part.self_time as f64, unit).into(),
            grouped(part.count).into(),
        ]);
    }
    table.write(out)?;
    if parts.len() > most {
        writeln!(
            out,
            "  {}",
            paint(
                DIM,
                &format!("{} more; show them with -n", parts.len() - most)
            )
        )?;
    }
    Ok(())
}
