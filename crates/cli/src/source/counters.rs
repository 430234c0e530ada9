//! Kernel counters on a process, a new process or the whole machine.

use truecount_events::{Event, Kind, generic};

use super::{Native, Reason, Source as _, Target};
use crate::failure::Failure;
use crate::model::Reading;
use crate::wanted::WantedGroup;

/// What the counters watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A process that waits before `execve`: counting starts there, children included.
    NewProcess(i32),
    /// A running process with all its threads: counting starts at once.
    Process(i32),
    /// Every CPU: counting starts at once.
    Machine,
}

impl Place {
    pub(crate) fn of(target: Target) -> Self {
        match target {
            Target::Process(pid) => Self::Process(pid),
            Target::Machine | Target::Command => Self::Machine,
        }
    }
}

/// Whether the event needs the CPU's counters.
pub(crate) fn needs_hardware(event: &Event) -> bool {
    match &event.kind {
        Kind::Perf(encoding) => !matches!(
            encoding.type_,
            generic::TYPE_SOFTWARE | generic::TYPE_TRACEPOINT
        ),
        Kind::Special(special) => special.needs_pmu(),
    }
}

/// Whether the CPU's counters can be used.
pub(crate) fn hardware_available() -> Result<(), Reason> {
    Err(Reason::new("not linked yet"))
}

/// Opened counters, one slot for each event in the order asked.
pub(crate) struct Counters {
    slots: Vec<Reading>,
}

impl Counters {
    pub(crate) fn open(
        source: &Native,
        groups: &[WantedGroup],
        _place: Place,
    ) -> Result<Self, Failure> {
        let slots = groups
            .iter()
            .flat_map(|group| &group.members)
            .filter_map(|wanted| wanted.as_event().map(|event| (wanted, event)))
            .map(|(wanted, event)| {
                let reason = source
                    .counts(event)
                    .err()
                    .unwrap_or_else(|| Reason::new("later"));
                Reading::missing(&wanted.name, &wanted.unit, reason.to_string())
            })
            .collect();
        Ok(Self { slots })
    }

    pub(crate) fn read(&self) -> Vec<Reading> {
        self.slots.clone()
    }
}
