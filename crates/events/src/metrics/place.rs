//! Which events of a pack's metrics are counted at the same time.
//!
//! A ratio is sound when its counts were on the counters together. So each metric's events are put into one group if
//! the PMU takes them, several metrics into one group where they fit, and what is too much for any group is split,
//! each part led by the pack's own group (the anchors: cycles, or `slots`, which topdown events need as their leader).
//! Whether events fit is not computed from tables of counters but asked of the kernel, which knows the constraints,
//! the fixed counters and what others hold.

use super::pack::{Context, Pack};

/// Groups of event expressions, and which of them each metric is computed from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed<'p> {
    /// Each group's events, the leader first.
    pub groups: Vec<Vec<&'p str>>,
    /// For each metric asked for, in order, the groups with its events: one if they fit together.
    pub metrics: Vec<Vec<usize>>,
}

impl Pack {
    /// Places the events of metrics in groups. `fits` tells whether the PMU can count these together.
    ///
    /// ```
    /// use truecount_events::metrics::{Context, Metrics};
    /// let pack = &Metrics::embedded().packs_for(&[])[0];
    /// // A PMU of three counters: the second metric needs a group of its own.
    /// let metrics = ["ipc", "branch-miss-ratio"];
    /// let placed = pack.place(&metrics, &Context::default(), &mut |events| events.len() <= 3);
    /// assert_eq!(placed.groups, [vec!["cycles", "instructions"], vec!["branches", "branch-misses"]]);
    /// assert_eq!(placed.metrics, [[0], [1]]);
    /// ```
    #[must_use]
    pub fn place<'p>(
        &'p self,
        metrics: &[&str],
        context: &Context,
        fits: &mut dyn FnMut(&[&str]) -> bool,
    ) -> Placed<'p> {
        let order = self.events_for(metrics, context);
        let mut groups: Vec<Vec<&str>> = Vec::new();
        // Those that need most first: the small ones then find their events in a group that is there.
        let mut needs: Vec<(usize, Vec<&str>)> = metrics
            .iter()
            .map(|metric| self.events_for(&[metric], context))
            .enumerate()
            .collect();
        needs.sort_by_key(|(_, need)| std::cmp::Reverse(need.len()));
        let has = |group: &[&str], need: &[&str]| need.iter().all(|event| group.contains(event));
        for (_, need) in &needs {
            if need.is_empty() || groups.iter().any(|group| has(group, need)) {
                continue;
            }
            let merged = groups.iter().enumerate().find_map(|(at, group)| {
                let all = union(&order, group, need);
                fits(&all).then_some((at, all))
            });
            if let Some((at, all)) = merged {
                if let Some(group) = groups.get_mut(at) {
                    *group = all;
                }
            } else if need.len() == 1 || fits(need) {
                groups.push(need.clone());
            } else {
                self.split(need, &mut groups, fits);
            }
        }
        // In the order asked.
        needs.sort_by_key(|(at, _)| *at);
        let metrics = needs.iter().map(|(_, need)| from(&groups, need)).collect();
        Placed { groups, metrics }
    }

    /// Parts of a metric's events, each with the anchors.
    fn split<'p>(
        &'p self,
        need: &[&'p str],
        groups: &mut Vec<Vec<&'p str>>,
        fits: &mut dyn FnMut(&[&str]) -> bool,
    ) {
        let anchor = |event: &&&str| {
            let of_pack = |name: &String| self.events.get(name).is_some_and(|e| e == **event);
            self.group.iter().any(of_pack)
        };
        let anchors: Vec<&str> = need.iter().filter(anchor).copied().collect();
        if anchors.len() > 1 && !fits(&anchors) {
            groups.extend(need.iter().map(|event| vec![*event]));
        } else {
            let mut open: Vec<&str> = anchors.clone();
            for event in need.iter().filter(|event| !anchor(event)) {
                open.push(event);
                if open.len() == 1 || fits(&open) {
                    continue;
                }
                open.pop();
                // Full, unless even the anchors leave no room: then the event stands alone.
                let mut next = anchors.clone();
                next.push(event);
                if fits(&next) {
                    groups.push(std::mem::replace(&mut open, next));
                } else {
                    groups.push(vec![event]);
                }
            }
            groups.push(open);
        }
        // What two metrics need is still counted once.
        let mut seen: Vec<Vec<&str>> = Vec::new();
        groups.retain(|group| {
            let new = !group.is_empty() && !seen.contains(group);
            seen.push(group.clone());
            new
        });
    }
}

/// Both, in the pack's order, which puts the leader first.
fn union<'p>(order: &[&'p str], group: &[&'p str], need: &[&'p str]) -> Vec<&'p str> {
    order
        .iter()
        .filter(|event| group.contains(event) || need.contains(event))
        .copied()
        .collect()
}

/// The one group with all events, or the fewest that follow one another.
fn from(groups: &[Vec<&str>], need: &[&str]) -> Vec<usize> {
    if need.is_empty() {
        return Vec::new();
    }
    let whole = |group: &Vec<&str>| need.iter().all(|event| group.contains(event));
    if let Some(at) = groups.iter().position(whole) {
        return vec![at];
    }
    let mut open: Vec<&str> = need.to_vec();
    let mut used = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let before = open.len();
        open.retain(|event| !group.contains(event));
        if open.len() < before {
            used.push(at);
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    fn pack(name: &str) -> &'static Pack {
        let packs = Metrics::embedded().packs();
        packs.iter().find(|pack| pack.name == name).unwrap()
    }

    fn level(pack: &Pack, group: &str) -> Vec<String> {
        let rows = pack.metrics.iter();
        rows.filter(|m| m.group.as_deref() == Some(group))
            .map(|m| m.name.clone())
            .collect()
    }

    fn place(pack: &'static Pack, metrics: &[String], most: usize) -> Placed<'static> {
        let names: Vec<&str> = metrics.iter().map(String::as_str).collect();
        let context = Context {
            smt: Some(false),
            ..Context::default()
        };
        let placed = pack.place(&names, &context, &mut |events| events.len() <= most);
        // Whatever the room: every event of every metric is somewhere among its groups.
        for (name, groups) in names.iter().zip(&placed.metrics) {
            for event in pack.events_for(&[name], &context) {
                assert!(
                    groups.iter().any(|&at| placed.groups[at].contains(&event)),
                    "{name}: {event} with {most} counters: {placed:?}"
                );
            }
        }
        placed
    }

    #[test]
    fn what_fits_is_one_group() {
        let pack = pack("tma-skylake");
        let metrics = level(pack, "topdown-1");
        let placed = place(pack, &metrics, 5);
        assert_eq!(placed.groups.len(), 1, "{placed:?}");
        assert_eq!(placed.metrics, vec![vec![0]; 4]);
    }

    #[test]
    fn every_size_of_pmu_is_served() {
        for pack in Metrics::embedded().packs() {
            let all: Vec<String> = pack.metrics.iter().map(|m| m.name.clone()).collect();
            for most in 1..20 {
                place(pack, &all, most);
            }
        }
    }

    #[test]
    fn the_slots_lead_every_group_of_topdown_events() {
        let pack = pack("tma-icelake");
        let mut metrics = level(pack, "topdown-1");
        metrics.extend(level(pack, "topdown-2"));
        let placed = place(pack, &metrics, 8);
        assert!(placed.groups.len() > 1);
        let slots = "cpu/event=0x0,umask=0x4/";
        for group in &placed.groups {
            let topdown = group.iter().any(|event| event.contains("umask=0x8"));
            assert!(!topdown || group[0] == slots, "{group:?}");
        }
    }

    #[test]
    fn too_much_for_one_group_goes_with_the_anchors() {
        let pack = pack("topdown-neoverse-v1");
        let metrics = vec!["bad-speculation".to_owned()];
        let placed = place(pack, &metrics, 3);
        assert!(placed.groups.len() > 1, "{placed:?}");
        for group in &placed.groups {
            assert_eq!(group[0], "CPU_CYCLES");
        }
    }
}
