//! A file that a result goes to: it holds the whole result, or what it held before. Where there was none, there is none
//! after a failure.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{Patient, cannot_write};
use crate::failure::Failure;
use truecount_run::runner::while_stoppable;

/// A file that can be written, as was tried before anything was measured.
pub(crate) struct ResultFile {
    path: PathBuf,
    /// Open where it was there before; else it is made when there is something to write.
    file: Option<File>,
    /// This made it.
    made: bool,
    /// Bytes of the result in it.
    written: u64,
}

impl ResultFile {
    /// Tries whether it can be written. What it holds stays until there is something better. A FIFO that nobody reads yet
    /// is waited for, until Ctrl-C.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let (file, made) = create(path).map_err(|error| cannot_write(path, &error))?;
        if made {
            // Nothing may be left of it by whatever ends truecount.
            std::fs::remove_file(path).map_err(|error| cannot_write(path, &error))?;
        }
        Ok(Self {
            path: path.to_owned(),
            file: (!made).then_some(file),
            made: false,
            written: 0,
        })
    }

    /// Writes all of it, after what this wrote before.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.put(bytes)
            .map_err(|error| cannot_write(&self.path, &error))
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let (file, made) = create(&self.path)?;
                self.made = made;
                file
            }
        };
        let length = bytes.len() as u64;
        let regular = file.metadata().is_ok_and(|found| found.is_file());
        let done = if regular {
            whole(&file, self.written, bytes)
        } else {
            let fd = file.as_raw_fd();
            let mut out = Patient::new(&file, fd);
            out.write_all(bytes).and_then(|()| out.flush())
        };
        match done {
            Ok(()) => self.written = self.written.saturating_add(length),
            Err(_) if self.made && self.written == 0 => {
                let _ = std::fs::remove_file(&self.path);
            }
            Err(_) => {}
        }
        self.file = Some(file);
        done
    }

    /// Writes what is too large to be kept in memory, piece by piece: to a file without a name, which takes the other's
    /// place when it is whole.
    pub(crate) fn stream(
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let cannot = |error| cannot_write(path, &error);
        let (file, made) = create(path).map_err(cannot)?;
        let regular = file.metadata().is_ok_and(|found| found.is_file());
        let beside = match regular {
            true => Beside::of(path, &file),
            false => None,
        };
        if made && beside.is_some() {
            // Nothing may be left of it by whatever ends truecount.
            std::fs::remove_file(path).map_err(cannot)?;
        } else if regular && beside.is_none() {
            file.set_len(0).map_err(cannot)?;
        }
        let guard = LimitOfSize::held_back();
        let mut out = BufWriter::new(beside.as_ref().map_or(&file, |new| &new.file));
        let written = write(&mut out).and_then(|()| out.flush().map_err(cannot));
        // What is left in it would be tried again.
        drop(out.into_parts());
        drop(guard);
        match (beside, written) {
            (Some(new), Ok(())) => new.takes_its_place().map_err(cannot),
            (None, Err(error)) if regular => {
                // Half a result may look like a whole one.
                let _ = match made {
                    true => std::fs::remove_file(path),
                    false => file.set_len(0),
                };
                Err(error)
            }
            (_, written) => written,
        }
    }
}

/// A file without a name in the directory of another one (`O_TMPFILE`, open(2)): whatever ends truecount, nothing is left
/// of it.
struct Beside {
    file: File,
    /// Whose place it takes.
    path: PathBuf,
}

impl Beside {
    /// `None` where the place cannot be taken, or not without a loss: a file system or a directory that does not allow it,
    /// a file with other names or of another owner.
    fn of(path: &Path, old: &File) -> Option<Self> {
        // Where a symbolic link leads to.
        let path = std::fs::canonicalize(path).ok()?;
        let before = old.metadata().ok()?;
        // It must be possible to give it a name.
        if before.nlink() != 1 || !Path::new("/proc/self/fd").is_dir() {
            return None;
        }
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_TMPFILE);
        let file = options.open(path.parent()?).ok()?;
        let now = file.metadata().ok()?;
        if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
            return None;
        }
        file.set_permissions(before.permissions()).ok()?;
        Some(Self { file, path })
    }

    /// Only a rename replaces a file, and only what has a name can be renamed.
    fn takes_its_place(self) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default();
        let mut beside = OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}", std::process::id()));
        // A name may have 255 bytes (NAME_MAX).
        let beside = match beside.len() {
            ..=255 => self.path.with_file_name(beside),
            _ => self
                .path
                .with_file_name(format!(".truecount.{}", std::process::id())),
        };
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        let itself = text(Path::new(&format!(
            "/proc/self/fd/{}",
            self.file.as_raw_fd()
        )))?;
        let new = text(&beside)?;
        // SAFETY: two live strings that end with 0.
        let linked = unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                itself.as_ptr(),
                libc::AT_FDCWD,
                new.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        };
        if linked != 0 {
            return Err(io::Error::last_os_error());
        }
        std::fs::rename(&beside, &self.path).inspect_err(|_| {
            let _ = std::fs::remove_file(&beside);
        })
    }
}

/// The file, and whether it was made. What it holds stays.
fn create(path: &Path) -> io::Result<(File, bool)> {
    let options = |new: bool| {
        let mut options = File::options();
        options.write(true).create_new(new).create(true);
        options.truncate(false);
        options
    };
    match options(true).open(path) {
        Ok(file) => Ok((file, true)),
        // Also where a name leads to one that is not there.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            while_stoppable(|| options(false).open(path)).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }
}

/// Puts a piece of the result at its place, which then ends there; where that fails the file is as it was.
fn whole(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    let length = bytes.len() as u64;
    let before = file.metadata()?.len();
    let _guard = LimitOfSize::held_back();
    if let Err(error) = reserve(file, at, length) {
        let _ = file.set_len(before);
        return Err(error);
    }
    let written = file
        .write_all_at(bytes, at)
        .and_then(|()| file.set_len(at.saturating_add(length)));
    if written.is_err() {
        let _ = file.set_len(at);
    }
    written
}

/// Has the room taken before the first byte is written over. File systems that cannot do it (`EOPNOTSUPP`) find out later.
fn reserve(file: &File, at: u64, length: u64) -> io::Result<()> {
    let (Ok(at), Ok(length)) = (libc::off_t::try_from(at), libc::off_t::try_from(length)) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    if length == 0 {
        return Ok(());
    }
    // SAFETY: no pointers.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, at, length) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Err(error),
        _ => Ok(()),
    }
}

/// While it lives, a file that grows beyond the limit of this process (`ulimit -f`) is an error, and does not end it by
/// SIGXFSZ.
pub(crate) struct LimitOfSize {
    before: Option<libc::sigset_t>,
}

impl LimitOfSize {
    pub(crate) fn held_back() -> Self {
        let (set, mut before) = (Self::signal(), Self::signal());
        // SAFETY: two live sets.
        let done =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        Self {
            before: (done == 0).then_some(before),
        }
    }

    fn signal() -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        // SAFETY: an empty set is made in place, then one signal is added.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
            set.assume_init()
        }
    }
}

impl Drop for LimitOfSize {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let set = Self::signal();
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: live sets and a live time; who does not want to know gives no siginfo.
        unsafe {
            // Taken, where it came: it is for this thread.
            libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const now);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }
}
