//! Ctrl-C while commits are built and measured: what runs is ended, what was measured is kept, and one line says so.

use std::cell::Cell;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use truecount_run::runner::Signals;

use super::number_of;
use super::pausing::Pausing;
use crate::failure::Failure;

/// What is told to end has so long; then it is killed.
const GRACE: Duration = Duration::from_millis(300);

/// How often a child is looked at whose end sent no signal (others may have taken it).
const LOOK: Duration = Duration::from_millis(100);

/// The user's wish to stop, and what is kept then.
pub(super) struct Stopping {
    signals: Signals,
    measured: Cell<usize>,
    /// The signal that came while something else was under way.
    asked: Cell<Option<i32>>,
}

impl Stopping {
    /// From now on signals are waited for.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            signals: Signals::block()?,
            measured: Cell::new(0),
            asked: Cell::new(None),
        })
    }

    /// Does what may have to wait for others, a lock or a server. When the user ends it, it is left where it is: it goes
    /// with the process.
    pub(super) fn meanwhile<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.check()?;
        let (sender, receiver) = mpsc::channel();
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || sender.send(work()))?;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new(125, "the store's thread ended early"));
                }
            }
            if let Some(signal) = self.signals.stop_requested() {
                // Perhaps it is done this moment: then it counts, and the next check ends it.
                self.asked.set(Some(signal));
                return receiver
                    .recv_timeout(GRACE)
                    .map_err(|_| self.stopped(signal));
            }
        }
    }

    /// The record of one more commit is in the store.
    pub(super) fn kept(&self) {
        self.measured.set(self.measured.get() + 1);
    }

    /// Ends here when the user has asked for it.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let asked = self.asked.get().or_else(|| self.signals.stop_requested());
        self.asked.set(asked);
        match asked {
            Some(signal) => Err(self.stopped(signal)),
            None => Ok(()),
        }
    }

    /// What failed may have failed by the same Ctrl-C, which a terminal sends to git, too.
    pub(super) fn instead_of(&self, failure: Failure) -> Failure {
        self.check().err().unwrap_or(failure)
    }

    fn stopped(&self, signal: i32) -> Failure {
        let code = u8::try_from(128 + signal).unwrap_or(130);
        match self.measured.get() {
            0 => Failure::new(code, "interrupted before a commit was measured"),
            measured => {
                let what = number_of(measured, "commit");
                Failure::new(code, format!("interrupted: {what} measured, and kept"))
                    .hint("the same command goes on from there")
            }
        }
    }

    /// Runs a command without showing what it prints; where it fails the line of it that tells most.
    pub(super) fn quietly(&self, command: &mut Command) -> Result<Result<(), String>, Failure> {
        self.check()?;
        // A group of its own: all of a build ends with it.
        let started = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut child = started.map_err(|error| {
            let name = command.get_program().to_string_lossy().into_owned();
            Failure::new(125, format!("cannot start {name}: {error}"))
        })?;
        let _paused = Pausing::with(&child);
        let texts = [
            child.stdout.take().map(|pipe| gather(Box::new(pipe))),
            child.stderr.take().map(|pipe| gather(Box::new(pipe))),
        ];
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            match self.signals.wait(Some(LOOK))? {
                None | Some(libc::SIGCHLD) => {}
                Some(signal) => {
                    end(&mut child, signal)?;
                    return Err(self.stopped(signal));
                }
            }
        };
        if status.success() {
            return Ok(Ok(()));
        }
        let mut all = String::new();
        for text in texts.into_iter().flatten() {
            // What the command left running may keep the pipe: what has come by then is enough.
            all += &text.recv_timeout(GRACE).unwrap_or_default();
            all.push('\n');
        }
        Ok(Err(telling(&all, status)))
    }
}

/// Reads a pipe to its end.
fn gather(mut pipe: Box<dyn Read + Send>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Tells a command with all that it has started to end, and kills what does not.
fn end(child: &mut Child, signal: i32) -> io::Result<()> {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: the group of our own child, which is not waited for yet.
        unsafe { libc::kill(-group, signal) };
        let until = Instant::now() + GRACE;
        while !has_ended(child.id()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: as above: as long as it is not waited for, the number is its own.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    child.wait().map(drop)
}

/// Whether a child has ended, which is not taken as a wait for it.
fn has_ended(pid: u32) -> bool {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the place is valid; zeroed plain data, which the kernel fills where a child has ended.
    unsafe {
        libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), how) == 0
            && info.assume_init().si_pid() != 0
    }
}

/// Of what a failed command printed the line that tells most.
fn telling(all: &str, status: ExitStatus) -> String {
    let lines = || all.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines().find(|line| {
        let low = line.to_lowercase();
        low.contains("error") || low.starts_with("truecount:")
    });
    let line = telling
        .or(lines().next_back())
        .unwrap_or("it printed nothing");
    let line: String = line.chars().take(300).collect();
    format!("{line} ({status})")
}
