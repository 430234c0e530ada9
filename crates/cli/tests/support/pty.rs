//! A program in a terminal of its own (pty(7)): keys go in, what it shows comes out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) struct Pty {
    keys: File,
    /// The program's side, kept to look at the terminal's settings.
    terminal: OwnedFd,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Pty {
    /// Starts it with the terminal as its standard streams, alone in its session. `None` where there are no
    /// pseudo-terminals.
    pub(crate) fn start(command: &mut Command) -> Option<Self> {
        let (mut ours, mut theirs) = (-1, -1);
        let size = libc::winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: two descriptors are written, the size is only read.
        let done = unsafe {
            libc::openpty(
                &raw mut ours,
                &raw mut theirs,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                (&raw const size).cast_mut(),
            )
        };
        if done != 0 {
            let error = std::io::Error::last_os_error();
            truecount_testing::skip!("tools", "no pseudo-terminal: {error}");
            return None;
        }
        // SAFETY: new descriptors that nobody else has.
        let (keys, terminal) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // SAFETY: fcntl(2) of our own descriptors: the child must not hold the side that its reader waits on.
        unsafe {
            for fd in [ours, theirs] {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        for side in 0..3 {
            let end = terminal.try_clone().unwrap();
            match side {
                0 => command.stdin(end),
                1 => command.stdout(end),
                _ => command.stderr(end),
            };
        }
        // SAFETY: setsid(2) and ioctl(2) are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.env("TERM", "xterm").spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut from, to) = (keys.try_clone().unwrap(), Arc::clone(&shown));
        let reader = std::thread::spawn(move || {
            let mut some = [0; 4096];
            // EIO: nobody has the other side any more.
            while let Ok(n) = from.read(&mut some) {
                to.lock().unwrap().extend_from_slice(&some[..n]);
            }
        });
        Some(Self {
            keys,
            terminal,
            child,
            shown,
            reader,
        })
    }

    /// Whether the terminal gives keys as they are pressed: the screen is on.
    pub(crate) fn raw(&self) -> bool {
        // SAFETY: a live descriptor, and settings that are written whole.
        unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            assert_eq!(
                libc::tcgetattr(self.terminal.as_raw_fd(), &raw mut settings),
                0
            );
            settings.c_lflag & libc::ICANON == 0
        }
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for the end: the status, and everything that was shown. `None`: it went on for that long, and is killed.
    pub(crate) fn end(mut self, limit: Duration) -> (Option<ExitStatus>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.ended() {
                break Some(status);
            }
            if begun.elapsed() > limit {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // With nobody at the other side the reader has read all there is, and ends.
        drop(self.terminal);
        self.reader.join().unwrap();
        let shown = self.shown.lock().unwrap();
        (status, String::from_utf8_lossy(&shown).into_owned())
    }
}
