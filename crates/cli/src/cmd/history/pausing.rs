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

/// Sets the handler. A second stop that comes while it runs waits: who lets us go on takes it back.
fn install() {
    handle(pause as *const () as libc::sighandler_t);
}

/// Sets what SIGTSTP does.
fn handle(what: libc::sighandler_t) {
    // SAFETY: zeroed plain data, and a function that does only what handlers may.
    unsafe {
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = what;
        ours.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTSTP, &raw const ours, std::ptr::null_mut());
    }
}

/// Stops the group, then us as if there were no handler; whoever lets us go on lets the group go on.
extern "C" fn pause(_: libc::c_int) {
    let group = GROUP.load(Ordering::SeqCst);
    // SAFETY: kill, raise, sigaction and pthread_sigmask may be called in handlers; errno is left as it was.
    unsafe {
        let errno = *libc::__errno_location();
        if group == BEING_MADE {
            ASKED.store(true, Ordering::SeqCst);
            *libc::__errno_location() = errno;
            return;
        }
        if group > 0 {
            libc::kill(-group, libc::SIGTSTP);
        }
        let mut stop = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&raw mut stop);
        libc::sigaddset(&raw mut stop, libc::SIGTSTP);
        handle(libc::SIG_DFL);
        libc::raise(libc::SIGTSTP);
        // Here it stops.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const stop, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const stop, std::ptr::null_mut());
        // Before the group goes on: a stop that came between would be ours alone.
        install();
        if group > 0 {
            libc::kill(-group, libc::SIGCONT);
        }
        *libc::__errno_location() = errno;
    }
}
