//! What the event's options ask and the PMU or the kernel does not take.

use super::super::terms::*;
use super::super::{Cause, Row};
use super::ANY;
use crate::errno::Errno;

pub(super) static ROWS: &[Row] = &[
    Row {
        errnos: &[Errno::EINVAL, Errno::EOPNOTSUPP],
        applies: |s| {
            opening(s) && has_branch_stack(s) && s.facts.pmus.iter().flatten().any(|pmu| pmu.brs)
        },
        cause: Cause::NoBranchStack,
        reason: |_| {
            text(
                "this CPU samples branches (BRS) with one event only, branch-brs, with a fixed period, and with no filter of branches",
            )
        },
        hint: |_| {
            text(
                "sample branch-brs with a period above 16 (-e branch-brs -c 1000003), or without branch stacks",
            )
        },
    },
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
];
