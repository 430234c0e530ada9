//! Opening: one event alone (can it be counted at all?), how many fit the PMU at once, and the group of one batch.
//!
//! The kernel is asked, not a table of counters: it knows which event may be on which counter, and which counters are
//! taken. Groups are pinned, so that they are on the PMU all the time or fail: nothing is ever multiplexed.

use std::hint::black_box;
use truecount_perf::{Count, Error, Event, EventAttr, Group, OpenOptions, SharedKernel, Target};

/// Why something could not be counted, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Why {
    /// Why.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

impl From<&Error> for Why {
    fn from(error: &Error) -> Self {
        Self {
            reason: error.reason().to_owned(),
            hint: error.hint().to_owned(),
        }
    }
}

/// Whether an event opens alone on the calling thread.
///
/// # Errors
/// The kernel's reason.
pub fn alone(kernel: &SharedKernel, attr: &EventAttr) -> Result<(), Why> {
    let attr = attr.disabled(true).read_times();
    Event::open_with(kernel, &attr, Target::CallingThread, OpenOptions::default())
        .map(drop)
        .map_err(|error| Why::from(&error))
}

/// Opens a group on the calling thread, off; the first event leads and is pinned.
///
/// # Errors
/// The kernel's.
pub fn group(kernel: &SharedKernel, attrs: &[EventAttr]) -> Result<Group, Error> {
    let pinned: Vec<EventAttr> = attrs
        .iter()
        .enumerate()
        .map(|(index, attr)| attr.pinned(index == 0))
        .collect();
    Group::open_with(kernel, &pinned, Target::CallingThread)
}

/// Whether these events are on the PMU together: by trying on the calling thread.
#[must_use]
pub fn fits(kernel: &SharedKernel, attrs: &[EventAttr]) -> bool {
    let Ok(group) = group(kernel, attrs) else {
        return false;
    };
    if group.enable().is_err() {
        return false;
    }
    // Long enough to be scheduled in, short enough not to be noticed.
    for turn in 0..5_000u32 {
        black_box(turn);
    }
    group
        .read()
        .is_ok_and(|reading| matches!(reading.count(0), Some(Count::Counted(_))))
}

/// Opens the events of a batch on another process that waits before `execve`: counting begins there, children are
/// counted too. They are a group, but read one by one (an inherited group cannot be read at once before Linux 6.12).
///
/// # Errors
/// The kernel's.
pub fn on_exec(kernel: &SharedKernel, attrs: &[EventAttr], pid: i32) -> Result<Vec<Event>, Error> {
    let mut events: Vec<Event> = Vec::with_capacity(attrs.len());
    for attr in attrs {
        let leads = events.is_empty();
        let attr = attr
            .read_times()
            .inherit(true)
            .pinned(leads)
            .disabled(leads)
            .enable_on_exec(leads);
        let options = OpenOptions {
            leader: events.first(),
            ..OpenOptions::default()
        };
        let event = Event::open_with(kernel, &attr, Target::Thread(pid), options)?;
        events.push(event);
    }
    Ok(events)
}

/// What an event of [`on_exec`] has counted; `None` where it was not on the PMU all the time.
#[must_use]
pub fn counted(event: &Event) -> Option<u64> {
    match event.read().ok()?.count()? {
        Count::Counted(value) => Some(value),
        Count::None | Count::Scaled { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_perf::Errno;
    use truecount_perf::fake::FakeKernel;

    fn raw(config: u64) -> EventAttr {
        EventAttr::new(4, config).exclude_kernel(true)
    }

    #[test]
    fn as_many_as_there_are_counters_fit() {
        let fake = FakeKernel::new();
        let kernel = fake.ticking();
        let attrs: Vec<EventAttr> = (0..5).map(raw).collect();
        assert!(fits(&kernel, &attrs[..4]));
        assert!(!fits(&kernel, &attrs));
        // The kernel takes the group, but a counter is someone else's.
        fake.set_stolen(1);
        assert!(fits(&kernel, &attrs[..3]));
        assert!(!fits(&kernel, &attrs[..4]));
        // Software events need none.
        let mut with_software = attrs[..3].to_vec();
        with_software.push(EventAttr::new(1, 2));
        assert!(fits(&kernel, &with_software));
        assert!(fake.open_descriptors().is_empty());
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let fake = FakeKernel::new();
        fake.on_open(|opening| (opening.attr.0.config == 7).then_some(Errno::EINVAL));
        assert!(alone(&fake.shared(), &raw(1)).is_ok());
        let why = alone(&fake.shared(), &raw(7)).unwrap_err();
        assert!(!why.reason.is_empty() && !why.hint.is_empty());
    }

    #[test]
    fn a_process_is_counted_from_its_exec_on() {
        let fake = FakeKernel::new();
        let events = on_exec(&fake.ticking(), &[raw(1), raw(2)], 77).unwrap();
        assert!(events[0].attr().get_enable_on_exec() && events[0].attr().get_inherit());
        assert!(!events[1].attr().get_disabled() && events[1].attr().get_inherit());
        // Never enabled: no count, and not 0.
        assert_eq!(counted(&events[0]), None);
    }
}
