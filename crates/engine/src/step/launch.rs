//! Starts a program that is traced from its first instruction on.
//!
//! The child waits between `fork` and `execve` until this thread has seized it (`PTRACE_SEIZE` must
//! come from the thread that will wait), and reports an `execve` that failed through a pipe.

use super::StepError;
use super::sys::{self, Request};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A seized child that has not executed the program yet.
pub(super) struct Tracee {
    /// Process id.
    pub(super) pid: i32,
    /// As the user wrote it.
    program: String,
    /// Carries the errno of an `execve` that failed.
    failure: PipeReader,
}

impl Tracee {
    /// Why the child ended without running the program.
    pub(super) fn why_not_started(mut self) -> StepError {
        let mut errno = [0; 4];
        let source = match self.failure.read_exact(&mut errno) {
            Ok(()) => io::Error::from_raw_os_error(i32::from_ne_bytes(errno)),
            Err(_) => io::Error::other("it was killed before it started"),
        };
        StepError::Start {
            program: self.program,
            source,
        }
    }
}

const OPTIONS: libc::c_int = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// Forks, seizes the child and lets it go on to `execve`.
pub(super) fn start(mut command: Command, aslr: bool) -> Result<Tracee, StepError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| StepError::Start {
        program: program.clone(),
        source,
    };
    let (failure, mut report) = io::pipe().map_err(failed)?;
    let (mut go_reader, mut go) = io::pipe().map_err(failed)?;
    // SAFETY: the child only reads and writes its pipes and executes. What it allocates on the way
    // (std builds argv there) is sound after fork with the allocators of glibc and musl.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if pid == 0 {
        drop((go, failure));
        if !aslr {
            let flag = libc::ADDR_NO_RANDOMIZE as libc::c_ulong;
            // SAFETY: personality takes a number; this one only asks what it is.
            let now = unsafe { libc::personality(0xffff_ffff) };
            let now = libc::c_ulong::try_from(now).unwrap_or(0);
            // SAFETY: as above. A kernel that refuses leaves randomisation on.
            unsafe { libc::personality(now | flag) };
        }
        let mut byte = [0];
        if go_reader.read_exact(&mut byte).is_ok() {
            let errno = command.exec().raw_os_error().unwrap_or(libc::EINVAL);
            // Nobody is left to tell if this fails.
            let _ = report.write_all(&errno.to_ne_bytes());
        }
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(127) };
    }
    drop((go_reader, report));
    let options = u64::try_from(OPTIONS).unwrap_or(0);
    if let Err(source) = sys::ptrace(Request::SEIZE, pid, 0, options) {
        drop(go); // the child reads the end of the pipe and exits
        let mut status = 0;
        // SAFETY: waits for our own child; the pointer is to a live integer.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        return Err(StepError::Refused { source });
    }
    // A child that was killed meanwhile reads nothing; its end says so.
    let _ = go.write_all(&[1]);
    Ok(Tracee {
        pid,
        program,
        failure,
    })
}
