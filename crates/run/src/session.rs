//! What lives as long as truecount measures: the blocked signals and the launcher.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

use crate::error::{Error, ErrorKind};
use crate::runner::{LaunchError, Launcher, Signals, exec_failure};

/// The signals and the launcher; made early, while truecount is small (see `runner`).
pub struct Session {
    /// The blocked signals.
    pub signals: Signals,
    /// The launcher.
    pub launcher: Launcher,
}

thread_local! {
    /// The session that [`start_early`] made, until somebody takes it.
    static EARLY: std::cell::RefCell<Option<Session>> = const { std::cell::RefCell::new(None) };
}

/// Makes the session before the process grows: what it holds in memory, the launcher would carry along. A failure is
/// met again, and reported, by [`Session::start`].
pub fn start_early() {
    if let Ok(session) = Session::make() {
        EARLY.set(Some(session));
    }
}

impl Session {
    /// The session made early, or a new one.
    pub fn start() -> Result<Self, Error> {
        match EARLY.take() {
            Some(session) => Ok(session),
            None => Self::make(),
        }
    }

    /// Blocks the signals and forks the launcher.
    fn make() -> Result<Self, Error> {
        let setup = |error: std::io::Error| {
            Error::new(
                ErrorKind::Setup,
                format!("cannot set up the launcher: {error}"),
            )
        };
        let signals = Signals::block().map_err(setup)?;
        let launcher = Launcher::start(&signals).map_err(setup)?;
        Ok(Self { signals, launcher })
    }
}

/// The failure for a command that was not run.
pub fn launch_failure(error: LaunchError, program: &Path, argv: &[OsString]) -> Error {
    match error {
        LaunchError::Exec(errno) => exec_failure(program, errno),
        LaunchError::Affinity(errno) => Error::new(
            ErrorKind::Setup,
            format!(
                "the kernel refuses the CPUs of --cpu: {}",
                std::io::Error::from_raw_os_error(errno)
            ),
        )
        .hint("choose among those in /sys/devices/system/cpu/online that the cpuset allows"),
        LaunchError::Setup(error) => Error::new(
            ErrorKind::Setup,
            format!(
                "cannot start `{}`: {error}",
                crate::runner::command_line(argv)
            ),
        ),
        LaunchError::Hook(failure) => failure,
    }
}

/// `/dev/null`, for reading and writing.
pub fn dev_null() -> Result<OwnedFd, Error> {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map(OwnedFd::from)
        .map_err(|error| Error::new(ErrorKind::Setup, format!("cannot open /dev/null: {error}")))
}

/// A file in memory, for a program's output.
///
/// # Errors
/// The kernel gives none.
pub fn memory_file() -> Result<OwnedFd, Error> {
    // SAFETY: a NUL-terminated name.
    let fd = unsafe { libc::memfd_create(c"truecount-output".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        let cause = format!("cannot keep output: {error}");
        return Err(Error::new(ErrorKind::Setup, cause));
    }
    // SAFETY: just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A seed from the clock, short enough to be typed.
pub fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()) ^ since.as_secs()) % 1_000_000
}
