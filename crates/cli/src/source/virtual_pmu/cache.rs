//! Whether the virtual PMU keeps its translations for later runs: the flags, and the directory.
//!
//! A process decides once. Without a usable directory everything works, only slower; the result
//! says why.

use std::sync::OnceLock;

use crate::CmdResult;
use crate::failure::{Failure, Outcome};

/// Set (and neither empty nor 0): as `--no-cache`.
const VARIABLE: &str = "TRUECOUNT_NO_CACHE";

static OFF: OnceLock<bool> = OnceLock::new();

/// Flags of every command that can use the virtual PMU.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct CacheArgs {
    /// Virtual PMU: use no translations of earlier runs, and keep none (also: TRUECOUNT_NO_CACHE=1)
    #[arg(long)]
    no_cache: bool,
}

impl CacheArgs {
    /// Holds for the whole process from here on.
    pub(crate) fn apply(&self) {
        let variable = std::env::var_os(VARIABLE);
        let _ = OFF.set(self.no_cache || is_set(variable.as_deref()));
    }
}

fn is_set(value: Option<&std::ffi::OsStr>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod directory {
    use super::{OFF, OnceLock};
    use truecount_engine::virt::{Cache, CacheError};

    static FOLDER: OnceLock<Result<Cache, CacheError>> = OnceLock::new();

    /// The user's directory, opened once; `None` with the flag.
    pub(super) fn open() -> Option<&'static Result<Cache, CacheError>> {
        match OFF.get() {
            Some(false) => Some(FOLDER.get_or_init(Cache::user)),
            _ => None,
        }
    }
}

/// The directory to use, if any.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn directory() -> Option<truecount_engine::virt::Cache> {
    directory::open()?.as_ref().ok().cloned()
}

/// Why translations are not kept although nobody asked for that.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn problem() -> Option<String> {
    let error = directory::open()?.as_ref().err()?;
    Some(format!(
        "The virtual PMU's translations are not kept for later runs: {error}."
    ))
}

/// Removes every kept translation.
///
/// # Errors
/// 1 when the directory cannot be used.
pub(crate) fn clear() -> CmdResult {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        use std::io::Write as _;
        let cache = truecount_engine::virt::Cache::user()
            .map_err(|error| Failure::new(1, format!("no kept translations: {error}")))?;
        let count = cache
            .clear()
            .map_err(|error| Failure::new(1, format!("{}: {error}", cache.path().display())))?;
        let mut out = crate::output::Output::open(None, true)?;
        writeln!(
            out,
            "{count} file(s) removed from {}",
            cache.path().display()
        )?;
        out.flush()?;
        Ok(Outcome(0))
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        let _ = Outcome(0);
        match super::available() {
            Err(reason) => Err(Failure::new(1, reason.to_string())),
            Ok(()) => Err(Failure::new(1, "the virtual PMU is not in this build")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_set;
    use std::ffi::OsStr;

    #[test]
    fn the_variable_counts_when_it_says_something() {
        for (value, set) in [("", false), ("0", false), ("1", true), ("yes", true)] {
            assert_eq!(is_set(Some(OsStr::new(value))), set, "{value}");
        }
        assert!(!is_set(None));
    }
}
