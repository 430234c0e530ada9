//! What has run out, and the rest.

use perf_event_open_sys::bindings as abi;

use super::super::terms::*;
use super::super::{Cause, Row};
use super::ANY;
use crate::errno::Errno;
use crate::situation::{Operation, Target};

pub(super) static ROWS: &[Row] = &[
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
        hint: |s| {
            format!(
                "stop other users of the PMU ({}), or ask for fewer events",
                s.facts.other_users()
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
