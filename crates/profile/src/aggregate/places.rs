//! Intervals by their duration, and where they are, in words.

use super::{Duration, Noise, Variation};
use crate::sequence::{Code, NO_PARENT, PointKind, decode};
use rustc_hash::FxHashMap;

impl Noise {
    /// The intervals by duration, shortest first.
    #[must_use]
    pub fn durations(&self) -> Vec<Duration> {
        let mut groups: FxHashMap<u64, Duration> = FxHashMap::default();
        for (thread, reference) in self.references.iter().enumerate() {
            for (number, span) in reference.spans.iter().enumerate() {
                if reference.missing.get(number) == Some(&true) {
                    continue;
                }
                let group = groups.entry(span.low).or_insert(Duration {
                    low: span.low,
                    high: span.high,
                    occurrences: 0,
                    at: (thread, number),
                });
                group.high = group.high.max(span.high);
                group.occurrences += 1;
            }
        }
        let mut out: Vec<Duration> = groups.into_values().collect();
        out.sort_unstable_by_key(|duration| duration.low);
        out
    }

    /// Where a duration is (one of its intervals, when there are several).
    #[must_use]
    pub fn place_of(&self, duration: &Duration) -> String {
        self.at(duration.at)
    }

    /// Where a variation is (one of its intervals, when there are several): `hir_owner()`,
    /// `in typeck(), between a() and b()`, `in a(), after b()`, `between a() and b()`.
    #[must_use]
    pub fn place(&self, variation: &Variation) -> String {
        self.at(variation.at)
    }

    fn at(&self, (thread, number): (usize, usize)) -> String {
        let codes = self
            .references
            .get(thread)
            .map_or(&[][..], |reference| &reference.codes[..]);
        let (later, earlier) = (codes.get(number).copied(), codes.get(number + 1).copied());
        let place = self.describe(earlier, later, false);
        match self.references.get(thread) {
            Some(reference) if self.references.len() > 1 => {
                format!("thread {}: {place}", reference.thread)
            }
            _ => place,
        }
    }

    /// The outermost known event around a point (given by its number, last first): where the event
    /// next to it has no name, as those have that rustc records while it writes its strings.
    pub(super) fn around(&self, thread: usize, point: usize) -> Option<String> {
        let codes = self.references.get(thread)?.codes.get(point..)?;
        let mut closed = 0_u64;
        let mut outer = None;
        for (kind, event, _) in codes.iter().map(|&code| decode(code)) {
            match kind {
                PointKind::End => closed += 1,
                PointKind::Start if closed == 0 => outer = Some(event),
                PointKind::Start => closed -= 1,
                PointKind::Instant => {}
            }
        }
        outer.map(|event| self.descriptions.text(event))
    }

    /// What lies between two points of the first run; of a differing stretch the two need not be
    /// neighbours.
    pub(super) fn describe(
        &self,
        earlier: Option<Code>,
        later: Option<Code>,
        stretch: bool,
    ) -> String {
        let earlier = earlier.map(decode);
        let later = later.map(decode);
        if let (Some((PointKind::Start, event, parent)), Some((PointKind::End, end, end_parent))) =
            (earlier, later)
            && event == end
            && parent == end_parent
        {
            let text = self.descriptions.text(event);
            return if stretch { format!("in {text}") } else { text };
        }
        let around = match (earlier, later) {
            (Some((PointKind::Start, event, _)), _) | (_, Some((PointKind::End, event, _))) => {
                event
            }
            (Some((_, _, parent)), _) | (None, Some((_, _, parent))) => parent,
            (None, None) => NO_PARENT,
        };
        let before = earlier
            .filter(|point| point.0 != PointKind::Start)
            .map(|point| self.descriptions.text(point.1));
        let behind = later
            .filter(|point| point.0 != PointKind::End)
            .map(|point| self.descriptions.text(point.1));
        let inside =
            (around != NO_PARENT).then(|| format!("in {}", self.descriptions.text(around)));
        let side = match (before, behind) {
            (Some(before), Some(behind)) => Some(format!("between {before} and {behind}")),
            (Some(before), None) => Some(format!("after {before}")),
            (None, Some(behind)) => Some(format!("before {behind}")),
            (None, None) => None,
        };
        [inside, side]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    }
}
