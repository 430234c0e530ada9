//! A saved result to compare with.

use std::path::Path;

use super::document::{Document, SCHEMA};
use crate::failure::Failure;

/// Reads a result of `--save` or `--json`.
pub(super) fn read(path: &Path) -> Result<Document, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(1, format!("cannot read the baseline {shown}: {error}")))?;
    let wrong = |why: String| {
        Failure::new(
            1,
            format!("the baseline {shown} is not a result of bench: {why}"),
        )
        .hint("make one by: truecount bench --save FILE …")
    };
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match value.get("schema").and_then(|schema| schema.as_str()) {
        Some(SCHEMA) => {}
        Some(other) => return Err(wrong(format!("its schema is {other}, not {SCHEMA}"))),
        None => return Err(wrong("it has no schema".to_owned())),
    }
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}
