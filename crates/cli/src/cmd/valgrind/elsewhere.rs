//! Tools that only Valgrind has are run by it: a harness that asks for `dhat` beside `callgrind` gets both.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// Names the Valgrind.
const NAMED: &str = "TRUECOUNT_VALGRIND";
/// Set for it: a copy of truecount by that name looks no further.
const SOUGHT: &str = "TRUECOUNT_VALGRIND_SOUGHT";

/// Executes Valgrind itself with these arguments in the place of this process; why it could not.
pub(super) fn run(tool: &str, words: &[OsString]) -> Failure {
    let none = || {
        Failure::new(1, format!("the tool {tool} needs Valgrind itself")).hint(
            "truecount serves --tool=callgrind, cachegrind and none; others are left to the next valgrind in PATH (or, \
             without PATH, in /usr/local/bin, /usr/bin and /bin), or to the one in TRUECOUNT_VALGRIND",
        )
    };
    if std::env::var_os(SOUGHT).is_some() {
        return none();
    }
    let Some(valgrind) = std::env::var_os(NAMED).map(PathBuf::from).or_else(next) else {
        return none();
    };
    let error = Command::new(&valgrind).args(words).env(SOUGHT, "1").exec();
    Failure::new(
        1,
        format!(
            "the tool {tool} needs Valgrind: {}: {error}",
            valgrind.display()
        ),
    )
}

/// Searched where there is no PATH, as with a harness that clears the environment of what it runs.
const WITHOUT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The first `valgrind` in PATH that is not this program.
fn next() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| WITHOUT_PATH.into());
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let is_other = |path: &PathBuf| {
        is_executable(path)
            && path
                .canonicalize()
                .ok()
                .is_some_and(|path| own.as_ref().map_or(true, |own| *own != path))
    };
    std::env::split_paths(&path)
        .map(|directory| directory.join("valgrind"))
        .find(is_other)
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
