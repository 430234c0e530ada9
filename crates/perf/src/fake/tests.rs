//! The scripted kernel behaves as the real one where the crates above depend on it.

use super::*;
use crate::probe::Root;
use crate::{Cause, Count, Event, EventAttr, Group, OpenOptions, Scope, Target, Times};

fn attr() -> EventAttr {
    EventAttr::new(0, 1).exclude_kernel(true).read_times()
}

fn open(fake: &FakeKernel, attr: &EventAttr) -> Event {
    Event::open_with(
        &fake.shared(),
        attr,
        Target::CallingThread,
        OpenOptions::default(),
    )
    .unwrap()
}

#[test]
fn more_events_than_counters_take_turns_and_are_scaled() {
    let fake = FakeKernel::new();
    let events: Vec<Event> = (0..8).map(|_| open(&fake, &attr())).collect();
    fake.advance(80_000);
    for event in &events {
        let reading = event.read().unwrap();
        assert_eq!(
            reading.times,
            Some(Times {
                enabled: 80_000,
                running: 40_000
            })
        );
        let count = reading.count().unwrap();
        assert!(count.is_scaled());
        assert_eq!((reading.value, count.value()), (40_000, Some(80_000)));
    }
}

#[test]
fn an_event_that_never_ran_has_no_count() {
    let fake = FakeKernel::new();
    fake.set_stolen(4);
    let event = open(&fake, &attr());
    fake.advance(5_000);
    assert_eq!(event.read().unwrap().count(), Some(Count::None));
}

#[test]
fn a_pinned_event_without_a_counter_reads_end_of_file() {
    let fake = FakeKernel::new();
    fake.set_stolen(4);
    let event = open(&fake, &attr().pinned(true));
    let error = event.read().unwrap_err();
    assert_eq!(
        (error.cause(), error.errno()),
        (Cause::PinnedNotScheduled, None)
    );
    assert!(error.to_string().contains("nmi_watchdog"), "{error}");
}

#[test]
fn groups_run_together_and_are_read_in_one_call() {
    let fake = FakeKernel::new();
    fake.set_rate(0, 0, 3);
    let attrs = [
        EventAttr::new(0, 1),
        EventAttr::new(0, 0),
        EventAttr::new(1, 1),
    ];
    let group = Group::open_with(&fake.shared(), &attrs, Target::CallingThread).unwrap();
    fake.advance(100);
    group.enable().unwrap();
    fake.advance(1_000);
    group.disable().unwrap();
    fake.advance(100);
    let mut reading = group.new_reading();
    group.read_into(&mut reading).unwrap();
    assert_eq!(
        reading.times(),
        Some(Times {
            enabled: 1_000,
            running: 1_000
        })
    );
    let counts: Vec<_> = (0..3).map(|i| reading.count(i).unwrap()).collect();
    assert_eq!(
        counts,
        [
            Count::Counted(1_000),
            Count::Counted(3_000),
            Count::Counted(1_000)
        ]
    );
    let ids: Vec<_> = reading.members().iter().map(|member| member.id).collect();
    let expected: Vec<_> = group.events().map(|event| event.id().ok()).collect();
    assert_eq!(ids, expected);
    // The leader alone also reads through the group's format.
    assert_eq!(group.leader().read().unwrap().value, 1_000);
    let empty = Group::open_with(&fake.shared(), &[], Target::CallingThread).unwrap_err();
    assert_eq!(empty.errno(), Some(Errno::EINVAL));
    // Two software and hardware members fit four counters; a fifth hardware event does not.
    let five = [EventAttr::new(0, 1); 5];
    let error = Group::open_with(&fake.shared(), &five, Target::CallingThread).unwrap_err();
    assert_eq!(
        (error.cause(), error.errno()),
        (Cause::GroupTooLarge, Some(Errno::EINVAL))
    );
}

#[test]
fn a_group_reading_without_room_is_an_error_and_no_half_reading() {
    let fake = FakeKernel::new();
    let group = Group::open_with(
        &fake.shared(),
        &[attr(), attr(), attr()],
        Target::CallingThread,
    )
    .unwrap();
    let mut small = crate::GroupReading::with_room_for(1);
    let error = group.read_into(&mut small).unwrap_err();
    assert_eq!(error.cause(), Cause::BufferTooSmall);
    fake.script_read(group.leader().fd(), &[u64::MAX, 1, 1, 5, 5]);
    let mut reading = group.new_reading();
    assert_eq!(
        group.read_into(&mut reading).unwrap_err().cause(),
        Cause::Malformed
    );
    assert!(reading.members().is_empty());
}

#[test]
fn ioctls_reach_the_kernel() {
    let fake = FakeKernel::new();
    let mut event = open(&fake, &attr().disabled(true).sample_every(100));
    fake.advance(10);
    assert_eq!(event.read().unwrap().times, Some(Times::default()));
    event.enable().unwrap();
    fake.advance(10);
    assert_eq!(event.read().unwrap().value, 10);
    event.reset().unwrap();
    event.disable().unwrap();
    assert_eq!(event.read().unwrap().value, 0);
    event.set_period(7).unwrap();
    assert_eq!(event.set_period(0).unwrap_err().cause(), Cause::IoctlUnfit);
    event.refresh(3).unwrap();
    event.pause_output(true).unwrap();
    event.set_filter(c"common_pid != 1").unwrap();
    event.set_bpf(3).unwrap();
    event.reset_group().unwrap();
    let other = open(&fake, &attr());
    event.set_output(Some(&other)).unwrap();
    event.set_output(None).unwrap();
    event.modify(&EventAttr::breakpoint(3, 16, 8)).unwrap();
    assert_eq!(event.attr().get_config1(), 16);
    let names: Vec<String> = fake
        .calls()
        .into_iter()
        .filter_map(|call| match call {
            Call::Ioctl(_, name) => Some(name),
            _ => None,
        })
        .collect();
    for name in [
        "Enable { group: false }",
        "Period(7)",
        "Refresh(3)",
        "SetOutput(-1)",
        "PauseOutput(true)",
    ] {
        assert!(names.iter().any(|seen| seen == name), "{name} in {names:?}");
    }
}

#[test]
fn what_is_opened_is_closed_and_unmapped() {
    let fake = FakeKernel::new();
    let event = open(&fake, &attr());
    let page = event.control_page().unwrap();
    let fd = event.fd();
    drop(event);
    assert_eq!(page.view().version(), 0); // memory outlives the descriptor
    drop(page);
    assert!(fake.open_descriptors().is_empty());
    let calls = fake.calls();
    assert!(calls.contains(&Call::Close(fd)) && calls.contains(&Call::Unmap(PAGE_SIZE)));
}

#[test]
fn errnos_are_scripted_and_explained() {
    let fake = FakeKernel::new();
    fake.fail_next("open", Errno::EMFILE);
    let options = OpenOptions::default();
    let error =
        Event::open_with(&fake.shared(), &attr(), Target::CallingThread, options).unwrap_err();
    assert_eq!(
        (error.cause(), error.errno()),
        (Cause::TooManyFiles, Some(Errno::EMFILE))
    );
    fake.on_open(|opening| (opening.cpu == 1).then_some(Errno::ENODEV));
    fake.set_facts(|facts| facts.online_cpus = Some(vec![0]));
    let error = Scope::Cpus(vec![0, 1])
        .open(&fake.shared(), &Root::system(), &attr())
        .unwrap_err();
    assert_eq!(error.cause(), Cause::NoSuchCpu);
    let event = open(&fake, &attr());
    fake.fail_next("mmap", Errno::EPERM);
    fake.set_facts(|facts| facts.cap_ipc_lock = false);
    assert_eq!(event.ring(8).unwrap_err().cause(), Cause::LockedMemory);
    fake.fail_next("read", Errno::EIO);
    assert_eq!(event.read().unwrap_err().cause(), Cause::Unknown);
    fake.fail_next("poll", Errno::EINTR);
    assert_eq!(event.wait(1).unwrap_err().cause(), Cause::Interrupted);
}

#[test]
fn targets_and_options_become_the_right_arguments() {
    let fake = FakeKernel::new();
    let kernel = fake.shared();
    let base = open(&fake, &attr());
    let cases = [
        (Target::CallingThread, (0, -1, 8)),
        (Target::CallingThreadOnCpu(3), (0, 3, 8)),
        (Target::Thread(77), (77, -1, 8)),
        (Target::ThreadOnCpu { tid: 77, cpu: 1 }, (77, 1, 8)),
        (Target::Cpu(2), (-1, 2, 8)),
        (Target::Cgroup { fd: 5, cpu: 1 }, (5, 1, 8 | 4)),
        (Target::Cpu(u32::MAX), (-1, i32::MAX, 8)),
    ];
    let last = |fake: &FakeKernel| match fake.calls().pop() {
        Some(Call::Open { opening, .. }) => opening,
        other => panic!("{other:?}"),
    };
    for (target, expected) in cases {
        let opened = Event::open_with(&kernel, &attr(), target, OpenOptions::default()).unwrap();
        // Dropping comes after: look at the call before it.
        let seen = last(&fake);
        assert_eq!((seen.pid, seen.cpu, seen.flags), expected, "{target:?}");
        assert_eq!(seen.group_fd, -1);
        drop(opened);
    }
    let options = OpenOptions {
        output: Some(&base),
        ..OpenOptions::default()
    };
    let _ring = Event::open_with(&kernel, &attr(), Target::CallingThread, options).unwrap();
    let seen = last(&fake);
    assert_eq!((seen.group_fd, seen.flags), (base.fd(), 8 | 2 | 1));
    let options = OpenOptions {
        keep_on_exec: true,
        leader: Some(&base),
        output: None,
    };
    let _member = Event::open_with(&kernel, &attr(), Target::CallingThread, options).unwrap();
    let seen = last(&fake);
    assert_eq!((seen.group_fd, seen.flags), (base.fd(), 0));
}

#[test]
fn all_threads_of_a_process() {
    let fake = FakeKernel::new();
    let tree = Tree::new().unwrap();
    for tid in [50, 51, 52] {
        tree.file(&format!("proc/50/task/{tid}/comm"), "x");
    }
    // One thread ended between listing and opening.
    fake.on_open(|opening| (opening.pid == 51).then_some(Errno::ESRCH));
    let open = |pid| Scope::Process(pid).open(&fake.shared(), &tree.root(), &attr());
    let events = open(50).unwrap();
    let targets: Vec<_> = events.iter().map(Event::target).collect();
    assert_eq!(targets, [Target::Thread(50), Target::Thread(52)]);
    let error = open(49).unwrap_err();
    assert_eq!(error.cause(), Cause::NoSuchTask);
    assert!(error.to_string().contains("49"), "{error}");
}
