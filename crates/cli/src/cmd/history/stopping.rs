//! Ctrl-C while commits are built and measured: what runs is ended, what was measured is kept, and one line says so.

use std::cell::Cell;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use truecount_run::runner::Signals;

use super::number_of;
use super::pausing::Pausing;
use crate::failure::Failure;

/// What is told to end has so long; then it is killed.
const GRACE: Duration = Duration::from_millis(300);

/// How often a child is looked at whose end sent no signal (others may have taken it).
const LOOK: Duration = Duration::from_millis(100);

/// Of what a command prints so much is kept of the beginning, where an error stands, …
const BEGINNING: usize = 1 << 20;

/// … and so much of the end.
const END: usize = 1 << 16;

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
        let paused = Pausing::prepare();
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
        paused.with(&child);
        let texts = [
            child.stdout.take().map(gather),
            child.stderr.take().map(gather),
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
            all += &text.so_far(GRACE);
            all.push('\n');
        }
        Ok(Err(telling(&all, status)))
    }
}

/// What a command prints: the beginning and the end of it, whatever its length.
#[derive(Default)]
struct Printed {
    beginning: Vec<u8>,
    end: Vec<u8>,
    /// Something between them was not kept.
    gap: bool,
}

impl Printed {
    fn add(&mut self, bytes: &[u8]) {
        let room = BEGINNING.saturating_sub(self.beginning.len());
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.beginning.extend_from_slice(first);
        self.end.extend_from_slice(rest);
        // Twice as much as is wanted, so that not every read moves it.
        if self.end.len() > 2 * END {
            self.end.drain(..self.end.len() - END);
            self.gap = true;
        }
    }

    /// Lines that are whole, but for the last one.
    fn text(&self) -> String {
        let (beginning, end) = (&self.beginning[..], &self.end[..]);
        if !self.gap {
            return String::from_utf8_lossy(&[beginning, end].concat()).into_owned();
        }
        let before = beginning.iter().rposition(|byte| *byte == b'\n');
        let behind = end.iter().position(|byte| *byte == b'\n');
        let (before, _) = beginning.split_at(before.unwrap_or(beginning.len()));
        let (_, behind) = end.split_at(behind.unwrap_or(0));
        let text = [before, b"\n", behind].concat();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A pipe that a thread of its own reads, so that the command never waits.
struct Gathered {
    printed: Arc<Mutex<Printed>>,
    ended: mpsc::Receiver<()>,
}

impl Gathered {
    /// What has come: all of it where the pipe ends within this time (what the command left running may keep it).
    fn so_far(&self, limit: Duration) -> String {
        let _ = self.ended.recv_timeout(limit);
        let printed = self.printed.lock();
        printed.unwrap_or_else(PoisonError::into_inner).text()
    }
}

fn gather(mut pipe: impl Read + Send + 'static) -> Gathered {
    let (sender, ended) = mpsc::channel();
    let printed = Arc::new(Mutex::new(Printed::default()));
    let shared = Arc::clone(&printed);
    std::thread::spawn(move || {
        let mut some = vec![0; END];
        loop {
            match pipe.read(&mut some) {
                Ok(0) => break,
                Ok(read) => {
                    let bytes = some.get(..read).unwrap_or_default();
                    shared
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .add(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = sender.send(());
    });
    Gathered { printed, ended }
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

#[cfg(test)]
mod tests {
    use super::{BEGINNING, END, Printed, gather};
    use std::io::{self, Read, Write as _};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn of_what_a_build_prints_the_beginning_and_the_end_are_kept() {
        let mut printed = Printed::default();
        printed.add(b"error: first\n");
        for number in 0..400_000 {
            printed.add(format!("line {number}\n").as_bytes());
        }
        printed.add(b"error: last");
        assert!(printed.beginning.len() + printed.end.len() <= BEGINNING + 2 * END);
        let text = printed.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[1]), ("error: first", "line 0"));
        assert_eq!(lines[lines.len() - 2..], ["line 399999", "error: last"]);
        let whole = |line: &str| {
            let number = line.strip_prefix("line ");
            number.is_none_or(|number| number.parse::<u32>().is_ok())
        };
        let cut = lines.iter().find(|line| !line.is_empty() && !whole(line));
        assert_eq!(cut, None, "lines are whole on both sides of the gap");
    }

    #[test]
    fn what_fits_is_kept_as_it_is() {
        let mut printed = Printed::default();
        printed.add(&[b'x'; BEGINNING - 1]);
        printed.add(&[b'y'; END]);
        let text = printed.text();
        assert_eq!(text.len(), BEGINNING - 1 + END);
        assert!(text.starts_with("xx") && text.ends_with("yy"));
    }

    /// A daemon that a build left running keeps the pipe: what the build has printed is there all the same.
    #[test]
    fn a_pipe_that_stays_open_gives_what_has_come() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"error: it fails\n").unwrap();
        let (seen, said) = mpsc::channel();
        let gathered = gather(Told {
            pipe: reader,
            seen,
            reads: 0,
        });
        said.recv().unwrap();
        assert_eq!(gathered.so_far(Duration::ZERO), "error: it fails\n");
        drop(writer);
    }

    /// Says when what the first read gave has been taken: when the second one begins.
    struct Told {
        pipe: io::PipeReader,
        seen: mpsc::Sender<()>,
        reads: usize,
    }

    impl Read for Told {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.reads == 1 {
                self.seen.send(()).unwrap();
            }
            self.reads += 1;
            self.pipe.read(into)
        }
    }
}
