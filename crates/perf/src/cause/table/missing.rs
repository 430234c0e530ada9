//! What is not there: PMUs, events, perf itself, tasks, CPUs, fields.

use perf_event_open_sys::bindings as abi;

use super::super::terms::*;
use super::super::{Cause, Row};
use super::ANY;
use crate::errno::Errno;
use crate::situation::Target;

pub(super) static ROWS: &[Row] = &[
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
];
