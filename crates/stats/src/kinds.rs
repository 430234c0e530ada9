//! What is known of a metric by its name: the smallest change that matters, which direction is worse, and the words
//! for a change of it. One row a kind of metric; what computes a metric from several counts (IPC) brings its own
//! direction along, as data beside its formula.
//!
//! Sources of the floors: the project's design ("Verdict: two keys") for instructions, branches, loads and stores
//! (0.1 %), cycles (1 %), times (2 %), misses and faults (5 %). Where it names no figure the row says why it is what
//! it is.

/// Which direction is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Worse {
    /// More is worse: counts, times, sizes.
    #[default]
    Higher,
    /// Less is worse: throughput, instructions per cycle.
    Lower,
}

/// The pair of words for lower and higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// `faster`, `slower`: times and cycles.
    Time,
    /// `fewer`, `more`: events.
    Count,
    /// `smaller`, `larger`: memory and other sizes.
    Size,
    /// `lower`, `higher`: shares, ratios and rates.
    Level,
}

/// A kind of metric, by the words its name is made of.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Names that this row is for, without modifiers.
    names: &'static [&'static str],
    /// Endings that this row is for.
    endings: &'static [&'static str],
    /// The smallest change that matters, as a share.
    pub(crate) floor: f64,
    /// Which direction is worse; `None` where neither is.
    pub(crate) worse: Option<Worse>,
    pub(crate) wording: Wording,
}

const KINDS: &[Kind] = &[
    // Anything called a miss or a fault, whatever it misses: before the counts it may be named after.
    Kind {
        names: &["faults"],
        endings: &[
            "-misses",
            "-miss",
            "_miss",
            "misses",
            "-faults",
            "faults",
            "-mispredicts",
        ],
        floor: 0.05,
        worse: Some(Worse::Higher),
        wording: Wording::Count,
    },
    // More hits come of more work or of fewer misses: the count alone does not say which.
    Kind {
        names: &["hits"],
        endings: &["-hits", "-hit", "_hit", "_hits"],
        floor: 0.05,
        worse: None,
        wording: Wording::Count,
    },
    Kind {
        names: &[
            "instructions",
            "instructions-minus-irqs",
            "instructions-minus-exceptions",
            "branches",
            "branch-instructions",
            "loads",
            "stores",
            "mem-loads",
            "mem-stores",
        ],
        endings: &["-loads", "-stores", "-instructions", "-branches"],
        floor: 0.001,
        worse: Some(Worse::Higher),
        wording: Wording::Count,
    },
    Kind {
        names: &["cycles", "cpu-cycles", "ref-cycles"],
        endings: &["-cycles"],
        floor: 0.01,
        worse: Some(Worse::Higher),
        wording: Wording::Time,
    },
    // Cycles times the width of the pipeline.
    Kind {
        names: &["slots"],
        endings: &["-slots"],
        floor: 0.01,
        worse: Some(Worse::Higher),
        wording: Wording::Count,
    },
    Kind {
        names: &[
            "wall",
            "user",
            "system",
            "sys",
            "time",
            "clock",
            "cpu-clock",
            "task-clock",
        ],
        endings: &[
            "-time", "_time", "-clock", " time", "-wall", "-user", "-sys",
        ],
        floor: 0.02,
        worse: Some(Worse::Higher),
        wording: Wording::Time,
    },
    // Peak memory moves by whole pages and with the allocator's arenas: as noisy as a time.
    Kind {
        names: &["max-rss", "rss", "memory", "size", "bytes"],
        endings: &["-rss", "_rss", "-memory", "-size", "-bytes"],
        floor: 0.02,
        worse: Some(Worse::Higher),
        wording: Wording::Size,
    },
];

/// An event of unknown nature: a count, taken for the noisiest kind. More events are more work.
const UNKNOWN: Kind = Kind {
    names: &[],
    endings: &[],
    floor: 0.05,
    worse: Some(Worse::Higher),
    wording: Wording::Count,
};

/// The kind of a metric by its name, with or without modifiers.
pub(crate) fn kind(metric: &str) -> &'static Kind {
    let name = without_modifiers(metric).to_ascii_lowercase();
    KINDS
        .iter()
        .find(|k| k.names.contains(&name.as_str()) || k.endings.iter().any(|e| name.ends_with(e)))
        .unwrap_or(&UNKNOWN)
}

/// `instructions:u` → `instructions`.
pub(crate) fn without_modifiers(metric: &str) -> &str {
    metric.split_once(':').map_or(metric, |(name, _)| name)
}

impl Worse {
    /// The worse direction of an event or a resource, by its name; `None` where neither is worse. Metrics that are
    /// computed from several counts (IPC) are not known here: their direction is data beside their formula.
    ///
    /// ```
    /// use truecount_stats::Worse;
    /// assert_eq!(Worse::of("instructions:u"), Some(Worse::Higher));
    /// assert_eq!(Worse::of("mem_load_retired.l1_hit"), None);
    /// ```
    #[must_use]
    pub fn of(metric: &str) -> Option<Self> {
        kind(metric).worse
    }
}

impl Wording {
    /// The words that suit an event's or a resource's name.
    #[must_use]
    pub fn of(metric: &str) -> Self {
        kind(metric).wording
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of event and resource, with its floor, its worse direction and its words.
    #[test]
    fn floors_directions_and_words_of_every_kind() {
        use Wording::{Count, Size, Time};
        let higher = Some(Worse::Higher);
        for (name, floor, worse, wording) in [
            ("instructions:u", 0.001, higher, Count),
            ("instructions-minus-irqs:u", 0.001, higher, Count),
            ("branches:u", 0.001, higher, Count),
            ("loads:u", 0.001, higher, Count),
            ("L1-dcache-loads", 0.001, higher, Count),
            ("cycles:u", 0.01, higher, Time),
            ("ref-cycles", 0.01, higher, Time),
            ("slots", 0.01, higher, Count),
            ("wall-time", 0.02, higher, Time),
            ("user-time", 0.02, higher, Time),
            ("system-time", 0.02, higher, Time),
            ("cpu-time", 0.02, higher, Time),
            ("task-clock", 0.02, higher, Time),
            ("branch-misses:u", 0.05, higher, Count),
            ("LLC-load-misses", 0.05, higher, Count),
            ("cache-misses", 0.05, higher, Count),
            ("page-faults", 0.05, higher, Count),
            ("minor-faults", 0.05, higher, Count),
            ("major-faults", 0.05, higher, Count),
            ("context-switches", 0.05, higher, Count),
            ("max-rss", 0.02, higher, Size),
            ("mem_load_retired.l1_hit", 0.05, None, Count),
            ("r01cb:u", 0.05, higher, Count),
        ] {
            let kind = kind(name);
            assert_eq!(
                (kind.floor, kind.worse, kind.wording),
                (floor, worse, wording),
                "{name}"
            );
        }
    }
}
