//! The open perf events behind a counter, with their mapped pages: reading them the safe way, the slow way, and
//! asking whether the fast way is still right.

use crate::Source;
use crate::arch;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::policy::{Fence, Policy};
use truecount_perf::fork::ForkGuard;
use truecount_perf::page::{Snapshot, sign_extend};
use truecount_perf::{
    ControlPage, Errno, Event, EventAttr, OpenOptions, SharedKernel, Target, Times,
};

/// Eight bytes at offset 1016 of a mapped control page, inside the kernel's reserved (and zero) part, by which
/// truecount's virtual PMU makes itself known. Source: `perf_event_mmap_page.__reserved` ends at 1024.
pub const VIRTUAL_MARK: [u8; 8] = *b"truecnt\0";

const MARK_OFFSET: usize = 1016;

/// Updates of a page in a row after which the system call is taken instead.
const TRIES: u32 = 64;

/// Why `event` could not be opened. Under the virtual PMU the kernel's side knows nothing of why: there `ENOENT` means
/// that it has no such event, whatever PMU the machine has, and what it counts it counts in user mode alone.
pub(crate) fn refused(
    kernel: &SharedKernel,
    event: &str,
    attr: &EventAttr,
    source: truecount_perf::Error,
) -> Error {
    let event = event.to_owned();
    let pmus = [
        truecount_events::generic::TYPE_HARDWARE,
        truecount_events::generic::TYPE_RAW,
    ];
    match source.errno() {
        Some(Errno::ENOENT) if under_virtual(kernel) => Error::NotVirtual { event },
        Some(Errno::EACCES | Errno::EOPNOTSUPP)
            if !attr.get_exclude_kernel()
                && pmus.contains(&attr.get_type())
                && under_virtual(kernel) =>
        {
            Error::UserModeAlone { event }
        }
        _ => Error::Open { event, source },
    }
}

/// Whether the events of this program are the virtual PMU's, which always counts instructions.
fn under_virtual(kernel: &SharedKernel) -> bool {
    let attr = EventAttr::new(
        truecount_events::generic::TYPE_HARDWARE,
        1, // PERF_COUNT_HW_INSTRUCTIONS
    )
    .exclude_kernel(true)
    .exclude_hv(true)
    .disabled(true);
    let options = OpenOptions::default();
    Event::open_with(kernel, &attr, Target::CallingThread, options)
        .is_ok_and(|event| Part::new(event, None, false, false).source() == Source::Virtual)
}

/// One open event of this thread.
#[derive(Debug)]
pub(crate) struct Part {
    /// Opens the event anew in forked children. First, so that it goes before the event does.
    _in_children: Option<ForkGuard>,
    pub event: Event,
    /// Mapped before the first read, and never reset: otherwise user reads can be off by 2^width (a kernel quirk).
    pub page: Option<ControlPage>,
    /// Whether the instruction may be executed at all (never with a scripted kernel).
    pub user_reads: bool,
}

impl Part {
    /// `leader`: the leader of the event's group. `real`: the kernel is the one that this process runs on.
    pub(crate) fn new(event: Event, leader: Option<&Self>, user_reads: bool, real: bool) -> Self {
        let page = event.control_page().ok();
        let guard = || {
            ForkGuard::of(
                &event,
                page.as_ref(),
                leader.map(|leader| leader.event.fd()),
            )
        };
        Self {
            _in_children: real.then(guard).flatten(),
            event,
            page,
            user_reads: user_reads && arch::USER_READS,
        }
    }

    /// The count and its times by system call, of an event that is read alone; `None` where there is none.
    pub(crate) fn counted(&self) -> Option<(u64, Times)> {
        let [value, enabled, running] = self.read_words::<3>()?;
        Some((value, Times { enabled, running }))
    }

    /// Whether the event is the virtual PMU's.
    pub(crate) fn is_virtual(&self) -> bool {
        self.page.as_ref().is_some_and(|page| {
            // SAFETY: the mapping is at least one page of 4096 bytes, valid while `page` lives.
            let mark = unsafe {
                page.as_ptr()
                    .cast::<u8>()
                    .add(MARK_OFFSET)
                    .cast::<[u8; 8]>()
                    .read_volatile()
            };
            mark == VIRTUAL_MARK
        })
    }

    /// Whether an event without a page (an inherited one has none) is the virtual PMU's: its descriptor is of the
    /// file that the engine keeps its counts in.
    fn is_virtual_file(&self) -> bool {
        std::fs::read_link(format!("/proc/self/fd/{}", self.event.fd()))
            .is_ok_and(|file| file.to_string_lossy().starts_with("/memfd:truecount-"))
    }

    pub(crate) fn source(&self) -> Source {
        const SOFTWARE: u32 = truecount_events::generic::TYPE_SOFTWARE;
        const TRACEPOINT: u32 = truecount_events::generic::TYPE_TRACEPOINT;
        match self.event.attr().raw().0.type_ {
            SOFTWARE | TRACEPOINT => Source::Software,
            _ if self.is_virtual() || self.page.is_none() && self.is_virtual_file() => {
                Source::Virtual
            }
            _ => Source::Hardware,
        }
    }

    /// The counter that user space may read now.
    pub(crate) fn index(&self) -> Option<u32> {
        let view = self.page.as_ref().filter(|_| self.user_reads)?.view();
        view.consistent(TRIES, |page| {
            (page.capabilities().user_rdpmc(), page.index())
        })
        .filter(|(allowed, _)| *allowed)
        .and_then(|(_, index)| index.checked_sub(1))
    }

    /// Whether the kernel allows user space to read the event when it is on a counter.
    pub(crate) fn allows_user_reads(&self) -> bool {
        self.user_reads
            && self
                .page
                .as_ref()
                .is_some_and(|page| page.view().capabilities().user_rdpmc())
    }

    /// The geometry, while the counter still stands near its start.
    pub(crate) fn geometry(&self, index: u32) -> Option<Geometry> {
        let width = self.page.as_ref()?.view().pmc_width();
        Geometry::of_new_counter(width, self.raw::<Fence>(index))
    }

    /// The counter as it is.
    pub(crate) fn raw<P: Policy>(&self, index: u32) -> u64 {
        // SAFETY: `index` came from `index()`, so the kernel allows the instruction and the page is still mapped; the
        // policy was checked when the counter was opened.
        unsafe { arch::read_one::<P>(index) }
    }

    /// The safe read: the count and the times, consistent with each other, right wherever the event was. `None` where
    /// the page cannot be used.
    #[inline]
    pub(crate) fn snapshot<P: Policy>(&self) -> Option<Snapshot> {
        let view = self.page.as_ref().filter(|_| self.user_reads)?.view();
        view.snapshot(TRIES, |index| self.raw::<P>(index), arch::read_clock)
    }

    /// The safe read's count: from the page while the event is on a counter that user space may read, else from the
    /// kernel. (An index of 0 says either "not on the PMU" or "not for user space", and the page's offset is stale in
    /// the second case: arm64 with `kernel.perf_user_access=0` announces user reads all the same.)
    #[inline]
    pub(crate) fn safe_count<P: Policy>(&self) -> Option<u64> {
        let from_page = || {
            let view = self.page.as_ref().filter(|_| self.user_reads)?.view();
            // The capability was looked at when the counter was opened: where user reads are off, the index is 0.
            view.consistent(TRIES, |page| {
                let index = page.index().checked_sub(1)?;
                let counted = sign_extend(self.raw::<P>(index), page.pmc_width());
                Some((page.offset() as u64).wrapping_add(counted))
            })?
        };
        from_page().or_else(|| self.read_words::<3>().map(|[value, ..]| value))
    }

    /// Whether the page serves: the event is readable now, or really off the PMU.
    pub(crate) fn page_serves(&self) -> bool {
        if !self.allows_user_reads() {
            return false;
        }
        let running = || self.read_words::<3>().map(|[_, _, running]| running);
        for _ in 0..8 {
            let before = running();
            if self.index().is_some() {
                return true;
            }
            // Ran, and was not to be seen on the page: not for user space. (Or it was scheduled just now.)
            arch::known_loop(1000);
            if running() == before {
                return true;
            }
        }
        false
    }

    /// Reads by system call; `None` on failure, or when a pinned event lost its counter. Does not allocate.
    #[inline]
    pub(crate) fn read_words<const N: usize>(&self) -> Option<[u64; N]> {
        // A zero that the compiler knows is filled in by memset in debug builds, and AVX-512's executes two instructions
        // more at the end of a page.
        let mut buffer = [std::hint::black_box(0); N];
        let bytes = self
            .event
            .kernel()
            .read(self.event.fd(), &mut buffer)
            .ok()?;
        (bytes == N.saturating_mul(8)).then_some(buffer)
    }

    /// Whether the counter `index` is still this event's, has been all the time, and agrees with the count that
    /// `kernel` reads by system call.
    pub(crate) fn check(
        &self,
        name: &str,
        index: u32,
        geometry: Geometry,
        kernel: impl Fn() -> Result<(u64, Times), Error>,
    ) -> Result<(), Error> {
        let moved = || Error::Moved {
            event: name.to_owned(),
        };
        let descheduled = |enabled_ns, running_ns| Error::Descheduled {
            event: name.to_owned(),
            enabled_ns,
            running_ns,
        };
        let before = self.snapshot::<Fence>().ok_or_else(moved)?;
        let (value, times) = kernel()?;
        let after = self.snapshot::<Fence>().ok_or_else(moved)?;
        if times.running < times.enabled {
            return Err(descheduled(times.enabled, times.running));
        }
        for seen in [before, after] {
            match seen.index.checked_sub(1) {
                None => return Err(descheduled(seen.time_enabled, seen.time_running)),
                Some(now) if now != index => return Err(moved()),
                Some(_) => {}
            }
        }
        // Modulo the width: see the quirk in truecount_perf::page.
        let mask = geometry.mask();
        let way = value.wrapping_sub(before.value) & mask;
        let all = after.value.wrapping_sub(before.value) & mask;
        if way > all {
            return Err(Error::Unverified {
                event: name.to_owned(),
                expected: value,
                got: before.value,
            });
        }
        Ok(())
    }
}
