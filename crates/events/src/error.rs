//! What can be wrong with an event expression: where, what was expected, and which names are near.

use std::fmt;

/// Longest expression accepted, in bytes.
pub const MAX_LENGTH: usize = 1 << 16;

/// A range of bytes of the expression, `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset one past the last byte.
    pub end: usize,
}

impl Span {
    /// The range `start..end`.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

/// One cause.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing but blanks was given.
    Empty,
    /// The expression is longer than [`MAX_LENGTH`] bytes.
    TooLong,
    /// Something else stands where `what` should be (`None`: the expression ends there).
    Expected {
        /// What the grammar asks for here.
        what: &'static str,
        /// What was found instead.
        found: Option<char>,
    },
    /// A letter after `:` that is not a modifier.
    UnknownModifier(char),
    /// A modifier that makes no sense for this event.
    ModifierNotAllowed {
        /// The event.
        event: String,
        /// What it allows, in words.
        allowed: &'static str,
    },
    /// More than three `p`.
    TooPrecise,
    /// A number that cannot be read, or that does not fit into 64 bits.
    BadNumber(String),
    /// No catalogue knows the name.
    UnknownEvent(String),
    /// The event is one of other CPUs.
    OtherCpus {
        /// The name asked for.
        event: String,
        /// Models that have it, as the event tables call them.
        cpus: Vec<String>,
    },
    /// The CPU has the event, but the kernel shows no PMU that counts it.
    NoPmuFor {
        /// The name asked for.
        event: String,
        /// The PMU, as the tables call it.
        pmu: String,
    },
    /// The PMU is there, the event is not.
    UnknownPmuEvent {
        /// The PMU.
        pmu: String,
        /// The name asked for.
        event: String,
    },
    /// No PMU of this name under `/sys/bus/event_source/devices`.
    UnknownPmu(String),
    /// The PMU has no such term in `format/`.
    UnknownTerm {
        /// The PMU.
        pmu: String,
        /// The term asked for.
        term: String,
    },
    /// A term that needs a value, or the value that a parametrised event leaves open (`core=?`).
    MissingValue {
        /// The term without value.
        term: String,
    },
    /// The value does not fit into the bits that the PMU gives the term.
    ValueTooLarge {
        /// The term.
        term: String,
        /// The value given.
        value: u64,
        /// The largest value that fits.
        max: u64,
    },
    /// The tracepoint is not there, or cannot be read.
    Tracepoint {
        /// `system:name`.
        name: String,
        /// Why, in words.
        reason: String,
    },
    /// A sysfs file holds what this library does not understand.
    BadSysfs {
        /// The file.
        path: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A sysfs file cannot be read.
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
    },
}

/// An expression that cannot be used, with the place and the names that are near.
///
/// ```
/// let error = truecount_events::parse("instructions:uz").unwrap_err();
/// assert_eq!(error.span.start, 14);
/// assert!(error.to_string().contains("modifier"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The cause.
    pub kind: ErrorKind,
    /// The whole expression.
    pub expression: String,
    /// The part of it that is wrong.
    pub span: Span,
    /// Known names that look like the wrong one, best first; at most three.
    pub near: Vec<String>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, expression: &str, span: Span) -> Self {
        Self {
            kind,
            expression: expression.to_owned(),
            span,
            near: Vec::new(),
        }
    }

    pub(crate) fn near(mut self, near: Vec<String>) -> Self {
        self.near = near;
        self
    }

    /// The column, counted in characters from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        let before = self
            .expression
            .get(..self.span.start)
            .unwrap_or(&self.expression);
        before.chars().count().saturating_add(1)
    }

    /// The expression with a line of `^` below the wrong part, to print under the message.
    #[must_use]
    pub fn pointer(&self) -> String {
        let marked = self
            .expression
            .get(self.span.start..self.span.end)
            .unwrap_or("");
        let blanks = " ".repeat(self.column().saturating_sub(1));
        let carets = "^".repeat(marked.chars().count().max(1));
        format!("{}\n{blanks}{carets}", self.expression)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Empty => {
                return f.write_str(
                    "the event expression is empty: give a name such as instructions:u",
                );
            }
            ErrorKind::TooLong => {
                return write!(f, "the event expression is longer than {MAX_LENGTH} bytes");
            }
            ErrorKind::Expected {
                what,
                found: Some(c),
            } => write!(f, "expected {what}, found {c:?}")?,
            ErrorKind::Expected { what, found: None } => {
                write!(f, "expected {what}, but the expression ends")?;
            }
            ErrorKind::UnknownModifier(c) => {
                write!(
                    f,
                    "unknown modifier {c:?} (one of {})",
                    crate::Modifiers::LETTERS
                )?;
            }
            ErrorKind::ModifierNotAllowed { event, allowed } => {
                write!(f, "event {event} takes {allowed}")?;
            }
            ErrorKind::TooPrecise => {
                f.write_str("at most three p: precise levels go from 0 to 3")?;
            }
            ErrorKind::BadNumber(text) => {
                write!(
                    f,
                    "{text:?} is not a number of at most 64 bits (decimal, or 0x and hexadecimal digits)"
                )?;
            }
            ErrorKind::UnknownEvent(name) => write!(f, "unknown event {name:?}")?,
            ErrorKind::OtherCpus { event, cpus } => write!(
                f,
                "this CPU has no event {event:?} (these have it: {})",
                few(cpus)
            )?,
            ErrorKind::NoPmuFor { event, pmu } => write!(
                f,
                "event {event:?} is counted by the PMU {pmu}, which this machine's kernel does not show"
            )?,
            ErrorKind::UnknownPmuEvent { pmu, event } => {
                write!(f, "PMU {pmu} has no event or term {event:?}")?;
            }
            ErrorKind::UnknownPmu(name) => {
                write!(
                    f,
                    "no PMU {name:?} on this machine (see /sys/bus/event_source/devices)"
                )?;
            }
            ErrorKind::UnknownTerm { pmu, term } => write!(f, "PMU {pmu} has no term {term:?}")?,
            ErrorKind::MissingValue { term } => {
                write!(f, "term {term} needs a value: write {term}=NUMBER")?;
            }
            ErrorKind::ValueTooLarge { term, value, max } => {
                write!(
                    f,
                    "{term}={value:#x} does not fit: the largest value is {max:#x}"
                )?;
            }
            ErrorKind::Tracepoint { name, reason } => write!(f, "tracepoint {name}: {reason}")?,
            ErrorKind::BadSysfs { path, expected } => {
                return write!(f, "{path}: expected {expected}");
            }
            ErrorKind::Unreadable { path, reason } => return write!(f, "{path}: {reason}"),
        }
        write!(f, ", at column {} of {:?}", self.column(), self.expression)?;
        match self.near.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "; did you mean {one}?"),
            [head @ .., last] => write!(f, "; did you mean {} or {last}?", head.join(", ")),
        }
    }
}

/// The first names of a list, and how many more there are.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names.get(..SHOWN).unwrap_or(names).join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

impl std::error::Error for Error {}
