//! Whether the virtual PMU keeps its translations for later runs.
//!
//! A process decides once ([`keep_translations`]). Without a usable directory everything works, only slower; the result
//! says why.

use std::path::PathBuf;
use std::sync::OnceLock;

use truecount_engine::virt::{Cache, CacheError};

use crate::error::{Error, ErrorKind};

static OFF: OnceLock<bool> = OnceLock::new();

static CODE_CACHE: OnceLock<u64> = OnceLock::new();

/// How many bytes translated code may take in each process, for the whole process of truecount from here on; until then,
/// as many as by default.
pub fn bound_code(bytes: u64) {
    let _ = CODE_CACHE.set(bytes);
}

/// See [`bound_code`]; 0: the default.
pub(super) fn code_bound() -> u64 {
    CODE_CACHE.get().copied().unwrap_or(0)
}

/// Whether translations are kept and used, for the whole process from here on; until then, and with `false`, none are.
pub fn keep_translations(keep: bool) {
    let _ = OFF.set(!keep);
}

/// The user's directory, opened once; `None` with the flag.
fn open() -> Option<&'static Result<Cache, CacheError>> {
    static DIRECTORY: OnceLock<Result<Cache, CacheError>> = OnceLock::new();
    match OFF.get() {
        Some(false) => Some(DIRECTORY.get_or_init(Cache::user)),
        _ => None,
    }
}

/// The directory to use, if any.
pub(crate) fn directory() -> Option<Cache> {
    open()?.as_ref().ok().cloned()
}

/// Why translations are not kept although nobody asked for that.
pub(super) fn problem() -> Option<String> {
    let error = open()?.as_ref().err()?;
    Some(format!(
        "The virtual PMU's translations are not kept for later runs: {error}."
    ))
}

/// Removes every kept translation: how many files, and from which directory.
///
/// # Errors
/// The directory cannot be used.
pub fn clear() -> Result<(usize, PathBuf), Error> {
    super::available().map_err(Error::unavailable)?;
    let unavailable = |cause: String| Error::new(ErrorKind::Unavailable, cause);
    let cache =
        Cache::user().map_err(|error| unavailable(format!("no kept translations: {error}")))?;
    let count = cache
        .clear()
        .map_err(|error| unavailable(format!("{}: {error}", cache.path().display())))?;
    Ok((count, cache.path().to_owned()))
}
