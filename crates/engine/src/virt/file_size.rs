//! A limit of the size of files (`RLIMIT_FSIZE`, `ulimit -f`) holds for the launcher's shared memory, too,
//! and the signal for it would end the launcher: it is lifted there, and given to the program.

use super::LaunchError;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The limit as it was.
pub(super) struct Raised(Option<libc::rlimit>);

/// Lifts the launcher's own limit.
///
/// # Errors
/// [`LaunchError::Limit`] where that is not allowed (the hard limit is one, too).
pub(super) fn raise() -> Result<Raised, LaunchError> {
    let mut old = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills the structure.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut old) } != 0
        || old.rlim_cur == libc::RLIM_INFINITY
    {
        return Ok(Raised(None));
    }
    let lifted = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: reads the structure.
    if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const lifted) } != 0 {
        return Err(LaunchError::Limit {
            what: "large shared memory",
            limit: old.rlim_cur,
            how: "ulimit -f, the size of files",
        });
    }
    Ok(Raised(Some(old)))
}

impl Raised {
    /// The command's program has the limit as it was.
    pub(super) fn lower_in(&self, command: &mut Command) {
        let Some(old) = self.0 else { return };
        // SAFETY: one async-signal-safe call on a value that the closure owns.
        unsafe {
            command.pre_exec(
                move || match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const old) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                },
            );
        }
    }
}
