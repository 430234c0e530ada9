//! Which threads use which lines.

use super::locality::in_order;
use super::{SharedBy, SharedLine};
use truecount_engine::virt::references::{Executed, Run};
use truecount_memory::{Kind, Sharing};

/// Shared lines that are told.
const SHARED: usize = 100;

/// Which threads use which lines.
pub(super) fn share(
    executed: &Executed<'_>,
    thread: u32,
    sharing: &mut Sharing,
    runs: &mut Vec<(usize, Kind, Run)>,
) {
    for (at, _) in executed.instructions() {
        in_order(executed, at, runs, |_, reference| {
            sharing.count(thread, reference);
        });
    }
}

/// The lines that most references of several threads are to, of each memory.
pub(super) fn shared<'a>(
    memories: impl Iterator<Item = (u32, &'a Sharing)>,
    tids: &dyn Fn(u32) -> u32,
) -> Vec<SharedLine> {
    let mut lines = Vec::new();
    for (memory, sharing) in memories {
        lines.extend(sharing.shared().into_iter().map(|line| {
            SharedLine {
                memory,
                data: None,
                address: line.line,
                false_sharing: line.is_false(),
                references: line.references(),
                threads: line
                    .threads
                    .iter()
                    .map(|&(slot, used)| SharedBy {
                        tid: tids(slot),
                        read: used.read,
                        written: used.written,
                        references: used.references,
                    })
                    .collect(),
            }
        }));
    }
    lines.sort_by_key(|line| (std::cmp::Reverse(line.references), line.address));
    lines.truncate(SHARED);
    lines
}
