//! A saved result to compare with.

use std::io::ErrorKind;
use std::path::Path;

use super::document::{Document, SCHEMA};
use crate::failure::Failure;
use truecount_run::input;

/// Reads a result of `--save` or `--json`.
pub(super) fn read(path: &Path) -> Result<Document, Failure> {
    let shown = path.display();
    let wrong = |why: String| {
        Failure::new(
            1,
            format!("the baseline {shown} is not a result of bench: {why}"),
        )
        .hint("make one by: truecount bench --save FILE …")
    };
    let text = input::json(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => wrong(error.to_string()),
        _ => Failure::new(1, format!("cannot read the baseline {shown}: {error}")),
    })?;
    parse(&text).map_err(wrong)
}

/// The document, or what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Document, String> {
    let wrong = |error: serde_json::Error| error.to_string();
    let value: serde_json::Value = serde_json::from_str(text).map_err(wrong)?;
    match value.get("schema").and_then(|schema| schema.as_str()) {
        Some(SCHEMA) => {}
        Some(other) => return Err(format!("its schema is {other}, not {SCHEMA}")),
        None => return Err("it has no schema".to_owned()),
    }
    let mut document: Document = serde_json::from_value(value).map_err(wrong)?;
    for command in &mut document.commands {
        for (_, metric) in &mut command.metrics.0 {
            // Earlier versions called equal values of anything exact.
            metric.exact = metric.is_exact();
        }
    }
    Ok(document)
}
