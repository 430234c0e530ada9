//! The rows. The order matters: the first row whose errno and condition apply is the answer.

use perf_event_open_sys::bindings as abi;

use super::terms::*;
use super::{Cause, Row};
use crate::errno::Errno;
use crate::situation::{Operation, Situation, Target};

const ANY: fn(&Situation) -> bool = |_| true;
const DENIED: &[Errno] = &[Errno::EACCES, Errno::EPERM];

/// The table.
pub static ROWS: &[Row] = &[
    // ------------------------------------------------------------- ENOENT
    Row {
        errnos: &[Errno::ENOENT],
        applies: |s| opening(s) && of_core_pmu(s) && s.facts.core_pmu() == Some(false),
        cause: Cause::NoPmu,
        reason: no_pmu_reason,
        hint: no_pmu_hint,
    },
    Row {
        errnos: &[Errno::ENOENT],
        applies: |s| opening(s) && of_core_pmu(s),
        cause: Cause::EventNotOnCpu,
        reason: |_| text("this CPU's PMU does not have the event"),
        hint: |_| text("choose another event, or give the CPU's own code as a raw event"),
    },
    Row {
        errnos: &[Errno::ENOENT],
        applies: |s| opening(s) && s.attr.get_type() > abi::PERF_TYPE_BREAKPOINT,
        cause: Cause::NoSuchPmu,
        reason: |s| {
            format!(
                "no PMU takes events of type {} with this configuration",
                s.attr.get_type()
            )
        },
        hint: |_| {
            text("look for the PMU in /sys/bus/event_source/devices (its type file has the number)")
        },
    },
    Row {
        errnos: &[Errno::ENOENT],
        applies: opening,
        cause: Cause::NoSuchEvent,
        reason: |_| text("this kernel does not have the event"),
        hint: |_| text("check the event's name and the kernel's version"),
    },
    // ------------------------------------------------- filters, no perf at all
    Row {
        errnos: &[Errno::ENOSYS],
        applies: |s| {
            opening(s)
                && (s.facts.seccomp_filter || s.facts.container.is_some())
                && s.facts.paranoid.is_some()
        },
        cause: Cause::Seccomp,
        reason: seccomp_reason,
        hint: seccomp_hint,
    },
    Row {
        errnos: &[Errno::ENOSYS],
        applies: |s| {
            s.facts.paranoid.is_some()
                && (s.attr.get_sample_stack_user() != 0 || s.attr.get_sample_regs_user() != 0)
        },
        cause: Cause::NotOnArchitecture,
        reason: |_| text("this architecture's kernel cannot record user registers or stack"),
        hint: |_| text("record call chains by frame pointers instead"),
    },
    Row {
        errnos: &[Errno::ENOSYS],
        applies: ANY,
        cause: Cause::NoPerfInKernel,
        reason: |_| {
            text("this kernel has no perf events (CONFIG_PERF_EVENTS), or a sandbox hides them")
        },
        hint: |_| {
            text("run on a kernel with perf events, else use a source without them (step, virtual)")
        },
    },
    // ------------------------------------------------------- EACCES, EPERM
    Row {
        errnos: &[Errno::EPERM],
        applies: |s| opening(s) && s.facts.lockdown.is_some() && s.attr.get_sample_regs_intr() != 0,
        cause: Cause::Lockdown,
        reason: |s| {
            let mode = s.facts.lockdown.as_deref().unwrap_or("on");
            format!("kernel lockdown ({mode}) forbids recording registers")
        },
        hint: |_| {
            text("do not record registers, or boot without lockdown (it follows Secure Boot)")
        },
    },
    Row {
        // The kernel's own refusals of counting are EACCES; container filters answer EPERM.
        errnos: &[Errno::EPERM],
        applies: |s| {
            opening(s)
                && s.facts.seccomp_filter
                && matches!(s.attr.get_type(), 0..=1 | 3..=4 | 6..)
                && !s.facts.cap_sys_admin
        },
        cause: Cause::Seccomp,
        reason: seccomp_reason,
        hint: seccomp_hint,
    },
    Row {
        errnos: DENIED,
        applies: |s| opening(s) && paranoid_at_least(s, 3),
        cause: Cause::ParanoidForbidsAll,
        reason: |s| {
            format!(
                "kernel.perf_event_paranoid is {}: without privilege this system allows no perf events at all",
                paranoid(s)
            )
        },
        hint: |s| lower_paranoid(s, 2),
    },
    // Before the kernel's part: what whole CPUs need allows that, too.
    Row {
        errnos: DENIED,
        applies: |s| opening(s) && paranoid_at_least(s, 1) && s.target.is_cpu_wide(),
        cause: Cause::ParanoidForbidsCpuWide,
        reason: |s| {
            format!(
                "kernel.perf_event_paranoid is {}: without privilege whole CPUs cannot be counted",
                paranoid(s)
            )
        },
        hint: |s| {
            format!(
                "count your own command instead, or {}",
                lower_paranoid(s, 0)
            )
        },
    },
    Row {
        errnos: DENIED,
        applies: |s| opening(s) && paranoid_at_least(s, 2) && !s.attr.get_exclude_kernel(),
        cause: Cause::ParanoidForbidsKernel,
        reason: |s| {
            format!(
                "kernel.perf_event_paranoid is {}: without privilege the kernel's part cannot be counted",
                paranoid(s)
            )
        },
        hint: |s| format!("count user mode only (:u), or {}", lower_paranoid(s, 1)),
    },
    Row {
        errnos: DENIED,
        applies: |s| {
            opening(s) && paranoid_at_least(s, 0) && s.attr.get_type() == abi::PERF_TYPE_TRACEPOINT
        },
        cause: Cause::ParanoidForbidsTracepoint,
        reason: |s| {
            format!(
                "kernel.perf_event_paranoid is {}: without privilege raw tracepoints are not allowed",
                paranoid(s)
            )
        },
        hint: |s| lower_paranoid(s, -1),
    },
    Row {
        errnos: DENIED,
        applies: |s| opening(s) && !s.facts.privileged() && wants_addresses_of_kernel(s),
        cause: Cause::NeedsPerfmon,
        reason: |_| {
            text(
                "physical addresses and namespaces are recorded only with the capability CAP_PERFMON",
            )
        },
        hint: |_| {
            text(
                "leave them out, or give the program the capability (setcap cap_perfmon+ep PROGRAM)",
            )
        },
    },
    Row {
        errnos: DENIED,
        applies: |s| {
            opening(s) && others_task(s) && !s.facts.privileged() && !s.facts.cap_sys_ptrace
        },
        cause: Cause::NotYourTask,
        reason: |s| {
            format!(
                "{} belongs to someone else, or has become privileged",
                task(s)
            )
        },
        hint: |_| {
            text(
                "run as that user, or with CAP_PERFMON (before Linux 5.13: CAP_SYS_PTRACE), or as root",
            )
        },
    },
    Row {
        errnos: &[Errno::EPERM],
        applies: |s| mapping(s) && !s.facts.cap_ipc_lock,
        cause: Cause::LockedMemory,
        reason: |s| {
            format!(
                "the ring is larger than the memory that may be locked (kernel.perf_event_mlock_kb is {} a CPU)",
                number(s.facts.mlock_kb)
            )
        },
        hint: |_| {
            text(
                "use a smaller ring, or as root raise sysctl kernel.perf_event_mlock_kb, or raise ulimit -l",
            )
        },
    },
    Row {
        errnos: DENIED,
        applies: ANY,
        cause: Cause::PermissionDenied,
        reason: |_| {
            text(
                "the system refuses it, though neither perf_event_paranoid nor a missing capability explains it",
            )
        },
        hint: |_| {
            text(
                "look for a security module's rule (SELinux, AppArmor, Landlock: dmesg, audit log)",
            )
        },
    },
    // ------------------------------------------------------- ESRCH, ENODEV
    Row {
        errnos: &[Errno::ESRCH],
        applies: ANY,
        cause: Cause::NoSuchTask,
        reason: |s| format!("{} does not exist (any more)", task(s)),
        hint: |_| text("check the process or thread id"),
    },
    Row {
        errnos: &[Errno::ENODEV, Errno::EINVAL, Errno::ENXIO],
        applies: |s| {
            opening(s)
                && match (s.target, &s.facts.online_cpus) {
                    (
                        Target::CallingThreadOnCpu(cpu)
                        | Target::ThreadOnCpu { cpu, .. }
                        | Target::Cpu(cpu)
                        | Target::Cgroup { cpu, .. },
                        Some(online),
                    ) => !online.contains(&cpu),
                    _ => false,
                }
        },
        cause: Cause::NoSuchCpu,
        reason: |s| format!("{} does not exist or is offline", cpu(s)),
        hint: |_| text("choose one of the CPUs in /sys/devices/system/cpu/online"),
    },
    Row {
        errnos: &[Errno::ENODEV, Errno::ENXIO],
        applies: ANY,
        cause: Cause::DeviceGone,
        reason: |_| text("the device that counts is gone or switched off"),
        hint: |_| text("open the event again"),
    },
    // ---------------------------------------------------------- E2BIG
    Row {
        errnos: &[Errno::E2BIG],
        applies: ANY,
        cause: Cause::KernelTooOld,
        reason: |s| {
            let release = s.facts.release.as_deref().unwrap_or("of unknown version");
            format!("the event uses fields that this kernel ({release}) does not know")
        },
        hint: |_| {
            text(
                "leave the newer fields out (config3 needs Linux 6.3, sig_data 5.13, config4 6.19), or use a newer kernel",
            )
        },
    },
    // ---------------------------------------------------------- EINVAL
    Row {
        errnos: &[Errno::EINVAL],
        applies: |s| opening(s) && s.attr.get_precise_ip() > 0 && !s.attr.is_sampling(),
        cause: Cause::NotPrecise,
        reason: |_| text("a precise level is about where samples fall: a count has none"),
        hint: |_| text("leave the p out, or sample (record, top)"),
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: |s| opening(s) && contradiction(s).is_some(),
        cause: Cause::ContradictingFlags,
        reason: |s| text(contradiction(s).unwrap_or_default()),
        hint: |_| text("change the event's options"),
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: |s| opening(s) && too_fast(s),
        cause: Cause::RateTooHigh,
        reason: |s| {
            format!(
                "{} samples per second are more than this system allows ({})",
                s.attr.get_sample_period(),
                number(s.facts.max_sample_rate)
            )
        },
        hint: |_| {
            text("sample less often, or as root raise sysctl kernel.perf_event_max_sample_rate")
        },
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: |s| opening(s) && inherited_group(s),
        cause: Cause::InheritedGroup,
        reason: |_| text("before Linux 6.12 events that inherit cannot be read as a group"),
        hint: |_| text("open the events one by one, or without inherit"),
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: |s| opening(s) && of_other_pmu(s),
        cause: Cause::NotPerTask,
        reason: |s| {
            format!(
                "{} counts whole CPUs only, in all modes, and takes no samples (or the configuration is wrong)",
                pmu(s)
            )
        },
        hint: |_| text("open it system-wide (-a), without :u and :k, on the CPUs of its cpumask"),
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: |s| opening(s) && s.in_group,
        cause: Cause::GroupTooLarge,
        reason: |_| {
            text(
                "the PMU cannot count this group together: it has more events than counters, or they exclude each other",
            )
        },
        hint: |_| {
            text(
                "make the group smaller, or leave it away (events are then multiplexed and scaled)",
            )
        },
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: opening,
        cause: Cause::BadAttribute,
        reason: |_| text("the kernel does not accept the event's configuration or options"),
        hint: |_| {
            text(
                "check the raw code and options against the PMU's format directory in /sys, and the kernel's version",
            )
        },
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: |s| mapping(s) && s.attr.get_inherit(),
        cause: Cause::CannotMapInherited,
        reason: |_| {
            text("an event that follows its task over all CPUs and inherits cannot be mapped")
        },
        hint: |_| text("read it by system call, or open one event a CPU"),
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: mapping,
        cause: Cause::RingSize,
        reason: |_| {
            text(
                "the ring's size is not a power of two pages, or differs from the event's existing mapping",
            )
        },
        hint: |_| text("use a power of two"),
    },
    Row {
        errnos: &[Errno::EINVAL, Errno::ENOTTY],
        applies: is_ioctl,
        cause: Cause::IoctlUnfit,
        reason: |_| {
            text(
                "the request does not fit this event (it does not sample, inherits, or is on another CPU)",
            )
        },
        hint: |_| text("see perf_event_open(2), \"perf_event ioctl calls\""),
    },
    Row {
        errnos: &[Errno::EINVAL],
        applies: ANY,
        cause: Cause::BadAttribute,
        reason: |_| text("the kernel does not accept the arguments"),
        hint: |_| text("check the event's options"),
    },
    // ----------------------------------------------------- EOPNOTSUPP
    Row {
        errnos: &[Errno::EOPNOTSUPP],
        applies: |s| opening(s) && has_branch_stack(s),
        cause: Cause::NoBranchStack,
        reason: |_| text("this PMU cannot record branch stacks with the event"),
        hint: |_| {
            text(
                "sample without branch stacks; in a virtual machine they need a host that passes them on",
            )
        },
    },
    Row {
        errnos: &[Errno::EOPNOTSUPP],
        applies: |s| opening(s) && s.attr.get_precise_ip() > 0,
        cause: Cause::NotPrecise,
        reason: |s| {
            let most = s
                .facts
                .pmus
                .iter()
                .flatten()
                .filter(|pmu| pmu.core)
                .find_map(|pmu| pmu.max_precise);
            let known = most.map_or_else(String::new, |most| format!(" (the most here is {most})"));
            format!(
                "this PMU cannot sample the event with precision {}{known}",
                s.attr.get_precise_ip()
            )
        },
        hint: |_| text("ask for less precision (fewer p in :ppp)"),
    },
    Row {
        errnos: &[Errno::EOPNOTSUPP],
        applies: |s| opening(s) && s.attr.is_sampling(),
        cause: Cause::CannotSample,
        reason: |_| {
            text("this PMU has no overflow interrupt: it can count the event, not sample it")
        },
        hint: |_| text("count instead, or sample by another event (cpu-clock always works)"),
    },
    Row {
        errnos: &[Errno::EOPNOTSUPP],
        applies: ANY,
        cause: Cause::NotSupported,
        reason: |_| {
            text(
                "this PMU cannot do what the event's options ask (a mode filter, or a feature of another PMU)",
            )
        },
        hint: |_| text("leave out modifiers such as :u, :k, :h"),
    },
    // ------------------------------------------------- counters and files
    Row {
        errnos: &[Errno::ENOSPC],
        applies: |s| opening(s) && s.attr.get_type() == abi::PERF_TYPE_BREAKPOINT,
        cause: Cause::NoBreakpointLeft,
        reason: |_| text("all breakpoint registers of the CPU are taken (x86 has 4)"),
        hint: |_| text("use fewer breakpoints, and stop debuggers that use them"),
    },
    Row {
        errnos: &[Errno::ENOSPC],
        applies: |s| s.operation == Operation::Read,
        cause: Cause::BufferTooSmall,
        reason: |_| text("the group has more members than there is room for in the reading"),
        hint: |_| text("make room for all members (GroupReading::with_room_for)"),
    },
    Row {
        errnos: &[Errno::ENOSPC, Errno::EAGAIN],
        applies: |s| {
            opening(s)
                && s.attr.get_type() != abi::PERF_TYPE_BREAKPOINT
                && s.attr.get_type() != abi::PERF_TYPE_SOFTWARE
        },
        cause: Cause::NoCounterLeft,
        reason: |_| text("all counters for this event are taken"),
        hint: |_| {
            text(
                "stop other users of the PMU (perf, the NMI watchdog: sysctl kernel.nmi_watchdog=0), or ask for fewer events",
            )
        },
    },
    Row {
        errnos: &[Errno::EBUSY],
        applies: ANY,
        cause: Cause::PmuBusy,
        reason: |_| {
            text(
                "someone has the PMU for himself (an exclusive event, another profiler, or the firmware)",
            )
        },
        hint: |_| text("stop the other user of the PMU, and open the event without exclusive"),
    },
    Row {
        errnos: &[Errno::EMFILE],
        applies: ANY,
        cause: Cause::TooManyFiles,
        reason: |s| {
            format!(
                "the process has too many files open (its limit is {})",
                number(s.facts.open_files)
            )
        },
        hint: |_| {
            text("raise the limit (ulimit -n), or count fewer events on fewer CPUs or threads")
        },
    },
    Row {
        errnos: &[Errno::ENFILE],
        applies: ANY,
        cause: Cause::SystemTooManyFiles,
        reason: |_| text("the system has too many files open"),
        hint: |_| text("as root raise sysctl fs.file-max, or close programs"),
    },
    // -------------------------------------------------------------- others
    Row {
        errnos: &[Errno::EOVERFLOW],
        applies: ANY,
        cause: Cause::StackTooDeep,
        reason: |s| {
            format!(
                "{} frames are more than kernel.perf_event_max_stack allows ({})",
                s.attr.get_sample_max_stack(),
                number(s.facts.max_stack)
            )
        },
        hint: |_| text("ask for fewer frames, or as root raise sysctl kernel.perf_event_max_stack"),
    },
    Row {
        errnos: &[Errno::ENOMEM, Errno::EAGAIN],
        applies: mapping,
        cause: Cause::LockedMemory,
        reason: |s| {
            format!(
                "the kernel has no memory for the ring, or it is above the memory that may be locked (kernel.perf_event_mlock_kb is {} a CPU)",
                number(s.facts.mlock_kb)
            )
        },
        hint: |_| {
            text(
                "use a smaller ring, or raise ulimit -l or (as root) sysctl kernel.perf_event_mlock_kb",
            )
        },
    },
    Row {
        errnos: &[Errno::ENOMEM],
        applies: ANY,
        cause: Cause::NoMemory,
        reason: |_| text("the kernel has no memory left for the event"),
        hint: |_| text("free memory, or count fewer events"),
    },
    Row {
        errnos: &[Errno::EBADF],
        applies: ANY,
        cause: Cause::NotAnEvent,
        reason: |s| match s.target {
            Target::Cgroup { .. } => {
                text("the descriptor is not one of a control group's directory")
            }
            _ => text("the descriptor is not one of a perf event"),
        },
        hint: |_| text("check that the event (or the group's leader) is still open"),
    },
    Row {
        errnos: &[Errno::EINTR],
        applies: ANY,
        cause: Cause::Interrupted,
        reason: |_| text("a signal came in between"),
        hint: |_| text("try again"),
    },
    Row {
        errnos: &[Errno::EAGAIN],
        applies: ANY,
        cause: Cause::TryAgain,
        reason: |_| text("the kernel could not do it right now"),
        hint: |_| text("try again"),
    },
    Row {
        errnos: &[Errno::EFAULT],
        applies: ANY,
        cause: Cause::BadAddress,
        reason: |_| text("an address given to the kernel does not point to memory"),
        hint: |_| text("this is a defect of truecount; please report it"),
    },
];
