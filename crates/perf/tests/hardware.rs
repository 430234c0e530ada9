//! Tests that need a PMU. Without one each prints `skipped: …`; `cargo xtask vm-test` runs them inside
//! virtual machines that have one, where skipping for want of a PMU is a failure
//! (`TRUECOUNT_REQUIRE=pmu`).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::process::Command;

use truecount_perf::probe::{self, BranchTrial, Pmu, Root};
use truecount_perf::sys::bindings as abi;
use truecount_perf::{Cause, Count, Errno, Event, EventAttr, Group, Scope, Target, linux};

const BRANCHES: u32 = abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
const INSTRUCTIONS: u32 = abi::PERF_COUNT_HW_INSTRUCTIONS;
const CYCLES: u32 = abi::PERF_COUNT_HW_CPU_CYCLES;

/// An event of user mode, switched off.
fn user(config: u32) -> EventAttr {
    EventAttr::new(abi::PERF_TYPE_HARDWARE, u64::from(config))
        .exclude_kernel(true)
        .exclude_hv(true)
        .disabled(true)
        .read_times()
}

/// Prints why a test does not run; where a PMU was promised, that is a failure.
fn skip(reason: &str) {
    truecount_testing::skip!("pmu", "{reason}");
}

fn has_pmu() -> bool {
    match Event::open(&user(INSTRUCTIONS), Target::CallingThread) {
        Ok(_) => true,
        Err(error) => {
            skip(&format!("no PMU ({})", error.reason()));
            false
        }
    }
}

/// The event that only general counters count: branches, or instructions where there are none.
fn general() -> EventAttr {
    match Event::open(&user(BRANCHES), Target::CallingThread) {
        Ok(_) => user(BRANCHES),
        Err(_) => user(INSTRUCTIONS),
    }
}

#[inline(never)]
fn spin(rounds: u64) {
    for i in 0..rounds {
        std::hint::black_box(i);
    }
}

fn counted(event: &Event, rounds: u64) -> u64 {
    event.reset().unwrap();
    event.enable().unwrap();
    spin(rounds);
    event.disable().unwrap();
    match event.read().unwrap().count() {
        Some(Count::Counted(value)) => value,
        other => panic!("not counted all the time: {other:?}"),
    }
}

/// The work of the child processes below; does nothing in an ordinary run.
#[test]
fn child_spins() {
    if let Some(rounds) = std::env::var("TRUECOUNT_SPIN")
        .ok()
        .and_then(|n| n.parse().ok())
    {
        spin(rounds);
    }
}

fn child(rounds: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_spins", "--test-threads=1"]);
    command.env("TRUECOUNT_SPIN", rounds.to_string());
    command
}

#[test]
fn twice_the_work_is_twice_the_count() {
    if !has_pmu() {
        return;
    }
    let event = Event::open(&user(INSTRUCTIONS), Target::CallingThread).unwrap();
    counted(&event, 1_000);
    let (one, two) = (counted(&event, 100_000), counted(&event, 200_000));
    let per_round = (two - one) as f64 / 100_000.0;
    // The loop has a whole number of instructions a round; the rest is the same in both.
    assert!(per_round >= 1.0, "{one} {two}");
    assert!(
        (per_round - per_round.round()).abs() < 0.001,
        "{per_round} instructions a round"
    );
}

#[test]
fn groups_are_read_in_one_call() {
    if !has_pmu() {
        return;
    }
    let attrs = [
        user(INSTRUCTIONS),
        user(CYCLES),
        EventAttr::new(abi::PERF_TYPE_SOFTWARE, 1),
    ];
    let group = Group::open(&attrs, Target::CallingThread).unwrap();
    let mut reading = group.new_reading();
    group.read_into(&mut reading).unwrap();
    assert_eq!(reading.count(0), Some(Count::None), "nothing ran yet");
    group.enable().unwrap();
    spin(200_000);
    group.disable().unwrap();
    group.read_into(&mut reading).unwrap();
    assert_eq!(reading.members().len(), 3);
    let times = reading.times().unwrap();
    assert_eq!(times.enabled, times.running);
    for index in 0..3 {
        assert!(
            matches!(reading.count(index), Some(Count::Counted(1..))),
            "{index}: {reading:?}"
        );
    }
    let ids: Vec<_> = group.events().map(|event| event.id().unwrap()).collect();
    let read: Vec<_> = reading
        .members()
        .iter()
        .filter_map(|member| member.id)
        .collect();
    assert_eq!(ids, read);
}

#[test]
fn too_many_events_take_turns_and_are_labelled_scaled() {
    if !has_pmu() {
        return;
    }
    let attr = general();
    let alone = Event::open(&attr, Target::CallingThread).unwrap();
    let rounds = 40_000_000;
    let truth = counted(&alone, rounds) as f64;
    drop(alone);
    let fit = probe::counters_at_once(&linux()).unwrap().general.ran;
    let events: Vec<Event> = (0..fit + 3)
        .map(|_| Event::open(&attr.disabled(false), Target::CallingThread).unwrap())
        .collect();
    spin(rounds);
    let counts: Vec<Count> = events
        .iter()
        .map(|event| event.read().unwrap().count().unwrap())
        .collect();
    let scaled: Vec<&Count> = counts.iter().filter(|count| count.is_scaled()).collect();
    assert!(scaled.len() > fit, "{fit} counters, {counts:?}");
    for count in scaled {
        let Count::Scaled {
            estimate,
            raw,
            times,
        } = *count
        else {
            unreachable!()
        };
        assert!(times.running < times.enabled && raw < estimate, "{count:?}");
        let error = (estimate as f64 / truth - 1.0).abs();
        assert!(error < 0.25, "off by {error}: {count:?}, truth {truth}");
    }
}

#[test]
fn a_pinned_event_too_many_says_so() {
    if !has_pmu() {
        return;
    }
    let attr = general().pinned(true).disabled(false);
    let fit = probe::counters_at_once(&linux()).unwrap().general.ran;
    let events: Vec<Event> = (0..=fit)
        .map(|_| Event::open(&attr, Target::CallingThread).unwrap())
        .collect();
    spin(1_000);
    let failed: Vec<_> = events
        .iter()
        .filter_map(|event| event.read().err())
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].cause(), Cause::PinnedNotScheduled);
}

#[test]
fn threads_and_children_are_inherited() {
    if !has_pmu() {
        return;
    }
    let open = |inherit: bool| {
        Event::open(
            &user(INSTRUCTIONS).inherit(inherit).disabled(false),
            Target::CallingThread,
        )
        .unwrap()
    };
    let (with, without) = (open(true), open(false));
    let value = |event: &Event| event.read().unwrap().value;
    let before = (value(&with), value(&without));
    std::thread::spawn(|| spin(5_000_000)).join().unwrap();
    let thread = (value(&with) - before.0, value(&without) - before.1);
    assert!(thread.0 > 5_000_000 && thread.1 < 5_000_000, "{thread:?}");
    let before = (value(&with), value(&without));
    assert!(child(5_000_000).output().unwrap().status.success());
    let process = (value(&with) - before.0, value(&without) - before.1);
    assert!(
        process.0 > 5_000_000 && process.1 < 5_000_000,
        "{process:?}"
    );
}

#[test]
fn counting_begins_with_exec() {
    if !has_pmu() {
        return;
    }
    // The event is inherited by the child switched off, and its execve switches it on there only.
    let attr = user(INSTRUCTIONS).inherit(true).enable_on_exec(true);
    let event = Event::open(&attr, Target::CallingThread).unwrap();
    spin(1_000_000);
    assert_eq!(event.read().unwrap().count(), Some(Count::None));
    assert!(child(3_000_000).output().unwrap().status.success());
    let reading = event.read().unwrap();
    assert!(reading.value > 3_000_000, "{reading:?}");
    assert!(
        matches!(reading.count(), Some(Count::Counted(_))),
        "{reading:?}"
    );
}

#[test]
fn samples_come_through_the_ring() {
    if !has_pmu() {
        return;
    }
    let period = 10_007;
    let attr = user(INSTRUCTIONS)
        .sample_every(period)
        .sample_type(u64::from(
            abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_PERIOD,
        ))
        .wakeup(1);
    let event = Event::open(&attr, Target::CallingThread).unwrap();
    let mut ring = event.ring(1).unwrap();
    let mut samples = 0u64;
    // One page holds 128 samples of 32 bytes, so this wraps around many times.
    for _ in 0..100 {
        event.enable().unwrap();
        spin(5_000);
        event.disable().unwrap();
        ring.drain(|record| {
            if record.kind == abi::PERF_RECORD_SAMPLE {
                samples += 1;
                assert_eq!(record.bytes.len(), 8 + 8 + 8 + 8);
                assert_eq!(record.body()[16..24], period.to_le_bytes());
                assert_eq!(u32::from(record.misc) & 7, abi::PERF_RECORD_MISC_USER);
                let pid = u32::from_le_bytes(record.body()[8..12].try_into().unwrap());
                assert_eq!(pid, std::process::id());
            }
        })
        .unwrap();
    }
    assert_eq!((ring.lost(), ring.lost_samples()), (0, 0));
    let expected = event.read().unwrap().value / period;
    assert!(
        expected > 200 && samples.abs_diff(expected) <= 1,
        "{samples} samples, {expected} expected"
    );
}

#[test]
fn a_full_ring_loses_samples_and_says_how_many() {
    if !has_pmu() {
        return;
    }
    let attr = user(INSTRUCTIONS)
        .sample_every(5_003)
        .sample_type(u64::from(abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_PERIOD));
    let event = Event::open(&attr, Target::CallingThread).unwrap();
    let mut ring = event.ring(1).unwrap();
    let mut samples = 0u64;
    let mut round = |ring: &mut truecount_perf::Ring| {
        event.enable().unwrap();
        spin(1_000_000);
        event.disable().unwrap();
        ring.drain(|record| samples += u64::from(record.kind == abi::PERF_RECORD_SAMPLE))
            .unwrap();
    };
    round(&mut ring);
    round(&mut ring); // the records that tell of losses come with the next sample
    let told = ring.lost();
    assert!(told > 50, "{told} lost");
    let expected = event.read().unwrap().value / 5_003;
    // What the second round lost is not told yet.
    assert!(
        samples + told <= expected + 1,
        "{samples} + {told} of {expected}"
    );
}

#[test]
fn the_page_allows_user_reads() {
    if !has_pmu() {
        return;
    }
    let arm = cfg!(target_arch = "aarch64");
    let attr = user(INSTRUCTIONS).config1(if arm { 2 } else { 0 });
    let allowed = if arm {
        Root::system().number("proc/sys/kernel/perf_user_access") == Some(1)
    } else {
        let pmus = Pmu::all(&Root::system()).unwrap_or_default();
        pmus.iter()
            .find(|pmu| pmu.is_core())
            .and_then(|pmu| pmu.rdpmc)
            != Some(0)
    };
    let seen = match probe::user_read(&linux(), &attr) {
        Ok(seen) => seen,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(seen.allowed, allowed, "{seen:?}");
    if allowed {
        assert!(
            seen.has_index && (32..=64).contains(&seen.width),
            "{seen:?}"
        );
    }
    // The page's times and the system call's agree where the event is off.
    let event = Event::open(&attr, Target::CallingThread).unwrap();
    let page = event.control_page().unwrap();
    event.enable().unwrap();
    spin(10_000);
    event.disable().unwrap();
    let snapshot = page
        .view()
        .snapshot(100, |_| unreachable!("the event is off"), || 0)
        .unwrap();
    let reading = event.read().unwrap();
    assert_eq!(snapshot.index, 0);
    assert_eq!(snapshot.value, reading.value);
    // The kernel wrote the page a moment before or after it took the final time.
    let times = reading.times.unwrap();
    assert!(
        snapshot.time_running.abs_diff(times.running) < 100_000,
        "{snapshot:?} {times:?}"
    );
}

#[test]
fn counters_at_once_are_those_that_cpuid_announces() {
    if !has_pmu() {
        return;
    }
    let found = probe::counters_at_once(&linux()).unwrap();
    println!("found: {found:?}");
    assert!(
        found.general.ran >= 2 && found.all.ran >= found.general.ran,
        "{found:?}"
    );
    let cpu = probe::cpu::describe(&Root::system());
    if let (Some(general), Some(false)) = (cpu.general_counters, linux().facts().nmi_watchdog) {
        assert_eq!(found.general.ran, general as usize, "{cpu:?}");
        // Reference cycles need a fixed counter of their own.
        assert_eq!(
            found.all.ran,
            (general + cpu.fixed_counters.unwrap_or(0)) as usize,
            "{found:?} {cpu:?}"
        );
    }
    // One more is refused as a group, with the reason.
    if found.general.refused == Some(Errno::EINVAL) {
        let many = vec![general(); found.general.ran + 1];
        let error = Group::open(&many, Target::CallingThread).unwrap_err();
        assert_eq!(error.cause(), Cause::GroupTooLarge, "{error}");
    }
}

#[test]
fn branch_stacks_are_what_the_pmu_says() {
    if !has_pmu() {
        return;
    }
    let pmus = Pmu::all(&Root::system()).unwrap_or_default();
    let announced = pmus
        .iter()
        .filter(|pmu| pmu.is_core())
        .find_map(|pmu| pmu.cap_number("branches"));
    let trial = probe::branch_stack(&linux());
    println!("announced: {announced:?}, trial: {trial:?}");
    match announced {
        Some(1..) => assert_eq!(trial, BranchTrial::Works),
        _ => assert_ne!(trial, BranchTrial::Refused(Errno::EACCES)),
    }
}

#[test]
fn a_precise_event_that_cannot_be_is_explained() {
    if !has_pmu() {
        return;
    }
    let attr = user(INSTRUCTIONS).sample_every(1_000).precise_ip(3);
    match Event::open(&attr, Target::CallingThread) {
        Ok(_) => println!("the kernel accepts it here"),
        Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => {
            assert_eq!(error.cause(), Cause::NotPrecise, "{error}");
        }
        // Arm PMUs ignore the precision or refuse it as an event that does not exist.
        Err(error) => assert!(!error.hint().is_empty(), "{error}"),
    }
}

/// Whether this is the unprivileged run with a paranoid level that `fits`; says so where it is not.
fn unprivileged_with_level(fits: impl Fn(i32) -> bool, name: &str) -> bool {
    let facts = linux().facts();
    let promised = std::env::var("TRUECOUNT_EXPECT_PARANOID")
        .ok()
        .and_then(|level| level.parse().ok());
    if !facts.privileged() && facts.paranoid.is_some_and(&fits) {
        return true;
    }
    truecount_testing::skip!(
        "paranoid",
        "needs kernel.perf_event_paranoid {name} and no privilege"
    );
    assert!(!promised.is_some_and(fits), "promised, but {facts:?}");
    false
}

/// Runs without privilege only (a run of its own in vm-test).
#[test]
fn paranoid_3_is_explained() {
    if !unprivileged_with_level(|level| level >= 3, "3 or more") {
        return;
    }
    let level = linux().facts().paranoid.unwrap();
    let error = Event::open(&user(INSTRUCTIONS), Target::CallingThread).unwrap_err();
    assert_eq!(error.cause(), Cause::ParanoidForbidsAll, "{error}");
    let line = error.to_string();
    let found = format!("perf_event_paranoid is {level}");
    for words in [&found, "sysctl kernel.perf_event_paranoid=2", "CAP_PERFMON"] {
        assert!(line.contains(words), "{words:?} is not in: {line}");
    }
    println!("{line}");
}

/// Runs without privilege only (a run of its own in vm-test).
#[test]
fn paranoid_2_forbids_the_kernel_and_whole_cpus_and_nothing_else() {
    if !unprivileged_with_level(|level| level == 2, "2") || !has_pmu() {
        return;
    }
    let kernel = user(INSTRUCTIONS).exclude_kernel(false);
    let error = Event::open(&kernel, Target::CallingThread).unwrap_err();
    assert_eq!(error.cause(), Cause::ParanoidForbidsKernel, "{error}");
    let error = Event::open(&user(INSTRUCTIONS), Target::Cpu(0)).unwrap_err();
    assert_eq!(error.cause(), Cause::ParanoidForbidsCpuWide, "{error}");
    let error = Event::open(&user(INSTRUCTIONS), Target::Thread(1)).unwrap_err();
    assert_eq!(error.cause(), Cause::NotYourTask, "{error}");
    let attr = user(INSTRUCTIONS).sample_every(1_000_000);
    let event = Event::open(&attr, Target::CallingThread).unwrap();
    let error = event.ring(1 << 14).unwrap_err();
    assert_eq!(error.cause(), Cause::LockedMemory, "{error}");
}

#[test]
fn system_wide_counts_every_cpu() {
    if !has_pmu() {
        return;
    }
    if !linux().facts().privileged() && linux().facts().paranoid.is_none_or(|level| level > 0) {
        truecount_testing::skip!("privilege", "needs privilege");
        return;
    }
    let cpus = Root::system().online_cpus().unwrap();
    let attr = user(INSTRUCTIONS).disabled(false);
    let events = Scope::Machine
        .open(&linux(), &Root::system(), &attr)
        .unwrap();
    assert_eq!(events.len(), cpus.len());
    std::thread::spawn(|| spin(2_000_000)).join().unwrap();
    let sum: u64 = events.iter().map(|event| event.read().unwrap().value).sum();
    assert!(sum > 2_000_000, "{sum}");
}
