//! The thread that answers what the seccomp filter hands over, for the life of one run (`seccomp_unotify(2)`; Linux 5.6
//! or later for `pidfd_getfd(2)`). It holds for the program's children, too.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::descriptor::{get, open};
use super::dirents::Order;
use super::exec::{AtExec, Seized};
use super::files::{self, Files};
use super::filter::{Calls, Filter};
use super::notification::{self, Notification, Response, Trouble};
use super::random::{self, Streams};
use super::{Factor, Missing};
use crate::error::{Error, ErrorKind};

/// What is answered, and how.
#[derive(Debug, Clone, Copy)]
pub struct Supervised {
    /// Seed of what `getrandom` answers.
    pub getrandom: Option<u64>,
    /// In which order directories are listed.
    pub files: Option<Order>,
    /// What a new program finds on its stack.
    pub at_exec: AtExec,
}

impl Supervised {
    /// The calls that the filter hands over for it.
    pub fn calls(&self) -> Calls {
        Calls {
            getrandom: self.getrandom.is_some(),
            exec: self.at_exec.any(),
            files: self.files.is_some(),
        }
    }
}

/// The thread that answers.
pub struct Answers {
    stop: Arc<AtomicBool>,
    /// errno of what failed before the program started.
    errno: Arc<AtomicI32>,
    trouble: Arc<Mutex<Trouble>>,
    wanted: Supervised,
    /// The child's ends, as long as truecount holds them, too.
    ends: Mutex<Option<(OwnedFd, OwnedFd)>>,
    thread: Option<JoinHandle<()>>,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1; 2];
    // SAFETY: two descriptors into our array; each is owned once.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        let [read, write] = fds;
        Ok((OwnedFd::from_raw_fd(read), OwnedFd::from_raw_fd(write)))
    }
}

impl Answers {
    /// Makes `command` start with a filter, and starts the thread; `None` where there is nothing to answer. What is done at `execve` is left to others.
    ///
    /// # Errors
    /// 125 when there are no pipes.
    pub fn prepare(command: &mut Command, wanted: Supervised) -> Result<Option<Self>, Error> {
        let wanted = Supervised {
            at_exec: AtExec::default(),
            ..wanted
        };
        if !wanted.calls().any() {
            return Ok(None);
        }
        let failed =
            |error: io::Error| Error::new(ErrorKind::Setup, format!("--deterministic: {error}"));
        let (from_child, tell) = pipe().map_err(failed)?;
        let (wait, to_child) = pipe().map_err(failed)?;
        let (tell_fd, wait_fd) = (tell.as_raw_fd(), wait.as_raw_fd());
        let filter = Filter::new(wanted.calls());
        // SAFETY: only system calls on values that the closure owns; all are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                let listener = match filter.install() {
                    Ok(fd) => fd,
                    Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
                };
                let message = [libc::getpid(), listener];
                libc::write(tell_fd, message.as_ptr().cast(), 8);
                let mut byte = 0u8;
                let got = libc::read(wait_fd, (&raw mut byte).cast(), 1);
                if listener < 0 || got != 1 {
                    return Err(io::Error::from_raw_os_error(libc::ECANCELED));
                }
                Ok(())
            });
        }
        let ends = Some((tell, wait));
        let listener = move || take(from_child, to_child);
        Ok(Some(Self::start(wanted, 0, ends, listener)))
    }

    /// Answers the process `pid`, whose listener is its descriptor `fd`.
    ///
    /// # Errors
    /// Where the descriptor is not available.
    pub fn of_process(pid: i32, fd: RawFd, wanted: Supervised) -> io::Result<Self> {
        let listener = fetch(pid, fd)?;
        Ok(Self::start(wanted, pid, None, move || Ok(Some(listener))))
    }

    fn start(
        wanted: Supervised,
        child: i32,
        ends: Option<(OwnedFd, OwnedFd)>,
        listener: impl FnOnce() -> io::Result<Option<OwnedFd>> + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let errno = Arc::new(AtomicI32::new(0));
        let trouble = Arc::new(Mutex::new(Trouble::default()));
        let (stopped, problem, told) =
            (Arc::clone(&stop), Arc::clone(&errno), Arc::clone(&trouble));
        let thread = std::thread::spawn(move || match listener() {
            Ok(Some(listener)) => {
                let listener = Arc::new(listener);
                let files = |order| Files::new(Arc::clone(&listener), order, Arc::clone(&told));
                let mut server = Server {
                    files: wanted.files.map(files),
                    listener: Arc::clone(&listener),
                    wanted,
                    child,
                    streams: Streams::default(),
                    trouble: &told,
                };
                server.serve(&stopped);
            }
            Ok(None) => {}
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                problem.store(errno, Ordering::Release);
            }
        });
        Self {
            stop,
            errno,
            trouble,
            wanted,
            ends: Mutex::new(ends),
            thread: Some(thread),
        }
    }

    /// The program runs: only it holds its ends now.
    pub fn started(&self) {
        if let Ok(mut ends) = self.ends.lock() {
            ends.take();
        }
    }

    /// Why the program was not started, when that was the reason.
    pub fn problem(&self) -> Option<Error> {
        let errno = self.errno.load(Ordering::Acquire);
        (errno != 0).then(|| {
            let mut others = Factor::remedies();
            others.retain(|factor| !matches!(factor, Factor::Getrandom | Factor::Files));
            let others: Vec<&str> = others.into_iter().map(Factor::name).collect();
            Error::new(ErrorKind::Setup,
                format!(
                    "getrandom and getdents64 cannot be answered here (seccomp user notification): {}",
                    io::Error::from_raw_os_error(errno)
                ),
            )
            .hint(format!(
                "name the other factors: --deterministic={}",
                others.join(",")
            ))
        })
    }

    /// Ends the thread; what it could not do.
    pub fn finish(mut self) -> Vec<Missing> {
        self.end();
        let Ok(trouble) = self.trouble.lock() else {
            return Vec::new();
        };
        let programs = trouble
            .programs
            .reason("program(s) were started without it");
        let directories = trouble
            .directories
            .reason("time(s) a directory was listed as it is");
        let at_exec = self.wanted.at_exec;
        let reasons = [
            (at_exec.random.is_some(), Factor::AtRandom, &programs),
            (at_exec.hide_vdso, Factor::Clock, &programs),
            (self.wanted.files.is_some(), Factor::Files, &directories),
        ];
        let missing = reasons.into_iter().filter(|(wanted, ..)| *wanted);
        missing
            .filter_map(|(_, factor, reason)| Some(Missing::new(factor, reason.as_deref()?)))
            .collect()
    }

    fn end(&mut self) {
        self.started();
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes the listener out of the child and lets it go on; `None` when no child came.
fn take(from_child: OwnedFd, to_child: OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut message = [0u8; 8];
    if std::fs::File::from(from_child)
        .read_exact(&mut message)
        .is_err()
    {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = message;
    let (pid, fd) = (
        i32::from_ne_bytes([a, b, c, d]),
        i32::from_ne_bytes([e, f, g, h]),
    );
    let listener = fetch(pid, fd)?;
    std::fs::File::from(to_child).write_all(&[1])?;
    Ok(Some(listener))
}

/// A copy of descriptor `fd` of process `pid`; a negative one is the errno of its making.
fn fetch(pid: i32, fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    get(&open(pid, 0)?, fd)
}

/// The thread's own.
struct Server<'t> {
    listener: Arc<OwnedFd>,
    wanted: Supervised,
    files: Option<Files>,
    child: i32,
    streams: Streams,
    trouble: &'t Mutex<Trouble>,
}

impl Server<'_> {
    /// Answers until nobody is left who could ask, or truecount stops.
    fn serve(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            let mut poll = libc::pollfd {
                fd: self.listener.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one pollfd of ours.
            let ready = unsafe { libc::poll(&raw mut poll, 1, 50) };
            if ready <= 0 {
                continue;
            }
            if poll.revents & libc::POLLIN == 0 {
                return; // hung up: the last process with the filter has ended
            }
            let Some(notification) = notification::receive(&self.listener) else {
                continue; // the caller was interrupted meanwhile
            };
            match (self.wanted.getrandom, &mut self.files) {
                (Some(seed), _)
                    if libc::c_long::from(notification.data.nr) == libc::SYS_getrandom =>
                {
                    random::answer(&self.listener, &notification, &mut self.streams, seed)
                        .send(&self.listener);
                }
                (_, Some(files)) if files::is_mine(&notification) => files.answer(notification),
                _ => self.exec(&notification),
            }
        }
    }

    fn exec(&self, notification: &Notification) {
        let seized = Seized::seize(notification.pid.cast_signed());
        Response::go_on(notification).send(&self.listener);
        let done = seized.and_then(|seized| seized.finish(self.wanted.at_exec, self.child));
        if let (Err(error), Ok(mut trouble)) = (done, self.trouble.lock()) {
            trouble.programs.add(&error);
        }
    }
}
