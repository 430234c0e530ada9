//! What is asked for of memory references, and what follows for what nodes of a tree of calls count.

use super::Options;
use super::references::{Facts, Levels};
use crate::calls::{EVENTS, FACTS};
use crate::xlate::facts::{self, Event};

/// What is known to add nothing to these is left out.
pub(super) fn filtered(options: &Options) -> Option<Facts> {
    let references = options.references.as_ref()?;
    // (Lines that were touched are kept for a run as a whole, and for no part of it.)
    let whole = options.regions.is_none();
    let alone = references.recent.is_some() && references.filtered == Some(Facts::default());
    references.filtered.filter(|_| whole || alone)
}

/// Nodes of a tree of calls have facts of their own.
pub(super) fn by_path(options: &Options) -> bool {
    options.calls.is_some() && filtered(options).is_some_and(|facts| facts != Facts::default())
}

/// What a tree of calls counts beside instructions, where these events were asked for.
pub(super) fn events_of_nodes(options: &Options, asked: [u8; EVENTS]) -> [u8; EVENTS] {
    if by_path(options) {
        let mut all = FACTS.into_iter().chain(asked);
        return std::array::from_fn(|_| all.next().unwrap_or(0));
    }
    recent(options).map_or(asked, |_| beside_model(options))
}

/// With a model: what is not told one by one.
fn beside_model(options: &Options) -> [u8; EVENTS] {
    let references = options.references.as_ref();
    let levels = references.and_then(|all| all.recent);
    let branches = references.is_some() && levels.is_none_or(|levels| levels.branches);
    let [reads, writes] = match references.is_some_and(|all| all.modifies_as_store) {
        true => [facts::READS_ONLY, facts::ALL_WRITES],
        false => [facts::READS, facts::WRITES],
    };
    let branch = |event: Event| if branches { event as u8 } else { 0 };
    [
        reads,
        writes,
        branch(Event::ConditionalBranches),
        branch(Event::IndirectBranches),
        0,
        0,
        0,
        0,
    ]
}

/// The model's first levels, if what changes nothing there is left out.
pub(super) fn recent(options: &Options) -> Option<Levels> {
    let references = options.references.as_ref()?;
    references.recent.filter(|_| filtered(options).is_some())
}
