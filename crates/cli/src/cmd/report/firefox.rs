//! The samples for the Firefox Profiler (processed profile format).

use std::collections::HashMap;
use std::time::SystemTime;

use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval, Timestamp,
};

use super::view::{View, base_name};
use crate::failure::Failure;

/// The JSON document.
pub(super) fn json(view: &mut View) -> Result<Vec<u8>, Failure> {
    let timeline = view.profile.timeline.clone();
    let first = timeline.iter().map(|t| t.0).min().ok_or_else(|| {
        Failure::new(
            1,
            format!(
                "{}: the samples have no times, which the Firefox Profiler needs",
                view.path.display()
            ),
        )
        .hint("use --flamegraph or --pprof")
    })?;
    let name = base_name(&view.path.display().to_string()).to_owned();
    let mut out = Profile::new(
        &name,
        SystemTime::now().into(),
        SamplingInterval::from_millis(1),
    );
    out.set_symbolicated(true);
    let user = out.add_category("User", CategoryColor::Yellow);
    let kernel = out.add_category("Kernel", CategoryColor::Orange);
    let event = view.sampled_events().first().copied().unwrap_or(0);
    let mut processes = HashMap::new();
    let mut threads = HashMap::new();
    let mut order: Vec<_> = timeline;
    order.sort_unstable_by_key(|t| t.0);
    for (time, entry, _) in order {
        let Some((context, _)) = view.profile.entries.get(entry as usize).cloned() else {
            continue;
        };
        // One thread of the viewer holds one kind of samples: the first event's.
        if context.event != event {
            continue;
        }
        let at = Timestamp::from_nanos_since_reference(time - first);
        let comm = view
            .profile
            .comms
            .get(context.comm as usize)
            .cloned()
            .unwrap_or_default();
        let process = *processes
            .entry(context.pid)
            .or_insert_with(|| out.add_process(&comm, context.pid, at));
        let thread = *threads
            .entry((context.pid, context.tid))
            .or_insert_with(|| {
                let thread = out.add_thread(process, context.tid, at, context.pid == context.tid);
                out.set_thread_name(thread, &comm);
                thread
            });
        let mut frames = Vec::new();
        for place in context.frames.iter().rev() {
            for named in view.named(*place).iter().rev() {
                let label = format!("{} ({})", named.function, named.dso);
                frames.push((out.intern_string(&label), place.kernel));
            }
        }
        let frames: Vec<FrameInfo> = frames
            .into_iter()
            .map(|(label, in_kernel)| FrameInfo {
                frame: Frame::Label(label),
                category_pair: if in_kernel { kernel } else { user }.into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = out.intern_stack_frames(thread, frames.into_iter());
        out.add_sample(thread, at, stack, CpuDelta::ZERO, 1);
    }
    serde_json::to_vec(&out).map_err(|e| Failure::new(1, format!("cannot write the profile: {e}")))
}
