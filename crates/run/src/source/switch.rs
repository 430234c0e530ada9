//! When counting begins, and what switches it off and on while it goes on: perf's `--delay` and `--control`
//! (perf-stat(1)). Until it is switched on, counters are open and count nothing.

use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::counters::Counters;
use crate::error::{Error, ErrorKind};
use crate::runner::wait::now_ns;

/// When counting begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begin {
    /// With the command, or at once where there is none.
    #[default]
    AtOnce,
    /// So long after that.
    After(Duration),
    /// Never by itself: by a command of [`Control`].
    Off,
}

/// Descriptors by which another process switches events.
#[derive(Debug)]
pub struct Control {
    commands: File,
    answers: Option<File>,
}

impl Control {
    /// `fd:CTL[,ACK]` (open descriptors) or `fifo:CTL[,ACK]` (named pipes), as perf takes it.
    ///
    /// # Errors
    /// It is of another form, or one of the two cannot be used.
    pub fn open(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let cause = format!("--control: `{text}` says no descriptors");
            Error::new(ErrorKind::Usage, cause).hint(
                "write fd:CTL[,ACK] with numbers, or fifo:CTL[,ACK] with paths of named pipes",
            )
        };
        let (kind, names) = text.split_once(':').ok_or_else(wrong)?;
        let (commands, answers) = match names.split_once(',') {
            Some((commands, answers)) => (commands, Some(answers)),
            None => (names, None),
        };
        let open = |name: &str, writes| match kind {
            "fd" => number(name.parse().map_err(|_| wrong())?, writes),
            "fifo" if !name.is_empty() => fifo(Path::new(name)),
            _ => Err(wrong()),
        };
        Ok(Self {
            commands: open(commands, false)?,
            answers: answers.map(|name| open(name, true)).transpose()?,
        })
    }

    /// Answers a command; who does not read has no answer.
    fn answer(&self) {
        if let Some(mut answers) = self.answers.as_ref() {
            let _ = answers.write_all(b"ack\n");
        }
    }
}

/// A descriptor that truecount was started with.
fn number(fd: RawFd, writes: bool) -> Result<File, Error> {
    // SAFETY: asks for flags of a number; closed ones are an error.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    let cannot = |why: &str| {
        Error::new(
            ErrorKind::Usage,
            format!("--control: descriptor {fd} {why}"),
        )
        .hint("open it before, as in: exec 7<>fifo; truecount stat --control fd:7 …")
    };
    let access = flags & libc::O_ACCMODE;
    if flags < 0 {
        return Err(cannot("is not open"));
    }
    if (writes && access == libc::O_RDONLY) || (!writes && access == libc::O_WRONLY) {
        return Err(cannot(if writes {
            "is not open for writing"
        } else {
            "is not open for reading"
        }));
    }
    // SAFETY: duplicates an open descriptor.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(cannot(&io::Error::last_os_error().to_string()));
    }
    // SAFETY: just made, owned by nobody else.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(copy) }))
}

/// A named pipe, opened so that nobody has to be at its other end.
fn fifo(path: &Path) -> Result<File, Error> {
    let cannot = |why: String| {
        let cause = format!("--control: {}: {why}", path.display());
        Error::new(ErrorKind::Usage, cause).hint(format!("make it by: mkfifo {}", path.display()))
    };
    let kind = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?;
    if !kind.file_type().is_fifo() {
        return Err(cannot("not a named pipe".to_owned()));
    }
    File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| cannot(error.to_string()))
}

/// How counting is switched during a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Switching<'a> {
    /// When it begins.
    pub begin: Begin,
    /// Who else switches it.
    pub control: Option<&'a Control>,
}

impl Switching<'_> {
    /// Whether anything is switched at all.
    pub fn is_used(&self) -> bool {
        self.begin != Begin::AtOnce || self.control.is_some()
    }
}

/// What a command says.
#[derive(Debug, PartialEq, Eq)]
enum Said<'a> {
    /// Switch this event on or off, or all.
    Switch(bool, Option<&'a str>),
    /// Only an answer is wanted.
    Nothing,
    Unknown,
}

fn said(line: &str) -> Said<'_> {
    let mut words = line.split_ascii_whitespace();
    let (first, name) = (words.next().unwrap_or_default(), words.next());
    match (first, words.next()) {
        ("enable", None) => Said::Switch(true, name),
        ("disable", None) => Said::Switch(false, name),
        ("ping", None) if name.is_none() => Said::Nothing,
        _ => Said::Unknown,
    }
}

/// When counting was on.
#[derive(Debug, Default)]
pub(super) struct Clock(Mutex<Times>);

#[derive(Debug, Default)]
struct Times {
    since: Option<u64>,
    total: u64,
    notes: Vec<String>,
}

impl Clock {
    fn with<T>(&self, change: impl FnOnce(&mut Times) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn on(&self) {
        self.with(|times| times.since = times.since.or_else(|| Some(now_ns())));
    }

    fn off(&self) {
        self.with(|times| {
            let since = times.since.take();
            let now = now_ns();
            let was_on = since.map_or(0, |since| now.saturating_sub(since));
            times.total = times.total.saturating_add(was_on);
        });
    }

    /// Nanoseconds that counting was on; what was said that could not be done.
    pub(super) fn finish(&self) -> (u64, Vec<String>) {
        self.off();
        self.with(|times| (times.total, std::mem::take(&mut times.notes)))
    }
}

/// Switches the counters until `end` is closed: to be called on a thread of its own.
pub(super) fn watch(
    switching: Switching<'_>,
    counters: &Counters,
    clock: &Clock,
    end: &PipeReader,
) {
    let mut at = match switching.begin {
        Begin::After(delay) => Some(Instant::now() + delay),
        Begin::AtOnce | Begin::Off => None,
    };
    let mut control = switching.control;
    let mut text = Vec::new();
    loop {
        let left = at.map(|at| at.saturating_duration_since(Instant::now()));
        // A millisecond more than what is left: poll rounds down.
        let timeout = left.map_or(-1, |left| {
            let up = u128::from(!left.is_zero());
            i32::try_from(left.as_millis() + up).unwrap_or(i32::MAX)
        });
        let poll = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let commands = control.map_or(-1, |control| control.commands.as_raw_fd());
        let mut fds = [poll(end.as_raw_fd(), 0), poll(commands, libc::POLLIN)];
        // SAFETY: an array of two entries; a negative descriptor is passed over.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, timeout) };
        let [end, commands] = fds.map(|fd| fd.revents);
        if end != 0 {
            return;
        }
        if at.is_some_and(|at| Instant::now() >= at) {
            at = None;
            counters.switch(true, None);
            clock.on();
        }
        if let Some(from) = control.filter(|_| commands != 0)
            && !obey(from, &mut text, counters, clock)
        {
            control = None;
        }
    }
}

/// Reads what has come and does it; `false`: nothing more will come.
fn obey(control: &Control, text: &mut Vec<u8>, counters: &Counters, clock: &Clock) -> bool {
    /// Longer commands are none.
    const LONGEST: usize = 4096;
    let mut bytes = [0u8; 512];
    let count = match (&control.commands).read(&mut bytes) {
        Ok(0) => return false,
        Ok(count) => count,
        Err(error) => {
            return matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            );
        }
    };
    for &byte in bytes.get(..count).unwrap_or_default() {
        if byte != b'\n' && byte != 0 {
            if text.len() < LONGEST {
                text.push(byte);
            }
            continue;
        }
        let line = String::from_utf8_lossy(text).into_owned();
        text.clear();
        match said(&line) {
            Said::Switch(on, name) if counters.switch(on, name) => {
                if on {
                    clock.on();
                } else if name.is_none() {
                    clock.off();
                }
            }
            Said::Switch(_, name) => {
                let name = name.unwrap_or_default();
                note(clock, format!("--control: no event `{name}` is counted."));
            }
            Said::Nothing => {}
            Said::Unknown if line.is_empty() => continue,
            Said::Unknown => note(
                clock,
                format!(
                    "--control: `{line}` was not understood; there are enable, disable and ping."
                ),
            ),
        }
        control.answer();
    }
    true
}

/// A program that says the same a thousand times is told of once.
fn note(clock: &Clock, text: String) {
    clock.with(|times| {
        if times.notes.len() < 10 && !times.notes.contains(&text) {
            times.notes.push(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_perfs() {
        assert_eq!(said("enable"), Said::Switch(true, None));
        assert_eq!(said(" disable "), Said::Switch(false, None));
        assert_eq!(
            said("enable cycles:u"),
            Said::Switch(true, Some("cycles:u"))
        );
        assert_eq!(said("ping"), Said::Nothing);
        for unknown in ["", "enabled", "enable a b", "stop", "ping x"] {
            assert_eq!(said(unknown), Said::Unknown, "{unknown}");
        }
    }

    #[test]
    fn what_is_no_descriptor_is_said() {
        for bad in [
            "", "fd", "fd:", "fd:x", "fifo:", "pipe:1", "fd:,1", "fifo:,x",
        ] {
            let error = Control::open(bad).unwrap_err();
            assert!(
                error.cause.contains("says no descriptors"),
                "{bad}: {error}"
            );
        }
        let closed = Control::open("fd:987").unwrap_err();
        assert_eq!(closed.cause, "--control: descriptor 987 is not open");
        let file = Control::open("fifo:/proc/self/stat").unwrap_err();
        assert!(file.to_string().contains("not a named pipe"), "{file}");
        let (reader, writer) = io::pipe().unwrap();
        let (read, write) = (reader.as_raw_fd(), writer.as_raw_fd());
        assert!(Control::open(&format!("fd:{read},{write}")).is_ok());
        let turned = Control::open(&format!("fd:{write},{read}")).unwrap_err();
        assert!(turned.cause.contains("for reading"), "{turned}");
    }

    #[test]
    fn the_clock_runs_while_counting_is_on() {
        let clock = Clock::default();
        assert_eq!(clock.finish().0, 0);
        clock.on();
        clock.on();
        std::thread::sleep(Duration::from_millis(2));
        let (first, _) = clock.finish();
        assert!(first >= 2_000_000);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(clock.finish().0, first);
    }
}
