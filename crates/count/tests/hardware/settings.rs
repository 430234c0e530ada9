//! The library in rigs with other settings (`xtask/src/vm_test/plan.rs`), and as an ordinary user.

use super::{Storm, histogram, pmu};
use truecount::events::Special;
use truecount::{Counter, Error, Fence, Options, Subtraction, known_loop, subtraction};

/// Where an interrupt adds nothing to the count, nothing is subtracted for it.
#[test]
fn no_overcount_is_no_difference() {
    if !truecount_testing::in_setting("no-overcount") || !pmu("no difference") {
        return;
    }
    let error = Counter::<Fence>::open("instructions-minus-irqs:u").unwrap_err();
    assert!(matches!(error, Error::NothingToSubtract { .. }), "{error}");
    assert!(error.to_string().contains("exact by itself"), "{error}");
    let special = Special::InstructionsMinusIrqs;
    assert_eq!(subtraction(special).unwrap(), Subtraction::NotNeeded);
    let best = Options::new().open_or_best::<Fence>("instructions-minus-irqs:u");
    assert_eq!(best.counter.name(), "instructions:u");
    assert!(best.instead_because.is_some());
    let storm = Storm::every(300);
    let seen = histogram(&best.counter, 50_000, 500);
    drop(storm);
    assert_eq!(seen.len(), 1, "{seen:?}");
}

/// What exceptions add is left in a difference of interrupts, and the difference of interrupts stays right.
#[test]
fn fault_overcount_leaves_differences_right() {
    if !truecount_testing::in_setting("fault-overcount") || !pmu("exceptions") {
        return;
    }
    let special = Special::InstructionsMinusIrqs;
    assert_eq!(subtraction(special).unwrap(), Subtraction::Right);
    let counter: Counter = Counter::open("instructions-minus-irqs:u").unwrap();
    let storm = Storm::every(300);
    let seen = histogram(&counter, 50_000, 500);
    drop(storm);
    // A page that is touched for the first time is an exception, and adds one; interrupts came in hundreds.
    let most = seen.values().copied().max().unwrap_or(0);
    assert!(most >= 495, "{seen:?}");
}

/// What an ordinary user may count follows `kernel.perf_event_paranoid`; what is refused has the reason and the level.
#[test]
fn a_paranoid_level_decides_what_opens() {
    let Ok(level) = std::env::var("TRUECOUNT_EXPECT_PARANOID") else {
        truecount_testing::skip!("paranoid", "only as an ordinary user in a rig");
        return;
    };
    let level: i32 = level.parse().unwrap();
    for (event, needed) in [("instructions:u", 2), ("instructions:k", 1)] {
        match Counter::<Fence>::open(event) {
            Ok(counter) => {
                assert!(level <= needed, "{event} at {level}");
                if needed == 2 {
                    let start = counter.read();
                    known_loop(100_000);
                    assert!(counter.since(start) >= 200_000);
                }
            }
            Err(error) => {
                assert!(level > needed, "{event} at {level}: {error}");
                let hint = format!("perf_event_paranoid={needed}");
                assert!(error.to_string().contains(&hint), "{event}: {error}");
            }
        }
    }
}
