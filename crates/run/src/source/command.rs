//! What the sources that start the program themselves (single-stepping, the virtual PMU) have in
//! common: the [`Command`] for a [`Launch`], and the events they count.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use truecount_engine::xlate::facts::Event as StaticEvent;
use truecount_events::{Kind, Special, generic};

use super::{Interval, Run, Target};
use crate::determinism::Missing;
use crate::error::{Error, ErrorKind};
use crate::request::{EventRequest, What};
use crate::runner::Launch;

/// The static event that a metric is: by its own name, or as the kernel's generic event in user
/// mode. No interrupt is counted here, so nothing needs to be subtracted for one.
pub(super) fn static_event(wanted: &EventRequest) -> Option<StaticEvent> {
    match &wanted.what {
        What::Static(event) => Some(*event),
        What::Resource(_) | What::Memory(_) => None,
        What::Event(event) => match &event.kind {
            Kind::Special(
                Special::InstructionsMinusIrqs | Special::InstructionsMinusExceptions,
            ) => Some(StaticEvent::Instructions),
            Kind::Perf(encoding)
                if encoding.type_ == generic::TYPE_HARDWARE && encoding.user_only() =>
            {
                match encoding.config {
                    1 => Some(StaticEvent::Instructions),
                    4 => Some(StaticEvent::Branches),
                    _ => None,
                }
            }
            _ => None,
        },
    }
}

/// The program of a run that these sources can make: a command from its start to its end.
pub(super) fn whole<'r>(
    run: &'r Run<'_>,
    interval: Option<&Interval<'_>>,
    who: &str,
) -> Result<&'r (&'r Path, Launch<'r>), Error> {
    match (&run.launch, run.target, interval) {
        _ if run.switching.is_used() => Err(Error::new(
            ErrorKind::Usage,
            format!("{who} counts a command from its start to its end, and cannot begin later"),
        )
        .hint("leave out --delay and --control, or use --source hardware or software")),
        (Some(launch), Target::Command, None) => Ok(launch),
        _ => Err(Error::new(
            ErrorKind::Usage,
            format!("{who} counts a command from its start to its end"),
        )
        .hint("leave out -a, -p and -I, or use --source auto")),
    }
}

/// Who lets the threads execute in turn, where that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turns {
    /// The kernel (`SCHED_RR`).
    Kernel,
    /// The virtual PMU's own scheduler.
    Scheduler,
}

/// The command with its arguments, streams, process group and CPUs, and what cannot be held constant of it.
pub(super) fn prepare(
    program: &Path,
    launch: &Launch<'_>,
    turns: Turns,
) -> Result<(Command, Vec<Missing>), Error> {
    let mut command = Command::new(program);
    if let Some((first, rest)) = launch.argv.split_first() {
        command.arg0(first).args(rest);
    }
    let stdio = |fd: Option<&OwnedFd>| -> Result<Stdio, Error> {
        match fd {
            None => Ok(Stdio::inherit()),
            Some(fd) => fd.try_clone().map(Stdio::from).map_err(|error| {
                Error::new(
                    ErrorKind::Setup,
                    format!("cannot hand down a file: {error}"),
                )
            }),
        }
    };
    let [input, output, error] = launch.stdio;
    command
        .stdin(stdio(input)?)
        .stdout(stdio(output)?)
        .stderr(stdio(error)?);
    if launch.own_group {
        command.process_group(0);
    }
    pin(&mut command, launch);
    let mut missing = Vec::new();
    if let Some(fixed) = launch.fixed {
        match fixed.in_turn() {
            _ if turns == Turns::Scheduler => {}
            Ok(false) => {}
            // SAFETY: one system call on memory of its own.
            Ok(true) => unsafe {
                command.pre_exec(|| match crate::determinism::threads::set() {
                    0 => Ok(()),
                    errno => Err(std::io::Error::from_raw_os_error(errno)),
                });
            },
            Err(refused) => missing.push(refused),
        }
        command
            .env_clear()
            .envs(fixed.environment(program, launch.argv));
        if let Some(directory) = fixed.directory().cloned() {
            // SAFETY: only system calls on strings that the closure owns.
            unsafe { command.pre_exec(move || directory.enter()) };
        }
    }
    Ok((command, missing))
}

/// Binds the program to CPUs before it starts.
fn pin(command: &mut Command, launch: &Launch<'_>) {
    if launch.cpus.is_empty() {
        return;
    }
    let mut set = [0u64; 16];
    for &cpu in launch.cpus {
        if let Some(word) = set.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    // SAFETY: the closure makes one system call on memory it owns.
    unsafe {
        command.pre_exec(move || {
            let size = size_of_val(&set);
            if libc::syscall(libc::SYS_sched_setaffinity, 0, size, set.as_ptr()) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}
