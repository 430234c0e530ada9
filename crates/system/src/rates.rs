//! What happened between two moments: pure differences of counters, each judged by how that counter wraps, starts
//! again, or goes away with its CPU.

use std::collections::BTreeMap;

use truecount_perf::{Count, Reading, Times};

use crate::counters::Read;
use crate::plan::{Plan, Uncore};
use crate::snapshot::Snapshot;
use crate::topology::Topology;

/// A quantity of a CPU, a socket or the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Time that the CPU could have run, ns.
    Time,
    /// Not idle and not stolen, ns.
    Busy,
    /// User mode, ns.
    User,
    /// The kernel with its interrupts, ns.
    Kernel,
    /// Stolen by the hypervisor, ns.
    Steal,
    /// Interrupts taken.
    Interrupts,
    /// Context switches of the machine, as the kernel counts them.
    Switches,
    /// Page faults of the machine, as the kernel counts them.
    Faults,
    /// An event, by its index in [`Plan::events`].
    Event(usize),
    /// Joules.
    Energy,
    /// Bytes read from memory.
    Read,
    /// Bytes written to memory.
    Written,
    /// Bytes to and from the own node's memory.
    Local,
    /// Bytes to and from any memory.
    Total,
}

/// A difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// The value, in the key's unit.
    pub value: f64,
    /// Extrapolated: the counter ran part of the time only.
    pub scaled: bool,
}

impl Amount {
    fn plain(value: u64) -> Self {
        Self {
            value: value as f64,
            scaled: false,
        }
    }
}

/// Quantities with their values or reasons.
pub type Amounts = BTreeMap<Key, Result<Amount, String>>;

/// What happened between two moments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Interval {
    /// Its length, ns.
    pub wall_ns: u64,
    /// CPUs that are online at its end.
    pub topology: Topology,
    /// By CPU.
    pub cpus: BTreeMap<u32, Amounts>,
    /// By socket.
    pub sockets: BTreeMap<u32, Amounts>,
    /// Of the machine as a whole.
    pub machine: Amounts,
}

/// A CPU that was not there at both moments.
pub(crate) const CAME: &str = "the CPU came online during the interval";

impl Interval {
    /// What happened from `before` to `after`.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot, plan: &Plan) -> Self {
        let mut interval = Self {
            wall_ns: after.at_ns.saturating_sub(before.at_ns),
            topology: after.topology.clone(),
            ..Self::default()
        };
        for &cpu in after.topology.cpus.keys() {
            let mut amounts = Amounts::new();
            times(&mut amounts, before, after, cpu);
            amounts.insert(Key::Interrupts, interrupts(before, after, cpu));
            for index in 0..plan.events.len() {
                let of =
                    |snapshot: &Snapshot| snapshot.counters.cpus.get(&cpu)?.get(index).cloned();
                let amount = event(of(before), of(after));
                amounts.insert(Key::Event(index), amount);
            }
            interval.cpus.insert(cpu, amounts);
        }
        sockets(&mut interval, before, after, plan);
        let switches = |snapshot: &Snapshot| {
            let stat = snapshot.stat.as_ref().map_err(Clone::clone)?;
            stat.context_switches
                .ok_or_else(|| "/proc/stat has no ctxt".to_owned())
        };
        interval
            .machine
            .insert(Key::Switches, growing(switches(before), switches(after)));
        interval.machine.insert(
            Key::Faults,
            growing(before.faults.clone(), after.faults.clone()),
        );
        interval
    }
}

/// A counter of 64 bits that only grows; one that shrank was started again.
fn growing(before: Result<u64, String>, after: Result<u64, String>) -> Result<Amount, String> {
    let (before, after) = (before?, after?);
    after
        .checked_sub(before)
        .map(Amount::plain)
        .ok_or_else(|| "its counter started again during the interval".to_owned())
}

fn times(amounts: &mut Amounts, before: &Snapshot, after: &Snapshot, cpu: u32) {
    let keys = [Key::Time, Key::Busy, Key::User, Key::Kernel, Key::Steal];
    let of = |snapshot: &Snapshot| match &snapshot.stat {
        Ok(stat) => stat.cpus.get(&cpu).copied().ok_or_else(|| CAME.to_owned()),
        Err(reason) => Err(reason.clone()),
    };
    let (first, last) = match (of(before), of(after)) {
        (Ok(first), Ok(last)) => (first, last),
        (Err(reason), _) | (_, Err(reason)) => {
            amounts.extend(keys.map(|key| (key, Err(reason.clone()))));
            return;
        }
    };
    // Single fields may step back a tick (idle time is computed, not counted: kernel/sched/cputime.c).
    let user = last.user.saturating_sub(first.user);
    let system = last.kernel.saturating_sub(first.kernel);
    let irq = last.interrupts.saturating_sub(first.interrupts);
    let idle = last.idle.saturating_sub(first.idle);
    let steal = last.steal.saturating_sub(first.steal);
    let kernel = system.saturating_add(irq);
    let busy = user.saturating_add(kernel);
    let all = busy.saturating_add(idle).saturating_add(steal);
    if all == 0 {
        let reason =
            "the kernel accounted no time to it yet: the interval is shorter than its ticks";
        amounts.extend(keys.map(|key| (key, Err(reason.to_owned()))));
        return;
    }
    let values = [all, busy, user, kernel, steal];
    for (key, value) in keys.into_iter().zip(values) {
        amounts.insert(key, Ok(Amount::plain(value)));
    }
}

/// Sums over all lines. The kernel's counts have 32 bits and wrap; a line whose interrupt was freed and taken again
/// starts from 0.
fn interrupts(before: &Snapshot, after: &Snapshot, cpu: u32) -> Result<Amount, String> {
    let (first, last) = match (&before.interrupts, &after.interrupts) {
        (Ok(first), Ok(last)) => (first, last),
        (Err(reason), _) | (_, Err(reason)) => return Err(reason.clone()),
    };
    let column = |cpus: &[u32]| cpus.iter().position(|&c| c == cpu);
    let (Some(old), Some(new)) = (column(&first.cpus), column(&last.cpus)) else {
        return Err(CAME.to_owned());
    };
    let mut total: u64 = 0;
    for (name, counts) in &last.lines {
        let Some(&now) = counts.get(new) else {
            continue;
        };
        let was = first
            .lines
            .get(name)
            .and_then(|counts| counts.get(old))
            .copied()
            .unwrap_or(0);
        let more = match now.checked_sub(was) {
            Some(more) => more,
            None if was >= 1 << 31 && now < 1 << 31 => now.wrapping_sub(was),
            None => now,
        };
        total = total.saturating_add(u64::from(more));
    }
    Ok(Amount::plain(total))
}

/// The count between two readings, scaled by the times between them.
fn event(before: Option<Read>, after: Option<Read>) -> Result<Amount, String> {
    let (first, last): (Reading, Reading) = match (before, after) {
        (Some(first), Some(last)) => (first?, last?),
        _ => return Err(CAME.to_owned()),
    };
    let (from, to) = (
        first.times.unwrap_or_default(),
        last.times.unwrap_or_default(),
    );
    let times = Times {
        enabled: to.enabled.saturating_sub(from.enabled),
        running: to.running.saturating_sub(from.running),
    };
    let Some(more) = last.value.checked_sub(first.value) else {
        return Err("its counter started again during the interval".to_owned());
    };
    let count = Count::new(more, times);
    match count.value() {
        Some(value) => Ok(Amount {
            value: value as f64,
            scaled: count.is_scaled(),
        }),
        None => Err("no counter was free for it: others hold them".to_owned()),
    }
}

fn sockets(interval: &mut Interval, before: &Snapshot, after: &Snapshot, plan: &Plan) {
    let mut all: Vec<u32> = after.topology.sockets();
    if all.is_empty() && !after.topology.cpus.is_empty() {
        // A machine that does not number its sockets has one.
        all.push(0);
    }
    for socket in all {
        let mut amounts = uncore(before, after, plan, socket);
        if !matches!(amounts.get(&Key::Energy), Some(Ok(_))) {
            let own = amounts.remove(&Key::Energy);
            let amount = powercap(before, after, socket).map_err(|why| match own {
                Some(Err(perf)) => format!("{perf}; {why}"),
                _ => why,
            });
            amounts.insert(Key::Energy, amount);
        }
        let of = |snapshot: &Snapshot, total: bool| {
            let traffic = snapshot.traffic.as_ref().map_err(Clone::clone)?;
            let traffic = traffic
                .get(&socket)
                .ok_or_else(|| "resctrl does not know this socket".to_owned())?;
            Ok(if total { traffic.total } else { traffic.local })
        };
        for (key, total) in [(Key::Local, false), (Key::Total, true)] {
            amounts.insert(key, growing(of(before, total), of(after, total)));
        }
        interval.sockets.insert(socket, amounts);
    }
}

/// Sums of the uncore events of a socket; each PMU is opened on one CPU of each socket.
fn uncore(before: &Snapshot, after: &Snapshot, plan: &Plan, socket: u32) -> Amounts {
    let mut amounts = Amounts::new();
    for ((index, cpu, first), (_, _, last)) in
        before.counters.uncore.iter().zip(&after.counters.uncore)
    {
        let place = after.topology.cpus.get(cpu);
        let here = place.is_some_and(|place| place.socket.unwrap_or(0) == socket);
        let Some(planned) = plan.uncore.get(*index).filter(|_| here) else {
            continue;
        };
        let key = match planned.what {
            Uncore::Energy => Key::Energy,
            Uncore::Read => Key::Read,
            Uncore::Written => Key::Written,
        };
        let more = event(Some(first.clone()), Some(last.clone())).map(|amount| Amount {
            value: amount.value * planned.scale,
            ..amount
        });
        let sum = match (amounts.remove(&key), more) {
            (Some(Ok(sum)), Ok(more)) => Ok(Amount {
                value: sum.value + more.value,
                scaled: sum.scaled || more.scaled,
            }),
            // A sum of some of the channels would be wrong: one that fails spoils it.
            (Some(Err(reason)), _) | (_, Err(reason)) => Err(reason),
            (None, Ok(more)) => Ok(more),
        };
        amounts.insert(key, sum);
    }
    for key in [Key::Energy, Key::Read, Key::Written] {
        let none = match key {
            Key::Energy => "no power PMU",
            _ => "no PMU of the memory controllers",
        };
        amounts.entry(key).or_insert_with(|| Err(none.to_owned()));
    }
    amounts
}

fn powercap(before: &Snapshot, after: &Snapshot, socket: u32) -> Result<Amount, String> {
    let (first, last) = match (&before.energy, &after.energy) {
        (Ok(first), Ok(last)) => (first.get(&socket), last.get(&socket)),
        (Err(reason), _) | (_, Err(reason)) => return Err(reason.clone()),
    };
    let (Some(first), Some(last)) = (first, last) else {
        return Err("powercap does not know this socket".to_owned());
    };
    let more = match last.microjoules.checked_sub(first.microjoules) {
        Some(more) => more,
        // Wrapped, once at most in an interval: the range lasts for minutes.
        None => last
            .range
            .checked_sub(first.microjoules)
            .map(|rest| rest.saturating_add(last.microjoules))
            .ok_or_else(|| "powercap's counter is beyond its own range".to_owned())?,
    };
    Ok(Amount {
        value: more as f64 / 1e6,
        scaled: false,
    })
}
