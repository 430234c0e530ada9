//! What an expression says, before anything is looked up. `Display` writes the canonical spelling, which parses
//! back to the same tree.

use crate::{Modifiers, Span};
use std::fmt;

/// A whole expression: groups in the order written; an event outside braces is a group of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expression {
    /// At least one.
    pub groups: Vec<GroupExpr>,
}

/// `{a,b}:u`, or one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupExpr {
    /// At least one; the first leads.
    pub events: Vec<EventExpr>,
    /// Whether braces were written.
    pub braces: bool,
    /// What follows the closing brace.
    pub modifiers: Modifiers,
    /// Where it stands.
    pub span: Span,
}

/// One event with its own modifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventExpr {
    /// What is to be counted.
    pub head: Head,
    /// What follows it.
    pub modifiers: Modifiers,
    /// Where it stands, modifiers included.
    pub span: Span,
    /// Where the head stands.
    pub head_span: Span,
}

/// What is to be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// `instructions`, `L1-dcache-load-misses`, `mem-loads`.
    Name(String),
    /// `r01cb`: the number as the PMU takes it.
    Raw(u64),
    /// `cpu/event=0x3c,umask=0/`.
    Pmu {
        /// The PMU's name (or a generic event's, as in `cycles/period=1000/`).
        pmu: String,
        /// In the order written; may be empty.
        terms: Vec<Term>,
    },
    /// `sched:sched_switch`.
    Tracepoint {
        /// Before the colon.
        system: String,
        /// After it.
        name: String,
        /// Where the part after the colon stands.
        name_span: Span,
    },
}

/// `umask=0x1`, `edge`, `mem-loads`, `r01cb`, `name='my name'` between the slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Before `=`.
    pub name: String,
    /// After it.
    pub value: Option<TermValue>,
    /// Where it stands.
    pub span: Span,
}

/// What follows `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermValue {
    /// `16`, `0x10`.
    Number(u64),
    /// `word`, or `'quoted text'`.
    Text(String),
    /// `?`: left open (in sysfs files).
    Open,
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.groups.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{group}")?;
        }
        Ok(())
    }
}

impl fmt::Display for GroupExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.braces {
            f.write_str("{")?;
        }
        for (i, event) in self.events.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{event}")?;
        }
        if self.braces {
            f.write_str("}")?;
            if !self.modifiers.is_empty() {
                write!(f, ":{}", self.modifiers)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for EventExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.head)?;
        if self.modifiers.is_empty() {
            return Ok(());
        }
        match self.head {
            Head::Pmu { .. } => write!(f, "{}", self.modifiers),
            _ => write!(f, ":{}", self.modifiers),
        }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Head::Name(name) => f.write_str(name),
            Head::Raw(config) => write!(f, "r{config:04x}"),
            Head::Tracepoint { system, name, .. } => write!(f, "{system}:{name}"),
            Head::Pmu { pmu, terms } => {
                write!(f, "{pmu}/")?;
                for (i, term) in terms.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{term}")?;
                }
                f.write_str("/")
            }
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.value {
            None => Ok(()),
            Some(TermValue::Number(n)) => write!(f, "={n:#x}"),
            Some(TermValue::Text(text)) => write!(f, "='{text}'"),
            Some(TermValue::Open) => f.write_str("=?"),
        }
    }
}
