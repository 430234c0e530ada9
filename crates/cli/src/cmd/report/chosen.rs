//! A view of the samples that were asked for only.

use truecount_model::number::grouped;

use super::select::Span;
use super::view::View;
use crate::failure::Failure;

impl View {
    /// Leaves out the samples that were not asked for.
    pub(super) fn select(&mut self) -> Result<(), Failure> {
        let asked = self.selection.words();
        if asked.is_empty() {
            return Ok(());
        }
        let bounds = self.time_bounds()?;
        let (s, profile) = (&self.selection, &mut self.profile);
        let any = |list: &[u32], value| list.is_empty() || list.contains(&value);
        let before: u64 = profile.entries.iter().map(|(_, w)| w.samples).sum();
        for (context, weight) in &mut profile.entries {
            let comm = profile.comms.get(context.comm as usize);
            let comm = s.comms.is_empty() || comm.is_some_and(|comm| s.comms.contains(comm));
            let cpu = s.cpus.is_empty() || context.cpu.is_some_and(|cpu| s.cpus.contains(&cpu));
            let keep = comm && cpu && any(&s.pids, context.pid) && any(&s.tids, context.tid);
            if !keep || bounds.is_some() {
                weight.events = 0;
            }
            if !keep {
                weight.samples = 0;
            }
        }
        if let Some((from, to)) = bounds {
            let mut inside = vec![(0u64, 0u64); profile.entries.len()];
            profile
                .timeline
                .retain(|(time, ..)| (from..=to).contains(time));
            for (_, entry, events) in &profile.timeline {
                if let Some(sum) = inside.get_mut(*entry as usize) {
                    *sum = (sum.0 + 1, sum.1.saturating_add(*events));
                }
            }
            for ((_, weight), (samples, events)) in profile.entries.iter_mut().zip(inside) {
                if weight.samples > 0 {
                    (weight.samples, weight.events) = (samples, events);
                }
            }
        }
        // The timeline names entries by number: they move up.
        let mut next = 0u32;
        let moved: Vec<Option<u32>> = profile
            .entries
            .iter()
            .map(|(_, weight)| {
                let stays = weight.samples > 0;
                next += u32::from(stays);
                stays.then(|| next - 1)
            })
            .collect();
        profile.entries.retain(|(_, weight)| weight.samples > 0);
        profile.timeline.retain_mut(|(_, entry, _)| {
            let new = moved.get(*entry as usize).copied().flatten();
            *entry = new.unwrap_or(0);
            new.is_some()
        });
        let chains = profile.entries.iter().filter(|(c, _)| c.frames.len() > 1);
        profile.with_chain = chains.map(|(_, weight)| weight.samples).sum();
        let after: u64 = profile.entries.iter().map(|(_, w)| w.samples).sum();
        if after == 0 {
            let mut comms = profile.comms.clone();
            comms.truncate(8);
            return Err(Failure::new(
                1,
                format!("{}: no sample is left by {asked}", self.path.display()),
            )
            .hint(format!("its processes are {}", comms.join(", "))));
        }
        self.selected = Some(format!(
            "{} of {} samples ({asked}): shares are of these",
            grouped(after),
            grouped(before)
        ));
        Ok(())
    }

    /// First and last nanosecond that count.
    fn time_bounds(&self) -> Result<Option<(u64, u64)>, Failure> {
        let Some(span) = self.selection.time else {
            return Ok(None);
        };
        let times = || self.profile.timeline.iter().map(|sample| sample.0);
        let Some((first, last)) = times().min().zip(times().max()) else {
            return Err(Failure::new(
                1,
                format!("{}: --time: the samples have no times", self.path.display()),
            ));
        };
        Ok(Some(match span {
            Span::Clock(from, to) => (from.unwrap_or(0), to.unwrap_or(u64::MAX)),
            Span::Share(from, to) => {
                let at = |share: f64| first + ((last - first) as f64 * share) as u64;
                (at(from), at(to))
            }
        }))
    }
}
