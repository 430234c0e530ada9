//! What is behind a counter, whatever its policy: its events, the way to read them, and whether that way is still right.

use crate::arch;
use crate::clocks;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::parts::Part;
use crate::policy::{Fence, Policy};
use crate::{Reading, Source};
use std::cell::{Cell, UnsafeCell};
use truecount_perf::{GroupReading, Times};

/// How a counter is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// One counter register, at an index fixed when the counter was opened.
    Fast,
    /// Instructions and interrupts, two registers.
    FastDifference,
    /// The mapped page's protocol: right wherever the kernel moves the event.
    Safe,
    /// A system call.
    Syscall,
    /// A clock, or a constant.
    Clock,
}

/// What reading does; decided when the counter is opened.
pub(crate) enum Reader {
    Single {
        index: u32,
    },
    /// Only this thread has it ([`Core`] is neither `Send` nor `Sync`), and only the read uses it.
    Difference(UnsafeCell<arch::Difference>),
    Safe,
    Syscall,
    GroupDifference,
    WallTime,
    UserTime,
    SystemTime,
    Zero,
}

/// All that a counter is, whatever its policy.
pub(crate) struct Core {
    pub reader: Reader,
    pub geometry: Geometry,
    /// One event; two (counter, subtracted) for a difference; none for clocks. The first leads the group.
    pub parts: Vec<Part>,
    pub name: String,
    pub unit: String,
    pub scale: f64,
    pub source: Source,
    pub exact: bool,
    /// When it was opened, ns, for the readings of clocks.
    pub opened: u64,
    pub failed: Cell<bool>,
    pub last: Cell<u64>,
}

impl Core {
    /// A kind without events.
    pub(crate) fn clock(reader: Reader, name: &str, unit: &str) -> Self {
        Self {
            reader,
            geometry: Geometry::PLAIN,
            parts: Vec::new(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            scale: 1.0,
            source: Source::Software,
            exact: false,
            opened: clocks::wall_ns(),
            failed: Cell::new(false),
            last: Cell::new(0),
        }
    }

    pub(crate) fn method(&self) -> Method {
        match self.reader {
            Reader::Single { .. } => Method::Fast,
            Reader::Difference(_) => Method::FastDifference,
            Reader::Safe => Method::Safe,
            Reader::Syscall | Reader::GroupDifference => Method::Syscall,
            Reader::WallTime | Reader::UserTime | Reader::SystemTime | Reader::Zero => {
                Method::Clock
            }
        }
    }

    /// Any way to read.
    #[inline]
    pub(crate) fn read_any<P: Policy>(&self) -> u64 {
        match &self.reader {
            // SAFETY: opening verified index and policy; the page is mapped as long as the core lives.
            Reader::Single { index } => unsafe { arch::read_one::<P>(*index) },
            // SAFETY: as above; the state is this thread's, and no reference to it exists.
            Reader::Difference(state) => unsafe { arch::read_difference::<P>(state.get()) },
            _ => self.read_slow::<P>(),
        }
    }

    /// Both counts of a difference at one point, by one system call.
    pub(crate) fn pair(&self) -> Result<(u64, u64), Error> {
        let first = self.parts.first();
        match first.and_then(Part::read_words::<7>) {
            Some([_, _, _, counter, _, subtracted, _]) => Ok((counter, subtracted)),
            // The slow way explains.
            None => Ok((self.member(0)?.0, self.member(1)?.0)),
        }
    }

    /// Every way to read but the two fastest. Does not allocate.
    pub(crate) fn read_slow<P: Policy>(&self) -> u64 {
        let value = match &self.reader {
            Reader::WallTime => return clocks::wall_ns(),
            Reader::UserTime => return clocks::user_ns(),
            Reader::SystemTime => return clocks::system_ns(),
            Reader::Zero | Reader::Single { .. } | Reader::Difference(_) => return 0,
            Reader::Safe => self.parts.first().and_then(Part::safe_count::<P>),
            Reader::Syscall => self
                .parts
                .first()
                .and_then(Part::read_words::<3>)
                .map(|[value, ..]| value),
            // A group's reading: members, times, then value and id of each.
            Reader::GroupDifference => self
                .parts
                .first()
                .and_then(Part::read_words::<7>)
                .map(|[_, _, _, counter, _, subtracted, _]| counter.wrapping_sub(subtracted)),
        };
        match value {
            Some(value) => {
                self.last.set(value);
                value
            }
            None => {
                self.failed.set(true);
                self.last.get()
            }
        }
    }

    pub(crate) fn reading(&self) -> Result<Reading, Error> {
        let made = |raw, enabled_ns, running_ns| Reading {
            raw,
            enabled_ns,
            running_ns,
            source: self.source,
            exact: self.exact,
        };
        let Some(first) = self.parts.first() else {
            let passed = clocks::wall_ns().saturating_sub(self.opened).max(1);
            return Ok(made(self.read_slow::<Fence>(), passed, passed));
        };
        if self.parts.len() > 1 {
            // The leader gives all members at one point.
            let group = self.group(first)?;
            let value = |i: usize| group.members().get(i).map_or(0, |m| m.value);
            let times = group.times().unwrap_or_default();
            return Ok(made(
                value(0).wrapping_sub(value(1)),
                times.enabled,
                times.running,
            ));
        }
        let (value, times) = self.member_of(first, 0)?;
        Ok(made(value, times.enabled, times.running))
    }

    /// Count and times of the event `index` by system call.
    fn member(&self, index: usize) -> Result<(u64, Times), Error> {
        match self.parts.first() {
            Some(leader) => self.member_of(leader, index),
            None => Err(Error::Unsupported {
                event: self.name.clone(),
                reason: "has no perf event",
            }),
        }
    }

    fn member_of(&self, leader: &Part, index: usize) -> Result<(u64, Times), Error> {
        if self.parts.len() < 2 {
            let fail = |source| Error::Read {
                event: self.name.clone(),
                source,
            };
            let reading = leader.event.read().map_err(fail)?;
            return Ok((reading.value, reading.times.unwrap_or_default()));
        }
        let group = self.group(leader)?;
        let value = group.members().get(index).map_or(0, |m| m.value);
        Ok((value, group.times().unwrap_or_default()))
    }

    fn group(&self, leader: &Part) -> Result<GroupReading, Error> {
        let mut group = GroupReading::with_room_for(self.parts.len());
        let fail = |source| Error::Read {
            event: self.name.clone(),
            source,
        };
        leader.event.read_group(&mut group).map_err(fail)?;
        Ok(group)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.reader {
            Reader::Single { index } => match self.parts.first() {
                Some(part) => part.check(&self.name, *index, self.geometry, || self.member(0))?,
                None => {
                    return Err(Error::Moved {
                        event: self.name.clone(),
                    });
                }
            },
            Reader::Difference(state) => {
                // SAFETY: only this thread uses the state, and no read is under way.
                let state = unsafe { &*state.get() };
                let indices = [state.counter(), state.subtracted()];
                for (i, (part, index)) in self.parts.iter().zip(indices).enumerate() {
                    part.check(&self.name, index, self.geometry, || self.member(i))?;
                }
            }
            _ => {
                let reading = self.reading()?;
                if reading.running_ns < reading.enabled_ns && !self.parts.is_empty() {
                    return Err(Error::Descheduled {
                        event: self.name.clone(),
                        enabled_ns: reading.enabled_ns,
                        running_ns: reading.running_ns,
                    });
                }
            }
        }
        if self.failed.get() {
            return Err(Error::Descheduled {
                event: self.name.clone(),
                enabled_ns: 0,
                running_ns: 0,
            });
        }
        Ok(())
    }
}
