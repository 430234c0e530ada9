//! The end after a failed internal check: one report, exit status 123. The
//! program's data are left alone: nothing is flushed, nothing goes on.

use crate::layout::{self, Context, Header};
use crate::sys;
use crate::syscall_table as nr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A small text buffer.
pub struct Text {
    bytes: [u8; 1000],
    len: usize,
}

impl Text {
    pub const fn new() -> Self {
        Self {
            bytes: [0; 1000],
            len: 0,
        }
    }
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        for &b in s.as_bytes() {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = b;
                self.len += 1;
            }
        }
        Ok(())
    }
}

/// Until nothing more is needed to start: what fails then is the launcher's to tell, and the program can
/// still run without us.
static STARTING: AtomicBool = AtomicBool::new(true);

/// The program's first block can run.
pub fn started() {
    STARTING.store(false, Relaxed);
}

/// Stops for the launcher, which reads the text and runs the program natively.
fn cannot_start(text: &[u8]) {
    // SAFETY: a breakpoint with registers as the launcher expects them (`virt::inject`).
    unsafe {
        core::arch::asm!("int3", in("rax") layout::CANNOT_START,
            in("rdi") text.as_ptr(), in("rsi") text.len());
    }
}

/// Ends the run.
pub fn fail(arguments: core::fmt::Arguments<'_>) -> ! {
    if STARTING.load(Relaxed) {
        let mut text = Text::new();
        let _ = text.write_fmt(arguments);
        cannot_start(text.bytes());
    }
    let mut text = Text::new();
    let _ = text.write_str("truecount: internal check failed: ");
    let _ = text.write_fmt(arguments);
    let _ = text.write_str("\n");
    let header = layout::TOTALS_BASE as *mut Header;
    // The launcher prints what is in the header.
    // SAFETY: the header is mapped before anything here can fail; where it is
    // not, the fault ends the process too.
    unsafe {
        if (*header).magic == layout::MAGIC && (*header).failed.swap(1, Relaxed) == 0 {
            for (i, &b) in text.bytes().iter().enumerate() {
                (&raw mut (*header).report[i]).write_volatile(b);
            }
        }
    }
    loop {
        // SAFETY: ends the process.
        unsafe {
            sys::call(
                nr::EXIT_GROUP,
                [layout::INTERNAL_EXIT as u64, 0, 0, 0, 0, 0],
            )
        };
    }
}

pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    fail(format_args!("{info}"))
}

/// Where a thread is, for a report.
pub fn whereabouts(context: &Context) -> (u64, u32, u32) {
    (context.pc, context.tid, context.exit_kind)
}

/// `check!(condition, "text", …)`: the engine's assertion.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            $crate::report::fail(format_args!($($text)+));
        }
    };
}
