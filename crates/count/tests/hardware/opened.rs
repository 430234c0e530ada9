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

/// Opening reads the counter around a loop of known length: at most 2 ms, beside what opening costs anyway. In the rigs
/// time goes by instructions, so that these are theirs, of the kernel too.
#[test]
fn opening_with_verification_takes_at_most_2_ms() {
    if !pmu("opening") || only_hardware("the price of opening") {
        return;
    }
    let mut events = vec!["instructions:u", "cycles:u"];
    if cfg!(target_arch = "x86_64") {
        events.push("instructions-minus-irqs:u");
    }
    for event in events {
        let open = |verify: bool| {
            let start = std::time::Instant::now();
            let counter: Counter = Options::new().verify(verify).open(event).unwrap();
            let took = start.elapsed();
            drop(counter);
            took.as_secs_f64() * 1e6
        };
        // Whether interrupts are counted is tried once a process.
        open(true);
        let mut with = Vec::new();
        let mut without = Vec::new();
        for _ in 0..15 {
            with.push(open(true));
            without.push(open(false));
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (with, without) = (median(&mut with), median(&mut without));
        println!(
            "{event}: opened in {with:.0} µs, {without:.0} µs without verification ({:.2} times)",
            with / without
        );
        assert!(with - without < 500.0, "{event}: {with} µs, {without} µs");
        // The emulated Arm takes 6 ms for an event without verification, too: only the difference says something there.
        if cfg!(target_arch = "x86_64") {
            assert!(with < 2000.0, "{event}: {with} µs");
        }
    }
}
