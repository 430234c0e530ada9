//! What an event ought to count on a loop.

use crate::loops::{Length, Loop};
use serde::{Deserialize, Serialize};

/// A quantity that the loops know of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Instructions retired in user mode.
    Instructions,
    /// Branch instructions retired in user mode.
    Branches,
    /// Page faults.
    PageFaults,
}

impl Quantity {
    /// `instructions`, `branches`, `page-faults`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Branches => "branches",
            Self::PageFaults => "page-faults",
        }
    }

    /// The quantity of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Instructions, Self::Branches, Self::PageFaults]
            .into_iter()
            .find(|q| q.name() == name)
    }

    /// What an event counts by its name; `None` where the loops do not know (cycles) or count part of it only (the
    /// kernel's instructions).
    #[must_use]
    pub fn of_event(event: &str) -> Option<Self> {
        match event {
            "instructions:u"
            | "instructions-minus-irqs:u"
            | "instructions-minus-exceptions:u"
            | "inst_retired.any:u"
            | "r00c0:u" => Some(Self::Instructions),
            "branches:u" | "branch-instructions:u" | "br_inst_retired.all_branches:u" => {
                Some(Self::Branches)
            }
            "page-faults" | "page-faults:u" | "minor-faults" | "minor-faults:u" => {
                Some(Self::PageFaults)
            }
            _ => None,
        }
    }

    /// How many of it a loop holds.
    #[must_use]
    pub fn of_loop(self, each: &Loop) -> Option<Length> {
        match self {
            Self::Instructions => Some(each.instructions),
            Self::Branches => each.branches,
            Self::PageFaults => Some(each.page_faults),
        }
    }
}

/// An event and what it is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The event's expression.
    pub event: String,
    /// What it ought to count.
    pub truth: Quantity,
}

impl Target {
    /// From `EVENT` or `EVENT=QUANTITY`.
    ///
    /// # Errors
    /// The reason, where nobody knows what the event ought to count.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (event, truth) = match text.rsplit_once('=') {
            // `cpu/event=0xc0/u` holds an equals sign of its own.
            Some((event, name)) if !name.contains('/') => match Quantity::named(name) {
                Some(truth) => (event, Some(truth)),
                None => {
                    return Err(format!(
                        "`{name}` is not a quantity that the loops know; they know instructions, branches and page-faults"
                    ));
                }
            },
            _ => (text, Quantity::of_event(text)),
        };
        match truth {
            Some(truth) => Ok(Self {
                event: event.to_owned(),
                truth,
            }),
            None => Err(format!(
                "what `{event}` ought to count on a loop is not known; say it, as in {event}=instructions (or branches, page-faults)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_with_and_without_their_truth() {
        let target = |text: &str| Target::parse(text).map(|t| (t.event, t.truth));
        assert_eq!(
            target("instructions:u"),
            Ok(("instructions:u".into(), Quantity::Instructions))
        );
        assert_eq!(
            target("cpu/event=0xc0/u=instructions"),
            Ok(("cpu/event=0xc0/u".into(), Quantity::Instructions))
        );
        assert!(target("cpu/event=0xc0/u").is_err());
        // The kernel's instructions are not the loop's.
        assert!(target("instructions").unwrap_err().contains("not known"));
        assert!(target("r00c4:u=cycles").unwrap_err().contains("cycles"));
    }
}
