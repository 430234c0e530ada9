//! How a command ends: one clear line with the cause and the hint, and a documented exit status.
//!
//! Closed pipes end quietly with status 0, as `ripgrep` does: whoever closed the pipe has seen enough.

use std::fmt;
use std::io;
use std::process::ExitCode;

use truecount_run::source::virtual_pmu::Refusal;
use truecount_run::{Error, ErrorKind};

/// The exit statuses, shown in `--help` and in the man page.
pub(crate) const EXIT_CODES: &str = "\
EXIT STATUS
  0    success (with a gate: no regression)
  1    an error, or a requirement that is not met (check --require)
  2    the command line is wrong
  3    a gate was asked for, and a metric regressed
  4    a gate was asked for, and the answer is undecided or the results are not comparable
  123  an internal check of the virtual PMU failed: the counts of this run are void
  124  a run exceeded --timeout
  125  truecount could not set up the run
  126  the program was found but cannot be executed
  127  the program was not found
  130  interrupted by Ctrl-C, after printing what was measured
`stat` and `run` otherwise exit with the status of the program (128+N when signal N ended it). What
has no end of its own (`system`, `stat` and `record` with -a or -p) ends with 0 on Ctrl-C.";

/// A command ended as it should; the value is the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome(pub(crate) u8);

impl Outcome {
    /// Exit status 0.
    pub(crate) const OK: Self = Self(0);

    /// How a measurement ends that was shown: with 130 where the user stopped it; a failure where it has `nothing`.
    pub(crate) fn measured(
        interrupted: Option<i32>,
        nothing: Option<&str>,
    ) -> Result<Self, Failure> {
        match (interrupted, nothing) {
            (Some(_), _) => Ok(Self(130)),
            (None, Some(what)) => Err(Failure::new(1, format!("{what}: the reasons are above"))),
            (None, None) => Ok(Self::OK),
        }
    }
}

/// A command could not do what it was asked: the cause, what to do about it, and the exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit status, one of [`EXIT_CODES`].
    pub(crate) code: u8,
    /// One line: what went wrong and why.
    pub(crate) cause: String,
    /// What the user can do about it, when something can be done.
    pub(crate) hint: Option<String>,
    /// The reader of stdout has gone away; nothing is printed.
    pub(crate) closed_pipe: bool,
}

impl Failure {
    /// A failure with exit status `code` and its cause in one line.
    pub(crate) fn new(code: u8, cause: impl Into<String>) -> Self {
        Self {
            code,
            cause: cause.into(),
            hint: None,
            closed_pipe: false,
        }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Two failures as one, with the status of the first. A closed pipe says nothing beside another.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self.closed_pipe, other.closed_pipe) {
            (_, true) => self,
            (true, false) => other,
            (false, false) => Self::new(self.code, format!("{self}; and {other}")),
        }
    }

    /// What steps come to of which each was made, whatever became of the others.
    pub(crate) fn of_all(steps: impl IntoIterator<Item = Result<(), Self>>) -> Result<(), Self> {
        let failed = steps.into_iter().filter_map(Result::err);
        failed.reduce(Self::and).map_or(Ok(()), Err)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The exit status of an error of the libraries, by its kind.
fn status(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Unavailable | ErrorKind::ProgramFailed | ErrorKind::Output => 1,
        ErrorKind::Usage => 2,
        ErrorKind::EngineCheck => 123,
        ErrorKind::Timeout => 124,
        ErrorKind::Setup => 125,
        ErrorKind::NotExecutable => 126,
        ErrorKind::NotFound => 127,
        ErrorKind::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(130),
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: status(error.kind),
            cause: error.cause,
            hint: error.hint,
            closed_pipe: false,
        }
    }
}

/// An error while writing results: a closed pipe is quiet, anything else is status 1.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let closed_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Self {
            code: u8::from(!closed_pipe),
            cause: format!("cannot write the result: {error}"),
            hint: None,
            closed_pipe,
        }
    }
}

/// Prints a failure on stderr and gives the exit status of the process.
pub(crate) fn report(outcome: Result<Outcome, Failure>) -> ExitCode {
    match outcome {
        Ok(Outcome(code)) => ExitCode::from(code),
        Err(failure) => {
            if !failure.closed_pipe {
                // A stderr that cannot be written to leaves only the exit status.
                let _ = {
                    use io::Write as _;
                    writeln!(io::stderr(), "truecount: {failure}")
                };
            }
            ExitCode::from(failure.code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_steps_are_told_together() {
        let closed = || Err(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)));
        let disk = || Err(Failure::new(1, "a.svg").hint("free space"));
        let other = || Err(Failure::new(124, "too long"));
        assert!(Failure::of_all([Ok(()), Ok(())]).is_ok());
        assert!(Failure::of_all([closed(), Ok(())]).unwrap_err().closed_pipe);
        for steps in [[closed(), disk(), other()], [disk(), closed(), other()]] {
            let failure = Failure::of_all(steps).unwrap_err();
            assert_eq!((failure.code, failure.closed_pipe), (1, false));
            assert_eq!(failure.to_string(), "a.svg; free space; and too long");
        }
    }
}
