//! A benchmark that ends the process (`std::process::exit`) would leave no result and the status that it chose: 0 would be
//! taken for a suite that has counted.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process that must not end; 0: none.
static WATCHED: AtomicU32 = AtomicU32::new(0);
/// The case that runs.
static RUNNING: Mutex<Option<String>> = Mutex::new(None);

/// While there is one, an end of this process is an error.
pub(crate) struct Watched;

impl Watched {
    pub(crate) fn new() -> Self {
        WATCHED.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: a function without arguments that lives as long as the program. Where it cannot be registered an end is
        // not noticed.
        unsafe { libc::atexit(ends) };
        Self
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED.store(0, Ordering::Relaxed);
    }
}

/// Notes which case runs.
pub(crate) fn running(name: Option<&str>) {
    if let Ok(mut running) = RUNNING.lock() {
        *running = name.map(str::to_owned);
    }
}

extern "C" fn ends() {
    // Children of forks end as they like.
    if WATCHED.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let name = RUNNING.try_lock().ok().and_then(|mut name| name.take());
    let who = name.map_or("something".to_owned(), |name| {
        format!("the benchmark {name}")
    });
    let _ = writeln!(
        std::io::stderr(),
        "error: {who} ended the process (exit): nothing was counted"
    );
    // SAFETY: ends the process at once; what was to be written is lost on purpose.
    unsafe { libc::_exit(1) };
}
