//! Another name for the working directory, of another length, under which everything is found as ever: the whole tree of
//! files is bound below a directory, in a mount namespace of the program's own (`mount_namespaces(7)`), and the program
//! starts at its old place in there. Relative names, also those with `..`, lead to the same files.

use std::ffi::{CString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A directory below which the tree is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Where `/` is bound.
    root: CString,
    /// The working directory below it.
    inside: CString,
}

impl Directory {
    /// Below `root`, which exists and is empty.
    ///
    /// # Errors
    /// Where the working directory is not known.
    pub fn below(root: &Path) -> io::Result<Self> {
        let now = std::env::current_dir()?;
        let mut inside = PathBuf::from(root);
        inside.extend(now.components().skip(1));
        let text =
            |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
        Ok(Self {
            root: text(root)?,
            inside: text(&inside)?,
        })
    }

    /// As they are sent to the launcher.
    pub fn words(&self) -> [&CString; 2] {
        [&self.root, &self.inside]
    }

    /// [`enter`] with its own strings.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: both are strings that live as long as the call.
        match unsafe { enter(self.root.as_ptr(), self.inside.as_ptr()) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Why it cannot be done here, by trying in a thread that ends.
    pub fn refused(self) -> Option<io::Error> {
        // unshare(2): a new mount namespace is the calling thread's alone.
        let tried = std::thread::spawn(move || self.enter()).join();
        tried
            .unwrap_or_else(|_| Err(io::Error::other("it panicked")))
            .err()
    }
}

/// Moves the calling thread; 0 or an errno. Only system calls, for the time between `fork` and `execve`.
///
/// # Safety
/// Both are strings.
pub unsafe fn enter(root: *const c_char, inside: *const c_char) -> i32 {
    let none = std::ptr::null::<c_char>();
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let bind = libc::MS_BIND | libc::MS_REC;
    // SAFETY: strings of ours and the caller's; the others are null.
    unsafe {
        let slash = c"/".as_ptr();
        if libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNS) < 0
            || libc::syscall(libc::SYS_mount, none, slash, none, private, none) < 0
            || libc::syscall(libc::SYS_mount, slash, root, none, bind, none) < 0
            || libc::syscall(libc::SYS_chdir, inside) < 0
        {
            return *libc::__errno_location();
        }
    }
    0
}
