//! The flame graph of a recording: process, then callers to callees.

use super::view::{View, short};
use crate::render::flame::{Flame, Level};
use truecount_model::number::grouped;

/// The graph of the first event.
pub(super) fn svg(view: &mut View) -> String {
    let event = view.sampled_events().first().copied().unwrap_or(0);
    let mut flame = Flame::default();
    for (context, weight) in view.profile.entries.clone() {
        if context.event != event {
            continue;
        }
        let comm = view
            .profile
            .comms
            .get(context.comm as usize)
            .cloned()
            .unwrap_or_default();
        let mut chain = vec![Level::new(comm)];
        for place in context.frames.iter().rev() {
            let named = view.named(*place);
            chain.extend(named.iter().rev().map(|n| Level {
                name: short(&n.function),
                kernel: place.kernel,
                inlined: n.inlined,
            }));
        }
        flame.add(chain, weight.events, weight.samples);
    }
    let title = format!(
        "{}: {} ({} samples)",
        view.path.display(),
        view.event_name(event),
        grouped(flame.samples())
    );
    flame.svg(&title, "samples")
}
