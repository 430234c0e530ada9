//! The commands around the measured ones: `--setup`, `--prepare`, `--conclude`, `--cleanup`.
//! They run in `sh`, unmeasured; a failure ends the bench with what they printed.

use std::ffi::OsString;
use std::path::Path;

use super::capture::Capture;
use super::jobs::Job;
use super::params::substitute;
use crate::error::{Error, ErrorKind};
use crate::runner::{Launch, resolve};
use crate::session::{Session, dev_null, launch_failure};

/// The commands around the measured ones, each a line for all jobs or one for each command as written.
pub struct Hooks {
    pub(super) setup: Hook,
    pub(super) prepare: Hook,
    pub(super) conclude: Hook,
    pub(super) cleanup: Hook,
}

impl Hooks {
    /// From the lines of `--setup`, `--prepare`, `--conclude` and `--cleanup`.
    ///
    /// # Errors
    /// There are neither none, nor one, nor as many as commands.
    pub fn new(
        jobs: &[Job],
        [setup, prepare, conclude, cleanup]: [&[String]; 4],
    ) -> Result<Self, Error> {
        let commands = jobs.iter().map(|job| job.written + 1).max().unwrap_or(0);
        Ok(Self {
            setup: Hook::new("--setup", setup, commands)?,
            prepare: Hook::new("--prepare", prepare, commands)?,
            conclude: Hook::new("--conclude", conclude, commands)?,
            cleanup: Hook::new("--cleanup", cleanup, commands)?,
        })
    }
}

/// Hooks of one kind: none, one for all commands, or one for each command as written.
pub(super) struct Hook {
    option: &'static str,
    lines: Vec<String>,
}

impl Hook {
    /// Checks that there are none, one, or as many as commands.
    fn new(option: &'static str, lines: &[String], commands: usize) -> Result<Self, Error> {
        if lines.len() > 1 && lines.len() != commands {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("{} {option} for {commands} commands", lines.len()),
            )
            .hint("give one for all, or one for each command in their order"));
        }
        Ok(Self {
            option,
            lines: lines.to_vec(),
        })
    }

    /// Runs the hook of this job, if there is one.
    pub(super) fn run(&self, session: &mut Session, job: &Job) -> Result<(), Error> {
        let line = match self.lines.as_slice() {
            [] => return Ok(()),
            [line] if line.is_empty() => return Ok(()),
            [line] => line,
            lines => match lines.get(job.written) {
                Some(line) if !line.is_empty() => line,
                _ => return Ok(()),
            },
        };
        let line = substitute(line, &job.values);
        let argv: Vec<OsString> = ["sh", "-c", line.as_str()].map(Into::into).to_vec();
        let program = resolve(Path::new("sh").as_os_str())?;
        let null = dev_null()?;
        let capture = Capture::new()?;
        let launch = Launch {
            argv: &argv,
            stdio: [Some(&null), Some(capture.fd()), Some(capture.fd())],
            keep_aslr: true,
            own_group: true,
            ..Launch::default()
        };
        let finished = session
            .launcher
            .run(&session.signals, &launch, &program, None, None)
            .map_err(|error| launch_failure(error, &program, &argv))?;
        if let Some(signal) = finished.interrupted {
            return Err(Error::new(
                ErrorKind::Interrupted(signal),
                format!("interrupted during {}", self.option),
            ));
        }
        if !finished.exit().success() {
            return Err(Error::new(
                ErrorKind::Setup,
                format!(
                    "{} `{line}` ended with {}{}",
                    self.option,
                    finished.exit(),
                    capture.shown()
                ),
            ));
        }
        Ok(())
    }
}
