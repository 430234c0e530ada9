//! Counters that are scheduled together and read in one system call.
//!
//! Members of a group are on the PMU all at once or not at all, so their ratios are sound even when the
//! group is multiplexed. Source: perf_event_open(2), "Event groups".

use crate::attr::EventAttr;
use crate::errno::Errno;
use crate::error::Error;
use crate::event::{Event, OpenOptions};
use crate::kernel::{SharedKernel, linux};
use crate::reading::GroupReading;
use crate::situation::{Operation, Target};

/// An open group: its leader and the other members.
#[derive(Debug)]
pub struct Group {
    leader: Event,
    others: Vec<Event>,
}

impl Group {
    /// Opens `attrs` as one group on the running kernel; the first is the leader.
    ///
    /// The leader is opened disabled (the members follow its state); [`Group::enable`] starts all.
    /// Formats for group reads are set here.
    ///
    /// # Errors
    /// [`Error`] of the first event that cannot be opened; `EINVAL` where `attrs` is empty.
    pub fn open(attrs: &[EventAttr], target: Target) -> Result<Self, Error> {
        Self::open_with(&linux(), attrs, target)
    }

    /// As [`Group::open`], on any kernel.
    ///
    /// # Errors
    /// As [`Group::open`].
    pub fn open_with(
        kernel: &SharedKernel,
        attrs: &[EventAttr],
        target: Target,
    ) -> Result<Self, Error> {
        let Some(&lead) = attrs.first() else {
            let none = EventAttr::new(0, 0);
            let (errno, operation) = (Errno::EINVAL, Operation::Open);
            return Err(Error::new(
                &**kernel, errno, operation, &none, target, false,
            ));
        };
        let on_exec = lead.get_enable_on_exec();
        let lead = lead.read_group().disabled(true).enable_on_exec(on_exec);
        let leader = Event::open_with(kernel, &lead, target, OpenOptions::default())?;
        let mut group = Self {
            leader,
            others: Vec::with_capacity(attrs.len().saturating_sub(1)),
        };
        for attr in attrs.iter().skip(1) {
            group.add(attr)?;
        }
        Ok(group)
    }

    /// Adds a member. It counts whenever the leader does.
    ///
    /// # Errors
    /// [`Error`]; `EINVAL` where the PMU cannot count that many together.
    pub fn add(&mut self, attr: &EventAttr) -> Result<(), Error> {
        // Only a leader can be pinned; a member that starts disabled would stay so.
        let attr = attr
            .read_group()
            .disabled(false)
            .pinned(false)
            .enable_on_exec(false);
        let options = OpenOptions {
            leader: Some(&self.leader),
            ..OpenOptions::default()
        };
        let event = Event::open_with(self.leader.kernel(), &attr, self.leader.target(), options)?;
        self.others.push(event);
        Ok(())
    }

    /// How many events the group has.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a group always has its leader
    pub fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// The first event.
    #[must_use]
    pub fn leader(&self) -> &Event {
        &self.leader
    }

    /// All events, the leader first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        std::iter::once(&self.leader).chain(&self.others)
    }

    /// Starts all at the same moment.
    ///
    /// Only the leader is switched, its members follow. (The group ioctl switches one member after the
    /// other: the counts begin at different moments, and a part of a group that does not fit the PMU
    /// runs for a moment.)
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn enable(&self) -> Result<(), Error> {
        self.leader.enable()
    }

    /// Stops all at the same moment, by the leader.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn disable(&self) -> Result<(), Error> {
        self.leader.disable()
    }

    /// A reading with room for this group, to be used again and again.
    #[must_use]
    pub fn new_reading(&self) -> GroupReading {
        GroupReading::with_room_for(self.len())
    }

    /// Reads all in one system call. Does not allocate, except for an error.
    ///
    /// # Errors
    /// [`Error`] of the read.
    pub fn read_into(&self, reading: &mut GroupReading) -> Result<(), Error> {
        self.leader.read_group(reading)
    }

    /// Reads all in one system call.
    ///
    /// # Errors
    /// [`Error`] of the read.
    pub fn read(&self) -> Result<GroupReading, Error> {
        let mut reading = self.new_reading();
        self.read_into(&mut reading)?;
        Ok(reading)
    }
}
