//! The terminal: taken over on start, given back however the program ends (quit, error, panic, signal).

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Read as _, Stdout, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

/// The alternate screen in raw mode.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn open() -> io::Result<Self> {
        // A panic must be readable on the normal screen.
        static HOOK: std::sync::Once = std::sync::Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                before(info);
            }));
        });
        enter()?;
        // From here on dropping gives it back.
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(|_| ())
    }

    /// Ctrl-Z: gives the terminal back and stops; takes it over again when the shell continues the program.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        restore();
        // SAFETY: raise has no requirements; this process stops here until it is continued.
        unsafe { libc::raise(libc::SIGSTOP) };
        enter()?;
        self.terminal.clear()
    }
}

/// What is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Nothing,
    /// A key was pressed.
    Key,
    /// Another thread has something to show.
    Bell,
    /// That thread has ended.
    NoBell,
    /// A signal came: perhaps another size of the window.
    Signal,
    /// The terminal was closed.
    Gone,
}

/// Waits for keys. Crossterm's own waiting never returns once the terminal is closed (it reads the end of the input
/// again and again), so it is asked only when there is something.
pub(super) struct Keyboard {
    /// Where stdin is not a terminal, crossterm reads this one.
    tty: Option<OwnedFd>,
    bell: PipeReader,
    rung: Arc<AtomicBool>,
}

/// Lets another thread end the waiting for keys.
#[derive(Debug)]
pub(super) struct Bell {
    pipe: PipeWriter,
    rung: Arc<AtomicBool>,
}

impl Bell {
    pub(super) fn ring(&self) {
        // Once is enough until it was heard, so the pipe never fills up.
        if !self.rung.swap(true, Ordering::SeqCst) {
            let _ = (&self.pipe).write_all(&[0]);
        }
    }
}

impl Keyboard {
    pub(super) fn open() -> io::Result<(Self, Bell)> {
        let tty = if io::stdin().is_terminal() {
            None
        } else {
            Some(File::open("/dev/tty")?.into())
        };
        let (bell, pipe) = io::pipe()?;
        let rung = Arc::new(AtomicBool::new(false));
        let this = Self {
            tty,
            bell,
            rung: Arc::clone(&rung),
        };
        Ok((this, Bell { pipe, rung }))
    }

    /// The first of: a closed terminal, a key, the bell.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<Input> {
        let fd = match &self.tty {
            Some(tty) => tty.as_raw_fd(),
            None => io::stdin().as_raw_fd(),
        };
        let watch = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut watched = [watch(fd), watch(self.bell.as_raw_fd())];
        let limit = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: two valid entries; the descriptors outlive the call.
        let found = unsafe { libc::poll(watched.as_mut_ptr(), 2, limit) };
        if found < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(Input::Signal),
                _ => Err(error),
            };
        }
        let [keys, bell] = watched.map(|w| w.revents);
        let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        if keys & gone != 0 {
            return Ok(Input::Gone);
        }
        if keys != 0 {
            return Ok(Input::Key);
        }
        if bell == 0 {
            return Ok(Input::Nothing);
        }
        // Before what it announced is looked at: what comes later rings again.
        self.rung.store(false, Ordering::SeqCst);
        match self.bell.read(&mut [0])? {
            0 => Ok(Input::NoBell),
            _ => Ok(Input::Bell),
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide).inspect_err(|_| restore())
}

/// Whether the terminal is taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back, once: a second time would move the cursor over what was written since. One that is gone
/// cannot be given back, so errors do not matter.
fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_ends_the_waiting_and_so_does_its_end() {
        let (pipe_in, pipe) = io::pipe().unwrap();
        let (closed, keep) = io::pipe().unwrap();
        let rung = Arc::new(AtomicBool::new(false));
        let mut keys = Keyboard {
            tty: Some(closed.into()),
            bell: pipe_in,
            rung: Arc::clone(&rung),
        };
        let bell = Bell { pipe, rung };
        let short = Duration::from_millis(1);
        assert_eq!(keys.wait(short).unwrap(), Input::Nothing);
        for _ in 0..3 {
            // More often than the pipe has room.
            (0..100_000).for_each(|_| bell.ring());
            assert_eq!(keys.wait(short).unwrap(), Input::Bell);
            assert_eq!(keys.wait(short).unwrap(), Input::Nothing);
        }
        drop(bell);
        assert_eq!(keys.wait(short).unwrap(), Input::NoBell);
        (&keep).write_all(b"q").unwrap();
        assert_eq!(keys.wait(short).unwrap(), Input::Key, "keys come first");
        drop(keep);
        assert_eq!(keys.wait(short).unwrap(), Input::Gone);
    }

    /// Set: panic with the screen up. Run by the test below inside a terminal.
    const PANIC: &str = "TRUECOUNT_TEST_PANIC";

    #[test]
    fn panics_with_the_screen_up() {
        if std::env::var_os(PANIC).is_some() {
            let _screen = Screen::open().unwrap();
            panic!("a defect to be read");
        }
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_can_be_read() {
        let socket = format!("truecount-panic-{}", std::process::id());
        let tmux = |arguments: &[&str]| {
            let mut tmux = std::process::Command::new("tmux");
            tmux.args(["-L", &socket]).args(arguments).output()
        };
        let program = std::env::current_exe().unwrap();
        let name = "cmd::top::screen::tests::panics_with_the_screen_up";
        let script = format!(
            "stty -a | md5sum; {PANIC}=1 RUST_BACKTRACE=0 '{}' --exact {name} --nocapture; stty -a | md5sum; echo 'all done'; sleep 60",
            program.display()
        );
        let started = tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "150",
            "-y",
            "40",
            &script,
        ]);
        match started {
            Ok(output) if output.status.success() => {}
            other => {
                truecount_testing::skip!("tmux", "tmux {other:?}");
                return;
            }
        }
        let screen = (0..300).find_map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            let screen = tmux(&["capture-pane", "-p"]).unwrap().stdout;
            let screen = String::from_utf8_lossy(&screen).into_owned();
            screen.contains("all done").then_some(screen)
        });
        let _ = tmux(&["kill-server"]);
        let screen = screen.unwrap();
        assert!(screen.contains("a defect to be read"), "{screen}");
        let settings: Vec<&str> = screen.lines().filter(|l| l.ends_with("  -")).collect();
        assert!(
            settings.len() == 2 && settings[0] == settings[1],
            "{screen}"
        );
    }
}
