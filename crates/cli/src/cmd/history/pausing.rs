//! Ctrl-Z while a commit is built or measured. What is built has a process group of its own, so that all of it can be
//! ended; the terminal stops only ours. So it is told, before we stop, and when we go on.

use std::mem::MaybeUninit;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The group that stops with us; 0: none.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// [`GROUP`] while a child is being made whose number we do not know yet.
const BEING_MADE: i32 = -1;

/// A stop was asked for meanwhile.
static ASKED: AtomicBool = AtomicBool::new(false);

/// As long as it lives a child's group stops and goes on with us.
pub(super) struct Pausing(());

impl Pausing {
    /// To be called before a child is made: a stop that comes while it is being made waits for [`with`](Self::with).
    pub(super) fn prepare() -> Self {
        GROUP.store(BEING_MADE, Ordering::SeqCst);
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

    /// From now on `child` stops with us, which leads a group.
    pub(super) fn with(&self, child: &Child) {
        self.now(i32::try_from(child.id()).unwrap_or(0));
    }

    fn now(&self, group: i32) {
        GROUP.store(group, Ordering::SeqCst);
        if ASKED.swap(false, Ordering::SeqCst) {
            // SAFETY: the signal that came before.
            unsafe { libc::raise(libc::SIGTSTP) };
        }
    }
}

impl Drop for Pausing {
    fn drop(&mut self) {
        self.now(0);
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
        if group == BEING_MADE {
            ASKED.store(true, Ordering::SeqCst);
            install();
            *libc::__errno_location() = errno;
            return;
        }
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
