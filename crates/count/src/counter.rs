//! One counter of the calling thread.

use crate::arch;
use crate::core::{Core, Method, Reader};
use crate::error::Error;
use crate::policy::{Fence, Policy};
use crate::stamp::Stamp;
use crate::{Reading, Source};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

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
/// After `fork`, the same handle is the child's own counter: it is opened anew there, before `fork` returns, and begins
/// again. A point that was taken before the fork is none of the child's counter. Where the kernel gives the child another
/// register, [`check`](Self::check) says so.
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

    /// Where the counter stands. Never allocates, locks, logs or panics.
    ///
    /// x86-64: 5 instructions for one counter and 11 for a difference, beside the choice between the two. What cannot
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

    /// Whether `end` can have been read after `start`. A point that is read first and taken for the end is many more
    /// events away than any counter counts; the last sixteenth of its range is taken for that.
    #[must_use]
    pub fn in_order(&self, start: u64, end: u64) -> bool {
        self.core.geometry.in_order(start, end)
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

    /// The number that the instruction takes which reads this counter (`rdpmc` on x86-64), for code that has the
    /// instruction itself; raw values are compared by [`between_raw`](Self::between_raw). `None` where the counter is not
    /// read by one register. It holds on the counter's thread while the counter is open; elsewhere the instruction may
    /// fault.
    #[must_use]
    pub fn register(&self) -> Option<u32> {
        match self.core.reader {
            Reader::Single { index } => Some(index),
            _ => None,
        }
    }

    /// As [`single`](Self::single), for instructions minus interrupts ([`Method::FastDifference`]): at most 16
    /// instructions, 12 to be exact.
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
    /// Where the counter stands: x86-64 12 instructions (13 with the load of its address), more out of line after an
    /// interrupt.
    #[inline(always)]
    #[must_use]
    pub fn read(&self) -> Stamp {
        // SAFETY: opening verified both counters and the policy; the lifetime keeps the state and the pages, and the
        // type is neither Send nor Sync, so only this thread uses the state.
        Stamp::new(unsafe { arch::read_difference::<P>(self.state) })
    }
}
