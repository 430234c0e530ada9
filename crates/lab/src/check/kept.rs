//! What was measured on this machine before, and kept.

use super::{Finding, Status};
use crate::exact::Status as LockStatus;
use crate::exact::profile::Profile;
use truecount_run::env_record::{Environment, aslr_is_on};

/// What `truecount exactness` found on this machine, where it was run.
#[must_use]
pub fn exactness() -> Finding {
    let environment = Environment::gather(aslr_is_on(), &[]);
    let Some(profile) = Profile::load(&environment) else {
        return Finding::new(
            "exactness",
            Status::Info,
            "not measured on this machine yet",
        )
        .hint("truecount exactness");
    };
    let verdicts: Vec<String> = profile
        .counters
        .iter()
        .map(|kept| {
            format!(
                "{} ({}) {}, measured {}",
                kept.event,
                kept.source,
                kept.verdict.text,
                truecount_run::state::ago(kept.measured)
            )
        })
        .collect();
    let mut detail = verdicts.join("; ");
    let lock = profile
        .spec_lock_map
        .filter(|lock| lock.status == LockStatus::On);
    if let Some(lock) = &lock {
        detail = format!("{detail}; {}", lock.detail);
    }
    let finding = Finding::new(
        "exactness",
        if lock.is_some() {
            Status::Limited
        } else {
            Status::Info
        },
        detail,
    );
    match lock.and_then(|lock| lock.hint) {
        Some(hint) => finding.hint(hint),
        None => finding,
    }
}
