//! What programs print into the log by client requests: `**PID**` in front of each line, `==PID==` in front of a trace.

use std::fmt::Write as _;
use std::path::Path;

use truecount_engine::virt::PrintedWhat;
use truecount_run::functions::{Names, TraceFrame, traces_of};
use truecount_run::result::RunResult;

/// Something that a process printed.
pub(super) struct Said {
    /// Which process image it is.
    image: u32,
    what: What,
}

enum What {
    Text(Vec<u8>),
    Trace(Vec<TraceFrame>),
}

/// All that was printed, in order.
pub(super) fn of(ran: &RunResult) -> Vec<Said> {
    let mut traces = traces_of(ran, &mut Names::default()).into_iter();
    let all = ran.executed.printed.iter().map(|printed| Said {
        image: printed.image,
        what: match &printed.what {
            PrintedWhat::Text(text) => What::Text(text.clone()),
            _ => What::Trace(traces.next().unwrap_or_default()),
        },
    });
    all.collect()
}

/// The lines of one process.
pub(super) fn lines(said: &[Said], image: u32, pid: u32) -> String {
    let mut lines = String::new();
    let mut open = Vec::new();
    for said in said.iter().filter(|said| said.image == image) {
        match &said.what {
            What::Text(text) => {
                for &byte in text {
                    match byte {
                        b'\n' => end(&mut lines, &mut open, pid),
                        byte => open.push(byte),
                    }
                }
            }
            What::Trace(frames) => {
                if !open.is_empty() {
                    end(&mut lines, &mut open, pid);
                }
                // What called `main` is left out, as in Valgrind.
                let main = frames.iter().position(|frame| frame.function == "main");
                let shown = main.map_or(frames.len(), |main| main + 1);
                for (number, frame) in frames.iter().take(shown).enumerate() {
                    let by = if number == 0 { "at" } else { "by" };
                    let name = match frame.function.as_str() {
                        "" => "???",
                        name => name,
                    };
                    let place = match (&frame.line, frame.object.as_str()) {
                        (Some((file, line)), _) => {
                            let base = Path::new(file).file_name();
                            let base =
                                base.map_or(file.as_str().into(), |base| base.to_string_lossy());
                            format!(" ({base}:{line})")
                        }
                        (None, "") => String::new(),
                        (None, object) => format!(" (in {object})"),
                    };
                    // Writing to a string does not fail.
                    let _ = writeln!(
                        lines,
                        "=={pid}==    {by} 0x{:X}: {name}{place}",
                        frame.address
                    );
                }
            }
        }
    }
    if !open.is_empty() {
        end(&mut lines, &mut open, pid);
    }
    lines
}

/// A line is whole.
fn end(lines: &mut String, open: &mut Vec<u8>, pid: u32) {
    let _ = writeln!(lines, "**{pid}** {}", String::from_utf8_lossy(open));
    open.clear();
}
