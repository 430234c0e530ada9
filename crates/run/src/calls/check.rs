//! Whether a tree of calls adds up.

use super::memory::OfMemory;
use crate::result::RunResult;

/// Looks whether the sum of each thread's own costs is its count, by the tree's clock and by its blocks, where it came to its own
/// end; and, where all did, that of all paths' memory references what the run made.
///
/// # Errors
/// One line: it is not.
pub fn check(ran: &RunResult) -> Result<(), String> {
    check_all(ran, &OfMemory::of(ran))
}

/// The same, with what is known of the references of each path.
pub(super) fn check_all(ran: &RunResult, of_memory: &OfMemory) -> Result<(), String> {
    let Some(calls) = &ran.executed.calls else {
        return Ok(());
    };
    if let Some((slot, sum, counted)) = calls.discrepancies().first() {
        return Err(format!(
            "the tree of calls does not add up: thread {slot} of the run executed {counted} instructions, its nodes {sum}"
        ));
    }
    let cut = ran.executed.cut > 0 || ran.executed.outlived > 0;
    // What was killed may have counted an instruction whose references are not noted yet.
    let all_ended = ran.executed.threads.iter().all(|thread| thread.ended);
    let memory = ran.executed.memory.as_ref();
    if let Some(memory) = memory.filter(|all| all.lost == 0 && all_ended && !cut) {
        of_memory.check(calls, memory)?;
    }
    let mut off = calls.not_collected();
    let is_whole = off.is_empty();
    // One that was killed in translated code may have one of the two ahead by a block, one that goes on by more.
    let ended = ran.executed.threads.iter().filter(|thread| thread.ended);
    for thread in ended {
        let counted = match calls.counted(thread.slot) {
            Some(all) => all.wrapping_sub(off.remove(&thread.slot).unwrap_or(0)),
            None => thread.instructions,
        };
        let apart = counted.abs_diff(thread.instructions);
        if apart != 0 && !cut {
            return Err(format!(
                "the tree of calls has {counted} instructions of thread {}, its blocks {}",
                thread.tid, thread.instructions
            ));
        }
        let counted = calls.counted_events(thread.slot);
        for (&event, counted) in calls.events.iter().zip(counted) {
            let by_blocks = thread
                .counts
                .and_then(|all| all.get(event as usize).copied());
            let differs = by_blocks.is_some_and(|blocks| blocks != counted);
            if differs && is_whole && !cut {
                return Err(format!(
                    "the tree of calls has {counted} {} of thread {}, its blocks {}",
                    event.name(),
                    thread.tid,
                    by_blocks.unwrap_or(0)
                ));
            }
        }
    }
    Ok(())
}
