//! truecount's side of the launcher: forks it, sends it one request a run, and waits for the command.
//!
//! The other side is [`super::zygote`]; both share one anonymous page ([`Shared`]) and one
//! stream socket. Facts: clone(2) for `CLONE_PARENT`, wait4(2), unix(7) for descriptor passing.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::wait::Ticker;
use super::zygote::{
    FLAG_DIRECTORY, FLAG_ENVIRONMENT, FLAG_EXEC, FLAG_FILES, FLAG_GETRANDOM, FLAG_GROUP, FLAG_HOLD,
    FLAG_IN_TURN, FLAG_KEEP_ASLR, Header, MAX_CPUS, Shared,
};
use super::{Launch, LaunchError, Signals};
use crate::determinism::{Answers, Calls, Factor, Fixed, Missing, choose_pid};
use crate::error::Error;
use crate::result::{Ended, RunResult};

/// What to do while the new process stands still before `execve`: open counters on its pid.
pub type Hook<'h> = &'h mut dyn FnMut(i32) -> Result<(), Error>;

/// The launcher process, from truecount's side.
pub struct Launcher {
    socket: OwnedFd,
    shared: Shared,
    zygote: libc::pid_t,
    payload: Vec<u8>,
    missing: Vec<Missing>,
}

impl Launcher {
    /// Forks the launcher. To be called early, while truecount is small and has one thread.
    pub fn start(signals: &Signals) -> io::Result<Self> {
        let shared = Shared::map()?;
        let mut pair: [RawFd; 2] = [-1; 2];
        // SAFETY: `pair` holds two descriptors.
        let made = unsafe {
            libc::socketpair(
                libc::AF_UNIX,
                libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
                0,
                pair.as_mut_ptr(),
            )
        };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just made and are owned by nobody else.
        let (ours, theirs) =
            unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) };
        let mask = signals.original();
        // SAFETY: getpid has no preconditions.
        let parent = unsafe { libc::getpid() };
        // SAFETY: truecount has one thread here, so the copy is whole; the child never returns.
        let zygote = unsafe { libc::fork() };
        match zygote {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                super::zygote::serve(theirs.as_raw_fd(), &shared, &mask, parent)
            }
            zygote => Ok(Self {
                socket: ours,
                shared,
                zygote,
                payload: Vec::new(),
                missing: Vec::new(),
            }),
        }
    }

    /// The launcher's own peak of resident memory, bytes: a smaller program shows this figure.
    pub fn floor(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.zygote)).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        kib.checked_mul(1024)
    }

    /// Runs one command to its end.
    ///
    /// `hook` is called with the pid of the new process while it waits before `execve`; without
    /// one it does not wait. `ticker` is called at its interval while the command runs.
    pub fn run(
        &mut self,
        signals: &Signals,
        launch: &Launch<'_>,
        program: &Path,
        hook: Option<Hook<'_>>,
        ticker: Option<Ticker<'_>>,
    ) -> Result<RunResult, LaunchError> {
        let page = self.shared.page();
        page.exec_errno.store(0, Ordering::Relaxed);
        page.affinity_errno.store(0, Ordering::Relaxed);
        page.aslr_errno.store(0, Ordering::Relaxed);
        page.directory_errno.store(0, Ordering::Relaxed);
        page.in_turn_errno.store(0, Ordering::Relaxed);
        page.started_ns.store(0, Ordering::Relaxed);
        let calls = launch.fixed.map(|fixed| fixed.wanted().calls());
        let calls = calls.filter(|calls| calls.any());
        self.missing.clear();
        self.missing
            .extend(launch.fixed.into_iter().flat_map(Fixed::only_virtual));
        let in_turn = launch.fixed.map_or(Ok(false), Fixed::in_turn);
        let in_turn = in_turn.unwrap_or_else(|missing| {
            self.missing.push(missing);
            false
        });
        // Last: whatever is started takes a number.
        let chosen = choose_pid(launch.fixed, Some(0), &mut self.missing);
        let hold = hook.is_some() || calls.is_some();
        self.send(launch, program, hold, calls, in_turn)?;
        let pid = self.receive_pid()?;
        self.missing
            .extend(chosen.and_then(|chosen| chosen.difference(pid)));
        let answers = match (launch.fixed, calls) {
            (Some(fixed), Some(_)) => self.answers(fixed, pid)?,
            _ => None,
        };
        let mut hook_failure = None;
        if let Some(hook) = hook {
            let answer = match hook(pid) {
                Ok(()) => b'g',
                Err(failure) => {
                    hook_failure = Some(failure);
                    b'x'
                }
            };
            self.write(&[answer])?;
        } else if calls.is_some() {
            self.write(b"g")?;
        }
        let began = &self.shared.page().started_ns;
        let waited = super::wait::until_exit(pid, signals, launch, ticker, began)?;
        self.missing
            .extend(answers.map(Answers::finish).unwrap_or_default());
        if let Some(failure) = hook_failure {
            return Err(LaunchError::Hook(failure));
        }
        let page = self.shared.page();
        match page.affinity_errno.load(Ordering::Acquire) {
            0 => {}
            errno => return Err(LaunchError::Affinity(errno)),
        }
        match page.directory_errno.load(Ordering::Acquire) {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno).into()),
        }
        match page.in_turn_errno.load(Ordering::Acquire) {
            0 => {}
            errno => self
                .missing
                .push(crate::determinism::threads::missing(errno)),
        }
        match page.exec_errno.load(Ordering::Acquire) {
            0 => {}
            errno => return Err(LaunchError::Exec(errno)),
        }
        let started = page.started_ns.load(Ordering::Acquire);
        Ok(RunResult {
            ended: Some(Ended {
                pid: Some(pid),
                exit: waited.exit,
                timed_out: waited.timed_out,
                aslr_refused: page.aslr_errno.load(Ordering::Acquire) != 0,
            }),
            wall_ns: waited.ended_ns.saturating_sub(started),
            usage: Some(waited.usage),
            interrupted: waited.interrupted,
            missing: std::mem::take(&mut self.missing),
            ..RunResult::default()
        })
    }

    /// Answers the new process, which has sent the number of its listener; `None`, and why, where it has none.
    fn answers(&mut self, fixed: &Fixed, pid: i32) -> io::Result<Option<Answers>> {
        let listener = self.receive()?;
        match Answers::of_process(pid, listener, fixed.wanted()) {
            Ok(answers) => Ok(Some(answers)),
            Err(error) => {
                let factors = [
                    Factor::AtRandom,
                    Factor::Getrandom,
                    Factor::Clock,
                    Factor::Files,
                ];
                let reason = format!("the kernel refuses seccomp user notification: {error}");
                let missing = factors.into_iter().filter(|&factor| fixed.has(factor));
                self.missing
                    .extend(missing.map(|factor| Missing::new(factor, &*reason)));
                Ok(None)
            }
        }
    }

    /// Sends the request: a header with the three descriptors, then the strings.
    fn send(
        &mut self,
        launch: &Launch<'_>,
        program: &Path,
        hold: bool,
        calls: Option<Calls>,
        in_turn: bool,
    ) -> io::Result<()> {
        self.payload.clear();
        let mut push = |word: &OsStr| -> io::Result<()> {
            if word.as_bytes().contains(&0) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "an argument holds a NUL byte",
                ));
            }
            self.payload.extend_from_slice(word.as_bytes());
            self.payload.push(0);
            Ok(())
        };
        push(program.as_os_str())?;
        for word in launch.argv {
            push(word)?;
        }
        let environment = launch
            .fixed
            .map(|fixed| fixed.environment(program, launch.argv));
        for (name, value) in environment.iter().flatten() {
            let mut entry = name.clone();
            entry.push("=");
            entry.push(value);
            push(&entry)?;
        }
        let directory = launch.fixed.and_then(Fixed::directory);
        for word in directory.iter().flat_map(|directory| directory.words()) {
            push(OsStr::from_bytes(word.to_bytes()))?;
        }
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "the command is too long");
        let mut header = Header {
            flags: 0,
            argc: u32::try_from(launch.argv.len()).map_err(too_long)?,
            envc: u32::try_from(environment.as_ref().map_or(0, Vec::len)).map_err(too_long)?,
            length: u32::try_from(self.payload.len()).map_err(too_long)?,
            cpus: [0; MAX_CPUS / 64],
        };
        for (on, flag) in [
            (hold, FLAG_HOLD),
            (launch.keep_aslr, FLAG_KEEP_ASLR),
            (launch.own_group, FLAG_GROUP),
            (environment.is_some(), FLAG_ENVIRONMENT),
            (directory.is_some(), FLAG_DIRECTORY),
            (in_turn, FLAG_IN_TURN),
            (calls.is_some_and(|calls| calls.getrandom), FLAG_GETRANDOM),
            (calls.is_some_and(|calls| calls.exec), FLAG_EXEC),
            (calls.is_some_and(|calls| calls.files), FLAG_FILES),
        ] {
            if on {
                header.flags |= flag;
            }
        }
        for &cpu in launch.cpus {
            let word = header.cpus.get_mut(cpu / 64).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("no CPU {cpu}"))
            })?;
            *word |= 1 << (cpu % 64);
        }
        let fds = [0, 1, 2].map(|n: usize| {
            launch.stdio[n].map_or(
                RawFd::try_from(n).unwrap_or(0),
                std::os::fd::AsRawFd::as_raw_fd,
            )
        });
        super::zygote::send_header(self.socket.as_raw_fd(), &header, fds)?;
        let payload = std::mem::take(&mut self.payload);
        let written = self.write(&payload);
        self.payload = payload;
        written
    }

    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // SAFETY: `bytes` is valid for its length; MSG_NOSIGNAL turns a dead launcher into EPIPE.
            let sent = unsafe {
                libc::send(
                    self.socket.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// The pid of the new process, or the errno with which `clone` failed.
    fn receive_pid(&self) -> io::Result<i32> {
        match self.receive()? {
            pid if pid > 0 => Ok(pid),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }

    /// A number from the launcher, or from the new process.
    fn receive(&self) -> io::Result<i32> {
        let mut bytes = [0u8; 4];
        let mut filled = 0;
        while filled < bytes.len() {
            // SAFETY: the rest of `bytes` is valid for writing.
            let got = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    bytes.as_mut_ptr().add(filled).cast(),
                    bytes.len() - filled,
                    0,
                )
            };
            match got {
                0 => return Err(io::Error::other("the launcher process has gone away")),
                -1 => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                got => filled += usize::try_from(got).unwrap_or(0),
            }
        }
        Ok(i32::from_ne_bytes(bytes))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // SAFETY: `zygote` is our child and has not been waited for; closing our end of the
        // socket would end it as well, the signal makes sure.
        unsafe {
            libc::kill(self.zygote, libc::SIGKILL);
            let mut status = MaybeUninit::<i32>::uninit();
            libc::waitpid(self.zygote, status.as_mut_ptr(), 0);
        }
    }
}
