//! The log: `==PID==` in front of every line, a head that harnesses read (`Command:`, `Parent PID:`), and what was
//! counted.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::PathBuf;

use super::files::{self, Process};
use super::options::{Options, Tool, expand};
use super::said::{self, Said};
use super::summary;
use crate::failure::Failure;

/// Where the log goes.
pub(super) enum Log {
    /// To files, by this pattern.
    Files(String),
    /// To an open descriptor.
    Descriptor(File),
    /// It is lost.
    Nowhere,
}

impl Log {
    /// Looks whether it can be written.
    pub(super) fn open(options: &Options) -> Result<Self, Failure> {
        if let Some(pattern) = &options.log_file {
            files::can_be_created("--log-file", pattern)?;
            return Ok(Self::Files(pattern.clone()));
        }
        // SAFETY: a number only; the result is checked.
        let copied = |fd| unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
        let mut copy = copied(options.log_fd);
        if copy < 0 {
            // As Valgrind has it: the program is run all the same. (Where stderr is closed, too, there is nobody to tell.)
            let error = std::io::Error::last_os_error();
            let _ = writeln!(
                std::io::stderr(),
                "truecount: cannot log to descriptor {}: {error}; the log goes to stderr",
                options.log_fd
            );
            copy = copied(libc::STDERR_FILENO);
        }
        if copy < 0 {
            return Ok(Self::Nowhere);
        }
        // SAFETY: a fresh descriptor of ours.
        Ok(Self::Descriptor(File::from(unsafe {
            OwnedFd::from_raw_fd(copy)
        })))
    }

    /// Writes what each process did; `notes` belong to the first.
    pub(super) fn write(
        self,
        options: &Options,
        processes: &[Process],
        notes: &[String],
        said: &[Said],
    ) -> Result<(), Failure> {
        let mut written: Vec<PathBuf> = Vec::new();
        for (number, process) in processes.iter().enumerate() {
            let notes = if number == 0 { notes } else { &[] };
            let text = text(options, process, notes, said);
            let mut problem = None;
            match &self {
                Self::Nowhere => {}
                Self::Descriptor(file) => {
                    // As on any stderr that is closed: what it said is lost, the program's status is not.
                    let mut file = file;
                    let _ = file.write_all(text.as_bytes());
                }
                Self::Files(pattern) => {
                    let number = u32::try_from(number).unwrap_or(0);
                    let path = PathBuf::from(expand("--log-file", pattern, process.pid, number)?);
                    let again = written.contains(&path);
                    let opened = File::options()
                        .create(true)
                        .write(true)
                        .append(again)
                        .truncate(!again)
                        .open(&path);
                    let done = opened.and_then(|mut file| file.write_all(text.as_bytes()));
                    if let Err(error) = done {
                        let cause = format!("cannot write the log {}: {error}", path.display());
                        problem = Some(Failure::new(1, cause));
                    }
                    written.push(path);
                }
            }
            if let Some(problem) = problem {
                return Err(problem);
            }
        }
        Ok(())
    }
}

/// What the log says of a process.
fn text(options: &Options, process: &Process, notes: &[String], said: &[Said]) -> String {
    let pid = process.pid;
    let mut text = String::new();
    let mut line = |what: &str| {
        let what = what.replace(['\n', '\r'], " ");
        // Writing to a string does not fail.
        let _ = writeln!(text, "=={pid}== {what}");
    };
    if !options.quiet {
        line(match options.tool {
            Tool::Callgrind => "Callgrind's interfaces, served by truecount's virtual PMU",
            Tool::Cachegrind => "Cachegrind's interfaces, served by truecount's virtual PMU",
            Tool::None => "Nulgrind's interfaces, served by truecount's virtual PMU",
        });
        line(&format!(
            "Using truecount {}; rerun with -h for what it serves",
            env!("CARGO_PKG_VERSION")
        ));
        line(&format!("Command: {}", process.command));
        if options.log_file.is_some() {
            line(&format!("Parent PID: {}", process.parent));
        }
        line("");
        for (option, why) in &options.noted {
            line(&format!("{option}: {why}"));
        }
        if !options.noted.is_empty() {
            line("");
        }
    }
    text.push_str(&said::lines(said, process.image, pid));
    let mut line = |what: &str| {
        let what = what.replace(['\n', '\r'], " ");
        let _ = writeln!(text, "=={pid}== {what}");
    };
    for note in notes {
        line(&format!("Warning: {note}"));
    }
    if options.tool == Tool::None || options.quiet {
        return text;
    }
    let totals = process.totals(options);
    let events: Vec<&str> = files::events(options)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    if options.tool == Tool::Callgrind {
        let collected: Vec<String> = totals.iter().map(u64::to_string).collect();
        line(&format!("Events    : {}", events.join(" ")));
        line(&format!("Collected : {}", collected.join(" ")));
        line("");
    }
    let total = |name: &str| {
        let place = events.iter().position(|event| *event == name);
        place
            .and_then(|place| totals.get(place).copied())
            .unwrap_or(0)
    };
    for summary in summary::lines(options, &total) {
        line(&summary);
    }
    text
}
