//! The live screen, driven through tmux: keys, and the terminal as it was before however it ends.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Busy, text, truecount};

/// A terminal with a shell in it, on a server of its own.
struct Terminal {
    socket: String,
    directory: PathBuf,
}

impl Terminal {
    /// `None` where there is no tmux.
    fn start(name: &str) -> Option<Self> {
        let socket = format!("truecount-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(&socket);
        std::fs::create_dir_all(&directory).unwrap();
        let this = Self { socket, directory };
        let started = this.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "120",
            "-y",
            "40",
            "env PS1='$ ' sh",
        ]);
        match started {
            Ok(output) if output.status.success() => Some(this),
            Ok(output) => panic!("tmux: {}", text(&output.stderr)),
            Err(error) => {
                truecount_testing::skip!("tmux", "tmux ({error})");
                None
            }
        }
    }

    fn tmux(&self, arguments: &[&str]) -> std::io::Result<std::process::Output> {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(arguments).output()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).unwrap();
    }

    /// A line for the shell.
    fn run(&self, line: &str) {
        self.keys(&[line, "Enter"]);
    }

    fn screen(&self) -> String {
        text(&self.tmux(&["capture-pane", "-p"]).unwrap().stdout)
    }

    /// Waits until the screen is as it should be.
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "never {what}:\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn shows(&self, part: &str) -> String {
        self.until(part, |s| s.contains(part))
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// Starts top between two looks at the terminal's settings.
    fn top(&self, arguments: &str) {
        let (before, after) = (self.file("before"), self.file("after"));
        let program = env!("CARGO_BIN_EXE_truecount");
        self.run(&format!(
            "clear; echo a line from before; stty -a >'{before}'; '{program}' top -I 200 {arguments}; echo \"ended with $?\"; stty -a >'{after}'; echo 'all done'"
        ));
    }

    /// After top has ended: its status, and that the terminal is as it was.
    fn restored(&self, status: i32) {
        let screen = self.until("the end", |s| s.contains("all done\n"));
        assert!(
            screen.contains(&format!("ended with {status}\n")),
            "{screen}"
        );
        assert!(
            screen.contains("a line from before"),
            "the normal screen is back:\n{screen}"
        );
        assert!(!screen.contains("truecount top  process"), "{screen}");
        let settings = |name: &str| std::fs::read_to_string(self.file(name)).unwrap();
        let before = settings("before");
        assert!(before.contains("icanon") && !before.contains("-icanon"));
        assert_eq!(before, settings("after"));
        let cursor = self.tmux(&["display-message", "-p", "#{cursor_flag}#{alternate_on}"]);
        assert_eq!(
            text(&cursor.unwrap().stdout).trim(),
            "10",
            "a cursor, no second screen"
        );
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Whether cpu-clock can be sampled here.
fn can_sample() -> bool {
    let output = truecount(&["top", "--once", "-e", "cpu-clock:u", "--seconds", "50ms"]);
    if !output.status.success() {
        truecount_testing::skip!("software", "{}", text(&output.stderr).trim());
    }
    output.status.success()
}

#[test]
fn keys_work_and_q_gives_the_terminal_back() {
    let (true, Some(t)) = (can_sample(), Terminal::start("keys")) else {
        return;
    };
    let busy = Busy::start();
    t.top(&format!("-e cpu-clock:u,task-clock:u -p {}", busy.pid()));
    let first = |screen: &str| {
        let head = screen.lines().position(|l| l.contains("≈ events"))?;
        screen.lines().nth(head + 1).map(str::to_owned)
    };
    let hot_first = |s: &str| first(s).is_some_and(|l| l.contains("top_test_hot"));
    let screen = t.until("the hot function first", hot_first);
    assert!(
        screen.contains("  last ") && screen.contains("▼ cpu-clock:u"),
        "{screen}"
    );
    t.keys(&["a"]);
    t.shows("since the start");
    t.keys(&["n"]);
    t.shows("▼ task-clock:u");
    t.keys(&["Space"]);
    t.shows("PAUSED");
    let head = |s: &str| s.lines().nth(1).map(str::to_owned);
    let still = head(&t.screen());
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(head(&t.screen()), still, "it stands still");
    t.keys(&["Space"]);
    t.until("going on", |s| !s.contains("PAUSED") && head(s) != still);
    t.keys(&["/"]);
    t.keys(&["-l", "test_warm"]);
    t.until("the filter", |s| {
        s.contains("top_test_warm") && !s.contains("top_test_hot")
    });
    t.keys(&["Escape"]);
    t.until("all rows", |s| s.contains("top_test_hot"));
    t.keys(&["Enter"]);
    t.until("the code", |s| {
        s.contains("code (Tab: callers)") && s.contains("top.rs:")
    });
    t.keys(&["Tab"]);
    t.shows("callers (Tab: code)");
    t.keys(&["q"]);
    t.until("the table", hot_first);
    t.keys(&["b"]);
    t.shows("by process");
    t.keys(&["q"]);
    t.restored(0);
}

#[test]
fn ctrl_c_gives_the_terminal_back() {
    let (true, Some(t)) = (can_sample(), Terminal::start("ctrl-c")) else {
        return;
    };
    let busy = Busy::start();
    t.top(&format!("-e cpu-clock:u -p {}", busy.pid()));
    t.shows("top_test_hot");
    t.keys(&["C-c"]);
    t.restored(0);
}

/// The pid of the top that runs in the terminal.
fn pid_of_top(t: &Terminal) -> i32 {
    let shell = t.tmux(&["display-message", "-p", "#{pane_pid}"]).unwrap();
    let shell = text(&shell.stdout).trim().to_owned();
    let children = format!("/proc/{shell}/task/{shell}/children");
    let children = std::fs::read_to_string(children).unwrap();
    children
        .split_ascii_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn signal(pid: i32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn sigterm_gives_the_terminal_back_and_an_ended_process_is_told() {
    let (true, Some(t)) = (can_sample(), Terminal::start("term")) else {
        return;
    };
    let mut busy = Busy::start();
    t.top(&format!("-e cpu-clock:u -p {}", busy.pid()));
    t.shows("top_test_hot");
    busy.0.kill().unwrap();
    busy.0.wait().unwrap();
    t.shows("the process has ended");
    signal(pid_of_top(&t), "-TERM");
    t.restored(143);
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let (true, Some(t)) = (can_sample(), Terminal::start("gone")) else {
        return;
    };
    let busy = Busy::start();
    t.top(&format!("-e cpu-clock:u -p {}", busy.pid()));
    t.shows("top_test_hot");
    let pid = pid_of_top(&t);
    t.tmux(&["kill-server"]).unwrap();
    let start = Instant::now();
    while PathBuf::from(format!("/proc/{pid}")).exists() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{pid} still runs"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_takes_it_back() {
    let (true, Some(t)) = (can_sample(), Terminal::start("stop")) else {
        return;
    };
    let busy = Busy::start();
    // Job control is the interactive shell's.
    t.run("set -m");
    let program = env!("CARGO_BIN_EXE_truecount");
    t.run(&format!(
        "{program} top -I 200 -e cpu-clock:u -p {}",
        busy.pid()
    ));
    t.shows("top_test_hot");
    t.keys(&["C-z"]);
    t.until("the shell", |s| {
        s.contains("Stopped") && !s.contains("≈ events")
    });
    t.run("stty -a | grep -o '.icanon'; fg");
    t.shows("top_test_hot");
    t.keys(&["q"]);
    let screen = t.until("the end", |s| !s.contains("≈ events"));
    assert!(!screen.contains("-icanon"), "{screen}");
}

/// Ten minutes at 4 kHz on all CPUs: the memory of the last five minutes is that of the first five.
/// `cargo test -p truecount-cli --test top -- --ignored --nocapture memory`; `TRUECOUNT_TEST_SECONDS` for another
/// time.
#[test]
#[ignore = "takes ten minutes"]
fn memory_is_flat_over_time() {
    let (true, Some(t)) = (can_sample(), Terminal::start("memory")) else {
        return;
    };
    let seconds = std::env::var("TRUECOUNT_TEST_SECONDS").ok();
    let seconds = seconds.and_then(|s| s.parse().ok()).unwrap_or(600u64);
    let _busy = Busy::start();
    t.top("-a -e cpu-clock -F 4000");
    t.shows("top_test_hot");
    let pid = pid_of_top(&t);
    let memory = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
        line.split_ascii_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    };
    let start = Instant::now();
    let mut seen = Vec::new();
    while start.elapsed().as_secs() < seconds {
        std::thread::sleep(Duration::from_secs(5));
        seen.push(memory());
        println!(
            "{:4} s  {} KiB",
            start.elapsed().as_secs(),
            seen[seen.len() - 1]
        );
    }
    // It rises while symbols of files are read and falls when they are given up, so middles are compared.
    let most = seen.iter().max().copied().unwrap();
    let middle = seen.len() / 2;
    let (first, last) = seen.split_at_mut(middle);
    first.sort_unstable();
    last.sort_unstable();
    let (first, last) = (first[first.len() / 2], last[last.len() / 2]);
    println!("middle {first} KiB, then {last} KiB, most {most} KiB");
    assert!(last * 100 <= first * 120 && most < 256 << 10);
    t.keys(&["q"]);
    t.restored(0);
}
