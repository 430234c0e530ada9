//! What is not allowed.

use perf_event_open_sys::bindings as abi;

use super::super::terms::*;
use super::super::{Cause, Row};
use super::{ANY, DENIED};
use crate::errno::Errno;

pub(super) static ROWS: &[Row] = &[
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
        hint: lower_paranoid,
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
        hint: |s| format!("count your own command instead, or {}", lower_paranoid(s)),
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
        hint: |s| format!("count user mode only (:u), or {}", lower_paranoid(s)),
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
        hint: lower_paranoid,
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
];
