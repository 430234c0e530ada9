//! What of an output may differ from run to run and from machine to machine, taken out of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// How much of a text is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mask {
    /// All of it (what the code alone decides: help, tables of events, recorded files).
    Nothing,
    /// Numbers, times and sizes become `N`, rows of spaces one space.
    Numbers,
    /// The first column of every line.
    FirstColumn,
    /// The first column of the rows of tables (indented lines), each once.
    Rows,
    /// The second column of every line.
    SecondColumn,
    /// The last column of the rows of tables, each once.
    LastColumn,
    /// The lines that begin with `#`.
    Comments,
    /// The lines that are not indented, as `Numbers`.
    Headings,
    /// As `Numbers`, with the lines sorted (their order is that of measured times).
    Sorted,
    /// The heading of a CSV, and the first field of every line.
    FieldNames,
    /// The paths of a JSON document's keys, with the types of their values.
    Shape,
    /// The tags of a page, each once, in the order of their first use, with their classes.
    Tags,
    /// Its first line, and that there are more.
    Size,
}

impl Mask {
    pub(crate) fn apply(self, text: &str) -> String {
        match self {
            Self::Nothing => text.to_owned(),
            Self::Numbers => lines(text, |line| squeeze(&numbers(line))),
            Self::FirstColumn => lines(text, |line| column(line, 0)),
            Self::SecondColumn => lines(text, |line| column(line, 1)),
            Self::Rows => rows(text, |line| column(line, 0)),
            Self::LastColumn => rows(text, last_column),
            Self::Comments => text
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| format!("{line}\n"))
                .collect(),
            Self::Headings => text
                .lines()
                .filter(|line| !line.starts_with(' ') && !line.is_empty())
                .map(|line| squeeze(&numbers(line)) + "\n")
                .collect(),
            Self::Sorted => {
                let text = Self::Numbers.apply(text);
                let mut all: Vec<&str> = text.lines().collect();
                all.sort_unstable();
                all.join("\n") + "\n"
            }
            Self::FieldNames => field_names(text),
            Self::Shape => shape(text),
            Self::Tags => tags(text),
            Self::Size => format!(
                "{}\n{} lines\n",
                text.lines().next().unwrap_or_default(),
                if text.lines().count() > 20 {
                    "many"
                } else {
                    "few"
                }
            ),
        }
    }
}

fn lines(text: &str, change: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(&change(line));
        out.push('\n');
    }
    out
}

/// Units that scale with the number before them, and what they are units of.
const UNITS: [(&str, &str); 9] = [
    ("N ns", "TIME"),
    ("N µs", "TIME"),
    ("N ms", "TIME"),
    ("N s", "TIME"),
    ("N min", "TIME"),
    ("N B", "SIZE"),
    ("N KiB", "SIZE"),
    ("N MiB", "SIZE"),
    ("N GiB", "SIZE"),
];

/// A number with its sign becomes `N`; digits inside a word (`r01cb`, `libc.so.6`, `x86`) stay.
fn numbers(line: &str) -> String {
    let characters: Vec<char> = line.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while let Some(&c) = characters.get(at) {
        let back = |n: usize| at.checked_sub(n).and_then(|i| characters.get(i)).copied();
        let inside = match back(1) {
            Some('.') => back(2).is_some_and(char::is_alphanumeric),
            before => before.is_some_and(|b| b.is_alphanumeric() || b == '_'),
        };
        if !c.is_ascii_digit() || inside {
            out.push(c);
            at += 1;
            continue;
        }
        let hexadecimal = c == '0' && characters.get(at + 1) == Some(&'x');
        if hexadecimal {
            at += 2;
        }
        let part = |c: char| c.is_ascii_digit() || (hexadecimal && c.is_ascii_hexdigit());
        while let Some(&c) = characters.get(at) {
            let digit_follows = characters.get(at + 1).is_some_and(|&next| part(next));
            if part(c) || (matches!(c, '.' | ',') && digit_follows) {
                at += 1;
            } else {
                break;
            }
        }
        if out.ends_with(['+', '-', '−', '±']) {
            let _ = out.pop();
        }
        out.push('N');
    }
    let mut words = format!("{out} ");
    for (unit, kind) in UNITS {
        for end in [' ', ',', ';', '.', ')', ':'] {
            words = words.replace(&format!("{unit}{end}"), &format!("N {kind}{end}"));
        }
    }
    // A spread of nothing may be written as such.
    words
        .replace("± N %", "SPREAD")
        .replace("± N", "SPREAD")
        .trim_end()
        .to_owned()
}

/// Columns are as wide as their numbers.
fn squeeze(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ")
}

/// A column of a table: columns are two spaces apart, or more.
fn column(line: &str, which: usize) -> String {
    let line = numbers(line);
    let mut columns = line.split("  ").filter(|column| !column.is_empty());
    squeeze(columns.nth(which).unwrap_or_default())
}

fn last_column(line: &str) -> String {
    let line = numbers(line.trim_end());
    squeeze(line.rsplit("  ").next().unwrap_or_default())
}

fn rows(text: &str, which: impl Fn(&str) -> String) -> String {
    let mut seen = BTreeSet::new();
    let mut out = String::new();
    // A sentence has one column.
    let several = |line: &str| line.trim().contains("  ");
    for line in text
        .lines()
        .filter(|line| line.starts_with("  ") && several(line))
    {
        let name = which(line);
        if seen.insert(name.clone()) {
            out.push_str(&name);
            out.push('\n');
        }
    }
    out
}

fn field_names(text: &str) -> String {
    let mut all = text.lines();
    let mut out = format!("{}\n", all.next().unwrap_or_default());
    for line in all {
        out.push_str(line.split(',').next().unwrap_or_default());
        out.push('\n');
    }
    out
}

fn shape(text: &str) -> String {
    let mut types: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match document {
            Ok(value) => walk(&value, String::new(), &mut types),
            Err(error) => return format!("not JSON: {error}\n{text}"),
        }
    }
    let mut out = String::new();
    for (path, types) in types {
        // Whether there is anything to win by a prefetch is a matter of the measurement.
        if path.contains("prefetch_window.") {
            continue;
        }
        // What a machine says of itself may be missing on another.
        let machine = path.ends_with("prefetch_window")
            || ["environment", "machine", "cpu"].iter().any(|part| {
                path.split(['.', '['])
                    .any(|segment| segment.eq_ignore_ascii_case(part))
            });
        // Whether a number can be had is a matter of the measurement; that it never is, is a change.
        let several = types.len() > 1;
        let types: Vec<&str> = types
            .into_iter()
            .filter(|kind| !several || *kind != "null")
            .collect();
        let types = if machine {
            "…".to_owned()
        } else {
            types.join(" or ")
        };
        out.push_str(&format!("{path}: {types}\n"));
    }
    out
}

fn walk(value: &Value, path: String, types: &mut BTreeMap<String, BTreeSet<&str>>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            for item in items {
                walk(item, format!("{path}[]"), types);
            }
            "array"
        }
        // Names that the machine chose.
        Value::Object(_) if path.ends_with("environment.variables") => "object",
        Value::Object(fields) => {
            for (name, field) in fields {
                walk(field, format!("{path}.{name}"), types);
            }
            "object"
        }
    };
    let _ = types.entry(path).or_default().insert(kind);
}

fn tags(text: &str) -> String {
    let mut seen = BTreeSet::new();
    let mut out = String::new();
    for piece in text.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap_or_default();
        let name = tag.split([' ', '\n', '/']).next().unwrap_or_default();
        let word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!');
        if !word
            || !name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '!' | '-'))
        {
            continue;
        }
        let class = tag
            .split_once("class=\"")
            .and_then(|(_, rest)| rest.split('"').next())
            // A point at the edge of its scale is a matter of the measurement.
            .map(|class| format!(" class={}", class.trim_end_matches(" edge")))
            .unwrap_or_default();
        // So is whether there is anything to win by a prefetch.
        if class == " class=bracket" {
            continue;
        }
        if seen.insert((name.to_owned(), class.clone())) {
            out.push_str(&format!("{name}{class}\n"));
        }
    }
    out
}

#[test]
fn numbers_are_masked_and_names_are_not() {
    let mask = |text| Mask::Numbers.apply(text);
    assert_eq!(
        mask("  44,024  instructions:u  r01cb\n   134.6 µs  ± 4.466 %  0x1a2b libc.so.6"),
        "N instructions:u r01cb\nN TIME SPREAD N libc.so.6\n"
    );
    assert_eq!(mask("took 1.5 s, 3 MiB."), mask("took 17 ms, 2 KiB."));
    assert_eq!(mask("+150 %"), mask("-0.3 %"));
}

#[test]
fn a_lost_key_changes_the_shape() {
    let shape = |text| Mask::Shape.apply(text);
    assert_eq!(
        shape(r#"{"a":[{"b":1},{"b":null}]}"#),
        shape(r#"{"a":[{"b":null},{"b":7}]}"#)
    );
    assert_ne!(shape(r#"{"a":1,"b":2}"#), shape(r#"{"a":1}"#));
    assert_ne!(shape(r#"{"a":1}"#), shape(r#"{"a":"1"}"#));
}
