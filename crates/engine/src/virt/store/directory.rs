//! The directory that keeps translations: the user's own, closed to everyone else.
//!
//! Whoever can write here decides what later runs execute. So the directory is used
//! only if it is a real directory (no symbolic link), belongs to the user and is
//! closed to others; every file is opened relative to it, without following
//! links, and must be the user's and closed to others, too. Permissions: inode(7),
//! place: the XDG base directory specification.

use super::CacheError;
use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What the directory may hold before the files unused for longest go.
const MAX_BYTES_KEPT: u64 = 2 << 30;
/// When a temporary file is surely nobody's any more.
const STALE: Duration = Duration::from_secs(3600);
/// How the names of our files begin, complete …
const PREFIXES: [&[u8]; 2] = [b"translation-", b"names-"];
/// … and not.
const TEMPORARY: &[u8] = b"new-translation-";

/// An opened directory.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    directory: File,
}

fn euid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// Why something in the file system must not be trusted.
fn distrust(found: &Metadata) -> Option<&'static str> {
    if found.uid() != euid() {
        Some("it belongs to another user")
    } else if found.mode() & 0o077 != 0 {
        Some("others may use it (its mode should be 0700)")
    } else {
        None
    }
}

impl Directory {
    /// `$XDG_CACHE_HOME/truecount`, or `~/.cache/truecount` where there is a home: by `HOME`, else (harnesses start
    /// their tools without it) as the system's list of users has it.
    pub(super) fn of_user() -> Option<PathBuf> {
        let cache_home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Self::below(cache_home, std::env::home_dir())
    }

    /// The place by what the variables say. A home that does not exist (`nobody`'s) is not made: it would be somebody's.
    fn below(cache_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
        let cache_home = cache_home.filter(|path| path.is_absolute());
        let home = home.filter(|path| path.is_absolute() && path.is_dir());
        let base = cache_home.or_else(|| Some(home?.join(".cache")))?;
        Some(base.join("truecount"))
    }

    /// Opens the directory, and creates it where it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, CacheError> {
        let refused = |why| CacheError::Unsafe {
            path: path.to_owned(),
            why,
        };
        let failed = |error| CacheError::Io {
            path: path.to_owned(),
            error,
        };
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::getuid() } != euid() {
            return Err(refused("truecount runs with another user's rights"));
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let open = || open_at(libc::AT_FDCWD, path.as_os_str(), flags);
        let directory = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut builder = DirBuilder::new();
                builder.mode(0o700).recursive(true);
                builder.create(path).map_err(failed)?;
                open().map_err(failed)?
            }
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(refused("it is a symbolic link"));
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => {
                return Err(refused("it is not a directory, or a symbolic link"));
            }
            opened => opened.map_err(failed)?,
        };
        match distrust(&directory.metadata().map_err(failed)?) {
            Some(why) => Err(refused(why)),
            None => Ok(Self {
                path: path.to_owned(),
                directory,
            }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &OsStr, flags: i32) -> io::Result<File> {
        let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
        open_at(self.directory.as_raw_fd(), name, flags)
    }

    /// A finished file, if it is there and can be trusted.
    pub(super) fn read(&self, name: &OsStr) -> Option<File> {
        let file = self.file(name, libc::O_RDONLY).ok()?;
        let found = file.metadata().ok()?;
        let good = found.is_file() && found.nlink() == 1 && distrust(&found).is_none();
        good.then_some(file)
    }

    /// Marks a file as used now: the order in which files go.
    pub(super) fn touch(file: &File) {
        // SAFETY: a null pointer means the present time.
        unsafe { libc::futimens(file.as_raw_fd(), std::ptr::null()) };
    }

    /// A new temporary file that nobody else has.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        self.file(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)
    }

    /// The name of a temporary file of this process.
    pub(super) fn temporary(number: u64) -> String {
        let prefix = String::from_utf8_lossy(TEMPORARY);
        format!("{prefix}{}-{number}", std::process::id())
    }

    /// Puts a temporary file in the place of `to`, at once.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (c_string(from)?, c_string(to)?);
        let directory = self.directory.as_raw_fd();
        // SAFETY: two names relative to our directory.
        let result = unsafe { libc::renameat(directory, from.as_ptr(), directory, to.as_ptr()) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = c_string(name)?;
        // SAFETY: a name relative to our directory.
        let result = unsafe { libc::unlinkat(self.directory.as_raw_fd(), name.as_ptr(), 0) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Every file of ours in the directory: name, size, last use.
    fn list(&self) -> io::Result<Vec<(std::ffi::OsString, u64, SystemTime)>> {
        // By descriptor: the directory that was checked, whatever its name means now.
        let path = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            let ours = PREFIXES
                .iter()
                .chain(&[TEMPORARY])
                .any(|p| name.as_bytes().starts_with(p));
            let Ok(found) = entry.metadata() else {
                continue;
            };
            if ours && !found.is_dir() {
                let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((name, found.len(), used));
            }
        }
        Ok(files)
    }

    /// Removes what is left over, and the files unused for longest while the
    /// directory is too large. `keep` stays.
    pub(super) fn prune(&self, keep: &OsStr) -> io::Result<()> {
        self.prune_to(keep, MAX_BYTES_KEPT)
    }

    fn prune_to(&self, keep: &OsStr, limit: u64) -> io::Result<()> {
        let mut files = self.list()?;
        let old = |used: &SystemTime| used.elapsed().is_ok_and(|age| age > STALE);
        files.retain(|(name, _, used)| {
            let gone = name.as_bytes().starts_with(TEMPORARY) && old(used);
            !(gone && self.remove(name).is_ok())
        });
        files.sort_by_key(|(_, _, used)| *used);
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (name, size, _) in files {
            if total <= limit {
                break;
            }
            if name != keep && self.remove(&name).is_ok() {
                total -= size;
            }
        }
        Ok(())
    }

    /// Removes every file of ours; returns how many there were.
    pub(super) fn clear(&self) -> io::Result<usize> {
        let files = self.list()?;
        for (name, _, _) in &files {
            match self.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(files.len())
    }
}

fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(io::Error::other)
}

fn open_at(directory: i32, name: &OsStr, flags: i32) -> io::Result<File> {
    let name = c_string(name)?;
    // SAFETY: a zero-terminated name; the result is checked.
    let fd = unsafe { libc::openat(directory, name.as_ptr(), flags, 0o600) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor of ours.
    Ok(unsafe { File::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fresh(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("truecount-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_home_that_does_not_exist_is_not_made() {
        let temporary = std::env::temp_dir();
        let place = Directory::below(None, Some(temporary.clone())).unwrap();
        assert_eq!(place, temporary.join(".cache/truecount"));
        let missing = temporary.join(format!("no-home-{}", std::process::id()));
        assert_eq!(Directory::below(None, Some(missing.clone())), None);
        assert_eq!(Directory::below(None, Some("relative".into())), None);
        // Who names a directory for caches has it made (XDG Base Directory Specification).
        let named = Directory::below(Some(missing.clone()), None).unwrap();
        assert_eq!(named, missing.join("truecount"));
    }

    #[test]
    fn a_directory_that_others_can_reach_is_refused() {
        let path = fresh("open");
        assert!(Directory::open(&path.join("a/b")).is_ok());
        let mode = |bits| std::fs::set_permissions(&path, PermissionsExt::from_mode(bits)).unwrap();
        mode(0o755);
        let error = Directory::open(&path).unwrap_err().to_string();
        assert!(error.contains("0700"), "{error}");
        mode(0o700);
        assert!(Directory::open(&path).is_ok());
        let link = path.join("link");
        std::os::unix::fs::symlink(path.join("a"), &link).unwrap();
        let error = Directory::open(&link).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn only_files_of_the_user_alone_are_read() {
        let path = fresh("read");
        let directory = Directory::open(&path).unwrap();
        let name = OsStr::new("translation-x");
        drop(directory.create(name).unwrap());
        assert!(directory.read(name).is_some());
        assert!(directory.create(name).is_err(), "exclusive");
        let file = path.join(name);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o620)).unwrap();
        assert!(directory.read(name).is_none(), "writable by the group");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::hard_link(&file, path.join("other")).unwrap();
        assert!(directory.read(name).is_none(), "has another name");
        std::fs::remove_file(path.join("other")).unwrap();
        std::fs::rename(&file, path.join("aside")).unwrap();
        std::os::unix::fs::symlink(path.join("aside"), &file).unwrap();
        assert!(directory.read(name).is_none(), "a symbolic link");
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_oldest_go_first() {
        let path = fresh("prune");
        let directory = Directory::open(&path).unwrap();
        for (age, name) in [
            (30, "translation-a"),
            (20, "translation-b"),
            (10, "translation-c"),
        ] {
            let file = directory.create(OsStr::new(name)).unwrap();
            file.set_len(100).unwrap();
            let used = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(used).unwrap();
        }
        std::fs::write(path.join("stranger"), [0; 999]).unwrap();
        directory
            .prune_to(OsStr::new("translation-a"), 250)
            .unwrap();
        let left: Vec<_> = [
            "translation-a",
            "translation-b",
            "translation-c",
            "stranger",
        ]
        .map(|name| path.join(name).exists())
        .into();
        assert_eq!(left, [true, false, true, true]);
        assert_eq!(directory.clear().unwrap(), 2);
        assert!(path.join("stranger").exists());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
