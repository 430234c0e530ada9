//! SpecLockMap on AMD Zen: speculation across locked instructions that may roll instructions back without rolling the
//! counters back, so that counts of retired instructions and branches come out too high now and then.
//!
//! Facts: AMD PPR, PMCx025 (retired lock instructions) umask 08h, SpecLockMapCommit; it stays at 0 only where the
//! feature is off. Bit 54 of MSR C001_1020h (LS_CFG) switches it off; on Zen 1 the kernel rewrites that register when it
//! switches the speculative-store-bypass mitigation (rr's wiki page "Zen" and its issue 2034).

use crate::loops::{self, Arena};
use serde::{Deserialize, Serialize};
use truecount::Counter;
use truecount_events::Machine;
use truecount_events::{Cpu, Vendor};
use truecount_perf::{Facts, probe::Root};

/// `SpecLockMapCommit`.
const EVENT: &str = "r0825:u";

const HINT: &str = "set bit 54 of MSR 0xc0011020 on every CPU as root (modprobe msr; for each CPU N read it with \
                    rdmsr -p N 0xc0011020, write it back with 1<<54 set by wrmsr -p N), after every boot and resume; on Zen 1 boot with \
                    nospec_store_bypass_disable or spec_store_bypass_disable=on, or the kernel undoes it";

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Not an AMD Zen.
    NotApplicable,
    /// A Zen, and it could not be counted.
    Unknown,
    /// Locked instructions were speculated on.
    On,
    /// None was.
    Off,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecLockMap {
    /// How it stands.
    pub status: Status,
    /// In words.
    pub detail: String,
    /// What to do.
    pub hint: Option<String>,
}

/// Counts the event around locked instructions, where the CPU is a Zen.
pub(super) fn look(arena: &mut Arena) -> SpecLockMap {
    let cpu = Machine::this().cpu();
    if !cpu.is_some_and(is_zen) {
        return judge(false, None);
    }
    judge(true, Some(count(arena)))
}

fn is_zen(cpu: Cpu) -> bool {
    match cpu.vendor {
        Vendor::Amd => cpu.family >= 0x17,
        Vendor::Hygon => cpu.family >= 0x18,
        _ => false,
    }
}

/// Locked instructions, and how many of them the event counted.
fn count(arena: &mut Arena) -> Result<(u64, u64), String> {
    let locked = loops::locked().ok_or("no loop of locked instructions")?;
    let counter: Counter = match Counter::open(EVENT) {
        Ok(counter) => counter,
        Err(_) if Facts::gather(&Root::system()).core_pmu() == Some(false) => {
            return Err("it needs hardware counters".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    if counter.source() != truecount::Source::Hardware {
        return Err("the virtual PMU does not speculate".to_owned());
    }
    arena.prepare(locked).map_err(|error| error.to_string())?;
    let start = counter.read();
    // SAFETY: prepared for this loop.
    unsafe { (locked.body)(locked.times, arena.memory(), arena.stride()) };
    Ok((locked.times, counter.since(start)))
}

fn judge(zen: bool, counted: Option<Result<(u64, u64), String>>) -> SpecLockMap {
    let found = |status, detail: String, hint: Option<&str>| SpecLockMap {
        status,
        detail,
        hint: hint.map(str::to_owned),
    };
    match counted {
        _ if !zen => found(
            Status::NotApplicable,
            "SpecLockMap is a feature of AMD Zen; this CPU is none".to_owned(),
            None,
        ),
        None => found(Status::Unknown, "not looked at".to_owned(), None),
        Some(Err(reason)) => found(
            Status::Unknown,
            format!(
                "whether SpecLockMap is on is not known (r0825 around locked instructions would tell): {reason}"
            ),
            None,
        ),
        Some(Ok((locked, 0))) => found(
            Status::Off,
            format!("SpecLockMap is off: r0825:u counted none of {locked} locked instructions"),
            None,
        ),
        Some(Ok((locked, counted))) => found(
            Status::On,
            format!(
                "SpecLockMap is on: r0825:u counted {counted} commits in {locked} locked instructions, so counts around locks may be too high"
            ),
            Some(HINT),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_event_says() {
        assert_eq!(judge(false, None).status, Status::NotApplicable);
        let on = judge(true, Some(Ok((5000, 4998))));
        assert_eq!(on.status, Status::On);
        assert!(
            on.hint
                .as_deref()
                .is_some_and(|m| m.contains("bit 54") && m.contains("0xc0011020"))
        );
        assert_eq!(judge(true, Some(Ok((5000, 0)))).status, Status::Off);
        let unknown = judge(true, Some(Err("no PMU".into())));
        assert!(unknown.status == Status::Unknown && unknown.detail.contains("no PMU"));
    }

    #[test]
    fn only_zen_has_it() {
        let cpu = |vendor, family| Cpu {
            vendor,
            family,
            model: 1,
            stepping: 0,
        };
        assert!(is_zen(cpu(Vendor::Amd, 0x1a)) && is_zen(cpu(Vendor::Hygon, 0x18)));
        assert!(!is_zen(cpu(Vendor::Amd, 0x15)) && !is_zen(cpu(Vendor::Intel, 6)));
    }
}
