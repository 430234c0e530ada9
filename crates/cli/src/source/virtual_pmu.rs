//! The virtual PMU of `truecount-engine`: exact, near native speed, needs no PMU; x86-64 Linux.
//!
//! The program runs with its code translated; the translated code counts itself. What may make a
//! total less than the program's whole is collected in [`Ran`] and decides what is called exact.

mod cache;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod engine;

pub(crate) use cache::{CacheArgs, clear as clear_cache};

use std::path::Path;

use truecount_events::Event;

use super::command::is_instructions;
use super::{Ended, Interval, Measurement, Reason, Run, Source, Target};
use crate::failure::Failure;
use crate::model::{Precision, Reading, SourceKind};
use crate::runner::{Launch, Signals};
use crate::session::Session;
use crate::wanted::{Wanted, What};

/// One thread of one process image (a program that a process executed).
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "only the engine makes one")
)]
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Process that started this one.
    pub(crate) parent: u32,
    /// File name of the program.
    pub(crate) program: String,
    /// User-mode instructions retired.
    pub(crate) instructions: u64,
    /// Identifies the process image within the run: the number of its first thread.
    #[serde(skip)]
    pub(crate) image: u32,
}

/// What a run under the engine gave.
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "only the engine makes one")
)]
pub(crate) struct Ran {
    pub(crate) ended: Ended,
    /// From before the start to the end, engine included.
    pub(crate) wall_ns: u64,
    /// The signal by which the user stopped it.
    pub(crate) interrupted: Option<i32>,
    /// Every thread, in order of appearance.
    pub(crate) threads: Vec<Thread>,
    /// Programs that ran without being counted.
    pub(crate) uncounted: u32,
    /// Processes that were still running when the program ended.
    pub(crate) outlived: usize,
    /// Blocks of code that had to be translated, and that came from earlier runs.
    pub(crate) translated_blocks: u64,
    pub(crate) cached_blocks: u64,
    /// Why translations are not kept although they should be.
    pub(crate) cache_problem: Option<String>,
}

impl Ran {
    /// User-mode instructions of all threads.
    pub(crate) fn instructions(&self) -> u64 {
        self.threads
            .iter()
            .fold(0, |sum, thread| sum.wrapping_add(thread.instructions))
    }

    /// Exact when the program and its children ran to their own end and all were counted.
    pub(crate) fn precision(&self) -> Precision {
        let cut = self.interrupted.is_some()
            || self.ended.timed_out
            || self.ended.exit.signal == Some(libc::SIGKILL);
        if cut || self.uncounted > 0 || self.outlived > 0 {
            Precision::Counted
        } else {
            Precision::Exact
        }
    }

    /// The count as a reading.
    pub(crate) fn reading(&self, name: &str, unit: &str, scale: f64) -> Reading {
        Reading {
            event: name.to_owned(),
            value: Some(self.instructions()),
            unit: unit.to_owned(),
            scale,
            source: Some(SourceKind::Virtual),
            precision: Some(self.precision()),
            enabled_ns: None,
            running_ns: None,
            reason: None,
            mend: None,
        }
    }

    /// What the reader should know about this run.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.uncounted > 0 {
            notes.push(format!(
                "{} program(s) ran without being counted (setuid, 32-bit, or not traceable): the \
                 count is not the whole.",
                self.uncounted
            ));
        }
        if self.outlived > 0 {
            notes.push(format!(
                "{} process(es) outlived the program; they were counted until its end.",
                self.outlived
            ));
        }
        notes.extend(self.cache_problem.clone());
        notes
    }
}

/// Whether the engine is in this build and works on this architecture.
pub(crate) fn available() -> Result<(), Reason> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        engine::available()
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        Err(Reason::new("the virtual PMU works on x86-64 Linux only")
            .mend("use --source hardware where the CPU's counters answer, else --source software"))
    }
}

/// Runs the command under the engine to its end.
///
/// # Errors
/// 123 when an internal check of the engine failed, 126 and 127 when the program cannot be
/// executed or found, 125 when the engine cannot start it, 1 when there is no engine here.
pub(crate) fn execute(
    signals: &Signals,
    program: &Path,
    launch: &Launch<'_>,
) -> Result<Ran, Failure> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        engine::execute(signals, program, launch)
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        let _ = (signals, program, launch);
        Err(match available() {
            Err(reason) => Failure::new(1, reason.to_string()),
            Ok(()) => Failure::new(1, "the virtual PMU is not in this build"),
        })
    }
}

/// The virtual PMU.
pub(crate) struct VirtualPmu;

impl VirtualPmu {
    /// When it works here.
    pub(crate) fn new() -> Result<Self, Reason> {
        available().map(|()| Self)
    }

    fn reading(&self, wanted: &Wanted, ran: &Ran) -> Reading {
        let refused = match &wanted.what {
            What::Event(event) => self.counts(event).err(),
            What::Resource(_) => Some(Reason::new(
                "it would be that of the program with the engine in it",
            )),
        };
        match refused {
            Some(reason) => reason.missing(&wanted.name, &wanted.unit),
            None => ran.reading(&wanted.name, &wanted.unit, wanted.scale),
        }
    }
}

impl Source for VirtualPmu {
    fn kind(&self) -> SourceKind {
        SourceKind::Virtual
    }

    fn default_events(&self, _target: Target) -> &'static str {
        "instructions:u"
    }

    fn counts(&self, event: &Event) -> Result<(), Reason> {
        if is_instructions(event) {
            return Ok(());
        }
        Err(
            Reason::new("not available from the virtual PMU yet: it counts instructions:u only")
                .mend("use --source auto for what the kernel and the CPU count"),
        )
    }

    fn fits(&self, _groups: &[crate::wanted::WantedGroup]) -> bool {
        true
    }

    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<Measurement, Failure> {
        let (program, launch) = match (&run.launch, run.target, interval) {
            (Some(launch), Target::Command, None) => launch,
            _ => {
                return Err(Failure::new(
                    2,
                    "the virtual PMU counts a command from its start to its end",
                )
                .mend("leave out -a, -p and -I, or use --source auto"));
            }
        };
        let ran = execute(&session.signals, program, launch)?;
        let mut notes = ran.notes();
        notes.push(
            "Counted by the virtual PMU; times and memory of such a run are not the program's own \
             and are not shown."
                .to_owned(),
        );
        Ok(Measurement {
            wall_ns: ran.wall_ns,
            readings: run
                .groups
                .iter()
                .flat_map(|group| &group.members)
                .map(|wanted| self.reading(wanted, &ran))
                .collect(),
            resources: Vec::new(),
            ended: Some(ran.ended),
            interrupted: ran.interrupted,
            notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Exit;

    fn ran() -> Ran {
        Ran {
            ended: Ended {
                exit: Exit {
                    code: Some(0),
                    signal: None,
                },
                timed_out: false,
                aslr_refused: false,
            },
            wall_ns: 1,
            interrupted: None,
            threads: vec![
                Thread {
                    pid: 1,
                    tid: 1,
                    parent: 0,
                    program: "a".into(),
                    instructions: 5,
                    image: 1,
                };
                2
            ],
            uncounted: 0,
            outlived: 0,
            translated_blocks: 0,
            cached_blocks: 0,
            cache_problem: None,
        }
    }

    #[test]
    fn only_a_whole_run_is_exact() {
        let whole = ran();
        assert_eq!(
            (whole.instructions(), whole.precision()),
            (10, Precision::Exact)
        );
        let spoilers: [fn(&mut Ran); 5] = [
            |ran| ran.interrupted = Some(2),
            |ran| ran.ended.timed_out = true,
            |ran| ran.ended.exit.signal = Some(9),
            |ran| ran.uncounted = 1,
            |ran| ran.outlived = 1,
        ];
        for spoil in spoilers {
            let mut part = ran();
            spoil(&mut part);
            assert_eq!(part.precision(), Precision::Counted);
        }
    }
}
