//! What the sources that start the program themselves (single-stepping, the virtual PMU) have in
//! common: the [`Command`] for a [`Launch`], and the one event they count.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use truecount_events::{Event, Kind, generic};

use crate::failure::Failure;
use crate::runner::Launch;

/// `instructions:u` by its generic number.
pub(super) fn is_instructions(event: &Event) -> bool {
    matches!(&event.kind, Kind::Perf(encoding)
        if encoding.type_ == generic::TYPE_HARDWARE && encoding.config == 1 && encoding.user_only())
}

/// The command with its arguments, streams, process group and CPUs.
pub(super) fn prepare(program: &Path, launch: &Launch<'_>) -> Result<Command, Failure> {
    let mut command = Command::new(program);
    if let Some((first, rest)) = launch.argv.split_first() {
        command.arg0(first).args(rest);
    }
    let stdio = |fd: Option<&OwnedFd>| -> Result<Stdio, Failure> {
        match fd {
            None => Ok(Stdio::inherit()),
            Some(fd) => fd
                .try_clone()
                .map(Stdio::from)
                .map_err(|error| Failure::new(125, format!("cannot hand down a file: {error}"))),
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
    Ok(command)
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
