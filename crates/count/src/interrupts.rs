//! The event that counts interrupts: chosen by CPU (the table is `truecount_events::irq`), and watched whether it
//! ticks, because a table can be wrong for a new CPU and a hypervisor can leave an event out.

use crate::clocks::wall_ns;
use crate::counter::Core;
use crate::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use truecount_events::irq::{self, IrqEvent};
use truecount_events::{Machine, Special, Vendor};

/// How long to watch, in ms. The timer below interrupts every millisecond, so 300 chances.
const WATCH_MS: u64 = 300;

/// Configuration of the event that was seen ticking in this process, plus 1.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// The event to subtract on this CPU.
pub(crate) fn event(special: Special, machine: &Machine) -> Result<IrqEvent, Error> {
    let name = special.name();
    let nothing = |reason| {
        Err(Error::NothingToSubtract {
            event: name,
            reason,
        })
    };
    let Some(cpu) = machine.cpu() else {
        return nothing("this CPU is not known from /proc/cpuinfo");
    };
    let found = match special {
        Special::InstructionsMinusIrqs => irq::interrupts(cpu),
        _ => irq::interrupts_and_exceptions(cpu),
    };
    match (found, cpu.vendor) {
        (Some(event), _) => Ok(event),
        (None, Vendor::Arm(_)) => {
            nothing("Arm counters do not count interrupts: instructions:u is exact by itself")
        }
        (None, Vendor::Intel) if special == Special::InstructionsMinusExceptions => nothing(
            "no Intel event counts interrupts and exceptions together; use instructions-minus-irqs:u",
        ),
        (None, _) => nothing("no event is known that counts interrupts on this CPU"),
    }
}

/// Spins in user mode while timer interrupts come in, until the subtracted event moves.
pub(crate) fn verify(core: &Core, config: u64) -> Result<(), Error> {
    let mark = config.wrapping_add(1);
    if SEEN.load(Ordering::Relaxed) == mark {
        return Ok(());
    }
    let timer = Timer::every_millisecond();
    let (start, begun) = (core.subtracted_count()?, wall_ns());
    loop {
        let slice = wall_ns();
        while wall_ns().wrapping_sub(slice) < 2_000_000 {
            std::hint::spin_loop();
        }
        if core.subtracted_count()? != start {
            SEEN.store(mark, Ordering::Relaxed);
            drop(timer);
            return Ok(());
        }
        if wall_ns().wrapping_sub(begun) > WATCH_MS * 1_000_000 {
            return Err(Error::SilentInterrupts {
                config,
                watched_ms: WATCH_MS,
            });
        }
    }
}

/// A timer whose expiry interrupts the CPU it was set on; nobody waits for it. It makes sure of interrupts where the
/// kernel's own tick is off (`nohz_full`). Source: timerfd_create(2).
struct Timer(libc::c_int);

impl Timer {
    fn every_millisecond() -> Option<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        let timer = Self(fd);
        let period = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let setting = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: the new setting is live, the old one is not asked for.
        unsafe { libc::timerfd_settime(fd, 0, &raw const setting, std::ptr::null_mut()) };
        Some(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this timer's.
        unsafe { libc::close(self.0) };
    }
}
