//! From the records of the rings to counts by place: ordered by time, with the mappings of that moment.
//!
//! Memory is bounded: records wait for at most two rounds, equal samples are one entry, and what is more than
//! [`MAX_HITS`] different ones between two looks is counted without its place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use truecount_sample::abi::{context, record as rt};
use truecount_sample::live::LiveSpaces;
use truecount_sample::spaces::is_kernel_address;
use truecount_sample::{Body, Sample, SampleLayout, split_record};

use super::types::{Hit, Interval, Place, Weight};
use crate::procfs;

/// Different samples that are told apart between two looks.
const MAX_HITS: usize = 1 << 17;
/// How often the mappings of a process are read again because an address is in none of them.
const RELOAD: Duration = Duration::from_secs(1);

struct Pending {
    time: u64,
    start: usize,
    end: usize,
}

/// Takes records, gives intervals.
pub struct Collector {
    layout: SampleLayout,
    events: FxHashMap<u64, u8>,
    /// Of each event, for samples that do not say it.
    periods: Vec<u64>,
    spaces: LiveSpaces,
    loaded: FxHashMap<u32, Instant>,
    bytes: Vec<u8>,
    pending: Vec<Pending>,
    /// The newest record of the round before, and of this one.
    before: u64,
    newest: u64,
    since: Instant,
    interval: Interval,
}

impl Collector {
    /// `ids`: per event, the ids that its samples carry; `periods`: per event, its fixed period (or 1).
    pub fn new(layout: SampleLayout, ids: &[Vec<u64>], periods: Vec<u64>) -> Self {
        let mut events = FxHashMap::default();
        for (event, ids) in ids.iter().enumerate() {
            let event = u8::try_from(event).unwrap_or(u8::MAX);
            events.extend(ids.iter().map(|id| (*id, event)));
        }
        Self {
            layout,
            events,
            spaces: LiveSpaces::default(),
            loaded: FxHashMap::default(),
            bytes: Vec::new(),
            pending: Vec::new(),
            before: 0,
            newest: 0,
            since: Instant::now(),
            interval: Interval {
                crowded: vec![Weight::default(); periods.len()],
                ..Interval::default()
            },
            periods,
        }
    }

    /// Takes one record, header and body.
    pub fn push(&mut self, record: &[u8]) {
        let decoded = split_record(record).ok().and_then(|(raw, _)| {
            let (_, id) = raw.decode(&self.layout)?;
            Some(id.time.unwrap_or(self.newest))
        });
        let Some(time) = decoded else {
            self.interval.broken += 1;
            return;
        };
        self.newest = self.newest.max(time);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.pending.push(Pending {
            time,
            start,
            end: self.bytes.len(),
        });
    }

    /// All rings have been read. What is as old as the round before cannot be preceded by anything unread: a record
    /// that old was written before this round began, so it has been read now, from whatever ring.
    pub fn end_round(&mut self) {
        let safe = std::mem::replace(&mut self.before, self.newest);
        self.process(safe);
    }

    /// All that came is processed: sampling has stopped.
    pub fn finish(&mut self) {
        self.process(u64::MAX);
    }

    fn process(&mut self, until: u64) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_by_key(|p| p.time);
        let ready = pending.partition_point(|p| p.time <= until);
        let bytes = std::mem::take(&mut self.bytes);
        for p in pending.get(..ready).unwrap_or_default() {
            if let Some(record) = bytes.get(p.start..p.end) {
                self.record(record);
            }
        }
        for p in pending.get(ready..).unwrap_or_default() {
            let start = self.bytes.len();
            self.bytes
                .extend_from_slice(bytes.get(p.start..p.end).unwrap_or_default());
            self.pending.push(Pending {
                start,
                end: self.bytes.len(),
                time: p.time,
            });
        }
        // The larger buffer is kept for the next round, unless it was a burst.
        if self.bytes.is_empty() && bytes.capacity() <= 1 << 22 {
            self.bytes = bytes;
            self.bytes.clear();
        }
    }

    fn record(&mut self, record: &[u8]) {
        let Ok((raw, _)) = split_record(record) else {
            return;
        };
        let layout = self.layout;
        match raw.decode(&layout) {
            Some((Body::Sample(sample), _)) => self.sample(&sample),
            Some((Body::Lost { lost, .. } | Body::LostSamples { lost }, _)) => {
                self.interval.lost = self.interval.lost.saturating_add(lost);
            }
            Some((Body::Throttle { .. }, _)) => self.interval.throttled += 1,
            Some((body, _)) if raw.kind != rt::SAMPLE => self.spaces.apply(raw.misc, &body),
            _ => self.interval.broken += 1,
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let (Some(ip), Some(pid), Some(tid)) = (sample.ip, sample.id.pid, sample.id.tid) else {
            self.interval.broken += 1;
            return;
        };
        let event = sample.id.id.and_then(|id| self.events.get(&id)).copied();
        let event = match event {
            Some(event) => event,
            None if self.periods.len() == 1 => 0,
            None => {
                self.interval.broken += 1;
                return;
            }
        };
        let period = self.periods.get(usize::from(event)).copied().unwrap_or(1);
        let weight = Weight {
            samples: 1,
            events: sample.period.unwrap_or(period),
        };
        let place = self.place(pid, ip);
        let caller = caller(sample).map(|address| self.place(pid, address));
        let hit = Hit {
            event,
            pid,
            tid,
            cpu: sample.id.cpu,
            place,
            caller,
        };
        for id in [tid, pid] {
            self.name(pid, id);
        }
        if let Some(sum) = self.interval.hits.get_mut(&hit) {
            sum.add(weight);
        } else if self.interval.hits.len() < MAX_HITS {
            self.interval.hits.insert(hit, weight);
        } else if let Some(sum) = self.interval.crowded.get_mut(usize::from(event)) {
            sum.add(weight);
        }
    }

    /// Notes the name of a thread while it is known.
    fn name(&mut self, pid: u32, tid: u32) {
        if self.interval.names.contains_key(&tid) {
            return;
        }
        if self.spaces.name(tid).is_none() {
            match procfs::thread_name(pid, tid) {
                Some(name) => self.spaces.set_name(tid, &name),
                None => return,
            }
        }
        if let Some(name) = self.spaces.name(tid) {
            self.interval.names.insert(tid, Arc::clone(name));
        }
    }

    fn place(&mut self, pid: u32, address: u64) -> Place {
        if is_kernel_address(address) {
            return Place::Kernel(address);
        }
        if self.spaces.resolve(pid, address).is_none() {
            self.load(pid);
        }
        match self.spaces.resolve(pid, address) {
            Some((file, offset)) => Place::File(Arc::clone(file), offset),
            None => Place::Unknown(address),
        }
    }

    /// Reads the mappings of a process that ran before it was sampled, or that were made where nothing is sampled.
    fn load(&mut self, pid: u32) {
        let now = Instant::now();
        let last = self.loaded.get(&pid);
        if last.is_some_and(|last| now.duration_since(*last) < RELOAD) {
            return;
        }
        self.loaded.insert(pid, now);
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else {
            return;
        };
        let mappings = maps.lines().filter_map(procfs::mapping);
        self.spaces.load(pid, mappings);
    }

    /// What came since the last look.
    pub fn take(&mut self) -> Interval {
        let now = Instant::now();
        let time = now.duration_since(std::mem::replace(&mut self.since, now));
        self.spaces.forget_ended();
        self.loaded
            .retain(|_, last| now.duration_since(*last) < RELOAD);
        let next = Interval {
            crowded: vec![Weight::default(); self.periods.len()],
            ..Interval::default()
        };
        let mut interval = std::mem::replace(&mut self.interval, next);
        interval.time = time;
        interval
    }
}

/// The call that led to the sampled function: the second address of the chain, which is a return address (its last
/// byte but one belongs to the call). A chain that changes from kernel to user there has the user's place itself.
fn caller(sample: &Sample<'_>) -> Option<u64> {
    let mut frames = 0;
    let mut exact = true;
    for address in sample.callchain.iter() {
        if address >= context::MAX {
            exact = true;
            continue;
        }
        frames += 1;
        if frames == 2 {
            return Some(if exact {
                address
            } else {
                address.saturating_sub(1)
            });
        }
        exact = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_sample::abi::sample as st;

    const TYPE: u64 = st::IDENTIFIER | st::IP | st::TID | st::TIME | st::CPU | st::PERIOD;

    fn collector(chains: bool) -> Collector {
        let layout = SampleLayout {
            sample_type: TYPE | if chains { st::CALLCHAIN } else { 0 },
            sample_id_all: true,
            ..SampleLayout::default()
        };
        Collector::new(layout, &[vec![10], vec![20]], vec![1, 1])
    }

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend(misc.to_le_bytes());
        out.extend((8 + 8 * words.len() as u16).to_le_bytes());
        out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        out
    }

    fn two(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    // Threads of no process that /proc knows: the highest pid is 4,194,304.
    const PID: u32 = 0x7000_0000;

    fn sample(id: u64, ip: u64, time: u64, period: u64, chain: &[u64]) -> Vec<u8> {
        let mut words = vec![id, ip, two(PID, PID), time, two(1, 0), period];
        if !chain.is_empty() {
            words.push(chain.len() as u64);
            words.extend(chain);
        }
        record(rt::SAMPLE, 2, &words)
    }

    fn comm(time: u64, exec: bool) -> Vec<u8> {
        let name = u64::from_le_bytes(*b"prog\0\0\0\0");
        let misc = if exec { 1 << 13 } else { 0 };
        let id = [two(PID, PID), time, two(1, 0), 10];
        record(
            rt::COMM,
            misc,
            &[&[two(PID, PID), name][..], &id[..]].concat(),
        )
    }

    fn mmap(time: u64, address: u64) -> Vec<u8> {
        let name = u64::from_le_bytes(*b"/bin/p\0\0");
        let id = [two(PID, PID), time, two(0, 0), 10];
        let own = [two(PID, PID), address, 0x1000, 0, name];
        record(rt::MMAP, 2, &[&own[..], &id[..]].concat())
    }

    #[test]
    fn rings_are_merged_by_time() {
        let mut c = collector(false);
        // The ring of CPU 0, read first, has the sample; the one of CPU 1 the mapping before it.
        c.push(&sample(10, 0x1010, 300, 7, &[]));
        c.end_round();
        c.push(&comm(100, true));
        c.push(&mmap(200, 0x1000));
        c.push(&sample(20, 0x1010, 400, 5, &[]));
        c.end_round();
        assert_eq!(
            c.take().hits.values().map(|w| w.events).sum::<u64>(),
            7,
            "the newest may still be preceded"
        );
        c.push(&sample(20, 0x1010, 500, 5, &[]));
        c.finish();
        let interval = c.take();
        let (hit, weight) = interval.hits.iter().next().unwrap();
        assert!(matches!(&hit.place, Place::File(f, 0x10) if f.path == "/bin/p"));
        assert_eq!((hit.event, hit.cpu, hit.pid), (1, Some(1), PID));
        assert_eq!((weight.samples, weight.events), (2, 10));
        assert_eq!(interval.names.get(&PID).map(|n| &**n), Some("prog"));
    }

    #[test]
    fn a_cpu_that_is_not_told_is_not_cpu_0() {
        let layout = SampleLayout {
            sample_type: TYPE & !st::CPU,
            sample_id_all: true,
            ..SampleLayout::default()
        };
        let mut c = Collector::new(layout, &[vec![10]], vec![1]);
        c.push(&record(rt::SAMPLE, 2, &[10, 0x1010, two(PID, PID), 5, 1]));
        c.finish();
        let interval = c.take();
        let hit = interval.hits.keys().next().unwrap();
        assert_eq!((hit.pid, hit.cpu), (PID, None));
    }

    #[test]
    fn callers_are_the_second_frames() {
        let mut c = collector(true);
        c.push(&comm(1, true));
        c.push(&mmap(2, 0x1000));
        let chains: [&[u64]; 3] = [
            &[context::USER, 0x1010, 0x1101, 0x1200],
            &[
                context::KERNEL,
                u64::MAX >> 1 << 1 & !0xffff,
                context::USER,
                0x1044,
            ],
            &[context::USER, 0x1010],
        ];
        for (i, chain) in chains.iter().enumerate() {
            c.push(&sample(10, 0x1010, 10 + i as u64, 1, chain));
        }
        c.finish();
        let interval = c.take();
        let mut callers: Vec<Option<u64>> = interval
            .hits
            .keys()
            .map(|h| {
                h.caller.as_ref().map(|c| match c {
                    Place::File(_, offset) => *offset,
                    _ => 0,
                })
            })
            .collect();
        callers.sort_unstable();
        assert_eq!(callers, [None, Some(0x44), Some(0x100)]);
    }

    #[test]
    fn losses_and_garbage_are_counted() {
        let mut c = collector(false);
        let id = [two(1, 1), 5, two(0, 0), 10];
        c.push(&record(rt::LOST, 0, &[&[10, 33][..], &id[..]].concat()));
        c.push(&record(
            rt::THROTTLE,
            0,
            &[&[5, 10, 10][..], &id[..]].concat(),
        ));
        c.push(&[9, 0, 0, 0, 0, 0, 8, 0]); // a sample without a body
        c.push(&[1, 2, 3]);
        c.push(&sample(99, 0x10, 6, 1, &[])); // an event that was not opened
        c.finish();
        let interval = c.take();
        assert_eq!(
            (interval.lost, interval.throttled, interval.broken),
            (33, 1, 3)
        );
        assert!(interval.hits.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_dropped_silently() {
        let mut c = collector(false);
        c.push(&comm(1, true));
        let all = MAX_HITS as u64 + 1000;
        for i in 0..all {
            c.push(&sample(10, 0x1000 + i, 2 + i, 3, &[]));
            if i % 4096 == 0 {
                c.end_round();
                assert!(c.bytes.len() < 1 << 20);
            }
        }
        c.finish();
        let interval = c.take();
        assert_eq!(interval.hits.len(), MAX_HITS);
        assert_eq!(
            interval.crowded[0],
            Weight {
                samples: 1000,
                events: 3000
            }
        );
        assert!(c.take().hits.is_empty());
    }
}
