//! Opening and reading on a scripted kernel: errors, ways to read, threads, inheritance. No PMU needed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use truecount::perf::fake::{Call, FakeKernel};
use truecount::perf::{Cause, Errno, EventAttr};
use truecount::{Counter, CounterSet, Error, Fence, Method, Mode, Options, PerThread, Precision};

/// An x86 machine of which nothing but the CPU is known, whatever machine this is.
fn on(fake: &FakeKernel) -> Options {
    Options::new()
        .kernel(fake.shared())
        .machine(machine(SKYLAKE))
}

const SKYLAKE: &str = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 94\nstepping : 3\n";
const ZEN5: &str = "vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\nstepping : 1\n";
const ZEN3: &str = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 33\nstepping : 0\n";
const NEOVERSE: &str = "CPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd0c\n";

/// A directory with this `proc/cpuinfo` (and whatever `files` adds), one for each text.
fn machine_with(cpuinfo: &str, files: &[(&str, &str)]) -> PathBuf {
    let mut hasher = std::hash::DefaultHasher::new();
    (cpuinfo, files).hash(&mut hasher);
    let root = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("machine-{:x}", hasher.finish()));
    for (path, text) in [("proc/cpuinfo", cpuinfo)].iter().chain(files) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Tests run side by side: a file is whole or not there.
        let written = path.with_extension(format!("{:?}", std::thread::current().id()));
        std::fs::write(&written, text).unwrap();
        std::fs::rename(&written, &path).unwrap();
    }
    root
}

fn machine(cpuinfo: &str) -> PathBuf {
    machine_with(cpuinfo, &[])
}

fn open(options: &Options, event: &str) -> Result<Counter, Error> {
    options.open(event)
}

/// The attributes of the openings so far: (type, config, pinned, inherit).
fn openings(fake: &FakeKernel) -> Vec<(u32, u64, bool, bool)> {
    let attributes = |call: &Call| match call {
        Call::Open { opening, .. } => {
            let attr = EventAttr::from_raw(opening.attr);
            Some((
                attr.get_type(),
                attr.get_config(),
                attr.get_pinned(),
                attr.get_inherit(),
            ))
        }
        _ => None,
    };
    fake.calls().iter().filter_map(attributes).collect()
}

#[test]
fn what_only_happens_in_the_kernel_is_not_counted_in_user_mode() {
    let fake = FakeKernel::new();
    for event in ["context-switches:u", "cpu-migrations:u"] {
        let error = open(&on(&fake), event).unwrap_err().to_string();
        assert!(error.contains("happens in the kernel"), "{event}: {error}");
        let plain = event.trim_end_matches(":u");
        assert!(open(&on(&fake), plain).is_ok(), "{plain}");
    }
    assert!(open(&on(&fake), "page-faults:u").is_ok());
}

#[test]
fn no_pmu_is_said_and_the_best_is_named() {
    let fake = FakeKernel::without_pmu();
    for event in ["instructions:u", "r01cb:u", "L1-dcache-load-misses:u"] {
        let error = open(&on(&fake), event).unwrap_err();
        let Error::Open { source, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(
            (source.errno(), source.cause()),
            (Some(Errno::ENOENT), Cause::NoPmu),
            "{event}"
        );
        let text = error.to_string();
        assert!(
            text.contains(event) && text.contains("no PMU") && !text.contains('\n'),
            "{text}"
        );
        assert!(!error.hint().is_empty());
    }
    let best = on(&fake).open_or_best::<Fence>("instructions:u");
    assert_eq!(
        (best.counter.name(), best.counter.unit()),
        ("wall-time", "ns")
    );
    assert!(matches!(best.instead_because, Some(Error::Open { .. })));
    // What needs no PMU is opened as asked.
    let best = on(&fake).open_or_best::<Fence>("page-faults");
    assert!(best.instead_because.is_none());
    assert!(
        fake.open_descriptors().len() <= 1,
        "what failed left descriptors open"
    );
}

#[test]
fn a_system_call_reads_what_the_kernel_counts() {
    let fake = FakeKernel::new();
    let counter = open(&on(&fake), "instructions:u").unwrap();
    assert_eq!(counter.method(), Method::Syscall);
    let start = counter.read();
    fake.advance(1000);
    assert_eq!(counter.since(start), 1000);
    let reading = counter.reading().unwrap();
    assert_eq!(
        (reading.value(), reading.precision()),
        (Some(1000), Some(Precision::Counted))
    );
    counter.check().unwrap();
    drop(counter);
    assert!(fake.open_descriptors().is_empty());
}

#[test]
fn user_reads_that_are_not_available_are_refused_with_the_reason() {
    let fake = FakeKernel::new();
    for mode in [Mode::Fast, Mode::Safe] {
        let error = open(&on(&fake).mode(mode), "instructions:u").unwrap_err();
        assert!(matches!(error, Error::NoUserRead { .. }), "{error}");
        let error = open(&on(&fake).mode(mode), "page-faults").unwrap_err();
        assert!(
            error.to_string().contains("the kernel counts it"),
            "{error}"
        );
        let error = open(&on(&fake).mode(mode).inherit(true), "instructions:u").unwrap_err();
        assert!(error.to_string().contains("several threads"), "{error}");
    }
}

#[test]
fn inherited_counters_are_opened_so_and_read_by_system_call() {
    let fake = FakeKernel::new();
    let counter = open(&on(&fake).inherit(true), "branches:u").unwrap();
    assert_eq!(counter.method(), Method::Syscall);
    assert_eq!(openings(&fake), [(0, 4, false, true)]);
    let error = open(&on(&fake).inherit(true), "wall-time").unwrap_err();
    assert!(error.to_string().contains("task-clock"), "{error}");
}

#[test]
fn a_counter_that_loses_the_pmu_says_so_and_stays_where_it_was() {
    let fake = FakeKernel::new();
    let counter = open(&on(&fake), "instructions:uD").unwrap();
    fake.advance(500);
    let before = counter.read();
    fake.set_stolen(4);
    fake.advance(500);
    let after = counter.read();
    assert!(counter.between(before, after) <= 500);
    let error = counter.check().unwrap_err();
    assert!(
        matches!(error, Error::Read { .. } | Error::Descheduled { .. }),
        "{error:?}"
    );
}

#[test]
fn inherited_counters_that_share_are_scaled_and_labelled() {
    let fake = FakeKernel::new();
    fake.set_counters(2);
    let counters: Vec<_> = (0..4)
        .map(|_| open(&on(&fake).inherit(true), "instructions:u").unwrap())
        .collect();
    for _ in 0..100 {
        fake.advance(100_000);
    }
    for counter in &counters {
        let reading = counter.reading().unwrap();
        assert_eq!(reading.precision(), Some(Precision::Scaled), "{reading:?}");
        let (value, truth) = (reading.value().unwrap() as f64, 1e7);
        assert!((0.8..1.2).contains(&(value / truth)), "{reading:?}");
        assert!(matches!(counter.check(), Err(Error::Descheduled { .. })));
    }
}

#[test]
fn a_failing_read_keeps_the_last_point() {
    let fake = FakeKernel::new();
    let counter = open(&on(&fake), "instructions:u").unwrap();
    fake.advance(70);
    let point = counter.read();
    fake.fail_next("read", Errno::EIO);
    assert_eq!(counter.read(), point);
    assert!(
        counter.check().is_err(),
        "a failed read must not go unnoticed"
    );
}

#[test]
fn sets_read_groups_in_one_call_each() {
    let fake = FakeKernel::new();
    let set = CounterSet::<Fence>::open_with("{instructions,branches}:u,page-faults", &on(&fake))
        .unwrap();
    assert_eq!(
        (set.len(), set.name(1), set.is_fast()),
        (3, "branches:u", false)
    );
    let (mut start, mut end) = (set.points(), set.points());
    set.read(&mut start);
    fake.advance(1234);
    let reads = |fake: &FakeKernel| {
        fake.calls()
            .iter()
            .filter(|c| matches!(c, Call::Read(_)))
            .count()
    };
    let before = reads(&fake);
    set.read(&mut end);
    assert_eq!(reads(&fake) - before, 2);
    for i in 0..3 {
        assert_eq!(set.between(i, &start, &end), Some(1234), "{}", set.name(i));
    }
    assert_eq!(set.between(3, &start, &end), None);
    let readings = set.readings().unwrap();
    assert!(
        readings
            .iter()
            .all(|r| r.precision() == Some(Precision::Counted)),
        "{readings:?}"
    );
    set.check().unwrap();
    assert!(matches!(
        CounterSet::<Fence>::open_with("wall-time", &on(&fake)),
        Err(Error::Unsupported { .. })
    ));
    drop(set);
    assert!(fake.open_descriptors().is_empty());
}

#[test]
fn every_thread_has_its_own_and_dead_handles_are_closed() {
    let fake = FakeKernel::new();
    let options = on(&fake);
    let handle = PerThread::<Fence>::with_options("instructions:u", options.clone()).unwrap();
    assert_eq!(fake.open_descriptors().len(), 1);
    std::thread::scope(|scope| {
        let one = || {
            let mine = handle.counter().unwrap();
            let again = handle.counter().unwrap();
            // The same counter: its points compare.
            let start = mine.read();
            let _ = again.between(start, handle.read().unwrap());
        };
        let threads = [(); 3].map(|()| scope.spawn(one));
        // The scope alone does not wait for the threads' destructors.
        for thread in threads {
            thread.join().unwrap();
        }
    });
    // One opening a thread, and the ended threads' are closed.
    assert_eq!(openings(&fake).len(), 4);
    assert_eq!(fake.open_descriptors().len(), 1);
    drop(handle);
    let _other = PerThread::<Fence>::with_options("branches:u", options).unwrap();
    assert_eq!(
        fake.open_descriptors().len(),
        1,
        "the dropped handle's counter is still open"
    );
}

#[test]
fn what_is_no_single_event_is_refused() {
    let fake = FakeKernel::new();
    let fail = |event: &str| open(&on(&fake), event).unwrap_err();
    assert!(matches!(
        fail("instructions:u,cycles:u"),
        Error::NotOne { found: 2, .. }
    ));
    assert!(matches!(fail("instrutions:u"), Error::Event(_)));
    assert!(
        fail("instrutions:u")
            .to_string()
            .contains("did you mean instructions")
    );
    assert!(matches!(fail(""), Error::Event(_)));
    assert!(matches!(fail("wall-time:u"), Error::Event(_)));
}

#[test]
fn clocks_go_on() {
    let wall: Counter = Counter::open("wall-time").unwrap();
    assert_eq!((wall.method(), wall.unit()), (Method::Clock, "ns"));
    let start = wall.read();
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(wall.since(start) >= 5_000_000);

    let user: Counter = Counter::open("user-time").unwrap();
    let (start, begun) = (user.read(), wall.read());
    while user.since(start) == 0 {
        std::hint::black_box(truecount::known_loop(100_000));
        assert!(
            wall.since(begun) < 10_000_000_000,
            "user time does not move"
        );
    }
    let zero: Counter = Counter::open("zero").unwrap();
    let start = zero.read();
    assert_eq!((zero.since(start), zero.is_exact()), (0, true));
}

/// Without user reads, a difference is read by one system call for both events, which is as exact.
#[test]
fn instructions_minus_interrupts_are_a_pinned_group() {
    // r0420 counts interrupts and exceptions together, on Zen only.
    for (cpu, event, irqs) in [
        (SKYLAKE, "instructions-minus-irqs:u", 0x01cb),
        (ZEN5, "instructions-minus-irqs:u", 0x002c),
        (ZEN5, "instructions-minus-exceptions:u", 0x0420),
        (ZEN3, "instructions-minus-exceptions:u", 0x0420),
        (ZEN3, "instructions-minus-r0420:u", 0x0420),
    ] {
        let fake = FakeKernel::new();
        fake.set_rate(4, irqs, 0);
        let counter = open(&on(&fake).machine(machine(cpu)), event).unwrap();
        assert_eq!(
            (counter.method(), counter.is_exact()),
            (Method::Syscall, true)
        );
        assert_eq!(
            openings(&fake),
            [(0, 1, true, false), (4, irqs, false, false)]
        );
        let start = counter.read();
        fake.advance(5000);
        let interrupts = *fake.open_descriptors().last().unwrap();
        fake.add(interrupts, 3);
        assert_eq!(counter.since(start), 4997);
        assert_eq!(
            counter.reading().unwrap().precision(),
            Some(Precision::Exact)
        );
        counter.check().unwrap();
    }
}

#[test]
fn what_cannot_be_subtracted_is_said() {
    let fake = FakeKernel::new();
    let fail = |cpu: &str, event: &str| open(&on(&fake).machine(machine(cpu)), event).unwrap_err();
    let error = fail(NEOVERSE, "instructions-minus-irqs:u");
    assert!(
        error
            .to_string()
            .contains("Arm counters do not count interrupts"),
        "{error}"
    );
    let error = fail(SKYLAKE, "instructions-minus-exceptions:u");
    assert!(error.to_string().contains("no Intel event"), "{error}");
    let error = fail("nothing known\n", "instructions-minus-irqs:u");
    assert!(matches!(error, Error::NothingToSubtract { .. }), "{error}");
    // The next best is named.
    let best = on(&fake)
        .machine(machine(NEOVERSE))
        .open_or_best::<Fence>("instructions-minus-irqs:u");
    assert_eq!(best.counter.name(), "instructions:u");
    assert!(best.instead_because.is_some());
}

/// Two kinds of cores: which one is meant follows from where the thread may run.
#[test]
fn hybrid_machines() {
    let devices = "sys/bus/event_source/devices";
    let files = |core: &str, atom: &str| {
        let list = [
            ("cpu_core/type", "4"),
            ("cpu_core/cpus", core),
            ("cpu_atom/type", "10"),
            ("cpu_atom/cpus", atom),
        ];
        list.map(|(path, text)| (format!("{devices}/{path}"), text.to_owned()))
    };
    let open_on = |core: &str, atom: &str| {
        let files = files(core, atom);
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(p, t)| (p.as_str(), t.as_str()))
            .collect();
        let fake = FakeKernel::new();
        let opened = open(
            &on(&fake).machine(machine_with(SKYLAKE, &files)),
            "instructions:u",
        );
        (opened, openings(&fake))
    };
    let (opened, openings) = open_on("0-1023", "5000");
    assert_eq!(opened.unwrap().name(), "cpu_core/instructions/u");
    assert_eq!(openings.first().map(|o| o.1), Some(4 << 32 | 1));
    let error = open_on("5000", "5001").0.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("cpu_atom/instructions/u and cpu_core/instructions/u")
            && text.contains("taskset"),
        "{text}"
    );
}

/// A kernel on which time passes, so that what is scheduled shows.
fn ticking() -> FakeKernel {
    let fake = FakeKernel::new();
    let _ = fake.ticking();
    fake
}

#[test]
fn an_event_that_gets_no_counter_is_an_error_whatever_the_mode() {
    let fake = ticking();
    let held: Vec<Counter> = (0..4)
        .map(|_| open(&on(&fake), "instructions:uD").unwrap())
        .collect();
    for mode in [Mode::Auto, Mode::Syscall] {
        let error = open(&on(&fake).mode(mode), "branches:u").unwrap_err();
        assert!(matches!(error, Error::Descheduled { .. }), "{error}");
        assert!(error.to_string().contains("got no counter"), "{error}");
    }
    // A difference needs two, always: the first as the third is refused.
    for _ in 0..3 {
        let error = open(&on(&fake), "instructions-minus-irqs:u").unwrap_err();
        assert!(matches!(error, Error::Descheduled { .. }), "{error}");
    }
    let error = CounterSet::<Fence>::open_with("{branches,cycles}:u", &on(&fake)).unwrap_err();
    assert!(matches!(error, Error::Descheduled { .. }), "{error}");
    drop(held);
    assert!(fake.open_descriptors().is_empty());
}

/// A precise level is about where samples fall: not counted as if it had not been asked for.
#[test]
fn a_precise_level_of_a_count_is_refused() {
    let fake = ticking();
    for event in ["instructions:up", "instructions:upp", "cycles:ppp"] {
        for mode in [Mode::Auto, Mode::Syscall] {
            let error = open(&on(&fake).mode(mode), event).unwrap_err();
            assert!(error.to_string().contains("where samples fall"), "{error}");
        }
        let error = CounterSet::<Fence>::open_with(event, &on(&fake)).unwrap_err();
        assert!(error.to_string().contains("where samples fall"), "{error}");
    }
    assert!(fake.open_descriptors().is_empty());
}

#[test]
fn a_set_that_shares_the_pmu_gives_no_count_where_it_was_off_it() {
    let fake = FakeKernel::new();
    let names = ["instructions:u"; 8].join(",");
    let set = CounterSet::<Fence>::open_with(&names, &on(&fake)).unwrap();
    let (mut start, mut end) = (set.points(), set.points());
    let (mut none, mut zero) = (0, 0);
    for _ in 0..100 {
        set.read(&mut start);
        fake.advance(1000);
        set.read(&mut end);
        for i in 0..set.len() {
            match set.between(i, &start, &end) {
                None => none += 1,
                Some(0) => zero += 1,
                Some(_) => {
                    let scaled = [Some(Precision::Scaled), Some(Precision::Counted)];
                    assert!(scaled.contains(&set.precision(i, &start, &end)));
                }
            }
        }
    }
    assert!(
        none > 0 && zero == 0,
        "{none} without a count, {zero} zeros"
    );
    // On the PMU for a part of the region, in which nothing happened: in the rest it may have.
    fake.set_rate(0, 1, 0);
    set.read(&mut start);
    fake.advance(100_000);
    set.read(&mut end);
    for i in 0..set.len() {
        assert_eq!(set.between(i, &start, &end), None, "{i}");
    }
}
