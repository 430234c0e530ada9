//! Machines that are not at hand (`tests/machines`), with what their kernels refuse played by the fake one: what `check`
//! says there, and what `stat`, `record` and `top` open. `docs/machines.md` has the table; `SNAPSHOTS=overwrite` writes it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use truecount_events::tables::with_tables;
use truecount_events::{Machine, resolve};
use truecount_lab::check::{Status, of_machine};
use truecount_perf::fake::{Call, FakeKernel, Opening};
use truecount_perf::probe::Root;
use truecount_perf::{Errno, EventAttr, Facts};
use truecount_record::{Chains, Opened, Request, Scope, choose_on};
use truecount_run::source::attributes_on;

type Rule = fn(&EventAttr, &Opening) -> Option<Errno>;

/// Type and configuration.
type Code = (u32, u64);

/// A machine, what its kernel refuses, and what `perf` opens there as root.
struct Row {
    name: &'static str,
    what: &'static str,
    refuses: Rule,
    /// `perf stat -e cycles,instructions`.
    stat: &'static [Code],
    /// `perf record`, `perf top`.
    record: &'static [Code],
    /// Where that is said.
    source: &'static str,
}

const CYCLES: Code = (0, 0);
const INSTRUCTIONS: Code = (0, 1);
const CLOCK: Code = (1, 0);
const HYBRID: &[Code] = &[(0, 10 << 32), (0, 4 << 32)];

/// An event of one kind of core on a CPU of another (`x86_pmu_event_init`).
fn hybrid(attr: &EventAttr, opening: &Opening) -> Option<Errno> {
    let pmu = match attr.get_type() {
        0 => attr.get_config() >> 32,
        other => u64::from(other),
    };
    let own = match pmu {
        4 => 0..=15,
        10 => 16..=19,
        _ => return None,
    };
    (opening.cpu >= 0 && !own.contains(&opening.cpu)).then_some(Errno::ENOENT)
}

/// Precise events go to IBS, which knows two levels and no modes (`forward_event_to_ibs`, `perf_ibs_init`).
fn ibs(attr: &EventAttr) -> Option<Errno> {
    match attr.get_precise_ip() {
        0 => None,
        3 => Some(Errno::EOPNOTSUPP),
        _ if attr.get_exclude_kernel() || attr.get_exclude_user() => Some(Errno::EINVAL),
        _ => None,
    }
}

/// `amd_brs_hw_config`: one event, a fixed period above 16.
fn zen3(attr: &EventAttr, _: &Opening) -> Option<Errno> {
    let own = attr.get_config() & 0xffff == 0xc4 && attr.get_type() == 4;
    let brs = own && !attr.get_freq() && attr.get_sample_period() > 16;
    let refused = attr.get_branch_sample_type() != 0 && !brs;
    refused.then_some(Errno::EINVAL).or(ibs(attr))
}

fn zen4(attr: &EventAttr, _: &Opening) -> Option<Errno> {
    ibs(attr)
}

/// Arm before 6.6: a generic event with a PMU's number is none; no branches.
fn arm(attr: &EventAttr, opening: &Opening) -> Option<Errno> {
    let extended = attr.get_type() == 0 && attr.get_config() >> 32 != 0;
    if extended {
        return Some(Errno::ENOENT);
    }
    let refused =
        attr.get_branch_sample_type() != 0 || attr.get_type() != 1 && attr.get_exclude_idle();
    let _ = opening;
    refused.then_some(Errno::EOPNOTSUPP)
}

/// RK3399: 4 little CPUs, 2 big ones (`armpmu_event_init`: ENOENT on another kind's CPU).
fn rk3399(attr: &EventAttr, opening: &Opening) -> Option<Errno> {
    kinds(attr, opening, &[(8, 0..=3), (9, 4..=5)]).or_else(|| arm(attr, opening))
}

/// `m1_pmu_set_event_filter`: guests must be left out.
fn apple(attr: &EventAttr, opening: &Opening) -> Option<Errno> {
    let guests = attr.get_type() != 1 && !attr.get_exclude_guest();
    guests
        .then_some(Errno::EOPNOTSUPP)
        .or_else(|| kinds(attr, opening, &[(10, 0..=3), (11, 4..=7)]))
        .or_else(|| arm(attr, opening))
}

fn kinds(
    attr: &EventAttr,
    opening: &Opening,
    own: &[(u32, std::ops::RangeInclusive<i32>)],
) -> Option<Errno> {
    let elsewhere = own
        .iter()
        .any(|(type_, cpus)| *type_ == attr.get_type() && !cpus.contains(&opening.cpu));
    (opening.cpu >= 0 && elsewhere).then_some(Errno::ENOENT)
}

fn no_pmu(attr: &EventAttr, _: &Opening) -> Option<Errno> {
    (attr.get_type() != 1).then_some(Errno::ENOENT)
}

fn filtered(_: &EventAttr, _: &Opening) -> Option<Errno> {
    Some(Errno::EPERM)
}

const ROWS: &[Row] = &[
    Row {
        name: "alder-lake",
        what: "hybrid Intel (P- and E-cores)",
        refuses: hybrid,
        stat: &[
            (0, 10 << 32),
            (0, 4 << 32),
            (0, 10 << 32 | 1),
            (0, 4 << 32 | 1),
        ],
        record: HYBRID,
        source: "tools/perf/Documentation/intel-hybrid.txt",
    },
    Row {
        name: "zen3",
        what: "AMD Zen 3 (BRS)",
        refuses: zen3,
        stat: &[CYCLES, INSTRUCTIONS],
        record: &[CYCLES],
        source: "perf-record(1), perf-amd-ibs(1)",
    },
    Row {
        name: "zen4",
        what: "AMD Zen 4 (LBR v2)",
        refuses: zen4,
        stat: &[CYCLES, INSTRUCTIONS],
        record: &[CYCLES],
        source: "perf-record(1), perf-amd-ibs(1)",
    },
    Row {
        name: "neoverse-n1",
        what: "Arm Neoverse N1 (Graviton 2)",
        refuses: arm,
        stat: &[CYCLES, INSTRUCTIONS],
        record: &[CYCLES],
        source: "perf-stat(1)",
    },
    Row {
        name: "rk3399",
        what: "big.LITTLE (RK3399), Linux 6.1",
        refuses: rk3399,
        stat: &[(8, 0x11), (9, 0x11), (8, 0x08), (9, 0x08)],
        record: &[(8, 0x11), (9, 0x11)],
        source: "an event a core PMU, as perf does from Linux 6.6 on (extended type); before, it counts one kind of core only",
    },
    Row {
        name: "apple-m1",
        what: "Apple M1, Linux 6.5",
        refuses: apple,
        stat: &[(11, 0x02), (10, 0x02), (11, 0x8c), (10, 0x8c)],
        record: &[(11, 0x02), (10, 0x02)],
        source: "drivers/perf/apple_m1_cpu_pmu.c; perf sets exclude_guest",
    },
    Row {
        name: "xen-guest",
        what: "Xen guest without vpmu",
        refuses: no_pmu,
        stat: &[],
        record: &[CLOCK],
        source: "perf-record(1): cpu-clock where cycles are not supported",
    },
    Row {
        name: "vmware",
        what: "VMware guest without vpmc",
        refuses: no_pmu,
        stat: &[],
        record: &[CLOCK],
        source: "as Xen",
    },
    Row {
        name: "nitro",
        what: "EC2 instance without PMU",
        refuses: no_pmu,
        stat: &[],
        record: &[CLOCK],
        source: "as Xen",
    },
    Row {
        name: "hosted-ci",
        what: "hosted CI runner (Azure)",
        refuses: no_pmu,
        stat: &[],
        record: &[CLOCK],
        source: "as Xen",
    },
    Row {
        name: "wsl2",
        what: "WSL 2 without PMU",
        refuses: no_pmu,
        stat: &[],
        record: &[CLOCK],
        source: "as Xen",
    },
    Row {
        name: "container",
        what: "docker's default profile",
        refuses: filtered,
        stat: &[],
        record: &[],
        source: "perf_event_open(2), EPERM",
    },
];

fn kernel(root: &Path, rule: Rule) -> FakeKernel {
    let fake = FakeKernel::new();
    let mut facts = Facts::gather(&Root::at(root));
    // As root; in a container without its rights.
    facts.cap_sys_admin = facts.container.is_none();
    facts.cap_perfmon = facts.cap_sys_admin;
    fake.set_facts(|all| *all = facts);
    fake.on_open(move |opening| rule(&EventAttr::from_raw(opening.attr), opening));
    fake
}

fn unpack(name: &str) -> PathBuf {
    truecount_testing::machine(
        name,
        &truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")),
    )
}

fn code(attr: &EventAttr) -> Code {
    (attr.get_type(), attr.get_config())
}

/// What `stat -e cycles,instructions` counts with.
fn stat(row: &Row, root: &Path) -> Result<Vec<EventAttr>, String> {
    let fake = kernel(root, row.refuses);
    let machine = with_tables(Machine::at(root));
    let resolved = resolve("cycles,instructions", &machine).unwrap();
    let mut all = Vec::new();
    for event in resolved.events() {
        let attrs = attributes_on(&fake.shared(), event);
        all.extend(attrs.map_err(|reason| reason.to_string())?);
    }
    Ok(all)
}

/// What `record -a` (`live`: `top`) samples with, event by event and CPU by CPU.
fn sampled(row: &Row, root: &Path, live: bool) -> Result<BTreeMap<i32, Vec<EventAttr>>, String> {
    let fake = kernel(root, row.refuses);
    let machine = with_tables(Machine::at(root));
    let request = Request {
        chains: live.then_some(Chains::Fp),
        max_stack: if live { 2 } else { 0 },
        brief: live,
        ..Request::default()
    };
    let mut chosen =
        choose_on(&request, &fake.shared(), &machine).map_err(|error| error.to_string())?;
    if live {
        for event in &mut chosen.events {
            event.attr = event.attr.exclude_idle(true);
        }
    }
    let before = fake.calls().len();
    let root = Root::at(root);
    let opened = Opened::open_on(&chosen, &Scope::Machine, 1, &fake.shared(), &root)
        .map_err(|error| error.to_string())?;
    assert_eq!(opened.attrs.len(), chosen.events.len());
    let mut by_cpu: BTreeMap<i32, Vec<EventAttr>> = BTreeMap::new();
    for call in fake.calls().iter().skip(before) {
        if let Call::Open { opening, result } = call
            && result.is_ok()
        {
            let attr = EventAttr::from_raw(opening.attr);
            by_cpu.entry(opening.cpu).or_default().push(attr);
        }
    }
    Ok(by_cpu)
}

/// Each once, in the order of the first CPU that has it.
fn distinct(by_cpu: &BTreeMap<i32, Vec<EventAttr>>) -> Vec<Code> {
    let mut all = Vec::new();
    for code in by_cpu.values().flatten().map(code) {
        if !all.contains(&code) {
            all.push(code);
        }
    }
    all
}

fn sorted(codes: &[Code]) -> Vec<Code> {
    let mut codes = codes.to_vec();
    codes.sort_unstable();
    codes
}

/// `0:0x400000000 0:0xa00000000`.
fn written(codes: &[Code]) -> String {
    let one = |(type_, config): &Code| format!("{type_}:{config:#x}");
    let all: Vec<String> = sorted(codes).iter().map(one).collect();
    match all.is_empty() {
        true => "refused".to_owned(),
        false => all.join(" "),
    }
}

#[test]
fn every_machine_is_counted_and_sampled_as_perf_does() {
    let mut table = String::from(
        "| machine | `check` | `stat -e cycles,instructions` | `record`, `top` | as perf, by |\n|---|---|---|---|---|\n",
    );
    for row in ROWS {
        let root = unpack(row.name);
        let found = of_machine(&Root::at(&root), &kernel(&root, row.refuses).shared());
        let hardware = found.iter().find(|f| f.name == "hardware").unwrap();
        let branches = found.iter().find(|f| f.name == "lbr").unwrap();
        let counted = stat(row, &root);
        let codes: Vec<Code> = counted.iter().flatten().map(code).collect();
        assert_eq!(sorted(&codes), sorted(row.stat), "{}: stat", row.name);
        assert_eq!(
            hardware.status == Status::Ok,
            !row.stat.is_empty(),
            "{}: {hardware:?}",
            row.name
        );
        let mut both = Vec::new();
        for live in [false, true] {
            let by_cpu = sampled(row, &root, live);
            let codes = by_cpu.as_ref().map_or(Vec::new(), distinct);
            assert_eq!(
                sorted(&codes),
                sorted(row.record),
                "{}: live {live}: {by_cpu:?}",
                row.name
            );
            for attrs in by_cpu.iter().flat_map(BTreeMap::values) {
                // Every CPU has an event, and one that writes what happens to processes.
                assert_eq!(attrs.len(), 1, "{}: {attrs:?}", row.name);
                let first = attrs.first().unwrap();
                assert!(first.get_mmap2() && first.get_task(), "{}", row.name);
                assert!(
                    !first.get_freq() || row.name == "-",
                    "{}: {first:?}",
                    row.name
                );
            }
            both = codes;
        }
        if row.name == "apple-m1" {
            let excluded = counted.iter().flatten().all(EventAttr::get_exclude_guest);
            assert!(excluded, "guests are to be left out");
        }
        let says = match hardware.status {
            Status::Ok => match branches.status {
                Status::Ok => "counters, branch stacks".to_owned(),
                _ => "counters".to_owned(),
            },
            _ => format!(
                "{}; {}",
                hardware.detail,
                hardware.hint.as_deref().unwrap_or("no hint")
            ),
        };
        writeln!(
            table,
            "| {} | {says} | {} | {} | {} |",
            row.what,
            written(&codes),
            written(&both),
            row.source
        )
        .unwrap();
    }
    compare(&table);
}

/// The table in the documentation.
fn compare(table: &str) {
    let page = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/machines.md"
    ));
    let text = std::fs::read_to_string(page).unwrap();
    let (begin, end) = ("<!-- table of machines -->\n", "<!-- end -->");
    let (head, rest) = text.split_once(begin).expect("the mark of the table");
    let (old, tail) = rest.split_once(end).expect("the end of the table");
    if std::env::var("SNAPSHOTS").is_ok_and(|action| action == "overwrite") {
        std::fs::write(page, format!("{head}{begin}{table}{end}{tail}")).unwrap();
        return;
    }
    assert_eq!(old, table, "SNAPSHOTS=overwrite writes docs/machines.md");
}

#[test]
fn branches_of_zen_3_are_sampled_with_its_own_event() {
    let root = unpack("zen3");
    let fake = kernel(&root, zen3);
    let machine = with_tables(Machine::at(&root));
    let chosen = |request: Request<'_>| {
        let request = Request {
            branches: true,
            ..request
        };
        choose_on(&request, &fake.shared(), &machine)
    };
    let chosen_events = |request| chosen(request).unwrap().events;
    let plain = chosen_events(Request::default());
    let attr = plain.first().unwrap().attr;
    assert_eq!(code(&attr), (4, 0xc4));
    assert!(!attr.get_freq() && attr.get_sample_period() == 1_000_003);
    let raw = chosen_events(Request {
        event: Some("r00c4:u"),
        period: Some(5_003),
        ..Request::default()
    });
    assert_eq!(raw.first().unwrap().attr.get_sample_period(), 5_003);
    let refused = [
        (Some("cycles"), None, None, "branch-brs only"),
        (None, None, Some(4000), "fixed period"),
        (None, Some(16), None, "too short"),
    ];
    for (event, period, frequency, says) in refused {
        let error = chosen(Request {
            event,
            period,
            frequency,
            ..Request::default()
        })
        .err()
        .unwrap();
        let text = format!("{error}");
        assert!(text.contains(says), "{text}");
    }
    // Without branches it is a machine as others.
    let request = Request::default();
    let events = choose_on(&request, &fake.shared(), &machine)
        .unwrap()
        .events;
    assert_eq!(code(&events.first().unwrap().attr), CYCLES);
}

/// Names of an event that each kind of core numbers in its own way are looked up in that kind's table.
#[test]
fn each_kind_of_core_has_its_own_table() {
    let root = unpack("rk3399");
    let machine = with_tables(Machine::at(&root));
    let codes = |name: &str| -> Vec<Code> {
        let resolved = resolve(name, &machine).unwrap();
        let encodings = resolved.events().map(|event| event.encoding().unwrap());
        encodings.map(|e| (e.type_, e.config)).collect()
    };
    // In both tables; in the A72's only; in the A53's only.
    assert_eq!(codes("bus_access_rd"), [(8, 0x60), (9, 0x60)]);
    assert_eq!(codes("l1d_cache_refill_rd"), [(9, 0x42)]);
    assert_eq!(codes("br_cond_mispred").len(), 1);
    assert_eq!(codes("br_cond_mispred").first().unwrap().0, 8);
    let wrong = resolve("armv8_cortex_a53/l1d_cache_refill_rd/", &machine);
    assert!(wrong.is_err(), "{wrong:?}");
}

/// Where the sysctl forbids all, the hint has the level for what needs more than user mode, too.
#[test]
fn a_level_that_forbids_all_is_told_with_those_that_allow() {
    let root = unpack("zen4");
    let fake = kernel(&root, |_, _| Some(Errno::EACCES));
    let mut facts = Facts::gather(&Root::at(&root));
    (facts.cap_sys_admin, facts.cap_perfmon) = (false, false);
    facts.paranoid = Some(3);
    fake.set_facts(|all| *all = facts);
    let found = of_machine(&Root::at(&root), &fake.shared());
    let hardware = found.iter().find(|f| f.name == "hardware").unwrap();
    let hint = hardware.hint.as_deref().unwrap_or_default();
    let levels = "kernel.perf_event_paranoid=2 (1 to count in the kernel, 0 for whole CPUs)";
    assert!(hint.contains(levels), "{hardware:?}");
}
