//! The built-in workload: phases that differ in what they do, so that an event is known by where it counts. Loops of
//! known length ([`crate::loops`]), divisions, branches that nobody can foresee, scattered memory, timer interrupts,
//! context switches.
//!
//! Timer interrupts are those of a `cpu-clock` event that samples and whose samples nobody reads: its hrtimer fires
//! while this thread runs, in user mode, without a signal (`perf_swevent_hrtimer` in `kernel/events/core.c`).

use super::open;
use super::workload::{Counts, Phase, Problem, Workload};
use crate::loops::{self, Arena, Loop, Needs};
use crate::machine::interrupts_of;
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use truecount_events::generic;
use truecount_perf::{Event, EventAttr, Group, GroupReading, OpenOptions, SharedKernel, Target};
use truecount_run::{Error, ErrorKind};

/// Pages that the loop of page faults may take.
const PAGES: usize = 128;
/// Nanoseconds between timer interrupts.
const TIMER: u64 = 25_000;
/// Turns of the plain loop. It runs undisturbed, interrupted, and interrupted four times as often: what goes with
/// interrupts is told from what goes with the loop.
const PLAIN_TURNS: u64 = 1_000_000;
/// Turns of the other phases.
const DIVISIONS: u64 = 20_000;
const BRANCHES: u64 = 20_000;
const MEMORY: u64 = 20_000;
const SWITCHES: u64 = 100;
/// Words of the memory that is walked: 4 MiB.
const WORDS: usize = 1 << 19;

#[derive(Debug, Clone, Copy)]
enum Work {
    Loop(&'static Loop),
    /// The plain loop with interrupts, so many [`TIMER`]s apart.
    Timer(&'static Loop, u64),
    Divisions,
    Branches,
    Memory,
    Switches,
}

/// A thread that answers each byte with a byte, on the same CPU.
#[derive(Debug)]
struct Echo {
    ours: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn new() -> io::Result<Self> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let thread = std::thread::Builder::new().spawn(move || {
            let mut byte = [0u8];
            while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
        })?;
        Ok(Self {
            ours,
            thread: Some(thread),
        })
    }

    fn there_and_back(&mut self) -> io::Result<()> {
        let mut byte = [1u8];
        self.ours.write_all(&byte)?;
        self.ours.read_exact(&mut byte)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.ours.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The workload; the calling thread is to be kept on `cpu` before it is made.
#[derive(Debug)]
pub struct Builtin {
    kernel: SharedKernel,
    cpu: usize,
    arena: Arena,
    words: Vec<u64>,
    echo: Echo,
    timers: Vec<(u64, Event)>,
    work: Vec<Work>,
    phases: Vec<Phase>,
    /// Phases that this machine cannot run, and why.
    missing: Vec<(String, String)>,
}

fn phase(name: &str, turn: &str, turns: u64) -> Phase {
    Phase {
        name: name.to_owned(),
        turn: turn.to_owned(),
        turns: Some(turns),
    }
}

impl Builtin {
    /// Makes everything ready, and runs once, uncounted.
    ///
    /// # Errors
    /// No memory, no thread.
    pub fn new(kernel: &SharedKernel, cpu: usize) -> Result<Self, Error> {
        Self::make(kernel, cpu).map_err(|error| cannot_run(&error))
    }

    fn make(kernel: &SharedKernel, cpu: usize) -> io::Result<Self> {
        let mut builtin = Self {
            kernel: SharedKernel::clone(kernel),
            cpu,
            arena: Arena::new(PAGES)?,
            words: (0..WORDS as u64).collect(),
            echo: Echo::new()?,
            timers: Vec::new(),
            work: Vec::new(),
            phases: Vec::new(),
            missing: Vec::new(),
        };
        for each in loops::all() {
            match (each.unavailable)() {
                None => builtin.add(Work::Loop(each)),
                Some(why) => builtin.missing.push((each.name.to_owned(), why.to_owned())),
            }
        }
        for work in [
            Work::Divisions,
            Work::Branches,
            Work::Memory,
            Work::Switches,
        ] {
            builtin.add(work);
        }
        for apart in [4, 1] {
            builtin.add_timer(apart);
        }
        for index in 0..builtin.work.len() {
            builtin.prepare(index)?;
            builtin.body(index)?;
            builtin.tidy_up(index);
        }
        Ok(builtin)
    }

    fn add_timer(&mut self, apart: u64) {
        let Some(plain) = loops::named("plain") else {
            return;
        };
        let attr = EventAttr::new(generic::TYPE_SOFTWARE, 0)
            .exclude_kernel(true)
            .exclude_hv(true)
            .disabled(true)
            .sample_every(TIMER * apart);
        let opened = Event::open_with(
            &self.kernel,
            &attr,
            Target::CallingThread,
            OpenOptions::default(),
        );
        let work = Work::Timer(plain, apart);
        match opened {
            Ok(timer) => {
                self.timers.push((apart, timer));
                self.add(work);
            }
            Err(error) => {
                let name = self.phase_of(work).name;
                self.missing.push((name, error.reason().to_owned()));
            }
        }
    }

    fn timer(&self, index: usize) -> Option<&Event> {
        let Some(&Work::Timer(_, wanted)) = self.work.get(index) else {
            return None;
        };
        let found = self.timers.iter().find(|(apart, _)| *apart == wanted);
        found.map(|(_, timer)| timer)
    }

    fn turns(&self, each: &Loop) -> u64 {
        match each.needs {
            _ if each.name == "plain" => PLAIN_TURNS,
            Needs::FreshPages => each.times.min(self.arena.pages()),
            _ => each.times,
        }
    }

    fn add(&mut self, work: Work) {
        self.phases.push(self.phase_of(work));
        self.work.push(work);
    }

    fn phase_of(&self, work: Work) -> Phase {
        match work {
            // Nobody fights for the line here.
            Work::Loop(each) if each.needs == Needs::Contender => {
                phase("locked", each.turn, self.turns(each))
            }
            Work::Loop(each) => phase(each.name, each.turn, self.turns(each)),
            Work::Timer(_, 1) => phase("timer-fast", "turn", PLAIN_TURNS),
            Work::Timer(..) => phase("timer-slow", "turn", PLAIN_TURNS),
            Work::Divisions => phase("divisions", "division", DIVISIONS),
            Work::Branches => phase("branches", "unforeseeable branch", BRANCHES),
            Work::Memory => phase("memory", "scattered load", MEMORY),
            Work::Switches => phase("switches", "round trip", SWITCHES),
        }
    }

    /// What is to be there before a phase, and is not counted.
    fn prepare(&mut self, index: usize) -> io::Result<()> {
        match self.work.get(index) {
            Some(Work::Loop(each) | Work::Timer(each, _)) => self.arena.prepare(each)?,
            _ => return Ok(()),
        }
        if let Some(timer) = self.timer(index) {
            timer
                .enable()
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(())
    }

    fn tidy_up(&self, index: usize) {
        if let Some(timer) = self.timer(index) {
            // A timer that stays on makes interrupts in other phases, too, which the counts show.
            let _ = timer.disable();
        }
    }

    fn body(&mut self, index: usize) -> io::Result<()> {
        let memory = self.arena.memory();
        let stride = self.arena.stride();
        match self.work.get(index) {
            Some(Work::Loop(each)) => {
                // SAFETY: the arena was prepared for this loop, and the turns fit it.
                unsafe { (each.body)(self.turns(each), memory, stride) };
            }
            // SAFETY: the plain loop touches no memory.
            Some(Work::Timer(each, _)) => unsafe { (each.body)(PLAIN_TURNS, memory, stride) },
            Some(Work::Divisions) => divisions(),
            Some(Work::Branches) => branches(),
            Some(Work::Memory) => scattered(&self.words),
            Some(Work::Switches) => {
                for _ in 0..SWITCHES {
                    self.echo.there_and_back()?;
                }
            }
            None => {}
        }
        Ok(())
    }

    fn interrupts(&self, wanted: bool) -> Option<u64> {
        if wanted {
            interrupts_of(self.cpu)
        } else {
            None
        }
    }

    fn phase(
        &mut self,
        index: usize,
        group: &Group,
        readings: &mut [GroupReading; 2],
        interrupts: bool,
    ) -> Result<Counts, Problem> {
        self.prepare(index)
            .map_err(|error| Problem::Broken(cannot_run(&error)))?;
        let [before, after] = readings;
        let irqs_before = self.interrupts(interrupts);
        group.read_into(before).map_err(Problem::Counters)?;
        let ended = self.body(index);
        group.read_into(after).map_err(Problem::Counters)?;
        let irqs_after = self.interrupts(interrupts);
        self.tidy_up(index);
        ended.map_err(|error| Problem::Broken(cannot_run(&error)))?;
        let all_the_time = match (before.times(), after.times()) {
            (Some(before), Some(after)) => {
                let between = after.since(&before);
                after.running > 0 && between.running >= between.enabled
            }
            _ => false,
        };
        let pairs = before.members().iter().zip(after.members());
        let events = pairs.map(|(b, a)| all_the_time.then(|| a.value.wrapping_sub(b.value)));
        Ok(Counts {
            events: events.collect(),
            interrupts: irqs_before
                .zip(irqs_after)
                .map(|(b, a)| a.saturating_sub(b)),
        })
    }
}

/// The built-in workload cannot do its work.
fn cannot_run(error: &io::Error) -> Error {
    let cause = format!("cannot run the built-in workload: {error}");
    Error::new(ErrorKind::Setup, cause)
}

impl Workload for Builtin {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn notes(&self) -> Vec<String> {
        let missing = self.missing.iter();
        missing
            .map(|(name, why)| format!("phase {name} was left out: {why}"))
            .collect()
    }

    fn run(&mut self, events: &[EventAttr], interrupts: bool) -> Result<Vec<Counts>, Problem> {
        let group = open::group(&self.kernel, events).map_err(Problem::Counters)?;
        group.enable().map_err(Problem::Counters)?;
        let mut readings = [group.new_reading(), group.new_reading()];
        (0..self.phases.len())
            .map(|index| self.phase(index, &group, &mut readings, interrupts))
            .collect()
    }
}

fn divisions() {
    for turn in 0..DIVISIONS {
        let (above, below) = (u64::MAX - turn, turn | 1);
        black_box(black_box(above) / black_box(below).max(1));
    }
}

/// One step of Marsaglia's xorshift64 (2003): every run takes the same unforeseeable turns.
fn next(state: u64) -> u64 {
    let state = state ^ (state << 13);
    let state = state ^ (state >> 7);
    state ^ (state << 17)
}

fn branches() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let (mut ups, mut downs) = (0u64, 0u64);
    for _ in 0..BRANCHES {
        state = next(state);
        // What is hidden from the optimiser cannot become an instruction without a branch.
        if state & 1 == 1 {
            ups = black_box(ups + 1);
        } else {
            downs = black_box(downs + 1);
        }
    }
    black_box((ups, downs));
}

fn scattered(words: &[u64]) {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut sum = 0u64;
    for _ in 0..MEMORY {
        state = next(state);
        let at = usize::try_from(state % WORDS as u64).unwrap_or(0);
        sum = sum.wrapping_add(words.get(at).copied().unwrap_or(0));
    }
    black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_perf::fake::FakeKernel;

    #[test]
    fn every_phase_is_counted_apart() {
        let fake = FakeKernel::new();
        let mut builtin = Builtin::new(&fake.ticking(), 0).unwrap();
        assert!(builtin.notes().is_empty());
        let names: Vec<String> = builtin.phases().iter().map(|p| p.name.clone()).collect();
        for name in [
            "divisions",
            "branches",
            "memory",
            "switches",
            "timer-slow",
            "timer-fast",
            "faults",
            "syscalls",
        ] {
            assert!(names.iter().any(|n| n == name), "{names:?}");
        }
        let attrs = [EventAttr::new(4, 0xc0), EventAttr::new(4, 0xc1)];
        fake.set_rate(4, 0xc1, 0);
        let counts = builtin.run(&attrs, true).unwrap();
        assert_eq!(counts.len(), names.len());
        for each in &counts {
            // The fake lets a microsecond pass before every read and ioctl.
            assert!(each.events[0].is_some_and(|n| n >= 1_000), "{each:?}");
            assert_eq!(each.events[1], Some(0));
        }
        // Two more pairs than the fake has counters: no counts, and not 0.
        let many: Vec<EventAttr> = (0..5).map(|n| EventAttr::new(4, n)).collect();
        assert!(matches!(
            builtin.run(&many, false),
            Err(Problem::Counters(_))
        ));
        drop(builtin);
        assert!(fake.open_descriptors().is_empty());
    }

    #[test]
    fn without_a_timer_the_phase_is_left_out_and_said() {
        let fake = FakeKernel::new();
        fake.on_open(|opening| {
            (opening.attr.0.type_ == 1).then_some(truecount_perf::Errno::EACCES)
        });
        let builtin = Builtin::new(&fake.shared(), 0).unwrap();
        assert_eq!(builtin.notes().len(), 2);
        let timer = |phase: &Phase| phase.name.starts_with("timer");
        assert!(!builtin.phases().iter().any(timer));
    }
}
