//! Machines that are not at hand, from their files (`tests/machines`) and with the refusals of their kernels: what is
//! opened there is what `perf` would open, or the error says what is missing and what to do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::{Path, PathBuf};
use truecount::perf::fake::{Call, FakeKernel, Opening};
use truecount::perf::probe::Root;
use truecount::perf::{Errno, Event, EventAttr, Facts, OpenOptions, Target};
use truecount::{Counter, Options};
use truecount_events::{Cpus, Machine, resolve};

/// A machine's files, in a directory of their own.
fn unpack(name: &str) -> PathBuf {
    truecount_testing::machine(
        name,
        &truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")),
    )
}

/// The machine's kernel: its facts, and `refuse` for what it does not take.
fn kernel(root: &Path, refuse: fn(&EventAttr, &Opening) -> Option<Errno>) -> FakeKernel {
    let fake = FakeKernel::new();
    let facts = Facts::gather(&Root::at(root));
    fake.set_facts(|all| *all = facts.clone());
    fake.on_open(move |opening| refuse(&EventAttr::from_raw(opening.attr), opening));
    fake
}

/// (type, config, exclude_guest) of what was accepted last.
fn accepted(fake: &FakeKernel) -> (u32, u64, bool) {
    let calls = fake.calls();
    let last = calls.iter().rev().find_map(|call| match call {
        Call::Open {
            opening, result, ..
        } if result.is_ok() => Some(EventAttr::from_raw(opening.attr)),
        _ => None,
    });
    let attr = last.unwrap();
    (attr.get_type(), attr.get_config(), attr.get_exclude_guest())
}

/// Opens every event that the expression means on this machine; what the kernel accepted for each.
fn opened(root: &Path, fake: &FakeKernel, expression: &str) -> Vec<(String, (u32, u64, bool))> {
    let resolved = resolve(expression, &Machine::at(root)).unwrap();
    resolved
        .events()
        .map(|event| {
            let attr = EventAttr::from(event.encoding().unwrap());
            let options = OpenOptions::default();
            Event::open_with(&fake.shared(), &attr, Target::CallingThread, options)
                .unwrap_or_else(|error| panic!("{}: {error}", event.name));
            (event.name.clone(), accepted(fake))
        })
        .collect()
}

fn nothing(_: &EventAttr, _: &Opening) -> Option<Errno> {
    None
}

/// Arm kernels before 6.6: a generic event with a PMU's number is none.
fn no_extended_types(attr: &EventAttr) -> Option<Errno> {
    (attr.get_type() == 0 && attr.get_config() >> 32 != 0).then_some(Errno::ENOENT)
}

fn no_pmu(attr: &EventAttr, _: &Opening) -> Option<Errno> {
    (attr.get_type() != 1).then_some(Errno::ENOENT)
}

#[test]
fn hybrid_intel_opens_one_event_a_core_pmu() {
    let root = unpack("alder-lake");
    let fake = kernel(&root, nothing);
    let names: Vec<_> = opened(&root, &fake, "cycles:u,instructions:u");
    let want = [
        ("cpu_atom/cycles/u", (0, 10 << 32, false)),
        ("cpu_core/cycles/u", (0, 4 << 32, false)),
        ("cpu_atom/instructions/u", (0, 10 << 32 | 1, false)),
        ("cpu_core/instructions/u", (0, 4 << 32 | 1, false)),
    ];
    let want = want.map(|(name, attr)| (name.to_owned(), attr));
    assert_eq!(names, want);
    let machine = Machine::at(&root);
    let resolved = resolve("cycles:u", &machine).unwrap();
    let cpus: Vec<usize> = resolved
        .events()
        .map(|event| match &event.cpus {
            Cpus::Core(cpus) => cpus.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(cpus, [4, 16]);
}

#[test]
fn amd_opens_generic_events() {
    for name in ["zen3", "zen4"] {
        let root = unpack(name);
        let fake = kernel(&root, nothing);
        assert_eq!(
            opened(&root, &fake, "instructions:u"),
            [("instructions:u".to_owned(), (0, 1, false))]
        );
    }
}

/// Nothing opens there that does not exclude guests, and no generic event with a PMU's number.
#[test]
fn apple_excludes_guests_and_takes_its_own_events() {
    let root = unpack("apple-m1");
    let fake = kernel(&root, |attr, _| {
        let guests = attr.get_type() > 1 && !attr.get_exclude_guest();
        no_extended_types(attr).or(guests.then_some(Errno::EOPNOTSUPP))
    });
    let want = [
        ("apple_firestorm_pmu/cycles/u", (11, 0x02, true)),
        ("apple_icestorm_pmu/cycles/u", (10, 0x02, true)),
        ("apple_firestorm_pmu/instructions/u", (11, 0x8c, true)),
        ("apple_icestorm_pmu/instructions/u", (10, 0x8c, true)),
    ];
    let want = want.map(|(name, attr)| (name.to_owned(), attr));
    assert_eq!(opened(&root, &fake, "cycles:u,instructions:u"), want);
}

#[test]
fn neoverse_opens_generic_events() {
    let root = unpack("neoverse-n1");
    let fake = kernel(&root, |attr, _| {
        no_extended_types(attr).or(attr.get_exclude_idle().then_some(Errno::EPERM))
    });
    assert_eq!(
        opened(&root, &fake, "instructions:u,cycles:uI"),
        [
            ("instructions:u".to_owned(), (0, 1, false)),
            ("cycles:u".to_owned(), (0, 0, false))
        ]
    );
}

/// A number that the identification registers do not announce opens on Arm, and reads 0: it is an error, in words.
#[test]
fn an_event_that_the_pmu_does_not_list_is_an_error() {
    let root = unpack("neoverse-n1");
    let fake = kernel(&root, nothing);
    let options = Options::new().kernel(fake.shared()).machine(&root);
    for (name, missing) in [("r21:u", true), ("r10:u", true), ("r08:u", false)] {
        let opened = options.open::<truecount::Fence>(name);
        match (opened, missing) {
            (Err(error), true) => {
                let text = error.to_string();
                assert!(text.contains("PMCEID_EL0"), "{name}: {text}");
            }
            (Err(error), false) => panic!("{name}: {error}"),
            (Ok(_), missing) => assert!(!missing, "{name} opened"),
        }
    }
    // What is not architectural is listed nowhere, and nothing can be said about it.
    let machine = Machine::at(&root);
    for (name, unlisted) in [
        ("r21:u", Some("armv8_pmuv3_0")),
        ("armv8_pmuv3_0/event=0x3f/u", Some("armv8_pmuv3_0")),
        ("r11:u", None),
        ("r1e:u", None),
        ("rc0:u", None),
        ("instructions:u", None),
    ] {
        let resolved = resolve(name, &machine).unwrap();
        let encoding = resolved.events().next().unwrap().encoding().unwrap();
        assert_eq!(machine.unlisted(encoding).as_deref(), unlisted, "{name}");
    }
    let x86 = Machine::at(&unpack("zen4"));
    let resolved = resolve("r21:u", &x86).unwrap();
    let encoding = resolved.events().next().unwrap().encoding().unwrap();
    assert_eq!(x86.unlisted(encoding), None);
}

#[test]
fn big_little_before_6_6_takes_the_pmus_own_events() {
    let root = unpack("rk3399");
    let fake = kernel(&root, |attr, _| no_extended_types(attr));
    let want = [
        ("armv8_cortex_a53/instructions/u", (8, 0x08, false)),
        ("armv8_cortex_a72/instructions/u", (9, 0x08, false)),
        ("armv8_cortex_a53/branch-misses/u", (8, 0x10, false)),
        ("armv8_cortex_a72/branch-misses/u", (9, 0x10, false)),
    ];
    let want = want.map(|(name, attr)| (name.to_owned(), attr));
    assert_eq!(opened(&root, &fake, "instructions:u,branch-misses:u"), want);
}

/// Without a PMU the error names the machine's own way to one.
#[test]
fn machines_without_a_pmu_say_how_to_get_one() {
    let table = [
        ("xen-guest", "vpmu=on"),
        ("wsl2", "WSL"),
        ("nitro", "EC2"),
        ("vmware", "vpmc.enable"),
        ("hosted-ci", "self-hosted runner"),
    ];
    for (name, says) in table {
        let root = unpack(name);
        let fake = kernel(&root, no_pmu);
        let options = Options::new().kernel(fake.shared()).machine(&root);
        let error = options
            .open::<truecount::Fence>("instructions:u")
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("no PMU") && text.contains(says),
            "{name}: {text}"
        );
        let best: truecount::Best = options.open_or_best("instructions:u");
        assert_eq!(best.counter.name(), "wall-time", "{name}");
    }
}

#[test]
fn a_container_says_what_to_start_it_with() {
    let root = unpack("container");
    let fake = kernel(&root, |_, _| Some(Errno::EPERM));
    let options = Options::new().kernel(fake.shared()).machine(&root);
    let opened: Result<Counter, _> = options.open("instructions:u");
    let text = opened.unwrap_err().to_string();
    assert!(
        text.contains("docker") && text.contains("--cap-add PERFMON"),
        "{text}"
    );
}
