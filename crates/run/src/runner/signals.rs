//! The signals that truecount waits for while a command runs: the end of the child, and the
//! user's wish to stop. They are blocked and taken synchronously by `sigtimedwait`, so there is no
//! handler and no race between a check and a wait.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Signals by which a user stops truecount.
const STOPPING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// `si_code` of a signal that no process sent (sigaction(2)): of Ctrl-C and of a terminal that hangs up.
const SI_KERNEL: i32 = 0x80;

/// A signal that was taken.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    pub signal: i32,
    /// The terminal sent it, to every process of its foreground group.
    pub by_terminal: bool,
}

/// What becomes of stopping signals while a command runs.
#[derive(Debug, Default)]
pub struct Stopping {
    /// The last one.
    pub interrupted: Option<i32>,
    passed_on: bool,
}

impl Stopping {
    /// What to send to the command: the signal, SIGKILL the second time, nothing where the terminal has sent it to
    /// the command, too: which may go on after it, as an interpreter at its prompt does.
    pub fn pass_on(&mut self, arrived: Arrived, own_group: bool) -> Option<i32> {
        self.interrupted = Some(arrived.signal);
        if arrived.by_terminal && !own_group {
            return None;
        }
        let again = std::mem::replace(&mut self.passed_on, true);
        Some(if again { libc::SIGKILL } else { arrived.signal })
    }
}

/// The blocked signals; one value for the life of the process.
pub struct Signals {
    waited: libc::sigset_t,
    original: libc::sigset_t,
}

impl Signals {
    /// Blocks SIGCHLD and the stopping signals (those that are not ignored already, as under
    /// `nohup`). To be called once, before the launcher is forked.
    pub fn block() -> io::Result<Self> {
        // SAFETY: plain signal-set calls on locals; sigaction only reads or sets SIG_DFL.
        unsafe {
            let mut waited = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(waited.as_mut_ptr());
            let mut waited = waited.assume_init();
            for signal in STOPPING {
                let mut action = MaybeUninit::<libc::sigaction>::uninit();
                if libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
                    && action.assume_init().sa_sigaction != libc::SIG_IGN
                {
                    libc::sigaddset(&raw mut waited, signal);
                }
            }
            libc::sigaddset(&raw mut waited, libc::SIGCHLD);
            // An inherited SIG_IGN would make the kernel reap the child and drop its status. Stops wake nobody: under
            // the virtual PMU every program that starts stops a few times.
            let mut ends = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            (ends.sa_sigaction, ends.sa_flags) = (libc::SIG_DFL, libc::SA_NOCLDSTOP);
            libc::sigaction(libc::SIGCHLD, &raw const ends, std::ptr::null_mut());
            let mut original = MaybeUninit::<libc::sigset_t>::uninit();
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const waited, original.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self {
                waited,
                original: original.assume_init(),
            })
        }
    }

    /// The signal mask that truecount was started with; the command gets it back.
    pub fn original(&self) -> libc::sigset_t {
        self.original
    }

    /// Waits for one of the signals, at most `limit`; `None` is the end of the time.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<Option<i32>> {
        Ok(self.arrival(limit)?.map(|arrived| arrived.signal))
    }

    /// The same, with what is known of the sender.
    pub fn arrival(&self, limit: Option<Duration>) -> io::Result<Option<Arrived>> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set is initialised, the place valid; a null timeout means to wait for ever.
        let signal = unsafe {
            match limit {
                None => libc::sigwaitinfo(&raw const self.waited, info.as_mut_ptr()),
                Some(limit) => {
                    let timeout = libc::timespec {
                        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
                        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
                    };
                    libc::sigtimedwait(
                        &raw const self.waited,
                        info.as_mut_ptr(),
                        &raw const timeout,
                    )
                }
            }
        };
        if signal > 0 {
            // SAFETY: zeroed plain data, filled by the kernel.
            let code = unsafe { info.assume_init() }.si_code;
            let by_terminal = code == SI_KERNEL;
            return Ok(Some(Arrived {
                signal,
                by_terminal,
            }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(None),
            _ => Err(error),
        }
    }

    /// A stopping signal that has arrived, without waiting.
    pub fn stop_requested(&self) -> Option<i32> {
        loop {
            match self.wait(Some(Duration::ZERO)) {
                Ok(Some(libc::SIGCHLD)) => {}
                Ok(Some(signal)) => return Some(signal),
                _ => return None,
            }
        }
    }
}

/// Whether a stopping signal has arrived and waits to be taken: [`Signals`] keeps them blocked.
pub(crate) fn stop_pending() -> bool {
    // SAFETY: plain signal-set calls on locals.
    unsafe {
        let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
        if libc::sigpending(pending.as_mut_ptr()) != 0 {
            return false;
        }
        let pending = pending.assume_init();
        STOPPING
            .iter()
            .any(|&signal| libc::sigismember(&raw const pending, signal) == 1)
    }
}

/// Does something that may wait for others without end (opening a FIFO, writing to a pipe that nobody reads): the
/// stopping signals are not blocked meanwhile, and end truecount.
pub fn while_stoppable<T>(wait: impl FnOnce() -> T) -> T {
    // SAFETY: plain signal-set calls on locals, of the calling thread's mask.
    let before = unsafe {
        let mut stopping = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(stopping.as_mut_ptr());
        let mut stopping = stopping.assume_init();
        for signal in STOPPING {
            libc::sigaddset(&raw mut stopping, signal);
        }
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        let done =
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const stopping, before.as_mut_ptr());
        (done == 0).then(|| before.assume_init())
    };
    let result = wait();
    if let Some(before) = before {
        // SAFETY: the mask that this thread had.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }
    result
}

/// The user's wish to stop: asked for between two steps, or told by a run that it ended. The first counts.
pub struct Stop<'s> {
    /// Where signals are taken from.
    pub signals: &'s Signals,
    signal: Cell<Option<i32>>,
}

impl<'s> Stop<'s> {
    /// Not asked for yet.
    pub fn new(signals: &'s Signals) -> Self {
        let signal = Cell::new(None);
        Self { signals, signal }
    }

    /// Whether to stop; takes a signal that has arrived.
    pub fn requested(&self) -> bool {
        if self.signal.get().is_none() {
            self.told(self.signals.stop_requested());
        }
        self.signal.get().is_some()
    }

    /// A run was ended by this signal, or by none; `true`: by one.
    pub fn told(&self, signal: Option<i32>) -> bool {
        self.signal.set(self.signal.get().or(signal));
        signal.is_some()
    }

    /// The signal, where there was one.
    pub fn signal(&self) -> Option<i32> {
        self.signal.get()
    }
}

/// The name of a signal.
pub fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => "see signal(7)",
    }
}
