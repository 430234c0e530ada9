//! Which threads use which lines.

use super::site::kind_of;
use truecount_engine::virt::references::Executed;
use truecount_memory::{Reference, Sharing};

/// Which threads use which lines.
pub(super) fn share(executed: &Executed<'_>, thread: u32, sharing: &mut Sharing) {
    for (at, _) in executed.instructions() {
        executed.references(at, |operand, address, times| {
            for time in 0..times {
                let reference = Reference {
                    address: address.wrapping_add(time.wrapping_mul(u64::from(operand.size))),
                    size: operand.size,
                    kind: kind_of(operand.access),
                };
                sharing.count(thread, reference);
            }
        });
    }
}
