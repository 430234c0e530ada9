//! From an expression to the one event it names, and to the kernel's attributes.

use crate::error::Error;
use truecount_events::{Cpus, Encoding, Event as Named, Machine};
use truecount_perf::EventAttr;

/// The one event that an expression names.
pub(crate) fn one(expression: &str, machine: &Machine) -> Result<Named, Error> {
    let resolved = truecount_events::resolve(expression, machine)?;
    let mut events: Vec<Named> = resolved.groups.into_iter().flat_map(|g| g.events).collect();
    if events.len() > 1 && events.iter().all(|e| matches!(e.cpus, Cpus::Core(_))) {
        let names = events.iter().map(|e| e.name.clone()).collect();
        // A thread that is kept on one kind of core means the counter of that kind.
        let allowed = affinity();
        events.retain(|e| matches!(&e.cpus, Cpus::Core(cpus) if covers(cpus, &allowed)));
        if events.len() != 1 {
            return Err(Error::Hybrid {
                expression: expression.to_owned(),
                events: names,
            });
        }
    }
    match (events.pop(), events.len()) {
        (Some(event), 0) if matches!(event.cpus, Cpus::Package(_)) => {
            Err(Error::SystemWide { event: event.name })
        }
        (Some(event), 0) => Ok(event),
        (last, rest) => {
            let found = rest.saturating_add(usize::from(last.is_some()));
            Err(Error::NotOne {
                expression: expression.to_owned(),
                found,
            })
        }
    }
}

/// Whether every allowed CPU is among `cpus`; not, if nothing is known.
fn covers(cpus: &[u32], allowed: &[u32]) -> bool {
    !allowed.is_empty() && allowed.iter().all(|cpu| cpus.contains(cpu))
}

/// The CPUs that the calling thread may run on. Source: sched_getaffinity(2).
fn affinity() -> Vec<u32> {
    // SAFETY: cpu_set_t is an array of integers, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is live and its size is given.
    let failed =
        unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0;
    if failed {
        return Vec::new();
    }
    let most = u32::try_from(libc::CPU_SETSIZE).unwrap_or(0);
    // SAFETY: CPU_ISSET checks its index against the set's size.
    (0..most)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu as usize, &set) })
        .collect()
}

/// The attributes that an encoding asks for (neither formats nor sampling).
///
/// ```
/// use truecount_events::{Machine, resolve};
/// let resolved = resolve("branches:u", &Machine::unknown()).unwrap();
/// let encoding = resolved.events().next().unwrap().encoding().unwrap();
/// let attr = truecount::attribute(encoding);
/// assert!(attr.get_exclude_kernel() && !attr.get_exclude_user());
/// ```
#[must_use]
pub fn attribute(encoding: &Encoding) -> EventAttr {
    EventAttr::new(encoding.type_, encoding.config)
        .config1(encoding.config1)
        .config2(encoding.config2)
        .config3(encoding.config3)
        .exclude_user(encoding.exclude_user)
        .exclude_kernel(encoding.exclude_kernel)
        .exclude_hv(encoding.exclude_hv)
        .exclude_host(encoding.exclude_host)
        .exclude_guest(encoding.exclude_guest)
        .exclude_idle(encoding.exclude_idle)
        .precise_ip(encoding.precise_ip)
        .pinned(encoding.pinned)
        .exclusive(encoding.exclusive)
}
