//! Opening: from a name to the fastest way to read that is right, verified.

mod difference;

use crate::Source;
use crate::arch;
use crate::clocks;
use crate::core::{Core, Reader};
use crate::counter::{Best, Counter};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::lookup::one;
use crate::parts::{self, Part};
use crate::policy::Policy;
use crate::verify::{scheduled, steady, verify, verify_counts};
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use truecount_events::{Encoding, Event as Named, Kind, Machine, Special, generic};
use truecount_perf::{Event, EventAttr, OpenOptions, SharedKernel, Target, linux};

/// Which way to read to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// The fastest that works: a register fixed at opening if the event can be pinned and user space may read it, else
    /// the page's protocol, else a system call.
    #[default]
    Auto,
    /// A register fixed at opening, or an error.
    Fast,
    /// The page's protocol, or an error: right when the event is moved or shares its counter.
    Safe,
    /// A system call.
    Syscall,
}

/// How to open a counter.
///
/// ```
/// use truecount::{Fence, Mode, Options};
/// // Page faults of this thread and of all threads and children it makes from now on.
/// match Options::new().mode(Mode::Syscall).inherit(true).open::<Fence>("page-faults") {
///     Ok(counter) => println!("{:?}", counter.reading()),
///     Err(error) => println!("{error}"),
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    mode: Mode,
    inherit: bool,
    verify: bool,
    kernel: SharedKernel,
    user_reads: bool,
    root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// [`Mode::Auto`], for the calling thread only, verified.
    #[must_use]
    pub fn new() -> Self {
        Self {
            mode: Mode::Auto,
            inherit: false,
            verify: true,
            kernel: linux(),
            user_reads: true,
            root: PathBuf::from("/"),
        }
    }

    /// Insists on a way to read.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Counts threads and children that are made from now on, too. Such counters are read by system call.
    #[must_use]
    pub fn inherit(mut self, inherit: bool) -> Self {
        self.inherit = inherit;
        self
    }

    /// Whether opening reads the counter around a loop of known length (default: yes; about 10 µs, and up to 0.3 s
    /// once a process for an event that is to count interrupts).
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Another kernel (a scripted one, in tests). User space then reads nothing by itself.
    #[must_use]
    pub fn kernel(mut self, kernel: SharedKernel) -> Self {
        self.kernel = kernel;
        self.user_reads = false;
        self
    }

    /// Another machine's `sys/` and `proc/`, in which names and the CPU are looked up (default: `/`).
    #[must_use]
    pub fn machine(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// Opens an event for the calling thread; see [`Counter::open`].
    ///
    /// # Errors
    /// [`Error`], with its hint.
    pub fn open<P: Policy>(&self, event: &str) -> Result<Counter<P>, Error> {
        self.open_core::<P>(event)
            .map(|core| Counter::from_core(Rc::new(core)))
    }

    /// Opens the event, or the best there is instead; see [`Counter::open_or_best`].
    ///
    /// From the best to the last resort: the event itself; for a difference, the same without what is subtracted; the
    /// thread's CPU time for events of user mode is not tried, since it is no better than `wall-time`, which always
    /// works.
    #[must_use]
    pub fn open_or_best<P: Policy>(&self, event: &str) -> Best<P> {
        let error = match self.open(event) {
            Ok(counter) => {
                return Best {
                    counter,
                    instead_because: None,
                };
            }
            Err(error) => error,
        };
        let minus = matches!(
            &error,
            Error::NothingToSubtract { .. } | Error::SilentInterrupts { .. }
        );
        let instead = if minus {
            self.open("instructions:u").ok()
        } else {
            None
        };
        let counter = instead.unwrap_or_else(|| {
            Counter::from_core(Rc::new(Core::clock(
                Reader::WallTime,
                Special::WallTime.name(),
                "ns",
            )))
        });
        Best {
            counter,
            instead_because: Some(error),
        }
    }

    pub(crate) fn open_core<P: Policy>(&self, expression: &str) -> Result<Core, Error> {
        if !arch::supports(P::KIND) {
            return Err(Error::Policy(P::KIND));
        }
        let machine = self.machine_used();
        let event = one(expression, &machine)?;
        match &event.kind {
            Kind::Special(special) => self.special::<P>(*special, &machine),
            Kind::Perf(encoding) if encoding.never_counts() => Err(Error::Unsupported {
                event: event.name.clone(),
                reason: "it happens in the kernel, which :u leaves out: it would always be 0; count it without :u",
            }),
            Kind::Perf(encoding) if lacks(&machine, encoding) => Err(Error::Unsupported {
                event: event.name.clone(),
                reason: "the PMU does not have it, and would read 0 (by PMCEID_EL0, which its events/ in \
                         /sys/bus/event_source/devices shows)",
            }),
            Kind::Perf(encoding) => self.perf::<P>(&event, encoding),
        }
    }

    fn special<P: Policy>(&self, special: Special, machine: &Machine) -> Result<Core, Error> {
        let reader = match special {
            Special::WallTime => Reader::WallTime,
            Special::UserTime => Reader::UserTime,
            Special::SystemTime => Reader::SystemTime,
            Special::Zero => Reader::Zero,
            Special::InstructionsMinusIrqs | Special::InstructionsMinusExceptions => {
                return self.difference::<P>(special, machine);
            }
            other => {
                return Err(Error::Unsupported {
                    event: other.name().to_owned(),
                    reason: "this version of the library does not know the kind",
                });
            }
        };
        if self.inherit {
            let reason = "clocks of one thread cannot be inherited; use task-clock";
            return Err(Error::Unsupported {
                event: special.name().to_owned(),
                reason,
            });
        }
        let mut core = Core::clock(reader, special.name(), special.unit());
        core.exact = special == Special::Zero;
        Ok(core)
    }

    fn perf<P: Policy>(&self, event: &Named, encoding: &Encoding) -> Result<Core, Error> {
        let hardware = is_hardware(encoding);
        if !hardware || self.inherit || self.mode == Mode::Syscall {
            if matches!(self.mode, Mode::Fast | Mode::Safe) {
                return Err(Error::NoUserRead {
                    event: event.name.clone(),
                    reason: if hardware {
                        "inherited counts are sums of several threads"
                    } else {
                        "the kernel counts it"
                    },
                });
            }
            let pinned = encoding.pinned || hardware && !self.inherit;
            let part = self.part(event, encoding, pinned)?;
            return self.counting(event, encoding, Reader::Syscall, part);
        }
        let why = if self.mode == Mode::Safe {
            "it was not tried"
        } else {
            match self.fast::<P>(event, encoding)? {
                Ok(core) => return Ok(core),
                Err(reason) if self.mode == Mode::Fast => {
                    return Err(Error::NoUserRead {
                        event: event.name.clone(),
                        reason,
                    });
                }
                Err(reason) => reason,
            }
        };
        // Pinned: one that shared its counter would give nothing for the regions in which it was off it.
        let part = self.part(event, encoding, true)?;
        if part.page_serves() {
            return self.counting(event, encoding, Reader::Safe, part);
        }
        if self.mode == Mode::Safe {
            return Err(Error::NoUserRead {
                event: event.name.clone(),
                reason: if self.user_reads {
                    "the kernel does not allow it for this event"
                } else {
                    why
                },
            });
        }
        self.counting(event, encoding, Reader::Syscall, part)
    }

    /// A counter that is read safely or by system call, once it is seen to count.
    fn counting(
        &self,
        event: &Named,
        encoding: &Encoding,
        reader: Reader,
        part: Part,
    ) -> Result<Core, Error> {
        let core = self.core(event, reader, Geometry::PLAIN, vec![part]);
        if self.verify && self.user_reads && is_hardware(encoding) {
            verify_counts(&core, counts_user_instructions(encoding))?;
        }
        Ok(core)
    }

    /// `Ok(Err(reason))`: the event can be counted, but not read from a register fixed now.
    fn fast<P: Policy>(
        &self,
        event: &Named,
        encoding: &Encoding,
    ) -> Result<Result<Core, &'static str>, Error> {
        if !self.user_reads || !arch::USER_READS {
            return Ok(Err("user space reads nothing on this architecture"));
        }
        let part = match self.part(event, encoding, true) {
            Ok(part) => part,
            Err(Error::Descheduled { .. }) => return Ok(Err("others hold all counters")),
            Err(error) => return Err(error),
        };
        let Some((index, geometry)) = steady(&part) else {
            return Ok(Err(if part.allows_user_reads() {
                "it is on no counter that user space may read (others use the PMU, or see rdpmc in \
                 /sys/bus/event_source/devices/*/ and kernel.perf_user_access)"
            } else {
                "the kernel does not allow it (see rdpmc in /sys/bus/event_source/devices/*/ and kernel.perf_user_access)"
            }));
        };
        if !geometry.is_roomy() {
            return Ok(Err(
                "the counter is restarted too often for reads without the page's offset",
            ));
        }
        let core = self.core(event, Reader::Single { index }, geometry, vec![part]);
        if self.verify {
            verify::<P>(&core, counts_user_instructions(encoding))?;
        }
        Ok(Ok(core))
    }

    /// Opens an event and sees that it gets on the PMU. On aarch64 what is asked beside it decides where it can be, so
    /// an event that opens one way and is then never scheduled is tried the next.
    fn part(&self, event: &Named, encoding: &Encoding, pinned: bool) -> Result<Part, Error> {
        let attr = EventAttr::from(encoding)
            .read_times()
            .disabled(true)
            .pinned(pinned)
            .inherit(self.inherit);
        for config1 in self.user_read_requests(encoding) {
            if let Ok(part) = self.opened(event, &attr.config1(config1), false) {
                return Ok(part);
            }
        }
        self.opened(event, &attr, true)
    }

    fn opened(&self, event: &Named, attr: &EventAttr, patience: bool) -> Result<Part, Error> {
        let fail = |source| parts::refused(&self.kernel, &event.name, attr, source);
        let options = OpenOptions::default();
        let opened =
            Event::open_with(&self.kernel, attr, Target::CallingThread, options).map_err(fail)?;
        // Mapped before it is enabled and first read (the kernel quirk in `Part::page`).
        let part = Part::new(
            opened,
            None,
            self.user_reads && !self.inherit,
            self.user_reads,
        );
        part.event.enable().map_err(fail)?;
        if self.verify {
            scheduled(&event.name, patience && !attr.get_pinned(), || {
                part.counted().map(|(_, times)| times)
            })?;
        }
        Ok(part)
    }

    /// Values of `config1` that ask for user reads, the best first: on aarch64 bit 1 asks, bit 0 wants 64 bits (Linux
    /// `drivers/perf/arm_pmuv3.c`); elsewhere nothing has to be asked.
    pub(crate) fn user_read_requests(&self, encoding: &Encoding) -> Vec<u64> {
        if cfg!(target_arch = "aarch64") && is_hardware(encoding) && self.may_read_registers() {
            vec![encoding.config1 | 3, encoding.config1 | 2]
        } else {
            Vec::new()
        }
    }

    /// Where names are looked up.
    pub(crate) fn machine_used(&self) -> Machine {
        Machine::at(&self.root)
    }

    /// Whether opening verifies.
    pub(crate) fn verifies(&self) -> bool {
        self.verify
    }

    /// Whether the kernel is the one that this process runs on.
    pub(crate) fn is_real(&self) -> bool {
        self.user_reads
    }

    pub(crate) fn mode_asked(&self) -> Mode {
        self.mode
    }

    pub(crate) fn inherits(&self) -> bool {
        self.inherit
    }

    pub(crate) fn kernel_used(&self) -> &SharedKernel {
        &self.kernel
    }

    /// Whether counter registers may be read at all.
    pub(crate) fn may_read_registers(&self) -> bool {
        self.user_reads && arch::USER_READS && !self.inherit
    }

    fn core(&self, event: &Named, reader: Reader, geometry: Geometry, parts: Vec<Part>) -> Core {
        let source = parts.first().map_or(Source::Software, Part::source);
        Core {
            reader,
            geometry,
            parts,
            name: event.name.clone(),
            unit: event.unit.clone(),
            scale: event.scale,
            source,
            // The virtual PMU counts what an instruction is, nothing else; hardware adds interrupts and chance.
            exact: source == Source::Virtual,
            opened: clocks::wall_ns(),
            failed: Cell::new(false),
            last: Cell::new(0),
        }
    }
}

impl<P: Policy> Counter<P> {
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
}

fn is_hardware(encoding: &Encoding) -> bool {
    !matches!(
        encoding.type_,
        generic::TYPE_SOFTWARE | generic::TYPE_TRACEPOINT
    )
}

/// Whether the machine's PMU says that it does not have an event, though the kernel would open it. Only numbers that
/// every kernel lists where the PMU has them (Linux 4.2 on): of newer ones an old kernel says nothing.
fn lacks(machine: &Machine, encoding: &Encoding) -> bool {
    encoding.config & 0xffff <= 0x30
        && is_hardware(encoding)
        && encoding.type_ != generic::TYPE_HARDWARE
        && machine.unlisted(encoding).is_some()
}

/// Whether a loop of known length must show in the count.
fn counts_user_instructions(encoding: &Encoding) -> bool {
    /// `PERF_COUNT_HW_INSTRUCTIONS`; the upper half is the PMU on hybrid machines.
    const INSTRUCTIONS: u64 = 1;
    encoding.type_ == generic::TYPE_HARDWARE
        && encoding.config & 0xffff_ffff == INSTRUCTIONS
        && !encoding.exclude_user
        && !encoding.exclude_host
}
