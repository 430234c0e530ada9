//! Starts, ends and instants of each thread in the order in which they happened.

use crate::event::Payload;
use crate::file::Profile;
use crate::threads::Threads;

/// What a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    Start,
    End,
    Instant,
}

/// A point: when, what, and the string ids of its event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) at: u64,
    pub(super) edge: Edge,
    pub(super) kind: u64,
    pub(super) id: u64,
}

#[derive(Default)]
struct Walk {
    stack: Vec<(u64, u64, u64, u64)>,
    points: Vec<Point>,
}

impl Walk {
    fn leave(&mut self, start: u64, end: u64) {
        while let Some(&(top_start, top_end, kind, id)) = self.stack.last() {
            if top_start <= start && end <= top_end {
                return;
            }
            self.stack.pop();
            self.points.push(Point {
                at: top_start,
                edge: Edge::Start,
                kind,
                id,
            });
        }
    }
}

/// The points of every thread, by thread id, first point first; every start has its end.
pub(super) fn points(profile: &Profile, minimum: u64) -> Vec<(u32, Vec<Point>)> {
    let mut threads = Threads::<Walk>::new();
    profile.events().each_back(|event| match event.payload {
        Payload::Interval { start, end } if start <= end && end - start >= minimum => {
            let walk = threads.get(event.thread);
            walk.leave(start, end);
            walk.points.push(Point {
                at: end,
                edge: Edge::End,
                kind: event.kind,
                id: event.id,
            });
            walk.stack.push((start, end, event.kind, event.id));
        }
        Payload::Instant { at } => {
            let walk = threads.get(event.thread);
            walk.leave(at, at);
            walk.points.push(Point {
                at,
                edge: Edge::Instant,
                kind: event.kind,
                id: event.id,
            });
        }
        _ => {}
    });
    let mut result = Vec::new();
    for (thread, mut walk) in threads.into_sorted() {
        while let Some((at, _, kind, id)) = walk.stack.pop() {
            walk.points.push(Point {
                at,
                edge: Edge::Start,
                kind,
                id,
            });
        }
        walk.points.reverse();
        result.push((thread, walk.points));
    }
    result
}
