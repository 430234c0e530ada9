//! Several events of the calling thread.

mod members;

use crate::error::Error;
use crate::geometry::Geometry;
use crate::open::{Mode, Options};
use crate::parts::Part;
use crate::policy::{Fence, Policy, Unordered};
use crate::verify::{scheduled, steady};
use crate::{Precision, Reading, Source};
use members::{open_member, resolve};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use truecount_events::Event as Named;
use truecount_perf::{GroupReading, Times};

/// Most events in one group.
const MAX_MEMBERS: usize = 32;
/// Words of a group's reading: members, times, value and id of each.
const WORDS: usize = 3 + 2 * MAX_MEMBERS;

/// Several events of the calling thread: groups in braces are counted together or not at all; events outside braces
/// may take turns where the PMU has too few counters, and their readings say so.
///
/// ```
/// use truecount::CounterSet;
/// match CounterSet::<truecount::Fence>::open("{task-clock,page-faults}") {
///     Ok(set) => {
///         let (mut start, mut end) = (set.points(), set.points());
///         set.read(&mut start);
///         let data = vec![1u8; 1 << 20];
///         set.read(&mut end);
///         for i in 0..set.len() {
///             println!("{}: {:?} ({} bytes)", set.name(i), set.between(i, &start, &end), data.len());
///         }
///     }
///     Err(error) => println!("{error}"),
/// }
/// ```
pub struct CounterSet<P: Policy = Fence> {
    members: Vec<Member>,
    groups: Vec<Group>,
    way: Way,
    failed: Cell<bool>,
    /// Neither `Send` nor `Sync`: the events are the thread's.
    policy: PhantomData<(P, *const ())>,
}

/// Where the events of a set stand at one moment: what [`CounterSet::read`] fills. Only differences of two of one set
/// mean anything.
#[derive(Debug, Clone)]
pub struct Points {
    values: Vec<u64>,
    /// By group; `None`: could not be read. Registers have no times: what is read from them is on the PMU.
    times: Vec<Option<Times>>,
}

/// How the members are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Every member is on a register fixed at opening.
    Registers,
    /// Every member by its page's protocol.
    Pages,
    /// A system call a group.
    Syscall,
}

struct Group {
    parts: Vec<Part>,
}

struct Member {
    event: Named,
    group: usize,
    position: usize,
    /// Register and geometry for the fast way.
    register: Option<(u32, Geometry)>,
    source: Source,
}

impl<P: Policy> CounterSet<P> {
    /// Opens the events of an expression: `{instructions,branches}:u,page-faults`.
    ///
    /// # Errors
    /// As [`Counter::open`](crate::Counter::open); [`Error::Unsupported`] for the kinds that are no plain event.
    pub fn open(expression: &str) -> Result<Self, Error> {
        Self::open_with(expression, &Options::new())
    }

    /// As [`open`](Self::open), with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(expression: &str, options: &Options) -> Result<Self, Error> {
        let groups = resolve(expression, &options.machine_used())?;
        let mode = options.mode_asked();
        let refuse = |reason| {
            Err(Error::NoUserRead {
                event: expression.to_owned(),
                reason,
            })
        };
        if mode == Mode::Syscall || !options.may_read_registers() {
            return match mode {
                Mode::Fast | Mode::Safe => refuse("user space may not read its events"),
                _ => Self::open_groups(&groups, options, false, Way::Syscall),
            };
        }
        if mode == Mode::Safe {
            let set = Self::open_groups(&groups, options, false, Way::Pages)?;
            return if set.readable() {
                Ok(set)
            } else {
                refuse("the kernel does not allow it for all its events")
            };
        }
        // Pinned, every event keeps its register; what cannot be pinned shows at once.
        if let Ok(set) = Self::open_groups(&groups, options, true, Way::Registers)
            && (set.way == Way::Registers || set.way == Way::Pages && mode == Mode::Auto)
        {
            return Ok(set);
        }
        if mode == Mode::Fast {
            return refuse("its events cannot all be kept on counters that user space may read");
        }
        Self::open_groups(&groups, options, false, Way::Syscall)
    }

    fn open_groups(
        groups: &[Vec<Named>],
        options: &Options,
        pinned: bool,
        way: Way,
    ) -> Result<Self, Error> {
        let mut set = Self {
            members: Vec::new(),
            groups: Vec::new(),
            way,
            failed: Cell::new(false),
            policy: PhantomData,
        };
        for events in groups {
            let mut group = Group { parts: Vec::new() };
            for event in events {
                let position = group.parts.len();
                let part = open_member(event, group.parts.first(), options, pinned)?;
                let source = part.source();
                let member = Member {
                    event: event.clone(),
                    group: set.groups.len(),
                    position,
                    register: None,
                    source,
                };
                set.members.push(member);
                group.parts.push(part);
            }
            set.groups.push(group);
        }
        for group in &set.groups {
            if let Some(leader) = group.parts.first() {
                leader.event.enable_group().map_err(|source| Error::Open {
                    event: "the group".to_owned(),
                    source,
                })?;
            }
        }
        if options.verifies() {
            set.verify(!pinned)?;
        }
        if way == Way::Registers {
            for member in &mut set.members {
                let part = set
                    .groups
                    .get(member.group)
                    .and_then(|g| g.parts.get(member.position));
                member.register = part.and_then(steady);
            }
            let all = |test: fn(&(u32, Geometry)) -> bool| {
                set.members
                    .iter()
                    .all(|m| m.register.as_ref().is_some_and(test))
            };
            set.way = match (all(|_| true), all(|(_, geometry)| geometry.is_roomy())) {
                (_, true) => Way::Registers,
                // Restarted too often for bare registers, but always on the PMU.
                (true, false) => Way::Pages,
                _ => Way::Syscall,
            };
        }
        Ok(set)
    }

    /// Whether every group gets on the PMU; with `patience` in a later turn.
    fn verify(&self, patience: bool) -> Result<(), Error> {
        for (number, group) in self.groups.iter().enumerate() {
            let named = self.members.iter().filter(|m| m.group == number);
            let names: Vec<&str> = named.map(|m| m.event.name.as_str()).collect();
            let times = || group.read(&mut [0; WORDS]);
            scheduled(&names.join(" with "), patience, times)?;
        }
        Ok(())
    }

    /// Room for the points of this set, to be read into again and again.
    #[must_use]
    pub fn points(&self) -> Points {
        Points {
            values: vec![0; self.members.len()],
            times: vec![None; self.groups.len()],
        }
    }

    /// Reads where every event stands. Never allocates, locks, logs or panics; one ordering instruction for all (so a
    /// later event also counts the reads before it).
    ///
    /// What cannot be read has no count [`between`](Self::between), and [`check`](Self::check) tells.
    pub fn read(&self, into: &mut Points) {
        match self.way {
            Way::Registers => self.read_registers(into),
            Way::Pages if self.read_pages(into) => {}
            Way::Pages | Way::Syscall => self.read_by_syscall(into),
        }
    }

    fn read_registers(&self, into: &mut Points) {
        let mut ordered = false;
        for (member, into) in self.members.iter().zip(&mut into.values) {
            if let (Some((index, _)), Some(part)) = (member.register, self.part(member)) {
                *into = if ordered {
                    part.raw::<Unordered>(index)
                } else {
                    part.raw::<P>(index)
                };
                ordered = true;
            }
        }
    }

    /// `false`: an event is not on a counter that user space may read now; ask the kernel for all.
    fn read_pages(&self, into: &mut Points) -> bool {
        for (member, value) in self.members.iter().zip(&mut into.values) {
            match self.part(member).and_then(Part::snapshot::<P>) {
                Some(seen) if seen.index != 0 => {
                    *value = seen.value;
                    if let Some(times) = into.times.get_mut(member.group) {
                        *times = Some(Times {
                            enabled: seen.time_enabled,
                            running: seen.time_running,
                        });
                    }
                }
                _ => return false,
            }
        }
        true
    }

    /// Whether the kernel lets user space read every event.
    fn readable(&self) -> bool {
        self.groups
            .iter()
            .flat_map(|g| &g.parts)
            .all(Part::allows_user_reads)
    }

    fn read_by_syscall(&self, into: &mut Points) {
        let mut values = into.values.iter_mut();
        for (group, times) in self.groups.iter().zip(&mut into.times) {
            let mut words = [0; WORDS];
            *times = group.read(&mut words);
            if times.is_none() {
                self.failed.set(true);
            }
            let counts = words.iter().skip(3).step_by(2);
            for (value, count) in values.by_ref().take(group.parts.len()).zip(counts) {
                *value = *count;
            }
        }
    }

    /// What event `index` counted between two points, extrapolated where its group shared the PMU meanwhile (then
    /// [`precision`](Self::precision) says so). `None` where it was not on the PMU, where it was on it for a part only and
    /// saw nothing there (which may have been the kernel changing turns), where it could not be read, or where there is no
    /// such event: a 0 is a count.
    #[inline]
    #[must_use]
    pub fn between(&self, index: usize, start: &Points, end: &Points) -> Option<u64> {
        self.reading_between(index, start, end)?.value()
    }

    /// How the count [`between`](Self::between) two points came about; `None` where there is none.
    #[must_use]
    pub fn precision(&self, index: usize, start: &Points, end: &Points) -> Option<Precision> {
        self.reading_between(index, start, end)?.precision()
    }

    fn reading_between(&self, index: usize, start: &Points, end: &Points) -> Option<Reading> {
        let member = self.members.get(index)?;
        let (first, last) = (*start.values.get(index)?, *end.values.get(index)?);
        let reading = |raw, enabled_ns, running_ns| Reading {
            raw,
            enabled_ns,
            running_ns,
            source: member.source,
            exact: member.source == Source::Virtual,
        };
        if let (Way::Registers, Some((_, geometry))) = (self.way, member.register) {
            // On the PMU all the time: its event is pinned.
            return Some(reading(geometry.elapsed(first, last), 1, 1));
        }
        let (before, after) = (
            (*start.times.get(member.group)?)?,
            (*end.times.get(member.group)?)?,
        );
        let mut enabled = after.enabled.saturating_sub(before.enabled);
        let mut running = after.running.saturating_sub(before.running);
        if enabled == 0 && first != last {
            // A region that the clock of the times does not see; it was counted.
            (enabled, running) = (1, 1);
        }
        let raw = last.wrapping_sub(first);
        (raw > 0 || running == enabled).then(|| reading(raw, enabled, running))
    }

    /// Every event's count since opening, with times and provenance. One system call a group.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn readings(&self) -> Result<Vec<Reading>, Error> {
        let mut all = Vec::with_capacity(self.members.len());
        let mut members = self.members.iter();
        for group in &self.groups {
            let reading = self.group_reading(group)?;
            let times = reading.times().unwrap_or_default();
            for (value, member) in reading
                .members()
                .iter()
                .zip(members.by_ref().take(group.parts.len()))
            {
                all.push(Reading {
                    raw: value.value,
                    enabled_ns: times.enabled,
                    running_ns: times.running,
                    source: member.source,
                    exact: member.source == Source::Virtual,
                });
            }
        }
        Ok(all)
    }

    fn group_reading(&self, group: &Group) -> Result<GroupReading, Error> {
        let mut reading = GroupReading::with_room_for(group.parts.len());
        if let Some(leader) = group.parts.first() {
            let fail = |source| Error::Read {
                event: "the group".to_owned(),
                source,
            };
            leader.event.read_group(&mut reading).map_err(fail)?;
        }
        Ok(reading)
    }

    /// Whether every event is still where it was and was counted all the time.
    ///
    /// # Errors
    /// As [`Counter::check`](crate::Counter::check), for the first event that is not.
    pub fn check(&self) -> Result<(), Error> {
        for (reading, member) in self.readings()?.iter().zip(&self.members) {
            let name = || member.event.name.clone();
            if reading.running_ns < reading.enabled_ns || self.failed.get() {
                return Err(Error::Descheduled {
                    event: name(),
                    enabled_ns: reading.enabled_ns,
                    running_ns: reading.running_ns,
                });
            }
            let now = self.part(member).and_then(Part::index);
            if member.register.is_some_and(|(index, _)| now != Some(index)) {
                return Err(Error::Moved { event: name() });
            }
        }
        Ok(())
    }

    /// How many events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none (never: opening refuses an empty expression).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Name with filter of event `index`; empty where there is none.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        self.members.get(index).map_or("", |m| &m.event.name)
    }

    /// The resolved event `index`: unit, scale, encoding.
    #[must_use]
    pub fn event(&self, index: usize) -> Option<&Named> {
        self.members.get(index).map(|m| &m.event)
    }

    /// Whether reads do without a system call.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.way != Way::Syscall
    }

    fn part(&self, member: &Member) -> Option<&Part> {
        self.groups.get(member.group)?.parts.get(member.position)
    }
}

impl Group {
    /// Reads the group's words (members, times, value and id of each); gives its times, `None` where it cannot be read.
    /// Does not allocate.
    fn read(&self, words: &mut [u64; WORDS]) -> Option<Times> {
        let leader = &self.parts.first()?.event;
        let bytes = leader.kernel().read(leader.fd(), words).ok()?;
        let whole = self.parts.len().saturating_mul(2).saturating_add(3) * 8;
        let [_, enabled, running, ..] = *words;
        (bytes >= whole).then_some(Times { enabled, running })
    }
}

impl<P: Policy> fmt::Debug for CounterSet<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.members.iter().map(|m| m.event.name.as_str()).collect();
        f.debug_struct("CounterSet")
            .field("events", &names)
            .field("way", &self.way)
            .finish_non_exhaustive()
    }
}
