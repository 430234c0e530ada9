//! Ctrl-Z while a commit is built or measured. What is built has a process group of its own, so that all of it can be
//! ended; the terminal stops only ours. So it is told, before we stop, and when we go on.

use std::mem::MaybeUninit;
use std::process::Child;
use std::sync::atomic::{AtomicI32, Ordering};

/// The group that stops with us; 0: none.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// As long as it lives a child's group stops and goes on with us.
pub(super) struct Pausing(());

impl Pausing {
    /// From now on; `child` leads a group.
    pub(super) fn with(child: &Child) -> Self {
        GROUP.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        // SAFETY: plain calls on locals. Who was told to ignore stops (a shell without job control) goes on doing so.
        unsafe {
            let mut is = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            let known = libc::sigaction(libc::SIGTSTP, std::ptr::null(), &raw mut is) == 0;
            if known && is.sa_sigaction == libc::SIG_DFL {
                install();
            }
        }
        Self(())
    }
}

impl Drop for Pausing {
    fn drop(&mut self) {
        GROUP.store(0, Ordering::SeqCst);
    }
}

/// Sets the handler for one time; it is not blocked while it runs.
fn install() {
    // SAFETY: zeroed plain data, and a function that does only what handlers may.
    unsafe {
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = pause as *const () as libc::sighandler_t;
        ours.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND | libc::SA_NODEFER;
        libc::sigaction(libc::SIGTSTP, &raw const ours, std::ptr::null_mut());
    }
}

/// Stops the group, then us as if there were no handler; whoever lets us go on lets the group go on.
extern "C" fn pause(_: libc::c_int) {
    let group = GROUP.load(Ordering::SeqCst);
    // SAFETY: kill, raise and sigaction may be called in handlers; errno is left as it was.
    unsafe {
        let errno = *libc::__errno_location();
        if group > 0 {
            libc::kill(-group, libc::SIGTSTP);
        }
        libc::raise(libc::SIGTSTP);
        if group > 0 {
            libc::kill(-group, libc::SIGCONT);
        }
        install();
        *libc::__errno_location() = errno;
    }
}
