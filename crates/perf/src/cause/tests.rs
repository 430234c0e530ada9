//! A situation for every row, and a check that no row is without one.

use std::collections::BTreeSet;

use perf_event_open_sys::bindings as abi;

use super::{Cause, explain, row_for, rows};
use crate::facts::Facts;
use crate::fake::FakeKernel;
use crate::situation::{Operation, Situation};
use crate::{Errno, Error, EventAttr, Kernel, Target};

struct Case {
    errno: Errno,
    situation: Situation,
    cause: Cause,
    /// What the one line must say.
    says: &'static [&'static str],
}

/// Opening `instructions:u` on the calling thread of a good machine, unprivileged.
fn plain() -> Situation {
    let fake = FakeKernel::new();
    fake.set_facts(|facts| {
        facts.cap_perfmon = false;
        facts.cap_sys_admin = false;
        facts.cap_sys_ptrace = false;
        facts.cap_ipc_lock = false;
    });
    Situation {
        operation: Operation::Open,
        attr: EventAttr::new(abi::PERF_TYPE_HARDWARE, 1)
            .exclude_kernel(true)
            .exclude_hv(true),
        target: Target::CallingThread,
        in_group: false,
        facts: fake.facts(),
    }
}

fn with(change: impl FnOnce(&mut Situation)) -> Situation {
    let mut situation = plain();
    change(&mut situation);
    situation
}

fn facts(change: impl FnOnce(&mut Facts)) -> Situation {
    with(|situation| change(&mut situation.facts))
}

fn attr(change: impl FnOnce(EventAttr) -> EventAttr) -> Situation {
    with(|situation| situation.attr = change(situation.attr))
}

fn during(operation: Operation) -> Situation {
    with(|situation| situation.operation = operation)
}

fn no_pmu(facts: &mut Facts) {
    facts.pmus = FakeKernel::without_pmu().facts().pmus;
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let case = |errno, cause, situation, says| Case { errno, situation, cause, says };
    let stack = u64::from(abi::PERF_SAMPLE_BRANCH_STACK);
    vec![
        // No PMU is not "permission denied", whatever the sysctl says.
        case(Errno::ENOENT, Cause::NoPmu, facts(no_pmu), &["no PMU", "ENOENT", "source without a PMU"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.paranoid = Some(4); f.hypervisor = Some("KVMKVMKVM".into()); }), &["KVMKVMKVM", "pmu=on"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("unknown".into()); }), &["its hypervisor does not offer one"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("XenVMMXenVMM".into()); }), &["vpmu=on"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("VMwareVMware".into()); }), &["vpmc.enable"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("Microsoft Hv".into()); }), &["Set-VMProcessor", "-Perfmon"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("Microsoft Hv".into()); f.release = Some("5.15.167.4-microsoft-standard-WSL2".into()); }), &["WSL"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("Microsoft Hv".into()); f.machine_vendor = Some("Microsoft Corporation".into()); f.container = None; }), &["Azure", "self-hosted"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("KVMKVMKVM".into()); f.machine_vendor = Some("Amazon EC2".into()); }), &["EC2", "metal"]),
        case(Errno::ENOENT, Cause::NoPmu, facts(|f| { no_pmu(f); f.hypervisor = Some("KVMKVMKVM".into()); f.machine_vendor = Some("Google".into()); }), &["performance-monitoring-unit"]),
        case(Errno::ENOENT, Cause::EventNotOnCpu, attr(|_| EventAttr::new(0, 7)), &["does not have the event", "raw event"]),
        case(Errno::ENOENT, Cause::EventNotOnCpu, facts(|f| f.pmus = None), &["does not have the event"]),
        case(Errno::ENOENT, Cause::NoSuchPmu, attr(|_| EventAttr::new(42, 0)), &["type 42", "/sys/bus/event_source/devices"]),
        case(Errno::ENOENT, Cause::NoSuchEvent, attr(|_| EventAttr::new(1, 999)), &["kernel does not have the event"]),
        case(Errno::ENOSYS, Cause::Seccomp, facts(|f| f.container = Some("podman".into())), &["podman", "--cap-add PERFMON"]),
        case(Errno::ENOSYS, Cause::NotOnArchitecture, attr(|a| a.sample_stack_user(8192)), &["architecture", "frame pointers"]),
        case(Errno::ENOSYS, Cause::NoPerfInKernel, facts(|f| f.paranoid = None), &["CONFIG_PERF_EVENTS"]),
        case(Errno::EPERM, Cause::Lockdown, with(|s| { s.facts.lockdown = Some("integrity".into()); s.attr = s.attr.sample_regs_intr(1); }), &["integrity", "Secure Boot"]),
        case(Errno::EPERM, Cause::Seccomp, facts(|f| { f.seccomp_filter = true; f.container = Some("docker".into()); }), &["docker", "seccomp="]),
        case(Errno::EPERM, Cause::Seccomp, facts(|f| f.seccomp_filter = true), &["seccomp", "EPERM"]),
        case(Errno::EACCES, Cause::ParanoidForbidsAll, facts(|f| f.paranoid = Some(3)), &["perf_event_paranoid is 3", "perf_event_paranoid=2", "cap_perfmon"]),
        case(Errno::EPERM, Cause::ParanoidForbidsAll, facts(|f| f.paranoid = Some(4)), &["perf_event_paranoid is 4"]),
        case(Errno::EACCES, Cause::ParanoidForbidsAll, facts(|f| { f.paranoid = Some(3); f.cap_perfmon = true; f.user_namespace = true; }), &["outside the user namespace"]),
        case(Errno::EACCES, Cause::ParanoidForbidsKernel, attr(|_| EventAttr::new(0, 1)), &["perf_event_paranoid is 2", ":u", "perf_event_paranoid=1"]),
        case(Errno::EACCES, Cause::ParanoidForbidsCpuWide, with(|s| { s.facts.paranoid = Some(1); s.target = Target::Cpu(0); }), &["perf_event_paranoid is 1", "perf_event_paranoid=0"]),
        // At level 2 without :u: level 1 would allow the kernel's part, but not whole CPUs.
        case(Errno::EACCES, Cause::ParanoidForbidsCpuWide, with(|s| { s.attr = EventAttr::new(0, 1); s.target = Target::Cpu(0); }), &["perf_event_paranoid is 2", "perf_event_paranoid=0"]),
        case(Errno::EACCES, Cause::ParanoidForbidsCpuWide, with(|s| { s.target = Target::Cgroup { fd: 3, cpu: 0 }; }), &["whole CPUs"]),
        case(Errno::EPERM, Cause::ParanoidForbidsTracepoint, with(|s| { s.facts.paranoid = Some(0); s.attr = s.attr.type_(2); }), &["tracepoints", "perf_event_paranoid=-1"]),
        case(Errno::EACCES, Cause::NeedsPerfmon, with(|s| { s.facts.paranoid = Some(-1); s.attr = s.attr.sample_type(u64::from(abi::PERF_SAMPLE_PHYS_ADDR)); }), &["CAP_PERFMON"]),
        case(Errno::EACCES, Cause::NotYourTask, with(|s| s.target = Target::Thread(77)), &["task 77", "as root"]),
        case(Errno::EPERM, Cause::LockedMemory, during(Operation::Map), &["516", "smaller ring"]),
        case(Errno::EACCES, Cause::PermissionDenied, plain(), &["SELinux"]),
        case(Errno::EACCES, Cause::PermissionDenied, facts(|f| { f.paranoid = Some(4); f.cap_perfmon = true; }), &["security module"]),
        case(Errno::ESRCH, Cause::NoSuchTask, with(|s| s.target = Target::Thread(99)), &["task 99 does not exist"]),
        case(Errno::ENODEV, Cause::NoSuchCpu, with(|s| s.target = Target::Cpu(7)), &["CPU 7", "/sys/devices/system/cpu/online"]),
        case(Errno::EINVAL, Cause::NoSuchCpu, with(|s| s.target = Target::Cpu(9999)), &["CPU 9999"]),
        case(Errno::ENODEV, Cause::DeviceGone, plain(), &["gone or switched off"]),
        case(Errno::E2BIG, Cause::KernelTooOld, attr(|a| a.config4(1)), &["6.12.0", "config3 needs Linux 6.3"]),
        case(Errno::EINVAL, Cause::NotPrecise, attr(|a| a.precise_ip(2)), &["where samples fall", "leave the p out"]),
        case(Errno::EINVAL, Cause::ContradictingFlags, with(|s| { s.in_group = true; s.attr = s.attr.pinned(true); }), &["leader of a group"]),
        case(Errno::EINVAL, Cause::ContradictingFlags, attr(|a| a.inherit_thread(true)), &["inherit_thread needs inherit"]),
        case(Errno::EINVAL, Cause::ContradictingFlags, attr(|a| a.sigtrap(true)), &["sigtrap needs remove_on_exec"]),
        case(Errno::EINVAL, Cause::ContradictingFlags, attr(|a| a.remove_on_exec(true).enable_on_exec(true)), &["exclude each other"]),
        case(Errno::EINVAL, Cause::ContradictingFlags, attr(|a| a.sample_stack_user(12)), &["multiple of 8"]),
        case(Errno::EINVAL, Cause::ContradictingFlags, attr(|a| a.sample_every(u64::MAX)), &["2^63"]),
        case(Errno::EINVAL, Cause::RateTooHigh, attr(|a| a.sample_frequency(1_000_000)), &["1000000", "100000", "max_sample_rate"]),
        case(Errno::EINVAL, Cause::InheritedGroup, with(|s| { s.facts.release = Some("6.1.0-18-amd64".into()); s.attr = s.attr.inherit(true).read_group(); }), &["6.12", "one by one"]),
        case(Errno::EINVAL, Cause::NotPerTask, with(|s| { s.attr = s.attr.type_(17); s.facts.pmus.as_mut().unwrap().push(crate::facts::PmuFact { name: "power".into(), type_: Some(17), core: false, branches: None, max_precise: None, brs: false }); }), &["PMU power", "system-wide"]),
        case(Errno::EINVAL, Cause::GroupTooLarge, with(|s| s.in_group = true), &["more events than counters", "smaller"]),
        case(Errno::EINVAL, Cause::BadAttribute, plain(), &["format directory"]),
        case(Errno::EINVAL, Cause::CannotMapInherited, with(|s| { s.operation = Operation::Map; s.attr = s.attr.inherit(true); }), &["inherits", "system call"]),
        case(Errno::EINVAL, Cause::RingSize, during(Operation::Map), &["power of two"]),
        case(Errno::ENOTTY, Cause::IoctlUnfit, during(Operation::Ioctl("PERIOD")), &["PERIOD", "does not fit"]),
        case(Errno::EINVAL, Cause::BadAttribute, during(Operation::Read), &["arguments"]),
        case(Errno::EOPNOTSUPP, Cause::NoBranchStack, attr(|a| a.sample_every(1).sample_type(stack).precise_ip(2)), &["branch stacks"]),
        case(Errno::EINVAL, Cause::NoBranchStack, with(|s| { s.attr = s.attr.sample_every(1).sample_type(stack); for pmu in s.facts.pmus.iter_mut().flatten() { pmu.brs = pmu.core; } }), &["BRS", "-e branch-brs -c"]),
        case(Errno::EOPNOTSUPP, Cause::NotPrecise, attr(|a| a.sample_every(1).precise_ip(3)), &["precision 3", "most here is 3", ":ppp"]),
        case(Errno::EOPNOTSUPP, Cause::CannotSample, attr(|a| a.sample_every(1)), &["count the event, not sample"]),
        case(Errno::EOPNOTSUPP, Cause::NotSupported, plain(), &["modifiers"]),
        case(Errno::ENOSPC, Cause::NoBreakpointLeft, attr(|_| EventAttr::breakpoint(3, 0, 8)), &["breakpoint registers"]),
        case(Errno::ENOSPC, Cause::BufferTooSmall, during(Operation::Read), &["more members"]),
        case(Errno::ENOSPC, Cause::NoCounterLeft, plain(), &["nmi_watchdog"]),
        case(Errno::EAGAIN, Cause::NoCounterLeft, plain(), &["counters"]),
        case(Errno::EBUSY, Cause::PmuBusy, attr(|a| a.exclusive(true)), &["for himself", "exclusive"]),
        case(Errno::EMFILE, Cause::TooManyFiles, plain(), &["1024", "ulimit -n"]),
        case(Errno::ENFILE, Cause::SystemTooManyFiles, plain(), &["file-max"]),
        case(Errno::EOVERFLOW, Cause::StackTooDeep, attr(|a| a.sample_max_stack(500)), &["500 frames", "127"]),
        case(Errno::ENOMEM, Cause::LockedMemory, during(Operation::Map), &["516", "smaller ring"]),
        case(Errno::EAGAIN, Cause::LockedMemory, during(Operation::Map), &["ulimit -l"]),
        case(Errno::ENOMEM, Cause::NoMemory, plain(), &["no memory left"]),
        case(Errno::EBADF, Cause::NotAnEvent, plain(), &["still open"]),
        case(Errno::EBADF, Cause::NotAnEvent, with(|s| s.target = Target::Cgroup { fd: 0, cpu: 0 }), &["control group"]),
        case(Errno::EINTR, Cause::Interrupted, during(Operation::Wait), &["try again"]),
        case(Errno::EAGAIN, Cause::TryAgain, during(Operation::Read), &["try again"]),
        case(Errno::EFAULT, Cause::BadAddress, plain(), &["report it"]),
    ]
}

#[test]
fn every_situation_finds_its_row() {
    for Case {
        errno,
        situation,
        cause,
        says,
    } in cases()
    {
        let explanation = explain(errno, &situation);
        assert_eq!(explanation.cause, cause, "{errno} in {situation:?}");
        let error = Error::explain(errno, situation);
        let line = error.to_string();
        for words in says {
            assert!(line.contains(words), "{words:?} is not in: {line}");
        }
        assert!(line.contains(errno.name().unwrap()), "{line}");
        assert!(!line.contains('\n') && !line.contains("  "), "{line:?}");
        assert_eq!(error.errno(), Some(errno));
    }
}

#[test]
fn every_row_has_a_situation() {
    let reached: BTreeSet<usize> = cases()
        .iter()
        .filter_map(|case| row_for(case.errno, &case.situation))
        .collect();
    let all: BTreeSet<usize> = (0..rows().count()).collect();
    let missing: Vec<_> = all
        .difference(&reached)
        .map(|&row| rows().nth(row).unwrap())
        .collect();
    assert!(missing.is_empty(), "rows without a test: {missing:?}");
}

#[test]
fn the_situation_decides_and_not_the_errno_alone() {
    // The same EACCES under each level of the sysctl.
    let kernel_mode = |level| {
        with(|s| {
            s.facts.paranoid = Some(level);
            s.attr = EventAttr::new(0, 1);
            s.target = Target::Cpu(0);
        })
    };
    let causes: Vec<Cause> = (-1..=4)
        .map(|level| explain(Errno::EACCES, &kernel_mode(level)).cause)
        .collect();
    assert_eq!(
        causes,
        [
            Cause::PermissionDenied,
            Cause::PermissionDenied,
            Cause::ParanoidForbidsCpuWide,
            Cause::ParanoidForbidsCpuWide,
            Cause::ParanoidForbidsAll,
            Cause::ParanoidForbidsAll,
        ]
    );
}

/// The level that a hint names is one at which all that was asked for is allowed, whatever the level is now.
#[test]
fn the_hint_of_a_level_suffices() {
    let named = |level, attr: EventAttr, target| {
        let mut situation = with(|s| s.facts.paranoid = Some(level));
        (situation.attr, situation.target) = (attr, target);
        let line = Error::explain(Errno::EACCES, situation).to_string();
        let (_, rest) = line
            .split_once("sysctl kernel.perf_event_paranoid=")
            .unwrap();
        rest.split(';').next().unwrap().parse::<i32>().unwrap()
    };
    let (all, user) = (
        EventAttr::new(0, 1),
        EventAttr::new(0, 1).exclude_kernel(true),
    );
    let raw = EventAttr::new(2, 1).sample_type(u64::from(abi::PERF_SAMPLE_RAW));
    let own = Target::CallingThread;
    for level in 3..=4 {
        assert_eq!(named(level, user, own), 2);
        assert_eq!(named(level, user, Target::Cpu(0)), 0);
    }
    for level in 2..=4 {
        assert_eq!(named(level, all, own), 1);
        assert_eq!(named(level, all, Target::Cpu(0)), 0);
        assert_eq!(named(level, raw, Target::Cpu(0)), -1);
    }
    assert_eq!(named(1, user, Target::Cpu(0)), 0);
    assert_eq!(named(0, raw, Target::Cpu(0)), -1);
}

#[test]
fn unknown_errnos_keep_the_systems_words() {
    let explanation = explain(Errno::EPIPE, &plain());
    assert_eq!(explanation.cause, Cause::Unknown);
    assert!(
        explanation.reason.contains("pipe"),
        "{}",
        explanation.reason
    );
    let error = Error::explain(Errno(4242), plain());
    assert!(error.to_string().contains("errno 4242"), "{error}");
}
