//! What can only be known by trying: events at once, user reads, branch stacks.
//!
//! Kernels accept groups that never get onto the PMU (the NMI watchdog's counter is not considered when
//! a group is checked, `x86_pmu_event_init` → `validate_group`), so every trial reads back its times.

use perf_event_open_sys::bindings as abi;

use crate::attr::EventAttr;
use crate::errno::Errno;
use crate::error::Error;
use crate::event::{Event, OpenOptions};
use crate::kernel::SharedKernel;
use crate::reading::GroupReading;
use crate::situation::Target;

/// More counters than any core PMU has (Intel: 8 + 4, Arm: 31 + 1).
const MAX_EVENTS: usize = 40;

/// How large a group of the given events really ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fit {
    /// Members of the largest group that was on the PMU at once.
    pub ran: usize,
    /// The errno that ended the growing, where opening (and not running) was the limit.
    pub refused: Option<Errno>,
    /// A larger group could be opened but never ran: someone else holds a counter, or the driver does
    /// not count the leader when it checks a group (arm64).
    pub opened_but_never_ran: bool,
}

/// How many general and how many counters of all kinds are free to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountersFound {
    /// Events at once that only general counters can count.
    pub general: Fit,
    /// With instructions, cycles and reference cycles in addition, which may have fixed counters.
    pub all: Fit,
}

/// Whether the mapped page lets user space read a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserRead {
    /// `cap_user_rdpmc` of the page.
    pub allowed: bool,
    /// The event had a hardware counter when it was looked at.
    pub has_index: bool,
    /// Bits of the counter.
    pub width: u16,
}

impl UserRead {
    /// Whether programs can read their counters: the page allows it and names a counter. (arm64 allows it in the page
    /// whatever `kernel.perf_user_access` says, and then names none.)
    #[must_use]
    pub fn works(&self) -> bool {
        self.allowed && self.has_index
    }
}

/// Whether branch stacks can be sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchTrial {
    /// The event opened.
    Works,
    /// It did not, for this reason.
    Refused(Errno),
}

fn counting(type_: u32, config: u64) -> EventAttr {
    EventAttr::new(type_, config)
        .exclude_kernel(true)
        .exclude_hv(true)
}

fn hardware(config: u32) -> EventAttr {
    counting(abi::PERF_TYPE_HARDWARE, u64::from(config))
}

/// Runs user code for a while, so that an event which can count does.
fn spin() {
    for i in 0..20_000u32 {
        std::hint::black_box(i);
    }
}

/// Whether an event counts nothing in user code although it is on the PMU and instructions retire meanwhile: what a
/// hypervisor does with events that it filters, and a PMU with those that it does not have. An event that cannot be
/// opened, or that never got onto a counter, is not known to be silent.
#[must_use]
pub fn silent(kernel: &SharedKernel, attr: &EventAttr) -> bool {
    let counts = |attr: EventAttr| {
        let attr = attr
            .exclude_kernel(true)
            .exclude_hv(true)
            .read_times()
            .disabled(true);
        let options = OpenOptions::default();
        let event = Event::try_open(kernel, &attr, Target::CallingThread, options).ok()?;
        event.enable().ok()?;
        spin();
        event.disable().ok()?;
        let reading = event.read().ok()?;
        (reading.times?.running > 0).then_some(reading.value)
    };
    counts(*attr) == Some(0)
        && counts(hardware(abi::PERF_COUNT_HW_INSTRUCTIONS)).is_some_and(|count| count > 0)
}

/// Grows a group by `next(size)` until it cannot be opened or does not run.
///
/// # Errors
/// The errno of the first event alone: then nothing fits, for that reason.
pub fn fit(kernel: &SharedKernel, next: impl Fn(usize) -> EventAttr) -> Result<Fit, Errno> {
    let open = |attr: &EventAttr, leader: Option<&Event>| {
        let options = OpenOptions {
            leader,
            ..OpenOptions::default()
        };
        Event::try_open(kernel, attr, Target::CallingThread, options)
    };
    let mut found = Fit::default();
    let leader = open(&next(0).read_group().disabled(true), None)?;
    let mut others: Vec<Event> = Vec::new();
    let mut reading = GroupReading::with_room_for(MAX_EVENTS);
    let mut running = 0;
    loop {
        // Times add up over the rounds: the group ran if its time moved. Only the leader is switched:
        // a group ioctl switches member by member, so that a part of a group that is too large runs
        // for a moment, and x86 does not count members that are off when it checks a group's size.
        let ran = leader.enable().is_ok() && {
            spin();
            // Read after switching off, or the rest of this round counts for the next.
            let stopped = leader.disable();
            let read = leader.read_group(&mut reading);
            let before = std::mem::replace(&mut running, reading.times().map_or(0, |t| t.running));
            read.is_ok() && stopped.is_ok() && running > before
        };
        if !ran {
            found.opened_but_never_ran = true;
            return Ok(found);
        }
        found.ran = 1 + others.len();
        if found.ran == MAX_EVENTS {
            return Ok(found);
        }
        match open(&next(found.ran).read_group(), Some(&leader)) {
            Ok(event) => others.push(event),
            Err(errno) => {
                found.refused = Some(errno);
                return Ok(found);
            }
        }
    }
}

/// How many events fit at once on this thread's PMU, found by trying.
///
/// # Errors
/// [`Error`] where no hardware event can be opened at all.
pub fn counters_at_once(kernel: &SharedKernel) -> Result<CountersFound, Error> {
    // Branches have no fixed counter anywhere; emulated Arm PMUs may lack them.
    let choice = [
        abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
        abi::PERF_COUNT_HW_INSTRUCTIONS,
        abi::PERF_COUNT_HW_CPU_CYCLES,
    ]
    .into_iter()
    .map(hardware)
    .find(|attr| {
        Event::try_open(kernel, attr, Target::CallingThread, OpenOptions::default()).is_ok()
    });
    let Some(general) = choice else {
        let attr = hardware(abi::PERF_COUNT_HW_INSTRUCTIONS);
        return Event::open_with(kernel, &attr, Target::CallingThread, OpenOptions::default())
            .map(|_| CountersFound::default());
    };
    let explain = |errno| {
        Error::new(
            &**kernel,
            errno,
            crate::Operation::Open,
            &general,
            Target::CallingThread,
            true,
        )
    };
    let fixed: Vec<EventAttr> = [
        abi::PERF_COUNT_HW_INSTRUCTIONS,
        abi::PERF_COUNT_HW_CPU_CYCLES,
        abi::PERF_COUNT_HW_REF_CPU_CYCLES,
    ]
    .into_iter()
    .map(hardware)
    .filter(|attr| {
        Event::try_open(kernel, attr, Target::CallingThread, OpenOptions::default()).is_ok()
    })
    .collect();
    Ok(CountersFound {
        general: fit(kernel, |_| general).map_err(explain)?,
        all: fit(kernel, |size| fixed.get(size).copied().unwrap_or(general)).map_err(explain)?,
    })
}

/// Opens `attr` on this thread, maps its page and looks whether user space may read the counter.
///
/// On arm64 the attribute must ask for it: `config1` bit 1.
///
/// # Errors
/// [`Error`] where the event cannot be opened or mapped.
pub fn user_read(kernel: &SharedKernel, attr: &EventAttr) -> Result<UserRead, Error> {
    let event = Event::open_with(kernel, attr, Target::CallingThread, OpenOptions::default())?;
    let page = event.control_page()?;
    event.enable()?;
    let view = page.view();
    let seen = view.consistent(100, |view| UserRead {
        allowed: view.capabilities().user_rdpmc(),
        has_index: view.index() != 0,
        width: view.pmc_width(),
    });
    Ok(seen.unwrap_or_default())
}

/// Whether branch stacks of user code can be sampled, by opening such an event.
#[must_use]
pub fn branch_stack(kernel: &SharedKernel) -> BranchTrial {
    let attr = hardware(abi::PERF_COUNT_HW_CPU_CYCLES)
        .disabled(true)
        .sample_every(1_000_000)
        .sample_type(u64::from(
            abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_BRANCH_STACK,
        ))
        .branch_sample_type(u64::from(
            abi::PERF_SAMPLE_BRANCH_USER | abi::PERF_SAMPLE_BRANCH_ANY,
        ));
    let open = |attr| Event::try_open(kernel, attr, Target::CallingThread, OpenOptions::default());
    match open(&attr) {
        Ok(_) => BranchTrial::Works,
        Err(errno) if brs(kernel) => {
            // Zen 3 takes its own event only.
            let own = attr.type_(abi::PERF_TYPE_RAW).config(0xc4);
            match open(&own) {
                Ok(_) => BranchTrial::Works,
                Err(_) => BranchTrial::Refused(errno),
            }
        }
        Err(errno) => BranchTrial::Refused(errno),
    }
}

/// Whether the PMU samples branches as Zen 3 does.
fn brs(kernel: &SharedKernel) -> bool {
    let facts = kernel.facts();
    facts.pmus.iter().flatten().any(|pmu| pmu.brs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;

    /// A fake on which time passes by itself whenever events are switched off (after the spin).
    fn found(fake: &FakeKernel) -> Fit {
        let general = hardware(abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
        fit(&fake.ticking(), |_| general).unwrap()
    }

    #[test]
    fn groups_grow_until_they_are_refused() {
        let fake = FakeKernel::new();
        fake.set_counters(6);
        let fit = found(&fake);
        assert_eq!(
            fit,
            Fit {
                ran: 6,
                refused: Some(Errno::EINVAL),
                opened_but_never_ran: false
            }
        );
        assert!(fake.open_descriptors().is_empty());
    }

    #[test]
    fn a_stolen_counter_is_noticed_though_the_kernel_accepts_the_group() {
        let fake = FakeKernel::new();
        fake.set_counters(4);
        fake.set_stolen(1);
        let fit = found(&fake);
        assert_eq!(
            fit,
            Fit {
                ran: 3,
                refused: None,
                opened_but_never_ran: true
            }
        );
    }

    #[test]
    fn nothing_fits_without_a_pmu_and_the_reason_is_kept() {
        let bare = FakeKernel::without_pmu();
        let error = counters_at_once(&bare.shared()).unwrap_err();
        assert_eq!(
            (error.errno(), error.cause()),
            (Some(Errno::ENOENT), crate::Cause::NoPmu)
        );
        assert_eq!(
            branch_stack(&bare.shared()),
            BranchTrial::Refused(Errno::ENOENT)
        );
        assert!(user_read(&bare.shared(), &hardware(1)).is_err());
    }

    #[test]
    fn counters_of_all_kinds() {
        let fake = FakeKernel::new();
        let counters = counters_at_once(&fake.ticking()).unwrap();
        assert_eq!((counters.general.ran, counters.all.ran), (4, 4));
        assert_eq!(branch_stack(&fake.shared()), BranchTrial::Works);
    }

    #[test]
    fn a_silent_event_is_one_that_ran_and_counted_nothing() {
        let fake = FakeKernel::new();
        let raw = counting(abi::PERF_TYPE_RAW, 0x02c2);
        assert!(!silent(&fake.ticking(), &raw));
        fake.set_rate(abi::PERF_TYPE_RAW, 0x02c2, 0);
        assert!(silent(&fake.ticking(), &raw));
        // Never on a counter: nothing is known. Instructions count nothing either: nothing is known.
        fake.set_stolen(4);
        assert!(!silent(&fake.ticking(), &raw));
        fake.set_stolen(0);
        fake.set_rate(abi::PERF_TYPE_HARDWARE, 1, 0);
        assert!(!silent(&fake.ticking(), &raw));
        let bare = FakeKernel::without_pmu();
        assert!(!silent(&bare.shared(), &raw));
    }

    #[test]
    fn user_reads_are_looked_at() {
        let fake = FakeKernel::new();
        let attr = hardware(abi::PERF_COUNT_HW_INSTRUCTIONS);
        let seen = user_read(&fake.shared(), &attr).unwrap();
        assert_eq!(
            seen,
            UserRead {
                allowed: true,
                has_index: true,
                width: 48
            }
        );
        assert!(seen.works());
        // As arm64 with kernel.perf_user_access=0: allowed, and no counter named.
        fake.set_stolen(4);
        assert!(!user_read(&fake.shared(), &attr).unwrap().works());
        fake.set_stolen(0);
        fake.set_user_read(false, 48);
        assert!(!user_read(&fake.shared(), &attr).unwrap().allowed);
    }
}
