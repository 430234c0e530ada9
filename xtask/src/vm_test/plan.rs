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

    /// As Go calls it.
    pub const fn go(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
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

/// A program in C or C++ over the C interface, or in Go, which tests of a suite start; they find it by the variable. Where it
/// cannot be built the variable is not set.
#[derive(Debug)]
pub struct Program {
    pub source: &'static str,
    pub variable: &'static str,
}

/// A machine with other settings than the rigs' own, and the tests that are run in it. As root unless it says otherwise.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Tests find it in `TRUECOUNT_RIG_SETTING`.
    pub name: &'static str,
    pub description: &'static str,
    /// The options of each rig; `None`: that rig has no such machine.
    pub x86: Option<&'static [&'static str]>,
    pub arm64: Option<&'static [&'static str]>,
    /// Words of which one is in the names of the tests that are run.
    pub tests: &'static [&'static str],
}

impl Setting {
    pub fn options(&self, arch: Arch) -> Option<&'static [&'static str]> {
        match arch {
            Arch::X86 => self.x86,
            Arch::Arm64 => self.arm64,
        }
    }
}

/// An interrupt adds no instruction.
pub static NO_OVERCOUNT: Setting = Setting {
    name: "no-overcount",
    description: "interrupts add no instruction",
    x86: Some(&["-c", "pmu-irq-overcount=off"]),
    arm64: None,
    tests: &["no_overcount"],
};

/// An exception adds one, too.
pub static FAULT_OVERCOUNT: Setting = Setting {
    name: "fault-overcount",
    description: "page faults add an instruction",
    x86: Some(&["-c", "pmu-fault-overcount=on"]),
    arm64: None,
    tests: &["fault_overcount"],
};

/// Much at once that must make no difference to counts: booted afresh.
pub static OTHER_PMU: Setting = Setting {
    name: "other-pmu",
    description: "PMU version 4, 2.5 cycles an instruction, skid of 7, 4 CPUs",
    x86: Some(&[
        "-c",
        "pmu-version=4,pmu-cpi-percent=250,pmu-skid=7",
        "-p",
        "4",
    ]),
    arm64: None,
    tests: &[
        "instructions_are_exact",
        "a_group_is_counted_at_once",
        "a_metric_is_counted",
        "what_an_interrupt_adds",
        "every_cpu_has_an_ipc",
        "migrat",
        "rdpmc",
        "difference",
        "in_1000_of_1000_reads",
        "counters_count_or_are_refused",
        "other_pmu",
    ],
};

/// The kernel lets no program read its counters.
pub static NO_USER_ACCESS: Setting = Setting {
    name: "no-user-access",
    description: "kernel.perf_user_access=0",
    x86: None,
    arm64: Some(&["-a", "0"]),
    tests: &[
        "instructions_are_exact",
        "every_way_to_read",
        "counters_count_or_are_refused",
        "user_access",
    ],
};

/// The kernel after the rigs' own.
pub static NEWER_KERNEL: Setting = Setting {
    name: "newer-kernel",
    description: "Linux 6.12",
    x86: Some(&["-k", "backports"]),
    arm64: Some(&["-k", "backports"]),
    tests: &[
        "instructions_are_exact",
        "a_group_is_counted_at_once",
        "what_an_interrupt_adds",
        "blocks_finds_the_loops",
        "call_stacks_of_the_branch_unit",
        "a_fixed_period",
        "in_1000_of_1000_reads",
        "every_way_to_read",
        "in_forked_children",
        "newer_kernel",
    ],
};

/// Under which privilege a suite is run, and in which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// As root: all tests.
    Root,
    /// As nobody with this `kernel.perf_event_paranoid`: the tests with `paranoid` in their name.
    Paranoid(i32),
    /// As root in a machine with other settings: the tests that it names.
    In(&'static Setting),
}

/// In the name of tests that are about a paranoid level.
const PARANOID: &str = "paranoid";

impl Privilege {
    /// The filters of the test runner; `None`: the user's filter leaves nothing to run.
    pub fn filters(self, users: Option<&str>) -> Option<Vec<String>> {
        let own: &[&str] = match self {
            Self::Root => return Some(users.map(str::to_owned).into_iter().collect()),
            Self::Paranoid(_) => &[PARANOID],
            Self::In(setting) => setting.tests,
        };
        match users {
            None => Some(own.iter().map(|&word| word.to_owned()).collect()),
            Some(filter) => own
                .iter()
                .any(|word| filter.contains(word))
                .then(|| vec![filter.to_owned()]),
        }
    }

    /// Whether this architecture's rig has such a machine.
    pub fn exists_on(self, arch: Arch) -> bool {
        match self {
            Self::In(setting) => setting.options(arch).is_some(),
            Self::Root | Self::Paranoid(_) => true,
        }
    }

    pub fn describe(self, arch: Arch) -> String {
        match self {
            Self::Root if arch == Arch::Arm64 => "as root, kernel.perf_user_access=1".to_owned(),
            Self::Root => "as root".to_owned(),
            Self::Paranoid(level) => format!("unprivileged, perf_event_paranoid={level}"),
            Self::In(setting) => format!("as root, {}", setting.description),
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
    pub programs: &'static [Program],
}

/// As whom, and in which rigs.
const EVERY_WAY: [Privilege; 10] = [
    Privilege::Root,
    Privilege::Paranoid(0),
    Privilege::Paranoid(1),
    Privilege::Paranoid(2),
    Privilege::Paranoid(3),
    Privilege::In(&NO_OVERCOUNT),
    Privilege::In(&FAULT_OVERCOUNT),
    Privilege::In(&OTHER_PMU),
    Privilege::In(&NO_USER_ACCESS),
    Privilege::In(&NEWER_KERNEL),
];

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
        programs: &[],
    },
    Suite {
        package: "truecount",
        directory: "crates/count",
        archs: &Arch::ALL,
        runs: &EVERY_WAY,
        binaries: &[],
        programs: &[
            Program {
                source: "crates/capi/tests/programs/languages/loop.c",
                variable: "TRUECOUNT_C_LOOP",
            },
            Program {
                source: "crates/capi/tests/programs/languages/loop.cpp",
                variable: "TRUECOUNT_CPP_LOOP",
            },
            Program {
                source: "crates/capi/tests/programs/languages/loop.go",
                variable: "TRUECOUNT_GO_LOOP",
            },
        ],
    },
    Suite {
        package: "truecount-cli",
        directory: "crates/cli",
        archs: &Arch::ALL,
        runs: &EVERY_WAY,
        binaries: &[Binary {
            package: "truecount-cli",
            name: "truecount",
            variable: "TRUECOUNT_BIN",
        }],
        programs: &[],
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
            Privilege::In(&NO_OVERCOUNT).filters(None),
            strings(&["no_overcount"])
        );
        assert_eq!(Privilege::In(&NO_OVERCOUNT).filters(Some("groups")), None);
        assert!(!Privilege::In(&NO_OVERCOUNT).exists_on(Arch::Arm64));
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
