//! The commands around the measured ones: `--setup`, `--prepare`, `--conclude`, `--cleanup`.
//! They run in `sh`, unmeasured; a failure ends the bench with what they printed.

use std::ffi::OsString;
use std::path::Path;

use super::capture::Capture;
use super::jobs::Job;
use super::params::substitute;
use crate::failure::Failure;
use truecount_run::runner::{Launch, resolve};
use truecount_run::session::{Session, dev_null, launch_failure};

/// Hooks of one kind: none, one for all commands, or one for each command as written.
pub(super) struct Hook {
    option: &'static str,
    lines: Vec<String>,
}

impl Hook {
    /// Checks that there are none, one, or as many as commands.
    pub(super) fn new(
        option: &'static str,
        lines: &[String],
        commands: usize,
    ) -> Result<Self, Failure> {
        if lines.len() > 1 && lines.len() != commands {
            return Err(Failure::new(
                2,
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
    pub(super) fn run(&self, session: &mut Session, job: &Job) -> Result<(), Failure> {
        let line = match self.lines.as_slice() {
            [] => return Ok(()),
            [line] => line,
            lines => match lines.get(job.written) {
                Some(line) => line,
                None => return Ok(()),
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
            cpus: &[],
            keep_aslr: true,
            own_group: true,
            timeout: None,
            fixed: None,
        };
        let finished = session
            .launcher
            .run(&session.signals, &launch, &program, None, None)
            .map_err(|error| launch_failure(error, &program, &argv))?;
        if finished.interrupted.is_some() {
            return Err(Failure::new(
                130,
                format!("interrupted during {}", self.option),
            ));
        }
        if !finished.exit().success() {
            let output = capture.text();
            return Err(Failure::new(
                125,
                format!(
                    "{} `{line}` ended with {}{}",
                    self.option,
                    finished.exit(),
                    shown(&output)
                ),
            ));
        }
        Ok(())
    }
}

/// Output of a failed command, to stand after its failure.
pub(super) fn shown(output: &str) -> String {
    let output = output.trim_end();
    if output.is_empty() {
        ", printing nothing".to_owned()
    } else {
        format!("; it printed:\n{output}\n")
    }
}
