//! A command as the workload: started again and again, each time with counters on it from its `execve` on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use truecount_perf::{Event, EventAttr, SharedKernel};
use truecount_run::runner::{Hook, Launch, LaunchError, Launcher, Stop, resolve};
use truecount_run::session::{dev_null, launch_failure};
use truecount_run::{Error, ErrorKind};

use super::open;
use super::workload::{Counts, Phase, Problem, Workload};
use crate::machine::interrupts_of;

/// A command, started by the launcher on one CPU.
pub struct Command<'a> {
    launcher: &'a mut Launcher,
    stop: &'a Stop<'a>,
    argv: &'a [OsString],
    program: PathBuf,
    null: OwnedFd,
    cpu: usize,
    kernel: &'a SharedKernel,
    phases: [Phase; 1],
    /// How often it ended how.
    exits: BTreeMap<String, u32>,
    aslr_refused: bool,
}

impl<'a> Command<'a> {
    /// Finds the program.
    ///
    /// # Errors
    /// It is not there.
    pub fn new(
        launcher: &'a mut Launcher,
        stop: &'a Stop<'a>,
        argv: &'a [OsString],
        cpu: usize,
        kernel: &'a SharedKernel,
    ) -> Result<Self, Error> {
        let program = match argv.first() {
            Some(name) => resolve(name)?,
            None => return Err(Error::new(ErrorKind::Usage, "no command")),
        };
        Ok(Self {
            launcher,
            stop,
            argv,
            program,
            null: dev_null()?,
            cpu,
            kernel,
            phases: [Phase {
                name: "run".to_owned(),
                turn: "run".to_owned(),
                turns: None,
            }],
            exits: BTreeMap::new(),
            aslr_refused: false,
        })
    }
}

impl Workload for Command<'_> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// What is odd about its runs.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .exits
            .iter()
            .filter(|(exit, _)| *exit != "exit status 0")
            .map(|(exit, runs)| format!("the command ended with {exit} in {runs} runs"))
            .collect();
        if self.aslr_refused {
            notes.push(
                "address space randomisation could not be switched off: runs may differ by it"
                    .to_owned(),
            );
        }
        notes
    }

    fn run(&mut self, events: &[EventAttr], interrupts: bool) -> Result<Vec<Counts>, Problem> {
        let opened: RefCell<Result<Vec<Event>, Option<truecount_perf::Error>>> =
            RefCell::new(Err(None));
        let kernel = self.kernel;
        let mut hook = |pid: i32| -> Result<(), Error> {
            let result = open::on_exec(kernel, events, pid);
            let failed = result.as_ref().err().map(ToString::to_string);
            *opened.borrow_mut() = result.map_err(Some);
            failed.map_or(Ok(()), |text| Err(Error::new(ErrorKind::Unavailable, text)))
        };
        let hook: Hook<'_> = &mut hook;
        let cpus = [self.cpu];
        let launch = Launch {
            argv: self.argv,
            stdio: [Some(&self.null), Some(&self.null), Some(&self.null)],
            cpus: &cpus,
            ..Launch::default()
        };
        let cpu = self.cpu;
        let taken = || if interrupts { interrupts_of(cpu) } else { None };
        let before = taken();
        let finished =
            self.launcher
                .run(self.stop.signals, &launch, &self.program, Some(hook), None);
        let after = taken();
        let finished = match (finished, opened.into_inner()) {
            (Ok(finished), Ok(events)) => (finished, events),
            (Err(LaunchError::Hook(_)), Err(Some(error))) => return Err(Problem::Counters(error)),
            (Err(error), _) => {
                return Err(Problem::Broken(launch_failure(
                    error,
                    &self.program,
                    self.argv,
                )));
            }
            (Ok(_), Err(_)) => {
                let failure = Error::new(ErrorKind::Setup, "the command ran without its counters");
                return Err(Problem::Broken(failure));
            }
        };
        let (finished, events) = finished;
        if self.stop.told(finished.interrupted) {
            return Err(Problem::Stopped);
        }
        *self.exits.entry(finished.exit().to_string()).or_default() += 1;
        self.aslr_refused |= finished.ended.is_some_and(|ended| ended.aslr_refused);
        Ok(vec![Counts {
            events: events.iter().map(open::counted).collect(),
            interrupts: before.zip(after).map(|(b, a)| a.saturating_sub(b)),
        }])
    }
}
