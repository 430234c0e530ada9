//! One counter of the calling thread.

use crate::arch;
use crate::clocks;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::open::Options;
use crate::parts::Part;
use crate::policy::{Fence, Policy};
use crate::reading::{Reading, Source};
use crate::stamp::Stamp;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
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

/// A counter of the calling thread. Reading it takes a few instructions where the hardware and the kernel allow.
///
/// `P` orders reads against the code around them (see [`policy`](crate::policy)). A counter belongs to the thread that
/// opened it: it is neither `Send` nor `Sync`. For one handle on many threads see [`PerThread`](crate::PerThread).
/// Clones share the counter.
///
/// ```
/// use truecount::Counter;
/// let counter: Counter = Counter::open_or_best("instructions-minus-irqs:u").counter;
/// let start = counter.read();
/// let sum: u64 = (0..1000).sum();
/// let spent = counter.since(start);
/// println!("{sum}: {spent} {} of {} ({})", counter.unit(), counter.name(), counter.source());
/// ```
///
/// ```compile_fail
/// let counter: truecount::Counter = truecount::Counter::open("wall-time").unwrap();
/// std::thread::spawn(move || counter.read()); // not on another thread
/// ```
///
/// After `fork`, the child has no right to the parent's counters: it opens its own.
pub struct Counter<P: Policy = Fence> {
    pub(crate) core: Rc<Core>,
    policy: PhantomData<P>,
}

impl<P: Policy> Clone for Counter<P> {
    fn clone(&self) -> Self {
        Self::from_core(Rc::clone(&self.core))
    }
}

impl<P: Policy> Counter<P> {
    pub(crate) fn from_core(core: Rc<Core>) -> Self {
        Self {
            core,
            policy: PhantomData,
        }
    }

    /// Opens an event for the calling thread: any event expression, `instructions-minus-irqs:u`,
    /// `instructions-minus-exceptions:u`, `wall-time`, `user-time`, `system-time`, `zero`.
    ///
    /// The library picks the fastest way to read that is right, and verifies it by a loop of known length. [`Options`]
    /// insists on one.
    ///
    /// # Errors
    /// [`Error`], with its hint; where there is no PMU, it says so.
    pub fn open(event: &str) -> Result<Self, Error> {
        Options::new().open(event)
    }

    /// Opens the event, or the best there is instead, and says which.
    #[must_use]
    pub fn open_or_best(event: &str) -> Best<P> {
        Options::new().open_or_best(event)
    }

    /// Where the counter stands. Never allocates, locks, logs or panics.
    ///
    /// x86-64: 5 instructions for one counter and 10 for a difference, beside the choice between the two. What cannot
    /// be read returns the last point read; [`check`](Self::check) tells.
    #[inline]
    #[must_use]
    pub fn read(&self) -> Stamp {
        Stamp::new(self.core.read_any::<P>())
    }

    /// What was counted since `start`. One read.
    #[inline]
    #[must_use]
    pub fn since(&self, start: Stamp) -> u64 {
        self.between(start, self.read())
    }

    /// What was counted between two points of this counter.
    #[inline]
    #[must_use]
    pub fn between(&self, start: Stamp, end: Stamp) -> u64 {
        self.between_raw(start.raw(), end.raw())
    }

    /// As [`between`](Self::between), for raw values of points of this counter.
    #[inline]
    #[must_use]
    pub fn between_raw(&self, start: u64, end: u64) -> u64 {
        self.core.geometry.elapsed(start, end)
    }

    /// A handle without the choice between ways to read: at most 6 instructions. `None` where the counter is not read
    /// by one register ([`Method::Fast`]).
    #[must_use]
    pub fn single(&self) -> Option<Single<'_, P>> {
        match self.core.reader {
            Reader::Single { index } => Some(Single {
                index,
                counter: PhantomData,
            }),
            _ => None,
        }
    }

    /// As [`single`](Self::single), for instructions minus interrupts ([`Method::FastDifference`]): at most 16
    /// instructions, 10 to be exact.
    #[must_use]
    pub fn difference(&self) -> Option<Difference<'_, P>> {
        match &self.core.reader {
            Reader::Difference(state) => Some(Difference {
                state: state.get(),
                counter: PhantomData,
            }),
            _ => None,
        }
    }

    /// The count since opening, with its times: what a multiplexed event needs. Takes a system call or the page's
    /// protocol; for regions, take the difference by [`Reading::since`].
    ///
    /// # Errors
    /// [`Error::Read`] where the kernel gives no count.
    pub fn reading(&self) -> Result<Reading, Error> {
        self.core.reading()
    }

    /// Whether reads are right: the event is still on the register it had, was never off it, and the kernel agrees.
    ///
    /// Cheap enough for once a region of interest, too dear for every read (a system call). A counter that was moved
    /// and moved back between two checks is not noticed; [`Mode::Safe`](crate::Mode::Safe) never needs to.
    ///
    /// # Errors
    /// [`Error::Moved`], [`Error::Descheduled`], [`Error::Unverified`], [`Error::Read`].
    pub fn check(&self) -> Result<(), Error> {
        self.core.check()
    }

    /// The canonical name with its filter.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The unit of a count times [`scale`](Self::scale): `count`, `ns`, or the PMU's.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.core.unit
    }

    /// Factor from counts to the unit; 1 for nearly all events.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.core.scale
    }

    /// Who counts.
    #[must_use]
    pub fn source(&self) -> Source {
        self.core.source
    }

    /// How it is read.
    #[must_use]
    pub fn method(&self) -> Method {
        self.core.method()
    }

    /// Whether the same work gives the same count.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.core.exact
    }

    /// Least count of an empty region over `tries` tries: what two reads in a row cost themselves.
    #[must_use]
    pub fn overhead(&self, tries: u32) -> u64 {
        (0..tries.max(1))
            .map(|_| {
                let start = self.read();
                self.since(start)
            })
            .min()
            .unwrap_or(0)
    }
}

impl<P: Policy> fmt::Debug for Counter<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter")
            .field("name", &self.name())
            .field("method", &self.method())
            .field("source", &self.source())
            .finish_non_exhaustive()
    }
}

/// What [`Counter::open_or_best`] found.
#[derive(Debug)]
pub struct Best<P: Policy = Fence> {
    /// The counter; its [`name`](Counter::name) says what it counts.
    pub counter: Counter<P>,
    /// Why it is not the event asked for; `None` where it is.
    pub instead_because: Option<Error>,
}

/// A counter of one register, without any choice at the read: see [`Counter::single`].
#[derive(Debug, Clone, Copy)]
pub struct Single<'a, P: Policy = Fence> {
    index: u32,
    counter: PhantomData<(&'a Core, P, *const ())>,
}

impl<P: Policy> Single<'_, P> {
    /// Where the counter stands: x86-64 5 instructions.
    #[inline(always)]
    #[must_use]
    pub fn read(&self) -> Stamp {
        // SAFETY: opening verified index and policy; the lifetime keeps the page mapped.
        Stamp::new(unsafe { arch::read_one::<P>(self.index) })
    }
}

/// Instructions minus interrupts, without any choice at the read: see [`Counter::difference`].
#[derive(Debug, Clone, Copy)]
pub struct Difference<'a, P: Policy = Fence> {
    state: *mut arch::Difference,
    counter: PhantomData<(&'a Core, P)>,
}

impl<P: Policy> Difference<'_, P> {
    /// Where the counter stands: x86-64 10 instructions (11 with the load of its address), more out of line after an
    /// interrupt.
    #[inline(always)]
    #[must_use]
    pub fn read(&self) -> Stamp {
        // SAFETY: opening verified both counters and the policy; the lifetime keeps the state and the pages, and the
        // type is neither Send nor Sync, so only this thread uses the state.
        Stamp::new(unsafe { arch::read_difference::<P>(self.state) })
    }
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
