//! Metrics with a scripted PMU and constructed counts.

use std::io::Write as _;

use truecount_events::tables::with_tables;
use truecount_events::{Cpu, Vendor};
use truecount_perf::fake::FakeKernel;

use super::*;
use crate::error::ErrorKind;
use crate::result::RunResult;
use crate::session::Session;
use crate::source::{Interval, Run, Target, fits_on};
use truecount_model::Reason;
use truecount_model::{Measured, Precision, SourceKind};

/// A source that counts everything the scripted PMU has room for.
struct Scripted(FakeKernel);

impl Source for Scripted {
    fn kind(&self) -> SourceKind {
        SourceKind::Hardware
    }

    fn default_events(&self, _target: Target) -> &'static str {
        ""
    }

    fn counts(&self, _wanted: &EventRequest) -> Result<(), Reason> {
        Ok(())
    }

    fn fits(&self, groups: &[RequestGroup]) -> bool {
        fits_on(&self.0.ticking(), groups)
    }

    fn run(
        &mut self,
        _session: &mut Session,
        _run: &Run<'_>,
        _interval: Option<Interval<'_>>,
    ) -> Result<RunResult, Error> {
        Err(Error::new(ErrorKind::Setup, "this source only plans"))
    }
}

fn skylake() -> Machine {
    with_tables(Machine::unknown().with_cpu(Cpu {
        vendor: Vendor::Intel,
        family: 6,
        model: 0x5e,
        stepping: 3,
    }))
}

fn asked(names: &[&str], counters: usize) -> Asked {
    let fake = FakeKernel::new();
    fake.set_counters(counters);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut asked = Asked::new(&names, &[], &skylake(), &Scripted(fake)).unwrap();
    // Whatever machine the test runs on.
    asked.context.smt = Some(false);
    asked
}

fn names(asked: &Asked) -> Vec<Vec<String>> {
    let members = |group: RequestGroup| group.members.into_iter().map(|w| w.name).collect();
    asked.groups().into_iter().map(members).collect()
}

/// Readings of every group: by the event's name, the count and whether it was scaled.
fn readings(asked: &Asked, counts: &[(&str, u64)], precision: Precision) -> Vec<Vec<Reading>> {
    let one = |wanted: &EventRequest| {
        let plain = wanted.name.split(':').next().unwrap_or("");
        match counts.iter().find(|(name, _)| *name == plain) {
            Some(&(_, value)) => Reading::new(
                &wanted.name,
                "count",
                Measured::Value {
                    value,
                    source: SourceKind::Hardware,
                    precision,
                },
            ),
            None => Reading::missing(&wanted.name, "count", "no PMU"),
        }
    };
    let groups = asked.groups();
    groups
        .iter()
        .map(|group| group.members.iter().map(one).collect())
        .collect()
}

fn values(asked: &Asked, readings: &[Vec<Reading>]) -> Values {
    asked.values(&|group| readings.get(group).map(Vec::as_slice), 1_000)
}

#[test]
fn ipc_is_cycles_and_instructions_in_one_group() {
    let asked = asked(&["IPC:u"], 4);
    assert_eq!(names(&asked), [["cycles:u", "instructions:u"]]);
    let counts = [("cycles", 200), ("instructions", 300)];
    let values = values(&asked, &readings(&asked, &counts, Precision::Counted));
    let row = &values.metrics[0];
    assert_eq!((row.result.value(), row.together), (Some(1.5), true));
    assert_eq!(row.result.source(), Some(SourceKind::Hardware));
    assert_eq!(row.result.precision(), Some(Precision::Counted));
    assert_eq!(row.threshold, None);
}

#[test]
fn groups_are_as_large_as_the_kernel_takes() {
    // Top-down level 1 of Skylake needs five events.
    assert_eq!(asked(&["topdown-1:u"], 8).groups().len(), 1);
    let small = asked(&["topdown-1:u"], 2);
    assert!(small.groups().len() > 1);
    assert!(small.groups().iter().all(|group| group.members.len() <= 2));
    // The NMI watchdog holds one of two: nothing fits together, and everything is still counted.
    let fake = FakeKernel::new();
    fake.set_counters(2);
    fake.set_stolen(1);
    let asked = Asked::new(&["ipc:u".to_owned()], &[], &skylake(), &Scripted(fake)).unwrap();
    assert_eq!(names(&asked), [["cycles:u"], ["instructions:u"]]);
    let counts = [("cycles", 100), ("instructions", 50)];
    let values = values(&asked, &readings(&asked, &counts, Precision::Scaled));
    let row = &values.metrics[0];
    assert_eq!((row.result.value(), row.together), (Some(0.5), false));
    assert_eq!(row.result.precision(), Some(Precision::Scaled));
}

#[test]
fn thresholds_say_what_to_look_at_next() {
    let asked = asked(&["branch-mpki"], 4);
    let counts = [
        ("instructions", 1_000),
        ("branch-misses", 20),
        ("cycles", 1),
    ];
    let values = values(&asked, &readings(&asked, &counts, Precision::Counted));
    let row = &values.metrics[0];
    assert_eq!(
        (row.result.value(), row.threshold),
        (Some(20.0), Some(10.0))
    );
    assert!(row.next.as_deref().unwrap().contains("blocks"), "{row:?}");
}

#[test]
fn what_was_not_counted_says_why() {
    let asked = asked(&["ipc:u"], 4);
    let values = values(
        &asked,
        &readings(&asked, &[("cycles", 5)], Precision::Counted),
    );
    let row = &values.metrics[0];
    assert_eq!((row.result.value(), row.result.source()), (None, None));
    let reason = row.result.cause();
    assert!(
        reason.contains("instructions") && reason.contains("no PMU"),
        "{reason}"
    );
}

#[test]
fn a_sum_that_is_not_100_percent_is_reported() {
    let asked = asked(&["topdown-1:u"], 8);
    let good = [
        ("CPU_CLK_UNHALTED.THREAD", 1_000),
        ("IDQ_UOPS_NOT_DELIVERED.CORE", 800),
        ("UOPS_ISSUED.ANY", 2_000),
        ("UOPS_RETIRED.RETIRE_SLOTS", 1_800),
        ("INT_MISC.RECOVERY_CYCLES", 50),
    ];
    let whole = values(&asked, &readings(&asked, &good, Precision::Counted));
    assert_eq!(whole.metrics.len(), 4);
    let frontend = whole
        .metrics
        .iter()
        .find(|m| m.metric == "frontend-bound:u");
    assert_eq!(frontend.unwrap().result.value(), Some(20.0));
    assert!(whole.metric_sums[0].holds, "{whole:?}");
    assert_eq!(whole.metric_sums[0].warning(), None);
    // More retired than issued: a part below 0.
    let mut wrong = good;
    wrong[3].1 = 3_000;
    let off = values(&asked, &readings(&asked, &wrong, Precision::Scaled));
    let warning = off.metric_sums[0].warning().unwrap();
    assert!(warning.contains("bad-speculation"), "{warning}");
}

#[test]
fn a_run_without_the_group_has_no_row() {
    let asked = asked(&["ipc:u"], 4);
    assert!(asked.values(&|_| None, 1).metrics.is_empty());
}

#[test]
fn unknown_names_are_told_with_near_ones_and_other_cpus() {
    let fails = |name: &str| {
        let source = Scripted(FakeKernel::new());
        let error = Asked::new(&[name.to_owned()], &[], &skylake(), &source);
        let Err(failure) = error else {
            panic!("{name} is known")
        };
        assert_eq!(failure.kind, ErrorKind::Usage);
        failure.to_string()
    };
    assert!(fails("ipcc").contains("ipc"));
    assert!(fails("smt-contention").contains("amdzen"));
    assert!(fails("ipc:zz").contains("modifier"));
}

#[test]
fn a_users_file_adds_metrics_and_replaces_packs() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = r#"
[[pack]]
name = "own"
cpus = ["*"]
source = "this test"
events = { F = "page-faults", C = "cycles" }
[[pack.metric]]
name = "faults-per-kilocycle"
formula = "1000 * F / C"
unit = "per 1000 cycles"
above = 1.0
about = "Faults."
"#;
    file.write_all(text.as_bytes()).unwrap();
    let files = [file.path().to_owned()];
    let names = ["own".to_owned()];
    let source = Scripted(FakeKernel::new());
    let asked = Asked::new(&names, &files, &skylake(), &source).unwrap();
    let counts = [("page-faults", 5), ("cycles", 1_000)];
    let values = values(&asked, &readings(&asked, &counts, Precision::Counted));
    assert_eq!(values.metrics[0].result.value(), Some(5.0));
    assert_eq!(values.metrics[0].threshold, Some(1.0));
    assert_eq!(values.metrics[0].next, None);
    std::fs::write(file.path(), "[[pack]]\nname = 5\n").unwrap();
    let Err(failure) = Asked::new(&names, &files, &skylake(), &source) else {
        panic!("a wrong file is taken")
    };
    assert!(failure.to_string().contains("--metrics-file"), "{failure}");
}
