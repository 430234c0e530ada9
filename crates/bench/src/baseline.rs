//! Baselines: earlier documents, by name, in cargo's target directory.

use crate::arguments::{Arguments, Limit};
use crate::report::{Document, SCHEMA};
use std::path::{Path, PathBuf};

fn directory(arguments: &Arguments) -> Result<PathBuf, String> {
    if let Some(directory) = &arguments.directory {
        return Ok(directory.clone());
    }
    // target/PROFILE/deps/SUITE
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let deps = own.parent().filter(|deps| deps.ends_with("deps"));
    let target = deps.and_then(Path::parent).and_then(Path::parent);
    target.map(|target| target.join("truecount")).ok_or_else(|| {
        "this suite is not in cargo's target directory: say by --baseline-dir where baselines are".to_owned()
    })
}

/// The file of a baseline: every suite has its own.
fn file(arguments: &Arguments, name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let suite = own
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    // Without the hash that cargo adds.
    let suite = match suite.rsplit_once('-') {
        Some((suite, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            suite.to_owned()
        }
        _ => suite,
    };
    Ok(directory(arguments)?.join(format!("{suite}.{name}.json")))
}

/// Saves a document as a baseline. Where filters chose some of the benchmarks, those of the others that the baseline has
/// already stay in it.
pub(crate) fn save(
    arguments: &Arguments,
    name: &str,
    document: &mut Document,
) -> Result<PathBuf, String> {
    let path = file(arguments, name)?;
    if arguments.chooses() && path.exists() {
        document.keep(load(arguments, name)?);
    }
    let cannot = |error: &dyn std::fmt::Display| {
        format!("cannot save the baseline {}: {error}", path.display())
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| cannot(&error))?;
    }
    let text = serde_json::to_string_pretty(document).map_err(|error| cannot(&error))?;
    write(&path, &(text + "\n")).map_err(|error| cannot(&error))?;
    Ok(path)
}

/// Writes a file whole or not at all, so that a full disk costs no earlier result; what is no file (a pipe, a terminal) is
/// written as it is.
pub(crate) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // What a link leads to is replaced, not the link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if path.exists() && !path.is_file() {
        return std::fs::write(path, text);
    }
    let mut half = path.as_os_str().to_owned();
    half.push(".new");
    let written = std::fs::write(&half, text).and_then(|()| std::fs::rename(&half, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&half);
    }
    written
}

pub(crate) fn load(arguments: &Arguments, name: &str) -> Result<Document, String> {
    let path = file(arguments, name)?;
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!(
            "no baseline {name}: {}: {error}; make one by --save-baseline {name}",
            path.display()
        )
    })?;
    let document: Document = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a baseline: {error}", path.display()))?;
    if document.schema != SCHEMA {
        return Err(format!(
            "{} has the schema {:?}, not {SCHEMA:?}; make it anew by --save-baseline {name}",
            path.display(),
            document.schema
        ));
    }
    Ok(document)
}

/// Enters the baseline's counts, and what is a regression. Gives a note for each count that cannot be compared.
pub(crate) fn compare(
    arguments: &Arguments,
    document: &mut Document,
    before: &Document,
) -> Vec<String> {
    let mut notes = Vec::new();
    for bench in &mut document.benches {
        for metric in &mut bench.metrics {
            let Some(count) = metric.count else { continue };
            let Some(old) = before.metric(&bench.name, &metric.event) else {
                notes.push(format!("{}: not in the baseline", bench.name));
                continue;
            };
            let Some(old_count) = old.count else {
                notes.push(format!(
                    "{}: {} was not counted in the baseline",
                    bench.name, metric.event
                ));
                continue;
            };
            if old.source != metric.source {
                notes.push(format!(
                    "{}: {} was counted by another source ({}, now {}): not compared",
                    bench.name, metric.event, old.source, metric.source
                ));
                continue;
            }
            metric.baseline = Some(old_count);
            let limit = arguments
                .limits
                .iter()
                .find(|(event, _)| *event == metric.event)
                .map(|(_, limit)| *limit);
            metric.regression = exceeded(limit, metric.exact, old_count, count);
        }
    }
    for bench in &before.benches {
        let gone = !document.benches.iter().any(|now| now.name == bench.name);
        if gone && !arguments.chooses() {
            notes.push(format!(
                "{}: in the baseline, but not in the suite any more",
                bench.name
            ));
        }
    }
    notes
}

/// Whether a growth is beyond the limit; `None` where there is no rule for it.
fn exceeded(limit: Option<Limit>, exact: bool, before: u64, now: u64) -> Option<bool> {
    let more = now.saturating_sub(before);
    match limit {
        Some(Limit::Counts(most)) => Some(more > most),
        Some(Limit::Share(share)) => Some(more as f64 > before as f64 * share),
        None => exact.then_some(more > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let share = Some(Limit::Share(0.005));
        assert_eq!(exceeded(share, true, 1000, 1005), Some(false));
        assert_eq!(exceeded(share, true, 1000, 1006), Some(true));
        assert_eq!(exceeded(share, true, 1000, 10), Some(false));
        assert_eq!(exceeded(Some(Limit::Counts(0)), false, 5, 6), Some(true));
        assert_eq!(exceeded(None, true, 5, 6), Some(true));
        assert_eq!(exceeded(None, false, 5, 6), None);
    }
}
