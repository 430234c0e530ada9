//! Which threads use which lines.

use super::locality::in_order;
use truecount_engine::virt::references::{Executed, Run};
use truecount_memory::{Kind, Sharing};

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
