//! Programs that run themselves again under the virtual PMU, because they count and nobody else does: harnesses of
//! benchmarks and of tests.

use super::{Cache, LaunchError, Options, Outcome, launch};
use std::process::Command;

/// Runs a command to its end with what differs between runs of itself held constant: addresses, the random bytes
/// that a program finds at its start, and those of `getrandom`. Translations are kept for later runs where the user's cache can be used. With
/// `per_block` the program may count more than instructions ([`Options::per_block`]).
///
/// # Errors
/// As [`launch`] and [`Running::wait`](super::Running::wait).
pub fn run_held_constant(command: &mut Command, per_block: bool) -> Result<Outcome, LaunchError> {
    let options = Options::default().per_block(per_block);
    run_held_constant_with(command, options.own_getrandom(true))
}

/// As [`run_held_constant`], with more of the [`Options`].
///
/// # Errors
/// As there.
pub fn run_held_constant_with(
    command: &mut Command,
    options: Options,
) -> Result<Outcome, LaunchError> {
    fixed_addresses(command);
    let kept = std::env::var_os("TRUECOUNT_NO_CACHE").is_none_or(|value| value.is_empty());
    let options = options
        .at_random(Some([0x5a; 16]))
        .cache(kept.then(|| Cache::user().ok()).flatten());
    launch(command, &options)?.wait()
}

#[cfg(target_os = "linux")]
fn fixed_addresses(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: two system calls that touch no memory. A kernel that refuses leaves randomisation on.
    unsafe {
        command.pre_exec(|| {
            let now = libc::personality(0xffff_ffff);
            if now >= 0 {
                libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            }
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn fixed_addresses(_: &mut Command) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_status_is_the_result() {
        let mut command = Command::new("sh");
        match run_held_constant(command.args(["-c", "exit 7"]), false) {
            Ok(outcome) => assert_eq!(outcome.status.code(), Some(7)),
            Err(LaunchError::Unavailable | LaunchError::PtraceForbidden { .. }) => {
                truecount_testing::skip!("virtual", "ptrace is not permitted");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
