//! Runs in virtual machines, as many side by side as there are processors: a machine keeps one busy.

use anyhow::Result;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::outcome::{Tally, judge};
use super::plan::{Arch, Privilege};
use super::rig;

/// Most machines at a time: the rigs give each half a gigabyte of memory.
const MOST: usize = 4;

/// What is shipped into a guest.
pub struct Shipped {
    /// The test executable.
    pub test: PathBuf,
    /// The programs that it starts.
    pub files: Vec<rig::Extra>,
}

/// One run of a suite.
pub struct Job {
    /// Architecture and package.
    pub name: String,
    /// The rig's entry.
    pub script: PathBuf,
    pub arch: Arch,
    pub shipped: Arc<Shipped>,
    pub privilege: Privilege,
    /// Words that choose tests.
    pub filters: Vec<String>,
    /// Its output is printed as it comes.
    pub verbose: bool,
}

impl Job {
    /// Runs it, and prints what came out.
    fn run(&self) -> Tally {
        let title = format!("{}, {}", self.name, self.privilege.describe(self.arch));
        match self.verdict(&title) {
            Ok(tally) => tally,
            Err(error) => {
                // The other runs can still say something.
                println!("failed: {title}: {error:#}");
                Tally {
                    passed: 0,
                    failed: 1,
                }
            }
        }
    }

    fn verdict(&self, title: &str) -> Result<Tally> {
        let started = Instant::now();
        let run = rig::run(
            &self.script,
            self.arch,
            &self.shipped.test,
            &self.shipped.files,
            self.privilege,
            &self.filters,
            self.verbose,
        )?;
        let verdict = judge(&run, matches!(self.privilege, Privilege::Root));
        // In one piece: another machine's is printed beside it.
        let seconds = started.elapsed().as_secs();
        let mut report = format!("vm-test: {title} ({seconds} s)\n");
        if verdict.failed() && !self.verbose {
            report.push_str(&run.output);
        }
        for line in verdict.closing.iter().chain(&verdict.complaints) {
            report.push_str(&format!("  {line}\n"));
        }
        print!("{report}");
        Ok(verdict.tally)
    }
}

/// Runs what comes until nothing more does, and what `offer` gives beside that.
pub fn run_all(jobs: Receiver<Job>, offer: impl FnOnce() -> Tally) -> Tally {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = &Mutex::new(jobs);
    let work = || {
        let mut tally = Tally::default();
        loop {
            // (The lock is held until there is one, and not while it runs.)
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match next {
                Ok(job) => tally.add(&job.run()),
                Err(_) => return tally,
            }
        }
    };
    std::thread::scope(|scope| {
        let machines: Vec<_> = (0..processors.min(MOST))
            .map(|_| scope.spawn(work))
            .collect();
        let mut total = offer();
        for machine in machines {
            // A panic of a thread has been printed; what else ran is still told.
            total.add(&machine.join().unwrap_or(Tally {
                passed: 0,
                failed: 1,
            }));
        }
        total
    })
}
