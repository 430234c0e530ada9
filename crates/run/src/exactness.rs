//! What `truecount exactness` found out about this machine's counters, and what follows for counts made later: a count
//! of a counter that was seen to deviate from the truth is not called exact.
//!
//! The experiment is the laboratory's; here is what it left, and how a name finds its verdict.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use truecount_events::{Encoding, Kind as EventKind, Machine, generic, resolve};
use truecount_model::{Reading, SourceKind};

use crate::env_record::Environment;
use crate::state;

/// The version of the file.
pub const SCHEMA: &str = "truecount.exactness-profile/1";

/// The kind of its file in [`state`].
pub const FILE: &str = "exactness";

/// What was found of a counter, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Every measurement was the truth.
    Exact,
    /// The truth plus a whole number per interrupt.
    PerInterrupt,
    /// The truth plus something for every turn (page fault, system call).
    PerTurn,
    /// Above the truth, by no rule that was found.
    Overcount,
    /// Below the truth.
    Undercount,
    /// Above and below.
    Unsteady,
    /// Nothing was measured.
    Unmeasured,
}

/// A word and the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// In a word.
    pub kind: Kind,
    /// In words.
    pub text: String,
}

impl Verdict {
    /// Both together.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }
}

/// One counter's verdict, and when it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptVerdict {
    /// Name with its filter.
    pub event: String,
    /// Who counted.
    pub source: SourceKind,
    /// What was found.
    pub verdict: Verdict,
    /// Seconds since 1970.
    pub measured: u64,
}

/// The part of the file that concerns counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Verdicts {
    schema: String,
    counters: Vec<KeptVerdict>,
}

impl Verdicts {
    /// Those of this machine, read once; none where nothing was measured.
    pub fn of_this_machine() -> &'static Self {
        static KNOWN: OnceLock<Verdicts> = OnceLock::new();
        KNOWN.get_or_init(|| {
            // Whether addresses are randomised is no part of the file's name.
            let environment = Environment::gather(false, &[]);
            state::path(FILE, &environment)
                .and_then(|path| state::read(&path))
                .and_then(|text| Self::parse(&text))
                .unwrap_or_default()
        })
    }

    /// Nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// From the file's text; `None` where it is not such a file.
    pub fn parse(text: &str) -> Option<Self> {
        let found: Self = serde_json::from_str(text).ok()?;
        (found.schema == SCHEMA).then_some(found)
    }

    /// The verdict by which a count of this event deviates from the truth; `None` where none is known.
    ///
    /// A verdict about user mode holds for counts that include user mode, and what `instructions:u` counts too much
    /// beyond interrupts is in its difference with interrupts as well.
    pub fn deviation(
        &self,
        event: &str,
        source: SourceKind,
        machine: &Machine,
    ) -> Option<&KeptVerdict> {
        let kept = || {
            self.counters
                .iter()
                .filter(move |kept| kept.source == source)
        };
        let found = match kept().find(|kept| kept.event == event) {
            Some(found) => Some(found),
            None if kept().next().is_none() => None,
            None => match one(event, machine)? {
                EventKind::Perf(wanted) => kept().find(|kept| {
                    matches!(one(&kept.event, machine), Some(EventKind::Perf(known))
                        if !wanted.exclude_user && same_counter(&wanted, &known))
                }),
                EventKind::Special(special) if special.needs_pmu() => kept().find(|kept| {
                    kept.event == "instructions:u" && kept.verdict.kind != Kind::PerInterrupt
                }),
                EventKind::Special(_) => None,
            },
        }?;
        (!matches!(found.verdict.kind, Kind::Exact | Kind::Unmeasured)).then_some(found)
    }

    /// Whether the counter of this name was measured, and was found exact.
    pub fn is_exact(&self, event: &str, source: SourceKind) -> bool {
        self.counters.iter().any(|kept| {
            kept.event == event && kept.source == source && kept.verdict.kind == Kind::Exact
        })
    }

    /// What a reader of this count must know, in a sentence; `None` where no deviation is known.
    pub fn remark(&self, event: &str, source: SourceKind, machine: &Machine) -> Option<String> {
        let kept = self.deviation(event, source, machine)?;
        Some(format!(
            "{event} is not exact on this machine: {} (truecount exactness, {}).",
            kept.verdict.text,
            state::ago(kept.measured)
        ))
    }

    /// A remark for each event that was counted, once.
    pub fn remarks(&self, readings: &[Reading], machine: &Machine) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for reading in readings {
            let source = reading.result.source();
            let remark = source.and_then(|source| self.remark(&reading.event, source, machine));
            all.extend(remark.filter(|remark| !all.contains(remark)));
        }
        all
    }
}

/// What a name of one event means here.
fn one(event: &str, machine: &Machine) -> Option<EventKind> {
    let resolved = resolve(event, machine).ok()?;
    let mut events = resolved.groups.into_iter().flat_map(|group| group.events);
    events.next().map(|event| event.kind)
}

/// Whether both are the same event of the same PMU, whatever they filter.
fn same_counter(a: &Encoding, b: &Encoding) -> bool {
    let plain = |encoding: &Encoding| {
        // Hybrid machines have the PMU in the upper half.
        let config = match encoding.type_ {
            generic::TYPE_HARDWARE => encoding.config & 0xffff_ffff,
            _ => encoding.config,
        };
        (encoding.type_, config, encoding.config1, encoding.config2)
    };
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(rows: &[(&str, SourceKind, Kind)]) -> Verdicts {
        let counters = rows.iter().map(|&(event, source, kind)| KeptVerdict {
            event: event.into(),
            source,
            verdict: Verdict::new(kind, "+1 per page fault"),
            measured: state::now(),
        });
        Verdicts {
            schema: SCHEMA.into(),
            counters: counters.collect(),
        }
    }

    #[test]
    fn a_deviation_is_found_by_what_an_event_counts() {
        let all = known(&[
            ("instructions:u", SourceKind::Hardware, Kind::PerTurn),
            ("branches:u", SourceKind::Hardware, Kind::Exact),
            ("instructions:u", SourceKind::Virtual, Kind::Exact),
        ]);
        let machine = Machine::unknown();
        let found = |event, source| all.deviation(event, source, &machine).is_some();
        assert!(found("instructions:u", SourceKind::Hardware));
        assert!(!found("instructions:u", SourceKind::Virtual));
        // With the kernel's part, by another name, as a difference: the deviation is in it.
        assert!(found("instructions", SourceKind::Hardware));
        assert!(found("instructions-minus-irqs:u", SourceKind::Hardware));
        assert!(!found("instructions:k", SourceKind::Hardware));
        assert!(!found("branches:u", SourceKind::Hardware));
        assert!(!found("cycles:u", SourceKind::Hardware));
        assert!(!found("wall-time", SourceKind::Hardware));
        assert!(!found("no such event", SourceKind::Hardware));
        let remark = all.remark("instructions:u", SourceKind::Hardware, &machine);
        assert!(remark.is_some_and(|text| text.contains("+1 per page fault")));
    }

    #[test]
    fn what_interrupts_add_is_not_in_the_difference() {
        let all = known(&[("instructions:u", SourceKind::Hardware, Kind::PerInterrupt)]);
        let machine = Machine::unknown();
        let event = "instructions-minus-irqs:u";
        assert!(
            all.deviation(event, SourceKind::Hardware, &machine)
                .is_none()
        );
        let all = known(&[
            ("instructions:u", SourceKind::Hardware, Kind::PerTurn),
            (event, SourceKind::Hardware, Kind::Exact),
        ]);
        assert!(
            all.deviation(event, SourceKind::Hardware, &machine)
                .is_none()
        );
    }

    #[test]
    fn another_file_holds_no_verdicts() {
        assert_eq!(Verdicts::parse("{}"), None);
        assert_eq!(Verdicts::parse(r#"{"schema":"x/1","counters":[]}"#), None);
        let text = format!(r#"{{"schema":"{SCHEMA}","counters":[],"ordering":null,"x":1}}"#);
        assert!(Verdicts::parse(&text).is_some());
    }
}
