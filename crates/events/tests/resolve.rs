//! Resolving against sysfs trees.

#![allow(clippy::unwrap_used, reason = "tests")]

mod tree;

use tree::{hybrid, skylake};
use truecount_events::{
    Catalogue, Cpus, Definition, ErrorKind, Event, Kind, Machine, Origin, Special, resolve,
};

fn one(expression: &str, machine: &Machine) -> Event {
    let resolved = resolve(expression, machine).unwrap();
    let mut events: Vec<Event> = resolved.events().cloned().collect();
    assert_eq!(events.len(), 1, "{expression}");
    events.remove(0)
}

fn words(event: &Event) -> (u32, [u64; 4]) {
    let e = event.encoding().unwrap();
    (e.type_, [e.config, e.config1, e.config2, e.config3])
}

#[test]
fn terms_fill_the_bits_that_sysfs_names() {
    let tree = skylake();
    let machine = tree.machine();
    for (expression, config, config1) in [
        ("cpu/event=0xc4,umask=0x20/", 0x20c4, 0),
        ("cpu/event=0x3c,cmask=1,inv,edge/", 0x0184_003c, 0),
        ("cpu/r01cb/", 0x01cb, 0),
        ("cpu/config=0x01cb,config1=7/", 0x01cb, 7),
        ("cpu/mem-loads/", 0x1cd, 3),
        ("cpu/mem-loads,ldlat=30/", 0x1cd, 30),
        ("cpu/ldlat=30,mem-loads/", 0x1cd, 30),
        ("cpu/event=0xc4,event=0xc5/", 0xc5, 0),
        ("mem-loads", 0x1cd, 3),
        ("MEM-LOADS", 0x1cd, 3),
    ] {
        let event = one(expression, &machine);
        assert_eq!(words(&event), (4, [config, config1, 0, 0]), "{expression}");
    }
}

#[test]
fn modifiers_become_exclude_bits() {
    let machine = Machine::unknown();
    let bits = |expression: &str| {
        let e = one(expression, &machine).encoding().unwrap().clone();
        (
            e.exclude_user,
            e.exclude_kernel,
            e.exclude_hv,
            e.exclude_host,
            e.exclude_guest,
        )
    };
    assert_eq!(bits("cycles"), (false, false, false, false, false));
    assert_eq!(bits("cycles:u"), (false, true, true, false, false));
    assert_eq!(bits("cycles:k"), (true, false, true, false, false));
    assert_eq!(bits("cycles:uk"), (false, false, true, false, false));
    assert_eq!(bits("cycles:h"), (true, true, false, false, false));
    assert_eq!(bits("cycles:G"), (false, false, false, true, false));
    assert_eq!(bits("cycles:uH"), (false, true, true, false, true));
    let e = one("cycles:ppDSIe", &machine).encoding().unwrap().clone();
    assert!(e.pinned && e.sample_read && e.exclude_idle && e.exclusive && !e.max_precise);
    assert_eq!(e.precise_ip, 2);
    assert!(one("cycles:P", &machine).encoding().unwrap().max_precise);
}

#[test]
fn groups_share_modifiers_and_only_the_leader_is_pinned() {
    let resolved = resolve(
        "{cycles:u,branches}:kD,{instructions,cs}:W",
        &Machine::unknown(),
    )
    .unwrap();
    let [first, second] = resolved.groups.as_slice() else {
        panic!()
    };
    let names: Vec<_> = resolved.events().map(|e| e.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "cycles:uk",
            "branches:k",
            "instructions",
            "context-switches"
        ]
    );
    let pinned: Vec<_> = first
        .events
        .iter()
        .map(|e| e.encoding().unwrap().pinned)
        .collect();
    assert_eq!(pinned, [true, false]);
    assert!(first.braces && !first.weak && second.weak);
}

#[test]
fn units_scales_and_cpumasks_come_along() {
    let tree = skylake();
    let machine = tree.machine();
    let energy = one("power/energy-pkg/", &machine);
    assert_eq!(
        (energy.unit.as_str(), energy.cpus.clone()),
        ("Joules", Cpus::Package(vec![0]))
    );
    assert!((energy.scale - 2.328_306_436_538_696_3e-10).abs() < 1e-24);
    assert_eq!(one("energy-pkg", &machine).name, "energy-pkg");
    assert_eq!(one("task-clock:u", &machine).unit, "ns");
    let both = resolve("imc/event=1/", &machine).unwrap();
    let types: Vec<_> = both.events().map(|e| words(e).0).collect();
    assert_eq!(types, [18, 19]);
}

#[test]
fn parametrised_events_want_their_parameter() {
    let tree = skylake();
    let machine = tree.machine();
    assert_eq!(
        words(&one("hv_24x7/CYCLES,core=5/", &machine)).1[0],
        0x5_0002
    );
    let error = resolve("hv_24x7/CYCLES/", &machine).unwrap_err();
    assert_eq!(
        error.kind,
        ErrorKind::MissingValue {
            term: "core".to_owned()
        }
    );
}

#[test]
fn generic_names_on_a_hybrid_machine_become_one_event_per_core_pmu() {
    let tree = hybrid();
    let machine = tree.machine();
    let resolved = resolve(
        "instructions:u,r00c0:u,cpu_atom/instructions/u,slots,page-faults",
        &machine,
    )
    .unwrap();
    let got: Vec<_> = resolved
        .events()
        .map(|e| (e.name.as_str(), words(e).0, words(e).1[0]))
        .collect();
    assert_eq!(
        got,
        [
            ("cpu_atom/instructions/u", 0, 10 << 32 | 1),
            ("cpu_core/instructions/u", 0, 4 << 32 | 1),
            ("cpu_atom/r00c0/u", 10, 0xc0),
            ("cpu_core/r00c0/u", 4, 0xc0),
            ("cpu_atom/instructions/u", 0, 10 << 32 | 1),
            ("slots", 4, 0x400),
            ("page-faults", 1, 2),
        ]
    );
    let first = resolved.events().next().unwrap();
    assert_eq!(first.cpus, Cpus::Core(vec![4, 5, 6, 7]));
    // `cpu` means every core PMU.
    assert_eq!(
        resolve("cpu/event=1/", &machine).unwrap().events().count(),
        2
    );
}

#[test]
fn special_kinds() {
    let machine = Machine::unknown();
    let event = one("instructions-minus-irqs:u", &machine);
    assert_eq!(event.kind, Kind::Special(Special::InstructionsMinusIrqs));
    assert_eq!(
        one("instructions-minus-irqs", &machine).name,
        "instructions-minus-irqs:u"
    );
    assert_eq!(one("duration_time", &machine).name, "wall-time");
    assert_eq!(one("user-time", &machine).unit, "ns");
    assert_eq!(one("zero", &machine).origin, Origin::Special);
    for bad in [
        "wall-time:u",
        "instructions-minus-irqs:k",
        "instructions-minus-irqs:up",
    ] {
        let error = resolve(bad, &machine).unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::ModifierNotAllowed { .. }),
            "{bad}: {error}"
        );
    }
}

#[test]
fn tracepoints() {
    let tree = skylake();
    let machine = tree.machine();
    let event = one("sched:sched_switch:u", &machine);
    assert_eq!(
        (event.name.as_str(), words(&event)),
        ("sched:sched_switch:u", (2, [318, 0, 0, 0]))
    );
    let error = resolve("sched:sched_swich", &machine).unwrap_err();
    assert_eq!(error.near, ["sched:sched_switch"]);
    let error = resolve("schd:sched_switch", &machine).unwrap_err();
    assert_eq!(error.near, ["sched:sched_switch"]);
    let error = resolve("sched:sched_switch", &Machine::unknown()).unwrap_err();
    assert!(error.to_string().contains("tracefs"), "{error}");
}

#[test]
fn settings() {
    let tree = skylake();
    let machine = tree.machine();
    let event = one(
        "cpu/event=0xc4,period=1000,name='taken branches'/u",
        &machine,
    );
    assert_eq!(
        (event.name.as_str(), event.encoding().unwrap().period),
        ("taken branches:u", Some(1000))
    );
    let event = one("cycles/freq=99/u", &machine);
    assert_eq!(
        (event.name.as_str(), event.encoding().unwrap().frequency),
        ("cycles:u", Some(99))
    );
}

#[test]
fn without_a_core_pmu_x86_terms_still_resolve() {
    let tree = tree::Tree::new(&[(
        "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nstepping\t: 1\n",
    )]);
    let event = one("cpu/event=0x1a0,umask=0x1e,cmask=2/u", &tree.machine());
    assert_eq!(words(&event), (4, [0x1_0200_1ea0, 0, 0, 0]));
    assert_eq!(
        words(&one("cpu/instructions/u", &tree.machine())),
        (0, [1, 0, 0, 0])
    );
}

#[derive(Debug)]
struct Table;

impl Catalogue for Table {
    fn find(&self, name: &str, pmu: Option<&str>) -> Vec<Definition> {
        let here = pmu.is_none_or(|p| p == "cpu");
        let known = here && name.eq_ignore_ascii_case("BR_INST_RETIRED.NEAR_TAKEN");
        let definition = Definition {
            name: "BR_INST_RETIRED.NEAR_TAKEN".to_owned(),
            pmu: "cpu".to_owned(),
            terms: "event=0xc4,umask=0x20".to_owned(),
            unit: None,
            scale: None,
            precise: false,
        };
        if known { vec![definition] } else { Vec::new() }
    }

    fn names(&self, _pmu: Option<&str>) -> Vec<String> {
        vec!["BR_INST_RETIRED.NEAR_TAKEN".to_owned()]
    }
}

#[test]
fn a_catalogue_adds_names() {
    let tree = skylake();
    let machine = tree.machine().with_catalogue(Table);
    for expression in [
        "br_inst_retired.near_taken:u",
        "cpu/BR_INST_RETIRED.NEAR_TAKEN/u",
    ] {
        assert_eq!(
            words(&one(expression, &machine)),
            (4, [0x20c4, 0, 0, 0]),
            "{expression}"
        );
    }
    let hybrid = hybrid();
    let machine_of_two = hybrid.machine().with_catalogue(Table);
    assert_eq!(
        resolve("br_inst_retired.near_taken:u", &machine_of_two)
            .unwrap()
            .events()
            .count(),
        2
    );
    let error = resolve("br_inst_retired.near_takn", &machine).unwrap_err();
    assert_eq!(error.near, ["BR_INST_RETIRED.NEAR_TAKEN"]);
}

#[test]
fn errors_say_where_and_what_is_near() {
    let tree = skylake();
    let machine = tree.machine();
    for (expression, column, part, near) in [
        (
            "cycles,instrutions:u",
            8,
            "unknown event",
            Some("instructions"),
        ),
        ("cpu/evnt=1/", 5, "no term", Some("event")),
        ("cpu/mem-lods/", 5, "no event or term", Some("mem-loads")),
        ("cpv/event=1/", 1, "no PMU", Some("cpu")),
        ("cpu/umask=0x100/", 5, "largest value is 0xff", None),
        ("cpu/umask=x/", 5, "not a number", None),
        ("cpu/config=/", 12, "expected a value", None),
        ("cpu/config/", 5, "needs a value", None),
        ("instructions:x", 14, "unknown modifier", None),
        ("instructions:user", 15, "unknown modifier", None),
        ("energy-pgk", 1, "unknown event", Some("energy-pkg")),
    ] {
        let error = resolve(expression, &machine).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.column(), column, "{text}");
        assert!(text.contains(part), "{expression}: {text}");
        assert_eq!(error.near.first().map(String::as_str), near, "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn broken_sysfs_files_are_named() {
    let tree = skylake();
    let machine = tree.machine();
    let format = resolve("broken/event=1/", &machine)
        .unwrap_err()
        .to_string();
    assert!(
        format.contains("broken/format/event: expected a format"),
        "{format}"
    );
    let scale = resolve("broken/scaled/", &machine).unwrap_err().to_string();
    assert!(scale.contains("scaled.scale: expected a number"), "{scale}");
    assert!(resolve("broken/odd/", &machine).is_err());
}

#[test]
fn this_machine() {
    // Whatever the machine: generic names resolve (to several events on a hybrid one).
    let machine = Machine::this();
    assert!(
        resolve(
            "instructions:u,L1-dcache-load-misses:u,task-clock",
            &machine
        )
        .unwrap()
        .events()
        .count()
            >= 3
    );
}

/// Opening a counter must take two milliseconds at most, and `/proc/cpuinfo` alone may take more: it is read when the CPU
/// is asked for, not before, and not for generic names on x86.
#[test]
fn the_cpu_is_looked_at_when_it_is_asked_for() {
    const LATER: &str =
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 94\nstepping\t: 3\n\n";
    for tree in [skylake(), hybrid()] {
        let _ = std::fs::remove_file(tree.path().join("proc/cpuinfo"));
        let machine = tree.machine();
        resolve("instructions:u,cycles:u", &machine).unwrap();
        tree.write("proc/cpuinfo", LATER);
        let cpu = machine.cpu().expect("it was asked for before it was there");
        assert_eq!((cpu.family, cpu.model), (6, 94));
    }
}
