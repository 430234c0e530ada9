//! What one worker keeps while runs have the same sequences as the first one: the smallest and largest lengths.

use super::{Reference, Span};
use crate::error::ProfileError;
use crate::file::Profile;
use crate::huge;
use crate::sequence::{Code, Descriptions, Sink, walk};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Codes of one thread of the first run with one worker's smallest and largest lengths.
pub(super) struct Extreme {
    thread: u32,
    codes: Arc<Vec<Code>>,
    pub(super) spans: Vec<Span>,
}

pub(super) struct Extremes(pub(super) Vec<Extreme>);

/// Compares points with the first run's while they come, and books the lengths between them.
///
/// Up to the first difference both runs are equal, so lengths booked before it are right: booking
/// them again by way of [`State::add`] changes nothing.
struct Compare<'r> {
    codes: &'r [Code],
    spans: &'r mut [Span],
    next: usize,
    later: u64,
    differs: bool,
}

impl Sink for Compare<'_> {
    #[inline(always)]
    fn point(&mut self, code: Code, at: u64) {
        if self.differs || self.codes.get(self.next) != Some(&code) {
            self.differs = true;
            return;
        }
        if let Some(place) = self.next.checked_sub(1)
            && let Some(span) = self.spans.get_mut(place)
        {
            span.book(self.later.saturating_sub(at));
        }
        self.later = at;
        self.next += 1;
    }
}

impl Extremes {
    pub(super) fn new(references: &[Reference]) -> Self {
        let extreme = |reference: &Reference| Extreme {
            thread: reference.thread,
            codes: Arc::clone(&reference.codes),
            spans: {
                let mut spans = huge::with_capacity(reference.spans.len());
                let none = Span {
                    low: u64::MAX,
                    high: 0,
                };
                spans.resize(reference.spans.len(), none);
                spans
            },
        };
        Self(references.iter().map(extreme).collect())
    }

    /// Whether every thread has the same sequence under the same id; the lengths are booked then.
    pub(super) fn alike(
        &mut self,
        profile: &Profile,
        descriptions: &Descriptions,
    ) -> Result<bool, ProfileError> {
        let threads = self.0.len();
        let mut left: FxHashMap<u32, &mut Extreme> = self
            .0
            .iter_mut()
            .map(|extreme| (extreme.thread, extreme))
            .collect();
        let walked = walk(profile, descriptions, |thread| match left.remove(&thread) {
            Some(Extreme { codes, spans, .. }) => Compare {
                codes,
                spans,
                next: 0,
                later: 0,
                differs: false,
            },
            None => Compare {
                codes: &[],
                spans: &mut [],
                next: 0,
                later: 0,
                differs: true,
            },
        })?;
        Ok(walked.len() == threads
            && walked
                .iter()
                .all(|(_, c)| !c.differs && c.next == c.codes.len()))
    }
}
