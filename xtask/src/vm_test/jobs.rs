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

/// What is left to run, and who offers more.
struct Queue {
    offered: Receiver<Job>,
    waiting: Vec<Job>,
}

impl Queue {
    /// Waits for the next one; `None`: no more will come. All tests of a suite go before a few of them: begun last, they
    /// would keep one processor busy at the end and leave the others idle.
    fn next(&mut self) -> Option<Job> {
        if self.waiting.is_empty() {
            self.waiting.push(self.offered.recv().ok()?);
        }
        self.waiting.extend(self.offered.try_iter());
        let all = |job: &Job| matches!(job.privilege, Privilege::Root);
        let first = self.waiting.iter().position(all).unwrap_or(0);
        Some(self.waiting.remove(first))
    }
}

/// Runs what comes until nothing more does, and what `offer` gives beside that.
pub fn run_all(jobs: Receiver<Job>, offer: impl FnOnce() -> Tally) -> Tally {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let queue = &Mutex::new(Queue {
        offered: jobs,
        waiting: Vec::new(),
    });
    let work = || {
        let mut tally = Tally::default();
        loop {
            // (The lock is held until there is one, and not while it runs.)
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some(job) => tally.add(&job.run()),
                None => return tally,
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

#[cfg(test)]
mod tests {
    use super::super::plan::NO_OVERCOUNT;
    use super::*;
    use std::sync::mpsc::channel;

    fn job(name: &str, privilege: Privilege) -> Job {
        Job {
            name: name.to_owned(),
            script: PathBuf::new(),
            arch: Arch::X86,
            shipped: Arc::new(Shipped {
                test: PathBuf::new(),
                files: Vec::new(),
            }),
            privilege,
            filters: Vec::new(),
            verbose: false,
        }
    }

    #[test]
    fn whole_suites_go_first_and_nothing_is_left() {
        let (sender, offered) = channel();
        for (name, privilege) in [
            ("a", Privilege::Paranoid(2)),
            ("b", Privilege::In(&NO_OVERCOUNT)),
            ("c", Privilege::Root),
        ] {
            sender.send(job(name, privilege)).unwrap();
        }
        let mut queue = Queue {
            offered,
            waiting: Vec::new(),
        };
        let mut names = vec![queue.next().unwrap().name];
        sender.send(job("d", Privilege::Root)).unwrap();
        drop(sender);
        names.extend(std::iter::from_fn(|| queue.next()).map(|job| job.name));
        assert_eq!(names, ["c", "d", "a", "b"]);
    }
}
