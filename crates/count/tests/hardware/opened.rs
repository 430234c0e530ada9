//! An event that opens counts; what cannot count is refused, however it would have been read.

use super::{only_hardware, pmu};
use truecount::{Counter, CounterSet, Error, Fence, Mode, Options, known_loop};

/// Opens one more until it is refused, and gives the reason; each that opened must have counted the loop.
fn until_refused(event: &str, mode: Mode) -> Error {
    let mut held: Vec<Counter> = Vec::new();
    for _ in 0..20 {
        match Options::new().mode(mode).open(event) {
            Ok(counter) => held.push(counter),
            Err(error) => {
                println!("{event}, {mode:?}: {} opened, then: {error}", held.len());
                return error;
            }
        }
        for (number, counter) in held.iter().enumerate() {
            let start = counter.read();
            known_loop(10_000);
            let counted = counter.since(start);
            assert!(
                (10_000..100_000).contains(&counted),
                "{event}, {mode:?}: number {number} of {}, {:?}: {counted}",
                held.len(),
                counter.method()
            );
        }
    }
    panic!("{event}, {mode:?}: 20 opened")
}

#[test]
fn counters_count_or_are_refused() {
    if !pmu("counters that run out") || only_hardware("counters that run out") {
        return;
    }
    let mut events = vec!["instructions:u", "cycles:u"];
    if cfg!(target_arch = "x86_64") {
        events.extend(["branches:u", "instructions-minus-irqs:u"]);
    }
    for event in events {
        let error = until_refused(event, Mode::Auto);
        assert!(
            matches!(error, Error::Descheduled { .. } | Error::Read { .. }),
            "{event}: {error}"
        );
    }
}

/// Two counters of one event on a thread: on aarch64 the second cannot have the register of 64 bits.
#[test]
fn the_second_counter_of_an_event_counts() {
    if !pmu("two counters") {
        return;
    }
    let event = if only_hardware("cycles") {
        "instructions:u"
    } else {
        "cycles:u"
    };
    let (first, second): (Counter, Counter) =
        (Counter::open(event).unwrap(), Counter::open(event).unwrap());
    let starts = (first.read(), second.read());
    known_loop(100_000);
    let counts = (first.since(starts.0), second.since(starts.1));
    assert!(counts.0 > 50_000 && counts.1 > 50_000, "{counts:?}");
}

#[test]
fn a_set_of_too_many_says_what_it_did_not_count() {
    if !pmu("a set of eight") || only_hardware("counters that are too few") {
        return;
    }
    let event = if cfg!(target_arch = "x86_64") {
        "r00c4:u"
    } else {
        "r0008:u"
    };
    let set = CounterSet::<Fence>::open(&[event; 8].join(",")).unwrap();
    let (mut start, mut end) = (set.points(), set.points());
    let mut none = 0;
    for _ in 0..2000 {
        set.read(&mut start);
        known_loop(2000);
        set.read(&mut end);
        for i in 0..set.len() {
            match set.between(i, &start, &end) {
                None => none += 1,
                Some(count) => assert!(count > 0, "{i}"),
            }
        }
    }
    println!("{none} of 16000 regions were not counted");
}
