//! One open counter: its reads and its ioctls.
//!
//! Source: perf_event_open(2); `kernel/events/core.c`.

use std::ffi::CStr;
use std::os::fd::RawFd;

use perf_event_open_sys::bindings as abi;

use crate::attr::EventAttr;
use crate::cause::Cause;
use crate::errno::Errno;
use crate::error::Error;
use crate::kernel::{Ioctl, Ready, SharedKernel, linux};
use crate::mapping::Mapping;
use crate::page::ControlPage;
use crate::reading::{
    GROUP_WORDS, GroupReading, Reading, SINGLE_WORDS, parse_leader, parse_single,
};
use crate::ring::Ring;
use crate::situation::{Operation, Situation, Target};

/// How to open an event, beyond its attributes and target.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions<'a> {
    /// Join the group of this leader.
    pub leader: Option<&'a Event>,
    /// Write samples into the ring of this event (`PERF_FLAG_FD_OUTPUT`), without joining its group.
    pub output: Option<&'a Event>,
    /// Let the descriptor survive `execve` (it is closed otherwise).
    pub keep_on_exec: bool,
}

/// An open event. Closed on drop.
///
/// ```
/// use truecount_perf::{Event, EventAttr, Target, sys::bindings as abi};
/// let faults = EventAttr::new(abi::PERF_TYPE_SOFTWARE, u64::from(abi::PERF_COUNT_SW_PAGE_FAULTS))
///     .exclude_kernel(true)
///     .read_times();
/// if let Ok(event) = Event::open(&faults, Target::CallingThread) {
///     let before = event.read()?;
///     let touched = vec![1u8; 1 << 20];
///     assert!(event.read()?.value >= before.value, "{}", touched.len());
/// }
/// # Ok::<(), truecount_perf::Error>(())
/// ```
#[derive(Debug)]
pub struct Event {
    kernel: SharedKernel,
    fd: RawFd,
    attr: EventAttr,
    target: Target,
    in_group: bool,
}

impl Event {
    /// Opens an event on the running kernel.
    ///
    /// # Errors
    /// [`Error`] with errno, cause and hint.
    pub fn open(attr: &EventAttr, target: Target) -> Result<Self, Error> {
        Self::open_with(&linux(), attr, target, OpenOptions::default())
    }

    /// Opens an event on any kernel, with options.
    ///
    /// # Errors
    /// [`Error`] with errno, cause and hint.
    pub fn open_with(
        kernel: &SharedKernel,
        attr: &EventAttr,
        target: Target,
        options: OpenOptions<'_>,
    ) -> Result<Self, Error> {
        Self::try_open(kernel, attr, target, options).map_err(|errno| {
            let in_group = options.leader.is_some();
            Error::new(&**kernel, errno, Operation::Open, attr, target, in_group)
        })
    }

    /// As [`Event::open_with`], with nothing but the errno: for probing, where explaining would be waste.
    ///
    /// Where a PMU refuses an option that says nothing about what is wanted (see [`EventAttr::relaxed`]), the event is
    /// opened without it; [`Event::attr`] has what was accepted.
    ///
    /// # Errors
    /// The errno of the system call.
    pub fn try_open(
        kernel: &SharedKernel,
        attr: &EventAttr,
        target: Target,
        options: OpenOptions<'_>,
    ) -> Result<Self, Errno> {
        if attr.get_precise_ip() > 0 && !attr.is_sampling() {
            // As x86 kernels say (`x86_pmu_hw_config`); others would count as if the level were not there.
            return Err(Errno::EINVAL);
        }
        let mut errno = match Self::open_once(kernel, attr, target, options) {
            Ok(event) => return Ok(event),
            Err(errno) => errno,
        };
        let first = errno;
        let mut asked = *attr;
        while let Some(less) = asked.relaxed(errno) {
            match Self::open_once(kernel, &less, target, options) {
                Ok(event) => return Ok(event),
                Err(next) => (asked, errno) = (less, next),
            }
        }
        // What was asked for is explained, not what was tried instead.
        Err(first)
    }

    fn open_once(
        kernel: &SharedKernel,
        attr: &EventAttr,
        target: Target,
        options: OpenOptions<'_>,
    ) -> Result<Self, Errno> {
        let (pid, cpu, mut flags) = target.arguments();
        if !options.keep_on_exec {
            flags |= u64::from(abi::PERF_FLAG_FD_CLOEXEC);
        }
        let mut group_fd = options.leader.map_or(-1, Event::fd);
        if let Some(output) = options.output {
            flags |= u64::from(abi::PERF_FLAG_FD_OUTPUT);
            if options.leader.is_none() {
                group_fd = output.fd();
                flags |= u64::from(abi::PERF_FLAG_FD_NO_GROUP);
            }
        }
        let mut raw = attr.raw();
        let fd = kernel.perf_event_open(&mut raw, pid, cpu, group_fd, flags)?;
        Ok(Self {
            kernel: SharedKernel::clone(kernel),
            fd,
            attr: *attr,
            target,
            in_group: options.leader.is_some(),
        })
    }

    /// The descriptor. It stays the event's: do not close it.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// The attributes it was opened with.
    #[must_use]
    pub fn attr(&self) -> &EventAttr {
        &self.attr
    }

    /// What it counts.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    /// The kernel it is open on.
    #[must_use]
    pub fn kernel(&self) -> &SharedKernel {
        &self.kernel
    }

    fn situation(&self, operation: Operation) -> Situation {
        Situation {
            operation,
            attr: self.attr,
            target: self.target,
            in_group: self.in_group,
            facts: self.kernel.facts(),
        }
    }

    fn error(&self, errno: Errno, operation: Operation) -> Error {
        Error::explain(errno, self.situation(operation))
    }

    fn end_of_file(&self) -> Error {
        let situation = self.situation(Operation::Read);
        Error::without_errno(
            Cause::PinnedNotScheduled,
            "the pinned event has no counter: the kernel could not keep it on the PMU".to_owned(),
            format!(
                "free a counter ({}) or do not pin it",
                situation.facts.other_users()
            ),
            situation,
        )
    }

    /// Reads the count by system call; of a group's leader its own. Does not allocate, except for an error.
    ///
    /// # Errors
    /// [`Error`]; [`Cause::PinnedNotScheduled`] where a pinned event lost its counter.
    pub fn read(&self) -> Result<Reading, Error> {
        let format = self.attr.get_read_format();
        let malformed = |what| Error::malformed(what, self.situation(Operation::Read));
        if format & u64::from(abi::PERF_FORMAT_GROUP) != 0 {
            let mut buffer = [0u64; GROUP_WORDS];
            let bytes = self.read_words(&mut buffer)?;
            return parse_leader(&buffer, bytes, format).map_err(malformed);
        }
        let mut buffer = [0u64; SINGLE_WORDS];
        let bytes = self.read_words(&mut buffer)?;
        parse_single(&buffer, bytes, format).map_err(malformed)
    }

    fn read_words(&self, buffer: &mut [u64]) -> Result<usize, Error> {
        match self.kernel.read(self.fd, buffer) {
            Err(errno) => Err(self.error(errno, Operation::Read)),
            Ok(0) => Err(self.end_of_file()),
            Ok(bytes) => Ok(bytes),
        }
    }

    /// Reads the whole group of this leader, which must have been opened with
    /// [`EventAttr::read_group`]. Does not allocate, except for an error.
    ///
    /// # Errors
    /// [`Error`]; `ENOSPC` where `into` has no room for all members.
    pub fn read_group(&self, into: &mut GroupReading) -> Result<(), Error> {
        let bytes = self.read_words(&mut into.buffer)?;
        into.parse(bytes, self.attr.get_read_format())
            .map_err(|what| Error::malformed(what, self.situation(Operation::Read)))
    }

    fn ioctl(&self, request: Ioctl<'_>, name: &'static str) -> Result<u64, Error> {
        self.kernel
            .ioctl(self.fd, request)
            .map_err(|errno| self.error(errno, Operation::Ioctl(name)))
    }

    /// Switches the event on.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn enable(&self) -> Result<(), Error> {
        self.ioctl(Ioctl::Enable { group: false }, "ENABLE")
            .map(drop)
    }

    /// Switches the event off.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn disable(&self) -> Result<(), Error> {
        self.ioctl(Ioctl::Disable { group: false }, "DISABLE")
            .map(drop)
    }

    /// Sets the count (not the times) to 0. See the quirk in [`crate::page`] before using it with user reads.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn reset(&self) -> Result<(), Error> {
        self.ioctl(Ioctl::Reset { group: false }, "RESET").map(drop)
    }

    /// Switches the members of the group on, one after the other. To start a group at one moment, open
    /// its members enabled and switch only the leader, as [`crate::Group`] does.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn enable_group(&self) -> Result<(), Error> {
        self.ioctl(Ioctl::Enable { group: true }, "ENABLE")
            .map(drop)
    }

    /// Sets the counts of the whole group to 0.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn reset_group(&self) -> Result<(), Error> {
        self.ioctl(Ioctl::Reset { group: true }, "RESET").map(drop)
    }

    /// Enables the event for `overflows` more overflows.
    ///
    /// # Errors
    /// [`Error`]; `EINVAL` where it does not sample or inherits.
    pub fn refresh(&self, overflows: i32) -> Result<(), Error> {
        self.ioctl(Ioctl::Refresh(overflows), "REFRESH").map(drop)
    }

    /// Sets a new sample period (or frequency).
    ///
    /// # Errors
    /// [`Error`]; `EINVAL` where it does not sample, or above the highest sample rate.
    pub fn set_period(&self, period: u64) -> Result<(), Error> {
        self.ioctl(Ioctl::Period(period), "PERIOD").map(drop)
    }

    /// Sends the samples into the ring of `other`; `None` detaches.
    ///
    /// # Errors
    /// [`Error`]; `EINVAL` where the two are of different CPUs or clocks.
    pub fn set_output(&self, other: Option<&Self>) -> Result<(), Error> {
        let fd = other.map_or(-1, Self::fd);
        self.ioctl(Ioctl::SetOutput(fd), "SET_OUTPUT").map(drop)
    }

    /// Sets a tracepoint or address filter.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn set_filter(&self, filter: &CStr) -> Result<(), Error> {
        self.ioctl(Ioctl::SetFilter(filter), "SET_FILTER").map(drop)
    }

    /// The event's unique number, as in samples and group readings.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn id(&self) -> Result<u64, Error> {
        self.ioctl(Ioctl::Id, "ID")
    }

    /// Attaches a BPF program by its descriptor.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn set_bpf(&self, program: u32) -> Result<(), Error> {
        self.ioctl(Ioctl::SetBpf(program), "SET_BPF").map(drop)
    }

    /// Stops (true) or resumes writing to the ring.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn pause_output(&self, pause: bool) -> Result<(), Error> {
        self.ioctl(Ioctl::PauseOutput(pause), "PAUSE_OUTPUT")
            .map(drop)
    }

    /// Moves a breakpoint to the address in `attr`.
    ///
    /// # Errors
    /// [`Error`] of the ioctl.
    pub fn modify(&mut self, attr: &EventAttr) -> Result<(), Error> {
        self.ioctl(Ioctl::ModifyAttributes(&attr.raw()), "MODIFY_ATTRIBUTES")?;
        self.attr = *attr;
        Ok(())
    }

    /// Maps the control page, for reads without a system call.
    ///
    /// # Errors
    /// [`Error`] of the mapping; `EINVAL` where the event inherits across CPUs.
    pub fn control_page(&self) -> Result<ControlPage, Error> {
        Mapping::new(&self.kernel, self.fd, 0)
            .map(ControlPage::new)
            .map_err(|errno| self.error(errno, Operation::Map))
    }

    /// Maps the control page and a ring of `pages` pages (a power of two) for samples.
    ///
    /// # Errors
    /// [`Error`] of the mapping; `EPERM` above the limit of locked memory.
    pub fn ring(&self, pages: usize) -> Result<Ring, Error> {
        if pages == 0 {
            return Err(self.error(Errno::EINVAL, Operation::Map));
        }
        Mapping::new(&self.kernel, self.fd, pages)
            .map(Ring::new)
            .map_err(|errno| self.error(errno, Operation::Map))
    }

    /// The largest ring of at most `pages` pages that the limit of locked memory allows, down to eight.
    ///
    /// # Errors
    /// As [`Event::ring`].
    pub fn largest_ring(&self, mut pages: usize) -> Result<Ring, Error> {
        loop {
            match self.ring(pages) {
                Err(error)
                    if matches!(error.errno(), Some(Errno::EPERM | Errno::ENOMEM)) && pages > 8 =>
                {
                    pages /= 2;
                }
                done => return done,
            }
        }
    }

    /// Waits until the ring has something to read; `timeout_ms` < 0 waits for ever.
    ///
    /// # Errors
    /// [`Error`]; `EINTR` where a signal came.
    pub fn wait(&self, timeout_ms: i32) -> Result<Ready, Error> {
        self.kernel
            .poll(self.fd, timeout_ms)
            .map_err(|errno| self.error(errno, Operation::Wait))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.kernel.close(self.fd);
    }
}
