//! Error numbers with their names. Source: errno(3), `include/uapi/asm-generic/errno*.h`.

use std::fmt;

/// An error number as the kernel returned it (positive, e.g. `ENOENT`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident)*) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "`")]
            pub const $name: Self = Self(libc::$name);)*

            /// The symbolic name, where it is one that perf system calls can return.
            ///
            /// ```
            /// use truecount_perf::Errno;
            /// assert_eq!(Errno::ENOENT.name(), Some("ENOENT"));
            /// assert_eq!(Errno(9999).name(), None);
            /// ```
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                $(if self.0 == libc::$name { return Some(stringify!($name)); })*
                None
            }
        }
    };
}

errnos! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST ENODEV
    EINVAL ENFILE EMFILE ENOTTY ENOSPC EPIPE EDOM ENOSYS EOVERFLOW EOPNOTSUPP EUCLEAN
}

impl Errno {
    /// What the last failed system call of this thread left behind.
    #[must_use]
    pub fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}
