//! What the file says about itself: process, command, start, and the counter with its units.
//!
//! `cmd` is written with Rust's `escape_default`, whose `\'` and `\u{…}` are not JSON; both are put
//! right before parsing.

use crate::error::Loss;
use crate::strings::{METADATA, StringTable};
use serde::{Deserialize, Serialize};

/// The counter that every number in a profile's events is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Name of the counter: `wall-time`, `instructions:u`, …
    pub counter: String,
    /// Name of the smallest unit: `ns`, `instructions`, …
    pub name: String,
    /// Larger units with their size in the smallest one.
    pub scales: Vec<(String, u64)>,
}

impl Unit {
    /// Wall time in nanoseconds, what files without an entry for the counter were recorded with.
    fn wall_time() -> Self {
        let scales = [
            ("ns", 1),
            ("μs", 1000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
        ];
        Self {
            counter: "wall-time".into(),
            name: "ns".into(),
            scales: scales
                .iter()
                .map(|&(name, size)| (name.to_owned(), size))
                .collect(),
        }
    }

    /// Whether the numbers are nanoseconds.
    #[must_use]
    pub fn is_time(&self) -> bool {
        self.name == "ns"
    }
}

/// What the file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Nanoseconds since 1970 when the profiler was created.
    pub start_time: Option<u64>,
    /// The process.
    pub process_id: Option<u32>,
    /// Its command line.
    pub command: Option<String>,
    /// The counter. Files older than measureme 10.1 name none and count wall time.
    pub unit: Unit,
    /// Cost of recording one region, in the counter's unit, where the recorder measured it
    /// (truecount's `Recorder` does; rustc does not).
    pub overhead: Option<Overhead>,
}

/// What recording itself costs, as measured when the recorder started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overhead {
    /// Counted inside the region itself: between its two reads.
    pub inner: u64,
    /// Counted by whatever encloses the region: the whole of starting and ending it.
    pub outer: u64,
}

#[derive(Deserialize)]
struct Raw {
    start_time: Option<u64>,
    process_id: Option<u32>,
    cmd: Option<String>,
    counter: Option<RawCounter>,
    overhead: Option<Overhead>,
}

#[derive(Deserialize)]
struct RawCounter {
    name: String,
    #[serde(default)]
    units: Vec<(String, u64)>,
}

impl Metadata {
    pub(crate) fn read(strings: StringTable<'_>, losses: &mut Vec<Loss>) -> Self {
        let mut unknown = Self {
            start_time: None,
            process_id: None,
            command: None,
            unit: Unit {
                counter: "unknown counter".into(),
                name: "units".into(),
                scales: Vec::new(),
            },
            overhead: None,
        };
        if strings.offset(METADATA).is_none() {
            losses.push(Loss::Metadata {
                what: "there is none".into(),
            });
            return unknown;
        }
        let text = strings.get(METADATA);
        let raw: Raw =
            match serde_json::from_str(&text).or_else(|_| serde_json::from_str(&repair(&text))) {
                Ok(raw) => raw,
                Err(error) => {
                    losses.push(Loss::Metadata {
                        what: format!("expected JSON: {error}"),
                    });
                    return unknown;
                }
            };
        unknown.start_time = raw.start_time;
        unknown.process_id = raw.process_id;
        unknown.command = raw.cmd;
        unknown.overhead = raw.overhead;
        unknown.unit = match raw.counter {
            None => Unit::wall_time(),
            Some(counter) => {
                let smallest = counter
                    .units
                    .iter()
                    .min_by_key(|unit| unit.1)
                    .map(|unit| unit.0.clone());
                Unit {
                    counter: counter.name,
                    name: smallest.unwrap_or_else(|| "units".into()),
                    scales: counter.units,
                }
            }
        };
        unknown
    }
}

/// Turns the escapes of `escape_default` that JSON does not know into those that it does.
fn repair(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        repaired.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('\'') {
            repaired.push('\'');
            rest = after;
        } else if let Some((code, after)) = rest
            .strip_prefix("u{")
            .and_then(|rest| rest.split_once('}'))
        {
            let character = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
            let mut units = [0; 2];
            for unit in character
                .unwrap_or(char::REPLACEMENT_CHARACTER)
                .encode_utf16(&mut units)
            {
                repaired.push_str(&format!("\\u{unit:04x}"));
            }
            rest = after;
        } else {
            // Whatever is escaped stays so, a backslash above all.
            repaired.push('\\');
            let first = rest.chars().next();
            repaired.extend(first);
            rest = &rest[first.map_or(0, char::len_utf8)..];
        }
    }
    repaired.push_str(rest);
    repaired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_rust_become_json() {
        assert_eq!(
            repair(r#"it\'s \u{1f600} \\u{41} \n"#),
            "it's \\ud83d\\ude00 \\\\u{41} \\n"
        );
        let raw: Raw = serde_json::from_str(&repair(r#"{"cmd": "a \'b\' \u{e9}"}"#)).unwrap();
        assert_eq!(raw.cmd.as_deref(), Some("a 'b' é"));
    }
}
