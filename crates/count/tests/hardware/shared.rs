//! Counters that are too few, and events that are others than the table says.

use super::{only_hardware, pmu};
use truecount::{CounterSet, Error, Fence, Mode, Options, Precision, known_loop};

#[test]
fn multiplexed_events_are_labelled_scaled() {
    if !pmu("multiplexing") || only_hardware("counters that are too few") {
        return;
    }
    // More events than any of these PMUs has counters.
    let event = if cfg!(target_arch = "x86_64") {
        "r00c4:u"
    } else {
        "r0008:u"
    };
    let many = vec![event; 16].join(",");
    let set = CounterSet::<Fence>::open(&many).unwrap();
    assert!(!set.is_fast());
    let before = set.readings().unwrap();
    // Long enough for many rotations (every few ms).
    known_loop(50_000_000);
    let after = set.readings().unwrap();
    let mut scaled = 0;
    for (before, after) in before.iter().zip(&after) {
        let region = after.since(before);
        match region.precision() {
            Some(Precision::Scaled) => {
                scaled += 1;
                let truth = if cfg!(target_arch = "x86_64") {
                    50e6
                } else {
                    100e6
                };
                let off = region.value().unwrap() as f64 / truth;
                assert!((0.7..1.3).contains(&off), "{region:?}");
                assert!(region.running_ns < region.enabled_ns);
            }
            Some(Precision::Counted) => {}
            other => panic!("{other:?}: {region:?}"),
        }
    }
    println!("{scaled} of {} scaled", set.len());
    assert!(scaled >= 8, "{scaled}");
    assert!(matches!(set.check(), Err(Error::Descheduled { .. })));
    assert!(matches!(
        CounterSet::<Fence>::open_with(&many, &Options::new().mode(Mode::Fast)),
        Err(Error::NoUserRead { .. })
    ));
}

/// A table that is wrong for the CPU: the event it names does not tick, and nothing is subtracted.
#[test]
fn a_silent_interrupt_event_is_noticed() {
    if cfg!(not(target_arch = "x86_64")) {
        truecount_testing::skip!("x86-64", "only x86 counters count interrupts");
        return;
    }
    if !pmu("silent interrupts") || only_hardware("a wrong interrupt event") {
        return;
    }
    // Hygon's encoding on an Intel CPU, and the other way round.
    let intel = std::fs::read_to_string("/proc/cpuinfo")
        .unwrap()
        .contains("GenuineIntel");
    let (vendor, family) = if intel {
        ("HygonGenuine", 24)
    } else {
        ("GenuineIntel", 6)
    };
    let root = std::env::temp_dir().join(format!("truecount-{}", std::process::id()));
    std::fs::create_dir_all(root.join("proc")).unwrap();
    let text = format!("vendor_id : {vendor}\ncpu family : {family}\nmodel : 94\nstepping : 1\n");
    std::fs::write(root.join("proc/cpuinfo"), text).unwrap();
    let best = Options::new()
        .machine(&root)
        .open_or_best::<Fence>("instructions-minus-irqs:u");
    std::fs::remove_dir_all(&root).unwrap();
    let reason = best
        .instead_because
        .expect("the wrong event must not be taken");
    println!("{reason}");
    assert!(
        matches!(
            reason,
            Error::SilentInterrupts { .. } | Error::NothingToSubtract { .. }
        ),
        "{reason:?}"
    );
    assert_eq!(best.counter.name(), "instructions:u");
}
