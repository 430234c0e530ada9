//! From an expression to the one event it names.

use crate::error::Error;
use truecount_events::{Cpus, Event as Named, Machine};

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
