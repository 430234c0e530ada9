//! Who counted a number, how sure it is, and in which mode of the CPU it was counted.

use std::fmt;

/// Gives an enumeration its names, which tables, JSON and messages share.
macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(rename_all = "lowercase")
        )]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            /// The name in tables and in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// Who counted.
    SourceKind {
        /// The CPU's performance counters, through `perf_event`.
        Hardware = "hardware",
        /// The virtual PMU: translated code that counts itself.
        Virtual = "virtual",
        /// Single-stepping by `ptrace`.
        Step = "step",
        /// The kernel's own bookkeeping: clocks, `rusage`, software events.
        Software = "software",
        /// Nobody: a model was fed with what the program did.
        Model = "model",
    }
}

named! {
    /// How sure a value is: the surest first.
    Precision {
        /// The true number, by the way it was obtained: the same for the same work.
        Exact = "exact",
        /// Counted all the time; it may hold the counter's own errors, or vary from run to run.
        Counted = "counted",
        /// Extrapolated from the part of the time that the counter ran.
        Scaled = "scaled",
        /// No count of anything that happened: what a model says, the same for the same work.
        Modelled = "modelled",
    }
}

/// An event's name and its filter, which is empty without one: `("instructions", "u")` of `instructions:u`.
///
/// A filter is what perf calls modifiers, the letters after the last colon (perf-list(1), "EVENT MODIFIERS"), so that
/// the colon of a tracepoint (`sched:sched_switch`) is part of its name.
#[must_use]
pub fn split_filter(event: &str) -> (&str, &str) {
    let modifiers =
        |text: &str| !text.is_empty() && text.chars().all(|c| "ukhIGHpPSDWeb".contains(c));
    event
        .rsplit_once(':')
        .filter(|(_, filter)| modifiers(filter))
        .unwrap_or((event, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_perfs_modifiers() {
        for (event, name, filter) in [
            ("instructions:u", "instructions", "u"),
            ("instructions", "instructions", ""),
            ("sched:sched_switch", "sched:sched_switch", ""),
            ("sched:sched_switch:k", "sched:sched_switch", "k"),
            ("r01cb:uppp", "r01cb", "uppp"),
            ("x:", "x:", ""),
        ] {
            assert_eq!(split_filter(event), (name, filter));
        }
    }

    #[test]
    fn the_surest_comes_first() {
        assert!(Precision::Exact < Precision::Counted && Precision::Counted < Precision::Scaled);
        assert!(None < Some(Precision::Exact));
        assert_eq!(format!("{:>9}", SourceKind::Virtual), "  virtual");
    }
}
