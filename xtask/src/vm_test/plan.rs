//! What is run where: crates, rigs, privileges, and the programs that are shipped along.

/// An architecture with a rig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    X86,
    Arm64,
}

impl Arch {
    pub const ALL: [Self; 2] = [Self::X86, Self::Arm64];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86",
            Self::Arm64 => "arm64",
        }
    }

    /// The rig's entry, below the directory of rigs.
    pub const fn script(self) -> &'static str {
        match self {
            Self::X86 => "x86/rig-x86.sh",
            Self::Arm64 => "arm64/rig.sh",
        }
    }

    /// The target to build for; `None` is the host's. The arm64 rig runs static programs only.
    pub const fn target(self) -> Option<&'static str> {
        match self {
            Self::X86 => None,
            Self::Arm64 => Some("aarch64-unknown-linux-musl"),
        }
    }
}

/// A program that tests of a suite start; they find it by the variable.
#[derive(Debug)]
pub struct Binary {
    pub package: &'static str,
    pub name: &'static str,
    pub variable: &'static str,
}

/// Under which privilege a suite is run, and in which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// As root: all tests.
    Root,
    /// As nobody with this `kernel.perf_event_paranoid`: the tests with `paranoid` in their name.
    Paranoid(i32),
    /// As root on an x86 machine whose PMU adds no instruction per interrupt: the tests with `no_overcount` in their
    /// name.
    NoOvercount,
}

/// In the name of tests that are about a paranoid level.
const PARANOID: &str = "paranoid";
/// In the name of tests that are about a PMU that does not overcount.
const NO_OVERCOUNT: &str = "no_overcount";

impl Privilege {
    /// The filters of the test runner; `None`: the user's filter leaves nothing to run.
    pub fn filters(self, users: Option<&str>) -> Option<Vec<String>> {
        let own = match self {
            Self::Root => return Some(users.map(str::to_owned).into_iter().collect()),
            Self::Paranoid(_) => PARANOID,
            Self::NoOvercount => NO_OVERCOUNT,
        };
        match users {
            None => Some(vec![own.to_owned()]),
            Some(filter) => filter.contains(own).then(|| vec![filter.to_owned()]),
        }
    }

    /// Whether this architecture's rig has such a machine.
    pub fn exists_on(self, arch: Arch) -> bool {
        self != Self::NoOvercount || arch == Arch::X86
    }

    pub fn describe(self) -> String {
        match self {
            Self::Root => "as root".to_owned(),
            Self::Paranoid(level) => format!("unprivileged, perf_event_paranoid={level}"),
            Self::NoOvercount => "as root, interrupts add no instruction".to_owned(),
        }
    }
}

/// A crate's `tests/hardware.rs`.
#[derive(Debug)]
pub struct Suite {
    pub package: &'static str,
    pub directory: &'static str,
    pub archs: &'static [Arch],
    pub runs: &'static [Privilege],
    pub binaries: &'static [Binary],
}

/// All suites. A crate joins by a row here.
pub const SUITES: &[Suite] = &[
    Suite {
        package: "truecount-perf",
        directory: "crates/perf",
        archs: &Arch::ALL,
        runs: &[
            Privilege::Root,
            Privilege::Paranoid(2),
            Privilege::Paranoid(3),
        ],
        binaries: &[],
    },
    Suite {
        package: "truecount",
        directory: "crates/count",
        archs: &Arch::ALL,
        runs: &[Privilege::Root],
        binaries: &[],
    },
    Suite {
        package: "truecount-cli",
        directory: "crates/cli",
        archs: &Arch::ALL,
        runs: &[
            Privilege::Root,
            Privilege::Paranoid(3),
            Privilege::NoOvercount,
        ],
        binaries: &[Binary {
            package: "truecount-cli",
            name: "truecount",
            variable: "TRUECOUNT_BIN",
        }],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_runs() {
        let strings = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        assert_eq!(Privilege::Root.filters(None), strings(&[]));
        assert_eq!(
            Privilege::Root.filters(Some("groups")),
            strings(&["groups"])
        );
        assert_eq!(Privilege::Paranoid(3).filters(None), strings(&["paranoid"]));
        assert_eq!(Privilege::Paranoid(3).filters(Some("groups")), None);
        assert_eq!(
            Privilege::NoOvercount.filters(None),
            strings(&["no_overcount"])
        );
        assert_eq!(Privilege::NoOvercount.filters(Some("groups")), None);
        assert!(!Privilege::NoOvercount.exists_on(Arch::Arm64));
        assert_eq!(
            Privilege::Paranoid(3).filters(Some("paranoid_3")),
            strings(&["paranoid_3"])
        );
    }

    #[test]
    fn the_plan_names_crates_that_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for suite in SUITES {
            let manifest = root.join(suite.directory).join("Cargo.toml");
            let text = std::fs::read_to_string(&manifest).unwrap();
            assert!(
                text.contains(&format!("name = \"{}\"", suite.package)),
                "{}",
                suite.package
            );
        }
    }
}
