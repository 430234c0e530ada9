//! What truecount remembers of a machine between runs: small JSON files below `$XDG_STATE_HOME/truecount` or
//! `~/.local/state/truecount` (XDG Base Directory Specification 0.8: a relative path is not taken).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::env_record::{Environment, fnv1a};

/// A file of this size is none of ours.
const MAX_BYTES: u64 = 1 << 20;

/// The directory; `None` where neither variable names one.
pub fn directory() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    // A home that does not exist (`nobody`'s) is not made: it would be somebody's.
    let home = absolute("HOME").filter(|path| path.is_dir());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(home?.join(".local/state")))?;
    Some(base.join("truecount"))
}

/// What makes results of one machine not those of another: CPU, microcode, kernel, hypervisor.
pub fn machine_key(environment: &Environment) -> String {
    let none = || "-".to_owned();
    let facts = [
        environment.arch.clone(),
        environment.cpu_model.clone().unwrap_or_else(none),
        environment.cpu_id.clone().unwrap_or_else(none),
        environment.microcode.clone().unwrap_or_else(none),
        environment.kernel.clone().unwrap_or_else(none),
        environment
            .virtualised
            .map_or_else(none, |is| is.to_string()),
    ];
    format!("{:016x}", fnv1a(facts.join("\n").bytes()))
}

/// The file for one kind of result.
pub fn path(kind: &str, environment: &Environment) -> Option<PathBuf> {
    Some(directory()?.join(format!("{kind}-{}.json", machine_key(environment))))
}

/// Reads a file; `None` where there is none, or none that could be ours.
pub fn read(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// Writes a file whole or not at all: a new one beside it takes its place.
///
/// # Errors
/// The file system's.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path
        .parent()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let result = (|| {
        let mut file: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    // A file of the same name by a process of the same number that died: it is not ours to keep either way.
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

/// Seconds since 1970.
pub fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// `today`, `3 days ago`.
pub fn ago(then: u64) -> String {
    match now().saturating_sub(then) / 86_400 {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/x.json");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(read(&path).as_deref(), Some("two"));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(write(Path::new("/proc/none/x.json"), "x").is_err());
        assert_eq!(read(directory.path()), None);
    }

    #[test]
    fn another_kernel_is_another_machine() {
        let mine = Environment::gather(false, &[]);
        let mut other = mine.clone();
        assert_eq!(machine_key(&mine), machine_key(&other));
        other.kernel = Some("other".into());
        assert_ne!(machine_key(&mine), machine_key(&other));
        assert_eq!(ago(now()), "today");
        assert_eq!(ago(now() - 3 * 86_400), "3 days ago");
    }
}
