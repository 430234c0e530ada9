//! Real counters: needs a PMU, and says `skipped: no PMU …` where there is none. In a rig:
//! `CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=…/rig-x86.sh cargo test -p truecount --test hardware -- --test-threads=1`.
//! `all_of_this_under_the_virtual_pmu` runs the others inside the engine, wherever that works.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "hardware/forks.rs"]
mod forks;
#[path = "hardware/languages.rs"]
mod languages;
#[path = "hardware/opened.rs"]
mod opened;
#[path = "support/regions.rs"]
mod regions;
#[path = "hardware/settings.rs"]
mod settings;
#[path = "hardware/shared.rs"]
mod shared;
#[path = "hardware/signals.rs"]
mod signals;

use std::collections::BTreeMap;
use std::hint::black_box;
use truecount::known_loop;
use truecount::{
    Counter, CounterSet, Error, Fence, Method, Mode, Options, PerThread, Precision, Source,
    Unordered,
};

/// Whether hardware counts here; prints why not.
fn pmu(test: &str) -> bool {
    match Counter::<Fence>::open("instructions:u") {
        Ok(_) => true,
        Err(error) => {
            truecount_testing::skip!("counters", "no PMU for {test}: {error}");
            false
        }
    }
}

/// Set for the tests that run inside the engine.
const INSIDE: &str = "TRUECOUNT_TEST_INSIDE";

/// Where the counts come from, by the way the tests were started.
fn source() -> Source {
    if std::env::var_os(INSIDE).is_some() {
        Source::Virtual
    } else {
        Source::Hardware
    }
}

/// What readings of events that are always on a counter say of themselves.
fn precision() -> Precision {
    match source() {
        Source::Virtual => Precision::Exact,
        _ => Precision::Counted,
    }
}

/// Whether `test` is about what only hardware does.
fn only_hardware(test: &str) -> bool {
    if source() == Source::Virtual {
        println!("{test}: not inside the virtual PMU");
    }
    source() == Source::Virtual
}

/// The other tests again, inside the engine, where counters always answer.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn all_of_this_under_the_virtual_pmu() {
    use truecount_engine::virt;
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--test-threads=1", "--nocapture"])
        .args(["--skip", "all_of_this_under_the_virtual_pmu"])
        .env(INSIDE, "1")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::inherit());
    let mut running = match virt::launch(&mut command, &virt::Options::default()) {
        Ok(running) => running,
        Err(virt::LaunchError::PtraceForbidden { error }) => {
            truecount_testing::skip!("virtual", "ptrace is not permitted: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut text = String::new();
    let stdout = running.child_mut().stdout.as_mut().unwrap();
    std::io::Read::read_to_string(stdout, &mut text).unwrap();
    let outcome = running.wait().unwrap();
    println!("{text}");
    assert!(outcome.status.success(), "{}", outcome.status);
    assert!(!text.contains("skipped: no PMU"), "nothing was counted");
}

/// What a loop of `iterations` costs, over `reads` reads: count → how often.
fn histogram(counter: &Counter, iterations: u64, reads: u32) -> BTreeMap<u64, u32> {
    let mut seen = BTreeMap::new();
    for _ in 0..reads {
        let start = counter.read();
        known_loop(black_box(iterations));
        *seen.entry(counter.since(start)).or_insert(0) += 1;
    }
    seen
}

/// Interrupts every `microseconds`, as long as it lives.
struct Storm(libc::c_int);

impl Storm {
    fn every(microseconds: i64) -> Self {
        let period = libc::timespec {
            tv_sec: 0,
            tv_nsec: microseconds * 1000,
        };
        let setting = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: plain system calls with live pointers.
        unsafe {
            let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
            assert!(fd >= 0 && libc::timerfd_settime(fd, 0, &setting, std::ptr::null_mut()) == 0);
            Self(fd)
        }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(self.0) };
    }
}

/// What reads cost themselves, at most, in a debug build: more by the page's protocol or a system call.
fn slack(counter: &Counter<impl truecount::Policy>) -> u64 {
    if matches!(counter.method(), Method::Safe | Method::Syscall) {
        4000
    } else {
        200
    }
}

/// The exact kind of this architecture.
const EXACT: &str = if cfg!(target_arch = "aarch64") {
    "instructions:u"
} else {
    "instructions-minus-irqs:u"
};

#[test]
fn a_loop_of_known_length_is_the_same_in_1000_of_1000_reads() {
    if !pmu("exact reads") {
        return;
    }
    const ITERATIONS: u64 = 50_000;
    let exact: Counter = Counter::open(EXACT).unwrap();
    println!("{exact:?}");
    let storm = Storm::every(300);
    let seen = histogram(&exact, ITERATIONS, 1000);
    drop(storm);
    println!("{EXACT} of {} instructions: {seen:?}", 2 * ITERATIONS);
    assert_eq!(seen.len(), 1, "{seen:?}");
    // The loop, the call, and the part of the reads that lies between: known to a few dozen (in a debug build).
    let (count, _) = seen.first_key_value().unwrap();
    assert!(
        (2 * ITERATIONS..2 * ITERATIONS + slack(&exact)).contains(count),
        "{count}"
    );
    exact.check().unwrap();

    if cfg!(target_arch = "x86_64") {
        let plain: Counter = Counter::open("instructions:u").unwrap();
        assert!(
            matches!(plain.method(), Method::Fast | Method::Syscall),
            "{plain:?}"
        );
        let storm = Storm::every(300);
        let seen = histogram(&plain, ITERATIONS, 1000);
        drop(storm);
        println!(
            "instructions:u of {} instructions: {seen:?}",
            2 * ITERATIONS
        );
        // On hardware interrupts show; inside there are none.
        let disturbed = seen.len() > 1;
        assert_eq!(disturbed, source() == Source::Hardware, "{seen:?}");
        plain.check().unwrap();
    }
}

/// Interrupts so dense that they fall into the reads themselves: the repeated read must be worth the same.
#[test]
fn a_disturbed_read_is_worth_the_same() {
    if cfg!(not(target_arch = "x86_64")) {
        truecount_testing::skip!("x86-64", "only x86 counters count interrupts");
        return;
    }
    if !pmu("disturbed reads") {
        return;
    }
    let exact: Counter = Counter::open(EXACT).unwrap();
    for (microseconds, reads) in [(50, 100_000), (20, 200_000)] {
        let storm = Storm::every(microseconds);
        let seen = histogram(&exact, 10, reads);
        drop(storm);
        println!("every {microseconds} µs: {seen:?}");
        assert_eq!(seen.len(), 1, "{seen:?}");
    }
    // The bare reader, and the long run: the sum of regions plus what lies between is the whole.
    let Some(bare) = exact.difference() else {
        truecount_testing::skip!(
            "rdpmc",
            "the bare reader: {EXACT} is read by {:?}",
            exact.method()
        );
        return;
    };
    let storm = Storm::every(30);
    let mut seen = BTreeMap::new();
    for _ in 0..100_000 {
        let start = bare.read();
        let end = bare.read();
        *seen.entry(exact.between(start, end)).or_insert(0) += 1;
    }
    drop(storm);
    println!("bare: {seen:?}");
    assert_eq!(seen.len(), 1, "{seen:?}");
    exact.check().unwrap();
}

#[test]
fn every_way_to_read_counts_the_same_loop() {
    if !pmu("ways to read") {
        return;
    }
    for mode in [Mode::Auto, Mode::Fast, Mode::Safe, Mode::Syscall] {
        let counter = match Options::new().mode(mode).open::<Fence>("instructions:u") {
            Ok(counter) => counter,
            Err(error @ Error::NoUserRead { .. }) => {
                truecount_testing::skip!("rdpmc", "{mode:?}: {error}");
                continue;
            }
            Err(error) => panic!("{mode:?}: {error}"),
        };
        let seen = histogram(&counter, 100_000, 20);
        println!("{mode:?}, {:?}: {seen:?}", counter.method());
        for count in seen.keys() {
            // By system call the read's own user instructions count too.
            assert!((200_000..203_000).contains(count), "{mode:?}: {count}");
        }
        assert_eq!(counter.source(), source());
        counter.check().unwrap();
        let reading = counter.reading().unwrap();
        assert_eq!(reading.precision(), Some(precision()), "{reading:?}");
    }
}

#[test]
fn four_threads_read_right() {
    if !pmu("threads") {
        return;
    }
    let everywhere = PerThread::<Fence>::new(EXACT).unwrap();
    let lengths = [1_000u64, 20_000, 300_000, 4_000_000];
    std::thread::scope(|scope| {
        for iterations in lengths {
            let everywhere = &everywhere;
            scope.spawn(move || {
                let counter = everywhere.counter().unwrap();
                let empty = counter.overhead(10);
                // Once for the page faults of the first time; then always the same, whatever the other threads do.
                known_loop(iterations);
                let seen = histogram(&counter, iterations, 50);
                println!("{iterations}: {seen:?}, empty {empty}");
                assert_eq!(seen.len(), 1, "{iterations}: {seen:?}");
                let (count, _) = seen.first_key_value().unwrap();
                assert!(
                    (2 * iterations..2 * iterations + slack(&counter)).contains(count),
                    "{iterations}: {count}"
                );
                // The handle finds the same counter again.
                let start = everywhere.read().unwrap();
                known_loop(iterations);
                let spent = counter.between(start, everywhere.read().unwrap());
                assert!(
                    spent >= 2 * iterations && spent < 2 * iterations + 4000,
                    "{spent}"
                );
                counter.check().unwrap();
            });
        }
    });
}

#[test]
fn groups_count_together() {
    if !pmu("groups") {
        return;
    }
    let branches = cfg!(target_arch = "x86_64") && source() == Source::Hardware;
    let expression = if source() == Source::Virtual {
        "{instructions,instructions}:u"
    } else if branches {
        "{instructions,branches}:u"
    } else {
        "{instructions,cycles}:u"
    };
    let set = CounterSet::<Fence>::open(expression).unwrap();
    println!("{set:?}");
    let user_reads = Counter::<Fence>::open("instructions:u").unwrap().method() != Method::Syscall;
    assert_eq!(set.is_fast(), user_reads);
    let (mut start, mut end) = (set.points(), set.points());
    for _ in 0..20 {
        set.read(&mut start);
        known_loop(100_000);
        set.read(&mut end);
        let counts: Vec<u64> = (0..2)
            .map(|i| set.between(i, &start, &end).unwrap())
            .collect();
        assert!((200_000..204_000).contains(&counts[0]), "{counts:?}");
        if branches {
            assert!((100_000..100_400).contains(&counts[1]), "{counts:?}");
        } else {
            assert!(counts[1] > 100_000, "{counts:?}");
        }
    }
    set.check().unwrap();
    for reading in set.readings().unwrap() {
        assert_eq!(reading.precision(), Some(precision()));
    }
}

/// Longer than a 32-bit counter: the page's offset must follow. About a minute in a rig.
#[test]
#[ignore = "a minute in a rig"]
fn counts_go_past_32_bits() {
    if !pmu("long counts") {
        return;
    }
    for mode in [Mode::Auto, Mode::Safe] {
        let counter = Options::new()
            .mode(mode)
            .open::<Fence>(EXACT.replace("-minus-irqs", "").as_str())
            .unwrap();
        let start = counter.read();
        for _ in 0..5 {
            known_loop(500_000_000);
        }
        let spent = counter.since(start);
        println!("{mode:?}, {:?}: {spent}", counter.method());
        assert!((5_000_000_000..5_000_100_000).contains(&spent), "{spent}");
        counter.check().unwrap();
    }
}

#[test]
fn inherited_counts_include_threads() {
    if !pmu("inherit") {
        return;
    }
    let own: Counter = Counter::open("instructions:u").unwrap();
    let all = Options::new()
        .inherit(true)
        .open::<Fence>("instructions:u")
        .unwrap();
    assert_eq!(all.method(), Method::Syscall);
    assert_eq!(all.source(), source());
    let (own_start, all_start) = (own.read(), all.read());
    for _ in 0..2 {
        std::thread::spawn(|| known_loop(1_000_000)).join().unwrap();
    }
    let (own, all) = (own.since(own_start), all.since(all_start));
    println!("this thread {own}, with its threads {all}");
    assert!(own < 1_000_000 && (4_000_000..5_000_000).contains(&all));
}

/// A fast counter whose event loses the PMU says so, and reads stay harmless.
#[test]
fn a_lost_counter_is_noticed() {
    if !pmu("lost counters") {
        return;
    }
    use truecount::perf::{Event, EventAttr, Target};
    let counter: Counter = Counter::open("instructions:u").unwrap();
    if counter.method() != Method::Fast {
        truecount_testing::skip!(
            "rdpmc",
            "instructions:u is read by {:?} here",
            counter.method()
        );
        return;
    }
    counter.check().unwrap();
    // Pinned events of a whole CPU come before those of a task; take every counter of every CPU.
    let cpus = std::thread::available_parallelism().unwrap().get() as u32;
    let attr = EventAttr::new(0, 1).pinned(true);
    let greedy: Vec<_> = (0..cpus)
        .flat_map(|cpu| (0..16).map(move |_| Event::open(&attr, Target::Cpu(cpu))))
        .collect();
    if greedy.iter().any(Result::is_err) && greedy.iter().all(Result::is_err) {
        truecount_testing::skip!("privilege", "not allowed to count system-wide");
        return;
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let error = counter.check().unwrap_err();
    println!("{error}");
    assert!(
        matches!(
            error,
            Error::Moved { .. } | Error::Descheduled { .. } | Error::Read { .. }
        ),
        "{error:?}"
    );
    // Nothing free: a fast counter is refused, the library finds another way and says so.
    assert!(
        Options::new()
            .mode(Mode::Fast)
            .open::<Fence>("instructions:u")
            .is_err()
    );
}

#[test]
fn policies_read_the_same_counter() {
    if !pmu("policies") {
        return;
    }
    let unordered = Counter::<Unordered>::open(EXACT).unwrap();
    let start = unordered.read();
    known_loop(1000);
    let spent = unordered.since(start);
    println!("{unordered:?}: {spent}");
    assert!((2000..2000 + slack(&unordered)).contains(&spent), "{spent}");
    match Counter::<truecount::Serialize>::open(EXACT) {
        Ok(counter) => assert!(counter.overhead(10) < slack(&counter)),
        Err(error) => assert!(matches!(error, Error::Policy(_)), "{error}"),
    }
    let counter = Counter::<truecount::Cpuid>::open(EXACT).unwrap();
    let start = counter.read();
    known_loop(1000);
    let spent = counter.since(start);
    println!("{counter:?}: {spent}");
    assert!((2000..2000 + slack(&counter)).contains(&spent), "{spent}");
}

#[test]
fn an_event_that_the_virtual_pmu_lacks_is_its_lack() {
    if source() != Source::Virtual {
        println!("only inside the virtual PMU");
        return;
    }
    let error = Options::new().open::<Fence>("L1-dcache-load-misses:u");
    let error = error.map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::NotVirtual { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("virtual PMU") && text.contains("; ") && !text.contains("no PMU"),
        "{text}"
    );
    // It sees nothing of the kernel, whatever perf_event_paranoid says.
    for event in ["instructions", "instructions:k", "r00c0"] {
        let error = Options::new().open::<Fence>(event);
        let error = error.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::UserModeAlone { .. }), "{error:?}");
        assert!(error.to_string().contains(":u"), "{error}");
    }
}
