//! The model behind [`super::FakeKernel`]: events, their scheduling, their pages.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::ptr::NonNull;

use perf_event_open_sys::bindings as abi;

use super::{Call, good_facts, memory::Shared};
use crate::errno::Errno;
use crate::facts::Facts;
use crate::kernel::{Ioctl, RawAttr, Ready};

/// Nanoseconds between two turns of multiplexing.
const SLICE: u64 = 1_000;

/// What `perf_event_open` was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The attributes.
    pub attr: RawAttr,
    /// Task, or -1, or a control group's descriptor.
    pub pid: i32,
    /// CPU, or -1.
    pub cpu: i32,
    /// The group's leader, or -1.
    pub group_fd: i32,
    /// `PERF_FLAG_*`.
    pub flags: u64,
}

type Rule = dyn Fn(&Opening) -> Option<Errno> + Send;

pub(super) struct OpenRule(pub(super) Box<Rule>);

impl fmt::Debug for OpenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenRule")
    }
}

#[derive(Debug)]
struct FakeEvent {
    attr: RawAttr,
    leader: i32,
    id: u64,
    enabled: bool,
    /// A pinned event that did not get its counter.
    failed: bool,
    /// The hardware counter it is on.
    counter: Option<u32>,
    value: u64,
    time_enabled: u64,
    time_running: u64,
    lost: u64,
    unreported: u64,
    period: u64,
    shared: Option<Shared>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) counters: usize,
    pub(super) stolen: usize,
    pub(super) user_read: bool,
    pub(super) width: u16,
    pub(super) facts: Facts,
    pub(super) open_rule: Option<OpenRule>,
    pub(super) failures: VecDeque<(&'static str, Errno)>,
    pub(super) scripted_reads: VecDeque<(i32, Vec<u64>)>,
    pub(super) rates: HashMap<(u32, u64), u64>,
    pub(super) calls: Vec<Call>,
    /// Nanoseconds that pass before a read or an ioctl.
    pub(super) tick: u64,
    events: BTreeMap<i32, FakeEvent>,
    /// Memory of events that were closed before it was unmapped.
    orphans: Vec<Shared>,
    next_fd: i32,
    turn: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            counters: 4,
            stolen: 0,
            user_read: true,
            width: 48,
            facts: good_facts(),
            open_rule: None,
            failures: VecDeque::new(),
            scripted_reads: VecDeque::new(),
            rates: HashMap::new(),
            calls: Vec::new(),
            tick: 0,
            events: BTreeMap::new(),
            orphans: Vec::new(),
            next_fd: 100,
            turn: 0,
        }
    }
}

const fn is_software(attr: &RawAttr) -> bool {
    attr.0.type_ == abi::PERF_TYPE_SOFTWARE || attr.0.type_ == abi::PERF_TYPE_TRACEPOINT
}

impl State {
    fn failure(&mut self, call: &str) -> Result<(), Errno> {
        match self.failures.front() {
            Some(&(name, errno)) if name == call => {
                self.failures.pop_front();
                Err(errno)
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, fd: i32) -> Result<&mut FakeEvent, Errno> {
        self.events.get_mut(&fd).ok_or(Errno::EBADF)
    }

    pub(super) fn descriptors(&self) -> Vec<i32> {
        self.events.keys().copied().collect()
    }

    pub(super) fn open(&mut self, opening: &Opening) -> Result<i32, Errno> {
        self.failure("open")?;
        if let Some(errno) = self.open_rule.as_ref().and_then(|rule| rule.0(opening)) {
            return Err(errno);
        }
        let hardware = !is_software(&opening.attr);
        let no_group = opening.flags & u64::from(abi::PERF_FLAG_FD_NO_GROUP) != 0;
        let leader = if opening.group_fd >= 0 && !no_group {
            opening.group_fd
        } else {
            -1
        };
        if hardware && self.counters == 0 {
            return Err(Errno::ENOENT);
        }
        if leader >= 0 {
            if self.event(leader)?.leader != leader {
                return Err(Errno::EINVAL);
            }
            if hardware && self.members(leader).1 >= self.counters {
                return Err(Errno::EINVAL);
            }
        }
        let fd = self.next_fd;
        self.next_fd += 1;
        let attr = opening.attr;
        self.events.insert(
            fd,
            FakeEvent {
                attr,
                leader: if leader >= 0 { leader } else { fd },
                id: fd as u64 + 1_000,
                enabled: attr.0.disabled() == 0,
                failed: false,
                counter: None,
                value: 0,
                time_enabled: 0,
                time_running: 0,
                lost: 0,
                unreported: 0,
                period: 0,
                shared: None,
            },
        );
        self.schedule();
        Ok(fd)
    }

    /// Members of a group, and how many of them need a hardware counter.
    fn members(&self, leader: i32) -> (Vec<i32>, usize) {
        let of_group = self
            .events
            .iter()
            .filter(|(_, event)| event.leader == leader);
        let hardware = of_group
            .clone()
            .filter(|(_, event)| !is_software(&event.attr))
            .count();
        (of_group.map(|(&fd, _)| fd).collect(), hardware)
    }

    /// Puts groups on the counters: pinned ones first, the others multiplexed, each whole or not at all.
    fn schedule(&mut self) {
        let free = self.counters.saturating_sub(self.stolen);
        let mut leaders: Vec<i32> = self
            .events
            .iter()
            .filter(|&(&fd, event)| event.leader == fd && event.enabled)
            .map(|(&fd, _)| fd)
            .collect();
        let pinned = |fd: &i32| {
            self.events
                .get(fd)
                .is_some_and(|event| event.attr.0.pinned() != 0)
        };
        leaders.sort_by_key(|fd| !pinned(fd));
        // Pinned ones keep their order: who came first keeps its counter.
        let first_flexible = leaders.partition_point(pinned);
        if let Some(flexible) = leaders.get_mut(first_flexible..) {
            flexible.rotate_left(self.turn.checked_rem(flexible.len()).unwrap_or(0));
        }
        for event in self.events.values_mut() {
            event.counter = None;
        }
        let mut next = 0;
        for leader in leaders {
            let (fds, hardware) = self.members(leader);
            let fits = next + hardware <= free;
            for fd in fds {
                let Some(event) = self.events.get_mut(&fd) else {
                    continue;
                };
                if !fits {
                    event.failed |= event.attr.0.pinned() != 0;
                } else if event.enabled && !event.failed {
                    if is_software(&event.attr) {
                        event.counter = Some(u32::MAX);
                    } else {
                        event.counter = u32::try_from(next).ok();
                        next += 1;
                    }
                }
            }
        }
        self.publish_all();
    }

    pub(super) fn advance(&mut self, nanoseconds: u64) {
        let mut left = nanoseconds;
        while left > 0 {
            self.schedule();
            let slice = left.min(SLICE);
            left -= slice;
            let rates = &self.rates;
            for event in self.events.values_mut().filter(|event| event.enabled) {
                event.time_enabled += slice;
                if event.counter.is_some() {
                    let key = (event.attr.0.type_, event.attr.0.config);
                    let rate = rates.get(&key).copied().unwrap_or(1);
                    event.time_running += slice;
                    event.value = event.value.wrapping_add(rate.wrapping_mul(slice));
                }
            }
            self.turn = self.turn.wrapping_add(1);
        }
        self.publish_all();
    }

    pub(super) fn add(&mut self, fd: i32, count: u64) {
        if let Some(event) = self.events.get_mut(&fd) {
            event.value = event.value.wrapping_add(count);
        }
        self.publish_all();
    }

    pub(super) fn read_counter(&self, number: u32) -> u64 {
        let on_it = |event: &&FakeEvent| event.counter == Some(number);
        let mask = 1u64
            .checked_shl(u32::from(self.width))
            .map_or(u64::MAX, |bit| bit - 1);
        self.events
            .values()
            .find(on_it)
            .map_or(0, |event| hardware_value(event, self.width) & mask)
    }

    fn publish_all(&mut self) {
        let (user_read, width) = (self.user_read, self.width);
        for event in self.events.values_mut() {
            let Some(shared) = &event.shared else {
                continue;
            };
            let on_counter = event.counter.filter(|&counter| counter != u32::MAX);
            shared.edit(|page| {
                page.index = on_counter.map_or(0, |counter| counter + 1);
                // What is on the counter is not in the offset.
                let counted = if on_counter.is_some() {
                    hardware_value(event, width)
                } else {
                    0
                };
                let signed = crate::page::sign_extend(counted, width);
                page.offset = event.value.wrapping_sub(signed) as i64;
                page.time_enabled = event.time_enabled;
                page.time_running = event.time_running;
                page.pmc_width = width;
                // Bits 1 (bits are valid) and 2 (user reads).
                page.__bindgen_anon_1.capabilities = 2 | if user_read { 4 } else { 0 };
            });
        }
    }

    pub(super) fn read(&mut self, fd: i32, buffer: &mut [u64]) -> Result<usize, Errno> {
        self.failure("read")?;
        if let Some(at) = self.scripted_reads.iter().position(|(of, _)| *of == fd) {
            let (_, words) = self.scripted_reads.remove(at).unwrap_or_default();
            for (into, word) in buffer.iter_mut().zip(&words) {
                *into = *word;
            }
            return Ok(words.len() * 8);
        }
        let event = self.event(fd)?;
        if event.failed {
            return Ok(0);
        }
        let format = event.attr.0.read_format;
        let has = |bit: u32| format & u64::from(bit) != 0;
        let group = has(abi::PERF_FORMAT_GROUP);
        let mut times = Vec::new();
        if has(abi::PERF_FORMAT_TOTAL_TIME_ENABLED) {
            times.push(event.time_enabled);
        }
        if has(abi::PERF_FORMAT_TOTAL_TIME_RUNNING) {
            times.push(event.time_running);
        }
        let members = if group { self.members(fd).0 } else { vec![fd] };
        let mut words = Vec::new();
        if group {
            words.push(members.len() as u64);
            words.append(&mut times);
        }
        for member in members {
            let event = self.event(member)?;
            words.push(event.value);
            words.append(&mut times);
            if has(abi::PERF_FORMAT_ID) {
                words.push(event.id);
            }
            if has(abi::PERF_FORMAT_LOST) {
                words.push(event.lost);
            }
        }
        let into = buffer.get_mut(..words.len()).ok_or(Errno::ENOSPC)?;
        into.copy_from_slice(&words);
        Ok(words.len() * 8)
    }

    pub(super) fn ioctl(&mut self, fd: i32, request: Ioctl<'_>) -> Result<u64, Errno> {
        self.failure("ioctl")?;
        let leader = self.event(fd)?.leader;
        let chosen = |state: &Self, group: bool| {
            if group {
                state.members(leader).0
            } else {
                vec![fd]
            }
        };
        match request {
            Ioctl::Enable { group } => self.switch(chosen(self, group), true)?,
            Ioctl::Disable { group } => self.switch(chosen(self, group), false)?,
            Ioctl::Reset { group } => {
                for fd in chosen(self, group) {
                    self.event(fd)?.value = 0;
                }
            }
            Ioctl::Id => return Ok(self.event(fd)?.id),
            Ioctl::Period(period) => {
                let event = self.event(fd)?;
                // SAFETY: both members of the union are u64.
                if unsafe { event.attr.0.__bindgen_anon_1.sample_period } == 0 || period == 0 {
                    return Err(Errno::EINVAL);
                }
                event.period = period;
            }
            Ioctl::Refresh(_) => self.switch(vec![fd], true)?,
            Ioctl::SetOutput(other) if other >= 0 => drop(self.event(other)?),
            _ => {}
        }
        self.schedule();
        Ok(0)
    }

    fn switch(&mut self, fds: Vec<i32>, on: bool) -> Result<(), Errno> {
        for fd in fds {
            let event = self.event(fd)?;
            event.enabled = on;
            event.failed = false;
        }
        Ok(())
    }

    pub(super) fn map(&mut self, fd: i32, len: usize) -> Result<NonNull<u8>, Errno> {
        self.failure("mmap")?;
        let event = self.event(fd)?;
        if event.shared.is_some() {
            return Err(Errno::EBUSY); // the fake keeps one mapping an event
        }
        let shared = Shared::new(len)?;
        let start = shared.start();
        event.shared = Some(shared);
        self.publish_all();
        Ok(start)
    }

    pub(super) fn unmap(&mut self, start: NonNull<u8>) {
        for event in self.events.values_mut() {
            event.shared = event.shared.take().filter(|shared| shared.start() != start);
        }
        self.orphans.retain(|shared| shared.start() != start);
    }

    pub(super) fn edit_page(
        &mut self,
        fd: i32,
        change: impl FnOnce(&mut abi::perf_event_mmap_page),
    ) {
        if let Some(shared) = self.events.get(&fd).and_then(|event| event.shared.as_ref()) {
            shared.edit(change);
        }
    }

    pub(super) fn set_ring_position(&mut self, fd: i32, position: u64) {
        if let Some(shared) = self.events.get(&fd).and_then(|event| event.shared.as_ref()) {
            shared.set_positions(position);
        }
    }

    pub(super) fn push_record(&mut self, fd: i32, kind: u32, misc: u16, body: &[u8]) -> bool {
        let Some(event) = self.events.get_mut(&fd) else {
            return false;
        };
        let Some(shared) = &event.shared else {
            return false;
        };
        let record = |kind: u32, misc: u16, body: &[u8]| {
            let size = u16::try_from(body.len() + 8).unwrap_or(u16::MAX);
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend(misc.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend(body);
            bytes
        };
        let bytes = record(kind, misc, body);
        let lost = if event.unreported > 0 {
            let body = [event.id.to_le_bytes(), event.unreported.to_le_bytes()].concat();
            record(abi::PERF_RECORD_LOST, 0, &body)
        } else {
            Vec::new()
        };
        if !shared.has_room(lost.len() + bytes.len()) {
            event.lost += 1;
            event.unreported += 1;
            return false;
        }
        shared.write(&lost);
        event.unreported = 0;
        shared.write(&bytes);
        true
    }

    pub(super) fn push_bytes(&mut self, fd: i32, bytes: &[u8]) {
        if let Some(shared) = self.events.get(&fd).and_then(|event| event.shared.as_ref()) {
            shared.write(bytes);
        }
    }

    pub(super) fn poll(&mut self, fd: i32) -> Result<Ready, Errno> {
        self.failure("poll")?;
        let event = self.event(fd)?;
        let readable = event
            .shared
            .as_ref()
            .is_some_and(|shared| shared.used() > 0);
        Ok(Ready {
            readable,
            hung_up: false,
        })
    }

    pub(super) fn close(&mut self, fd: i32) {
        if let Some(mut event) = self.events.remove(&fd) {
            self.orphans.extend(event.shared.take());
        }
        // Members outlive their leader, each as a group of its own.
        for (&own, event) in &mut self.events {
            if event.leader == fd {
                event.leader = own;
            }
        }
        self.schedule();
    }
}

/// What is on a counter of this width: started at minus its period, and there again after each overflow (Linux
/// `x86_perf_event_set_period`, `armpmu_event_set_period`). The rest of the count is in the page's offset.
fn hardware_value(event: &FakeEvent, width: u16) -> u64 {
    // With full-width writes x86 takes half of what a counter of 48 bits has.
    let period = u64::MAX
        .checked_shr(65_u32.saturating_sub(u32::from(width)))
        .unwrap_or(0)
        .max(1);
    (event.value % period).wrapping_sub(period)
}
