//! Following a run: the first `execve`, and those the runtime announces later.
//!
//! A process is traced only from just before an `execve` until the runtime is
//! in the new image. Each request has its own thread here, because ptrace binds
//! a tracee to the thread that attached.

use super::futex;
use super::inject::inject;
use super::ptrace::{self, Event};
use super::remote::InjectError;
use super::shared::Shared;
use super::{BeforeStart, LaunchError};
use crate::layout::exec;
use crate::snapshot::save;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

fn pipe() -> Result<(File, File), LaunchError> {
    let mut fds: [RawFd; 2] = [-1; 2];
    // SAFETY: two descriptors into our array.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(LaunchError::Io {
            what: "creating a pipe",
            error: io::Error::last_os_error(),
        });
    }
    // SAFETY: fresh descriptors, each owned once.
    Ok(unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) })
}

/// Starts the command and puts the runtime into its image.
pub(super) fn first(
    command: &mut Command,
    shared: &Arc<Shared>,
    before: Option<&BeforeStart>,
) -> Result<Child, LaunchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (mut pid_in, pid_out) = pipe()?;
    let (go_in, mut go_out) = pipe()?;
    let (pid_fd, go_fd) = (pid_out.as_raw_fd(), go_in.as_raw_fd());
    // SAFETY: only write(2) and read(2), which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            let pid = libc::getpid().to_ne_bytes();
            libc::write(pid_fd, pid.as_ptr().cast(), pid.len());
            let mut byte = 0u8;
            // An end of file means that the tracer gave up.
            while libc::read(go_fd, (&raw mut byte).cast(), 1) < 0 {}
            if byte == 1 {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(libc::ECANCELED))
            }
        });
    }
    let for_tracer = Arc::clone(shared);
    let tracer = thread::Builder::new().spawn(move || -> Result<(), LaunchErrorKind> {
        let mut pid = [0u8; 4];
        pid_in
            .read_exact(&mut pid)
            .map_err(|_| LaunchErrorKind::Spawn)?;
        let pid = i32::from_ne_bytes(pid);
        if let Err(error) = ptrace::seize(pid) {
            let _ = go_out.write_all(&[0]);
            return Err(LaunchErrorKind::Ptrace(error));
        }
        go_out.write_all(&[1]).map_err(|_| LaunchErrorKind::Spawn)?;
        loop {
            match ptrace::wait() {
                Ok(Event::Exec(tid)) => {
                    return inject(&for_tracer, tid, 0, |_| {}).map_err(LaunchErrorKind::Inject);
                }
                Ok(Event::Group(tid)) => drop(ptrace::listen(tid)),
                Ok(Event::Signal(tid, signal)) => drop(ptrace::resume(tid, signal)),
                // The exec failed: the child ends and its parent reaps it.
                Ok(Event::Gone(_)) | Err(_) => return Err(LaunchErrorKind::Spawn),
            }
        }
    });
    let tracer = tracer.map_err(no_thread)?;
    let spawned = start(command, before);
    drop((pid_out, go_in));
    let traced = tracer.join().unwrap_or(Err(LaunchErrorKind::Spawn));
    match (spawned, traced) {
        (Ok(child), Ok(())) => Ok(child),
        (_, Err(LaunchErrorKind::Ptrace(error))) => Err(LaunchError::PtraceForbidden { error }),
        // Ours to lack, not the program's.
        (Err(error), _)
            if matches!(
                error.raw_os_error(),
                Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ENOMEM)
            ) =>
        {
            Err(LaunchError::Io {
                what: "starting the program",
                error,
            })
        }
        (Err(error), _) => Err(LaunchError::Spawn { program, error }),
        (Ok(mut child), Err(error)) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(match error {
                LaunchErrorKind::Inject(InjectError::NotX86_64) => {
                    LaunchError::NotX86_64 { program }
                }
                LaunchErrorKind::Inject(InjectError::Step(what, error)) => {
                    LaunchError::Inject { what, error }
                }
                LaunchErrorKind::Inject(InjectError::Start(reason)) => {
                    LaunchError::Start { reason }
                }
                _ => LaunchError::Vanished { program },
            })
        }
    }
}

/// Starts it, several times if it is not to be as it is.
fn start(command: &mut Command, before: Option<&BeforeStart>) -> io::Result<Child> {
    for tries in 0.. {
        if let Some(before) = before {
            before.act(tries);
        }
        match command.spawn() {
            Err(error)
                if error.raw_os_error() == Some(libc::ESTALE) && tries < BeforeStart::TRIES => {}
            other => return other,
        }
    }
    Err(io::Error::from_raw_os_error(libc::ESTALE))
}

fn no_thread(error: io::Error) -> LaunchError {
    LaunchError::Io {
        what: "starting a thread of the launcher",
        error,
    }
}

enum LaunchErrorKind {
    Spawn,
    Ptrace(io::Error),
    Inject(InjectError),
}

/// Waits until a process has ended, without taking its status or the stops that
/// belong to other threads here.
pub(super) fn wait_for_end(pid: u32) {
    // SAFETY: pidfd_open has no memory arguments.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        // Before Linux 5.3: look now and then.
        let stat = format!("/proc/{pid}/stat");
        while std::fs::read_to_string(&stat).is_ok_and(|s| {
            s.rsplit(')')
                .next()
                .is_some_and(|rest| !rest.starts_with(" Z"))
        }) {
            thread::sleep(Duration::from_millis(1));
        }
        return;
    }
    // SAFETY: a fresh descriptor of ours.
    let file = unsafe { File::from_raw_fd(fd as RawFd) };
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd of ours.
    while unsafe { libc::poll(&raw mut poll, 1, -1) } < 0
        && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
}

/// The thread that answers requests.
pub(super) struct Service {
    stop: Arc<AtomicBool>,
    /// Threads that follow somebody through an `execve`.
    active: Arc<AtomicU32>,
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Service {
    pub(super) fn start(shared: &Arc<Shared>, child: u32) -> Result<Self, LaunchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let active = Arc::new(AtomicU32::new(0));
        let (theirs, stopped, busy) = (Arc::clone(shared), Arc::clone(&stop), Arc::clone(&active));
        let thread = thread::Builder::new()
            .spawn(move || serve(&theirs, &stopped, &busy, child))
            .map_err(no_thread)?;
        Ok(Self {
            stop,
            active,
            shared: Arc::clone(shared),
            thread: Some(thread),
        })
    }

    /// Ends the service. Processes that outlive the program go on: those that are being followed come
    /// into their new image first, those that ask later are told no.
    pub(super) fn stop(&mut self) {
        /// An `execve` that takes longer than this is left alone.
        const PATIENCE: Duration = Duration::from_secs(5);
        self.stop.store(true, Ordering::Release);
        self.shared.header().saving.store(0, Ordering::Release);
        let bell = &self.shared.header().doorbell;
        bell.fetch_add(1, Ordering::AcqRel);
        futex::wake(bell);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let start = std::time::Instant::now();
        while self.active.load(Ordering::Acquire) != 0 && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        self.shared.followers.end();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(shared: &Arc<Shared>, stop: &AtomicBool, active: &Arc<AtomicU32>, child: u32) {
    let header = shared.header();
    loop {
        let ending = stop.load(Ordering::Acquire);
        if ending {
            header.closed.store(1, Ordering::Release);
        }
        let bell = header.doorbell.load(Ordering::Acquire);
        for (at, word) in header.requests.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let slot = at as u32 * 32 + bits.trailing_zeros();
                bits &= bits - 1;
                if ending || !follow_apart(shared, active, slot, child) {
                    refuse(shared, slot);
                }
            }
        }
        if ending {
            return;
        }
        // At the latest after a second it is looked again: a process may be killed before it rings.
        futex::wait(&header.doorbell, bell);
    }
}

/// Answers a request on a thread of its own, because ptrace binds a tracee to one; false where there
/// can be none.
fn follow_apart(shared: &Arc<Shared>, active: &Arc<AtomicU32>, slot: u32, child: u32) -> bool {
    /// They use a few pages.
    const STACK: usize = 1 << 20;
    const PAUSE: Duration = Duration::from_millis(20);
    // A limit of threads (RLIMIT_NPROC, pids cgroup): those that are there end before long.
    for _ in 0..250 {
        active.fetch_add(1, Ordering::AcqRel);
        if shared.followers.give(slot) {
            return true;
        }
        let (shared, busy) = (Arc::clone(shared), Arc::clone(active));
        let started = thread::Builder::new().stack_size(STACK).spawn(move || {
            let mut next = Some(slot);
            while let Some(slot) = next {
                let clean = follow(&shared, slot, child);
                busy.fetch_sub(1, Ordering::AcqRel);
                // Whoever is still traced is let go by the thread's end.
                next = clean.then(|| shared.followers.next()).flatten();
            }
        });
        if started.is_ok() {
            return true;
        }
        if active.fetch_sub(1, Ordering::AcqRel) == 1 {
            return false;
        }
        thread::sleep(PAUSE);
    }
    false
}

/// Tells a thread that nobody will follow it, or keep its translations.
fn refuse(shared: &Shared, slot: u32) {
    let Ok(context) = shared.map(slot) else {
        return;
    };
    for (word, from, to) in [
        (context.exec(), exec::WANTED, exec::REFUSED),
        (context.save(), save::WANTED, save::DONE),
    ] {
        let _ = word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        futex::wake(word);
    }
}

/// Follows one thread through its `execve`; false: it may still be traced.
fn follow(shared: &Shared, slot: u32, child: u32) -> bool {
    let Ok(context) = shared.map(slot) else {
        return true;
    };
    if context.save().load(Ordering::Acquire) == save::WANTED {
        shared.store.save(&context);
        futex::wake(context.save());
        return true;
    }
    let Ok(tid) = i32::try_from(context.tid()) else {
        return true;
    };
    let seen = context.exec().compare_exchange(
        exec::WANTED,
        exec::SEEN,
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
    if seen.is_err() {
        return true; // asked twice, answered once
    }
    let answer = |value| {
        context.exec().store(value, Ordering::Release);
        futex::wake(context.exec());
    };
    if ptrace::seize(tid).is_err() {
        answer(exec::REFUSED);
        return true;
    }
    answer(exec::WATCHED);
    loop {
        match ptrace::wait() {
            Ok(Event::Exec(tid)) => {
                let inside = inject(shared, tid, slot, |error| left_out(shared, tid, error));
                shared.replaced();
                return inside.is_ok();
            }
            Ok(Event::Group(tid)) => drop(ptrace::listen(tid)),
            Ok(Event::Signal(tid, libc::SIGTRAP))
                if context.exec().load(Ordering::Acquire) == exec::FAILED =>
            {
                answer(exec::NONE);
                return ptrace::detach(tid, 0).is_ok();
            }
            Ok(Event::Signal(tid, signal)) => drop(ptrace::resume(tid, signal)),
            Ok(Event::Gone(gone)) => {
                // Our own child is reaped by its owner; others pass through us.
                if u32::try_from(gone).ok() != Some(child) {
                    ptrace::reap(gone);
                }
                return false;
            }
            Err(_) => return false,
        }
    }
}

/// Notes that the program, which is still stopped, will run on without being counted.
fn left_out(shared: &Shared, tid: i32, error: &InjectError) {
    // Killed before its first instruction, it has executed none.
    if matches!(error, InjectError::Gone) {
        return;
    }
    let path = std::fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default();
    let header = shared.header();
    header.uncounted.fetch_add(1, Ordering::Relaxed);
    let why = match error {
        InjectError::NotX86_64 => "no 64-bit program".to_owned(),
        InjectError::Gone => "ended".to_owned(),
        InjectError::Start(why) => why.clone(),
        InjectError::Step(what, error) => format!("{what}: {error}"),
    };
    header.name_left_out(path.as_os_str().as_bytes(), &why);
}
