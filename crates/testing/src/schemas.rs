//! The JSON schemas of `docs/schemas`, and what documents have against them.

use serde_json::Value;
use std::path::Path;

/// The schema of this name, with what several have in common in it: the validator reads no files.
///
/// # Panics
/// There is none.
#[must_use]
pub fn schema(name: &str) -> Value {
    let read = |name: &str| -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/schemas")
            .join(name);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = text.replace("\"common.json#/", "\"#/$defs/common/");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut schema = read(name);
    schema["$defs"]["common"] = read("common.json");
    schema
}

/// A document follows the schema of this name.
///
/// # Panics
/// It does not, and where.
pub fn follows(name: &str, document: &Value) {
    let schema = schema(name);
    let validator = jsonschema::validator_for(&schema)
        .unwrap_or_else(|error| panic!("{name} is no schema: {error}"));
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

/// The schema of this name refuses a document that `spoil` has changed: one that accepts anything would prove nothing.
///
/// # Panics
/// It accepts it.
pub fn refuses(name: &str, document: &Value, spoil: impl Fn(&mut Value)) {
    let mut wrong = document.clone();
    spoil(&mut wrong);
    let schema = schema(name);
    assert!(
        !jsonschema::is_valid(&schema, &wrong),
        "{name} accepts {wrong}"
    );
}
