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
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match value.get("schema").and_then(|schema| schema.as_str()) {
        Some(SCHEMA) => {}
        Some(other) => return Err(wrong(format!("its schema is {other}, not {SCHEMA}"))),
        None => return Err(wrong("it has no schema".to_owned())),
    }
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}
