//! The real kernel's answers that need no PMU: software events, rings, errnos.
//!
//! Where a sandbox takes perf events away altogether, each prints `skipped: …`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use truecount_perf::probe::{Pmu, Root};
use truecount_perf::sys::bindings as abi;
use truecount_perf::{Cause, Count, Errno, Event, EventAttr, Group, Target, linux};

fn software(config: u32) -> EventAttr {
    EventAttr::new(abi::PERF_TYPE_SOFTWARE, u64::from(config))
        .exclude_kernel(true)
        .read_times()
}

fn works() -> bool {
    match Event::open(
        &software(abi::PERF_COUNT_SW_TASK_CLOCK),
        Target::CallingThread,
    ) {
        Ok(_) => true,
        Err(error) => {
            truecount_testing::skip!("software", "no perf events here ({error})");
            false
        }
    }
}

fn burn() {
    let begin = std::time::Instant::now();
    while begin.elapsed().as_millis() < 30 {
        std::hint::black_box(begin);
    }
}

#[test]
fn task_clock_counts_time() {
    if !works() {
        return;
    }
    let event = Event::open(
        &software(abi::PERF_COUNT_SW_TASK_CLOCK),
        Target::CallingThread,
    )
    .unwrap();
    burn();
    let reading = event.read().unwrap();
    assert!(
        matches!(reading.count(), Some(Count::Counted(1_000_000..))),
        "{reading:?}"
    );
}

#[test]
fn page_faults_of_a_group() {
    if !works() {
        return;
    }
    let attrs = [
        software(abi::PERF_COUNT_SW_PAGE_FAULTS),
        software(abi::PERF_COUNT_SW_TASK_CLOCK).read_lost(),
    ];
    let group = Group::open(&attrs[..1], Target::CallingThread).unwrap();
    group.enable().unwrap();
    let pages = 300;
    let mut memory = vec![0u8; pages * 4096];
    for page in memory.chunks_mut(4096) {
        page[0] = std::hint::black_box(1);
    }
    group.disable().unwrap();
    let reading = group.read().unwrap();
    // Huge pages may save faults, but something was touched for the first time.
    assert!(
        matches!(reading.count(0), Some(Count::Counted(1..))),
        "{reading:?}"
    );
}

#[test]
fn clock_samples_come_through_the_ring() {
    if !works() {
        return;
    }
    let attr = software(abi::PERF_COUNT_SW_CPU_CLOCK)
        .disabled(true)
        .sample_every(100_000) // 0.1 ms
        .sample_type(u64::from(abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_TID));
    let event = Event::open(&attr, Target::CallingThread).unwrap();
    let mut ring = event.ring(8).unwrap();
    event.enable().unwrap();
    burn();
    event.disable().unwrap();
    assert!(event.wait(0).unwrap().readable || ring.available() > 0);
    let mut samples = 0;
    ring.drain(|record| {
        if record.kind == abi::PERF_RECORD_SAMPLE {
            samples += 1;
            let pid = u32::from_le_bytes(record.body()[8..12].try_into().unwrap());
            assert_eq!(pid, std::process::id());
        }
    })
    .unwrap();
    assert!(samples >= 3, "{samples}");
    assert_eq!(ring.available(), 0);
}

#[test]
fn ioctls_reach_the_running_kernel() {
    if !works() {
        return;
    }
    let attr = software(abi::PERF_COUNT_SW_CPU_CLOCK)
        .disabled(true)
        .sample_every(1_000_000)
        .sample_type(u64::from(abi::PERF_SAMPLE_IP));
    let event = Event::open(&attr, Target::CallingThread).unwrap();
    let mut ring = event.ring(8).unwrap();
    assert_ne!(event.id().unwrap(), 0);
    event.set_period(200_000).unwrap();
    let samples = |ring: &mut truecount_perf::Ring| {
        let mut samples = 0;
        ring.drain(|record| samples += u64::from(record.kind == abi::PERF_RECORD_SAMPLE))
            .unwrap();
        samples + ring.lost()
    };
    event.enable().unwrap();
    burn();
    event.disable().unwrap();
    // With the old period it would be one a millisecond of the clock.
    let (found, clock) = (samples(&mut ring), event.read().unwrap().value);
    assert!(
        found > clock / 1_000_000 * 2,
        "{found} samples in {clock} ns"
    );
    event.refresh(2).unwrap(); // two overflows, then it is off
    burn();
    assert_eq!(samples(&mut ring), 2);
    event.reset().unwrap();
    assert_eq!(event.read().unwrap().value, 0);
    event.pause_output(true).unwrap();
    event.pause_output(false).unwrap();
    let other = Event::open(&attr, Target::CallingThread).unwrap();
    other.set_output(Some(&event)).unwrap();
    other.enable().unwrap();
    burn();
    other.disable().unwrap();
    assert!(
        ring.available() > 0,
        "samples of the other event come into this ring"
    );
    other.set_output(None).unwrap();
    let leader = Group::open(&[attr, attr], Target::CallingThread).unwrap();
    leader.enable().unwrap();
    burn();
    leader.disable().unwrap();
    let reading = leader.read().unwrap();
    assert!(
        (0..2).all(|i| matches!(reading.count(i), Some(Count::Counted(1..)))),
        "{reading:?}"
    );
}

#[test]
fn breakpoints_run_out() {
    if !works() {
        return;
    }
    let memory = [0u64; 64];
    let watch = |i: usize| {
        // HW_BREAKPOINT_W = 2
        let attr = EventAttr::breakpoint(2, (&raw const memory[i]) as u64, 8).exclude_kernel(true);
        Event::open(&attr, Target::CallingThread)
    };
    let mut open = Vec::new();
    for i in 0..memory.len() {
        match watch(i) {
            Ok(event) => open.push(event),
            Err(error) if open.is_empty() => {
                truecount_testing::skip!("breakpoints", "no breakpoints here ({error})");
                return;
            }
            Err(error) => {
                assert_eq!(
                    (error.errno(), error.cause()),
                    (Some(Errno::ENOSPC), Cause::NoBreakpointLeft)
                );
                return;
            }
        }
    }
    panic!("no CPU has 64 breakpoint registers");
}

#[test]
fn errnos_of_the_running_kernel_are_explained() {
    if !works() {
        return;
    }
    let clock = software(abi::PERF_COUNT_SW_TASK_CLOCK);
    let cause = |attr: &EventAttr, target: Target| {
        Event::open(attr, target).map(drop).map_err(|e| e.cause())
    };
    assert_eq!(
        cause(&clock, Target::Thread(0x3fff_fff0)),
        Err(Cause::NoSuchTask)
    );
    assert_eq!(
        cause(
            &EventAttr::new(1, 12_345).exclude_kernel(true),
            Target::CallingThread
        ),
        Err(Cause::NoSuchEvent)
    );
    assert_eq!(
        cause(
            &EventAttr::new(0x7fff_fff0, 0).exclude_kernel(true),
            Target::CallingThread
        ),
        Err(Cause::NoSuchPmu)
    );
    assert_eq!(
        cause(&clock.inherit_thread(true), Target::CallingThread),
        Err(Cause::ContradictingFlags)
    );
    assert_eq!(
        cause(
            &clock
                .sample_every(100)
                .sample_type(u64::from(abi::PERF_SAMPLE_CALLCHAIN))
                .sample_max_stack(60_000),
            Target::CallingThread
        ),
        Err(Cause::StackTooDeep)
    );
    let fast = clock.sample_frequency(1 << 40);
    assert_eq!(cause(&fast, Target::CallingThread), Err(Cause::RateTooHigh));
    if linux().facts().privileged() {
        assert_eq!(cause(&clock, Target::Cpu(100_000)), Err(Cause::NoSuchCpu));
    }
    let event = Event::open(&clock, Target::CallingThread).unwrap();
    assert_eq!(event.ring(3).unwrap_err().cause(), Cause::RingSize);
    assert_eq!(event.set_period(5).unwrap_err().cause(), Cause::IoctlUnfit);
    let inherited = Event::open(&clock.inherit(true), Target::CallingThread).unwrap();
    assert_eq!(
        inherited.control_page().unwrap_err().cause(),
        Cause::CannotMapInherited
    );
    let cgroup = Event::open(
        &clock,
        Target::Cgroup {
            fd: event.fd(),
            cpu: 0,
        },
    );
    assert_eq!(cgroup.unwrap_err().errno(), Some(Errno::EBADF));
}

#[test]
fn without_a_pmu_the_error_says_so() {
    if !works() {
        return;
    }
    let core = Pmu::all(&Root::system()).map(|pmus| pmus.iter().any(Pmu::is_core));
    let attr = EventAttr::new(abi::PERF_TYPE_HARDWARE, 1).exclude_kernel(true);
    match (core, Event::open(&attr, Target::CallingThread)) {
        (Some(false), Err(error)) => {
            assert_eq!(
                (error.errno(), error.cause()),
                (Some(Errno::ENOENT), Cause::NoPmu)
            );
            let line = error.to_string();
            assert!(
                line.contains("no PMU") && !line.contains("denied"),
                "{line}"
            );
        }
        (_, answer) => truecount_testing::skip!(
            "no-pmu",
            "this machine has a PMU, or does not say ({answer:?})"
        ),
    }
}
