//! The yardstick for speed: the same analysis by measureme's own library, or by this crate.
//!
//! `yardstick theirs|ours summarize FILE` and `yardstick theirs|ours aggregate FILES…`; compare the
//! user + system time of the two processes (`perf stat`, or bash's `time`). `crates/profile/benches/compare.sh` does.
//! Their `aggregate` has no library form: it is restated here from its behaviour, which is to compare
//! the k-th interval of each profile by the descriptions of both its ends and of what encloses them.

use analyzeme::{Event, EventPayload, ProfilingData, Timestamp};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn load(path: &PathBuf) -> Result<ProfilingData, Failure> {
    ProfilingData::from_paged_buffer(std::fs::read(path)?, Some(path))
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Point {
    Start,
    End,
    Instant,
}

/// The sample points of a profile, last first, each with its event and the event around it.
struct Points<'a, I: Iterator<Item = Event<'a>>> {
    events: std::iter::Peekable<I>,
    stack: Vec<Event<'a>>,
}

impl<'a, I: Iterator<Item = Event<'a>>> Iterator for Points<'a, I> {
    type Item = Sample<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.events.peek();
        if let Some(top) = self.stack.last()
            && next.is_none_or(|event| !top.contains(event))
        {
            let event = self.stack.pop()?;
            let EventPayload::Timestamp(time) = event.payload else {
                return None;
            };
            return Some((
                Point::Start,
                event,
                self.stack.last().cloned(),
                time.start(),
            ));
        }
        let event = self.events.next()?;
        let parent = self.stack.last().cloned();
        match event.payload {
            EventPayload::Timestamp(Timestamp::Instant(at)) => {
                Some((Point::Instant, event, parent, at))
            }
            EventPayload::Timestamp(Timestamp::Interval { end, .. }) => {
                self.stack.push(event.clone());
                Some((Point::End, event, parent, end))
            }
            EventPayload::Integer(_) => None,
        }
    }
}

type Sample<'a> = (Point, Event<'a>, Option<Event<'a>>, SystemTime);

/// Neighbouring sample points, last first.
struct Intervals<'a, I: Iterator<Item = Event<'a>>> {
    points: Points<'a, I>,
    later: Option<Sample<'a>>,
}

impl<'a, I: Iterator<Item = Event<'a>>> Iterator for Intervals<'a, I> {
    type Item = (Sample<'a>, Sample<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.later.is_none() {
            self.later = self.points.next();
        }
        let earlier = self.points.next()?;
        let later = self.later.replace(earlier.clone())?;
        Some((earlier, later))
    }
}

fn same(a: &Sample<'_>, b: &Sample<'_>) -> bool {
    let event = |a: &Event<'_>, b: &Event<'_>| {
        a.event_kind == b.event_kind && a.label == b.label && a.additional_data == b.additional_data
    };
    let parents = match (&a.2, &b.2) {
        (Some(a), Some(b)) => event(a, b),
        (None, None) => true,
        _ => false,
    };
    a.0 == b.0 && event(&a.1, &b.1) && parents
}

fn aggregate(paths: &[PathBuf]) -> Result<(), Failure> {
    let profiles = paths.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let mut walks: Vec<_> = profiles
        .iter()
        .map(|profile| Intervals {
            points: Points {
                events: profile
                    .iter_full()
                    .rev()
                    .filter(|event| !event.payload.is_integer())
                    .peekable(),
                stack: Vec::new(),
            },
            later: None,
        })
        .collect();
    let mut ranges = BTreeMap::<u128, u64>::new();
    let (first, rest) = walks.split_first_mut().ok_or("no profile")?;
    for expected in first.by_ref() {
        let length = expected.1.3.duration_since(expected.0.3)?.as_nanos();
        let (mut low, mut high) = (length, length);
        for walk in rest.iter_mut() {
            let interval = walk.next().ok_or("the sequences of events differ")?;
            if !same(&interval.0, &expected.0) || !same(&interval.1, &expected.1) {
                return Err("the sequences of events differ".into());
            }
            let length = interval.1.3.duration_since(interval.0.3)?.as_nanos();
            (low, high) = (low.min(length), high.max(length));
        }
        *ranges.entry(high - low).or_default() += 1;
    }
    if rest.iter_mut().any(|walk| walk.next().is_some()) {
        return Err("the sequences of events differ".into());
    }
    let total: u64 = ranges.values().sum();
    println!("{total} intervals");
    for (range, count) in ranges.iter().take(10).chain(ranges.iter().rev().take(10)) {
        println!("±{} {count}", *range as f64 / 2.0);
    }
    Ok(())
}

fn ours(what: &str, paths: &[PathBuf]) -> Result<(), Failure> {
    match what {
        "summarize" => {
            for path in paths {
                let summary =
                    truecount_profile::summarize(&truecount_profile::Profile::open(path)?);
                println!("{} labels, total {}", summary.labels.len(), summary.total);
            }
        }
        _ => {
            let noise = truecount_profile::aggregate::aggregate(paths)?;
            println!("{} intervals", noise.intervals);
            let few = noise
                .variations
                .iter()
                .take(10)
                .chain(noise.variations.iter().rev().take(10));
            for variation in few {
                println!(
                    "±{} {}",
                    variation.range as f64 / 2.0,
                    variation.occurrences
                );
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let paths: Vec<PathBuf> = arguments.iter().skip(2).map(PathBuf::from).collect();
    match (
        arguments.first().map(String::as_str),
        arguments.get(1).map(String::as_str),
    ) {
        (Some("theirs"), Some("summarize")) => {
            for path in &paths {
                let results = load(path)?.perform_analysis();
                println!(
                    "{} labels, total {}",
                    results.query_data.len(),
                    results.total_time.as_nanos()
                );
            }
            Ok(())
        }
        (Some("theirs"), Some("aggregate")) => aggregate(&paths),
        (Some("ours"), Some(what)) => ours(what, &paths),
        _ => Err("usage: yardstick theirs|ours summarize|aggregate FILES…".into()),
    }
}
