//! Processes that are still there when the program has ended.

use super::shared::Shared;
use crate::layout::{Context, MAX_SLOTS, option, state};
use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long they are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where one thread executes at a time, those that are about to end (the other ends of their pipes are gone, say) are
/// waited for: how far they come before the program is seen to have ended, only the machine decides.
pub(super) fn wait_for(shared: &Shared) {
    if shared.header().options & option::SCHEDULE == 0 {
        return;
    }
    let since = Instant::now();
    while since.elapsed() < PATIENCE && any(shared) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process of the run is there that has not ended.
fn any(shared: &Shared) -> bool {
    let end = shared.header().next_slot.load(Ordering::Acquire);
    (1..end.min(MAX_SLOTS)).any(|slot| {
        let Ok(page) = shared.context(slot) else {
            return false;
        };
        let word = |at: usize| {
            let bytes = page.as_slice().get(at..at + 4);
            bytes
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u32::from_le_bytes)
        };
        word(offset_of!(Context, state)) == state::LIVE && executes(word(offset_of!(Context, pid)))
    })
}

/// Whether a process is there and not a zombie. (The state follows the name, which may hold anything but its end.)
fn executes(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    !matches!(rest.trim_start().chars().next(), None | Some('Z' | 'X'))
}
