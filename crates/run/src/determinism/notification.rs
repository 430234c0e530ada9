//! Notifications of the seccomp filter and the answers to them (`seccomp_unotify(2)`), and what could not be answered.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// What the filter hands over: a system call that waits.
pub(super) type Notification = libc::seccomp_notif;

/// What is answered.
pub(super) struct Response(libc::seccomp_notif_resp);

/// The next one; `None` when the caller was interrupted meanwhile.
pub(super) fn receive(listener: &OwnedFd) -> Option<Notification> {
    let mut notification = MaybeUninit::<Notification>::zeroed();
    let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
    // SAFETY: the kernel fills the structure, whose size is in the request's number.
    let received = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            request as _,
            notification.as_mut_ptr(),
        )
    };
    // SAFETY: integers, for which zeros are valid.
    (received >= 0).then(|| unsafe { notification.assume_init() })
}

impl Response {
    /// The call gave this value.
    pub(super) fn value(notification: &Notification, value: i64) -> Self {
        Self(libc::seccomp_notif_resp {
            id: notification.id,
            val: value,
            error: 0,
            flags: 0,
        })
    }

    /// The call failed with this errno.
    pub(super) fn error(notification: &Notification, errno: i32) -> Self {
        let mut response = Self::value(notification, 0);
        response.0.error = -errno;
        response
    }

    /// The kernel does the call itself.
    pub(super) fn go_on(notification: &Notification) -> Self {
        let mut response = Self::value(notification, 0);
        response.0.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        response
    }

    /// Whether the caller has it. One that has gone is not an error.
    pub(super) fn send(&self, listener: &OwnedFd) -> bool {
        let request = libc::SECCOMP_IOCTL_NOTIF_SEND;
        // SAFETY: the kernel reads the structure, whose size is in the request's number.
        unsafe { libc::ioctl(listener.as_raw_fd(), request as _, &raw const self.0) == 0 }
    }
}

/// Whether the caller still waits for this answer: its number is not another process's.
pub(super) fn still_valid(listener: &OwnedFd, notification: &Notification) -> bool {
    let request = libc::SECCOMP_IOCTL_NOTIF_ID_VALID;
    // SAFETY: reads the number.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            request as _,
            &raw const notification.id,
        ) == 0
    }
}

/// How often something was not possible, and why the first time.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    first: Option<String>,
}

impl Failures {
    pub(super) fn add(&mut self, error: &io::Error) {
        self.count = self.count.saturating_add(1);
        self.first.get_or_insert_with(|| error.to_string());
    }

    /// With what became of them.
    pub(super) fn reason(&self, what: &str) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(format!("{} {what}: {first}", self.count))
    }
}

/// What the threads could not do.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Programs that were started as they are.
    pub(super) programs: Failures,
    /// Answers about directories that are the kernel's.
    pub(super) directories: Failures,
}
