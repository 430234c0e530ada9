//! `--source auto` on a machine without a PMU: the virtual PMU for what it counts, else a native
//! run with what the kernel accounts.
//!
//! A command runs once. Only where a check inside the virtual PMU stopped it half-way is it run again,
//! natively, and never when its input would be missing the second time.

use std::os::fd::{AsRawFd, OwnedFd};

use super::virtual_pmu::{self, Refusal, VirtualPmu, countable};
use super::{Interval, Native, Reason, Run, Source, Target};
use crate::error::Error;
use crate::request::{EventRequest, RequestGroup};
use crate::result::RunResult;
use crate::session::Session;
use truecount_model::SourceKind;

/// The virtual PMU, with native runs to fall back on.
pub(super) struct Automatic {
    /// Why the CPU's counters are not used.
    no_hardware: Reason,
    /// Who counted last.
    kind: SourceKind,
}

impl Automatic {
    pub(super) fn new(no_hardware: Reason) -> Self {
        Self {
            no_hardware,
            kind: SourceKind::Virtual,
        }
    }

    fn natively(
        &mut self,
        reason: Reason,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<RunResult, Error> {
        self.kind = SourceKind::Software;
        Native::without(reason).run(session, run, interval)
    }
}

/// Whether a second run would read the same input; the place to go back to.
fn input_again(input: Option<&OwnedFd>) -> Option<(i32, libc::off_t)> {
    let fd = input.map_or(0, AsRawFd::as_raw_fd);
    // SAFETY: asks for the place in an open file (or fails).
    let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    // SAFETY: as above; a terminal has no place, and is asked anew.
    (at >= 0 || unsafe { libc::isatty(fd) } == 1).then_some((fd, at.max(0)))
}

impl Source for Automatic {
    fn kind(&self) -> SourceKind {
        self.kind
    }

    fn default_events(&self, target: Target) -> &'static str {
        match target {
            Target::Command => virtual_pmu::DEFAULT,
            _ => Native::without(self.no_hardware.clone()).default_events(target),
        }
    }

    fn counts(&self, wanted: &EventRequest) -> Result<(), Reason> {
        countable(wanted)
    }

    fn fits(&self, _groups: &[RequestGroup]) -> bool {
        true
    }

    fn run(
        &mut self,
        session: &mut Session,
        run: &Run<'_>,
        interval: Option<Interval<'_>>,
    ) -> Result<RunResult, Error> {
        let engine = run.target == Target::Command
            && interval.is_none()
            && !run.switching.is_used()
            && run.groups.iter().any(|group| {
                let mut members = group.members.iter().map(|wanted| countable(wanted).is_ok());
                // A metric is told only where all of its events are counted.
                match group.metric {
                    Some(_) => members.all(|counted| counted),
                    None => members.any(|counted| counted),
                }
            });
        let Some((_, launch)) = run.launch.as_ref().filter(|_| engine) else {
            let reason = self.no_hardware.clone();
            return self.natively(reason, session, run, interval);
        };
        let again = input_again(launch.stdio.first().copied().flatten());
        let (failure, half) = match VirtualPmu::try_run(session, run, None) {
            Ok(measurement) => {
                self.kind = SourceKind::Virtual;
                return Ok(measurement);
            }
            Err(Refusal::Command(failure)) => return Err(failure),
            Err(Refusal::Engine(failure)) => (failure, false),
            Err(Refusal::Half(failure)) => (failure, true),
        };
        if half {
            let Some((fd, at)) = again else {
                return Err(failure);
            };
            // SAFETY: sets the place in an open file (or fails, on a terminal).
            unsafe { libc::lseek(fd, at, libc::SEEK_SET) };
        }
        let reason = Reason::new(format!(
            "there is no PMU, and the virtual PMU cannot run it: {}",
            failure.cause
        ));
        let mut measurement = self.natively(reason, session, run, None)?;
        measurement.notes.push(format!(
            "The virtual PMU cannot run this program: {}. {}",
            failure.cause,
            if half {
                "It was run a second time, natively; what the first run did is not undone."
            } else {
                "It ran natively."
            }
        ));
        Ok(measurement)
    }
}
