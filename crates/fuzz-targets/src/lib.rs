//! Every parser of outside data as a function of bytes: `fuzz/` gives them to libFuzzer, the test `mutate` of this crate
//! mutates their seeds for some seconds on every change.
//!
//! A target panics where the parser does, and where what it says of itself is wrong (an error that points nowhere, a
//! text that does not parse again).

#![forbid(unsafe_code)]
#![allow(clippy::expect_used)] // a target's way to complain

mod binary;
mod command;
mod history;
mod machine;
pub mod mutants;
mod recordings;
mod seeds;
mod text;

pub use binary::unwound;

/// A parser.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its fuzz target and of its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Feeds it.
    pub run: fn(&[u8]),
    /// Inputs that reach far into it, made on the spot: binary files need no place in the tree.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: [Target; 34] = [
    target("event_expr", text::event_expr, seeds::event_expr),
    target("cpu_text", text::cpu_text, seeds::cpu_text),
    target("metric_expr", text::metric_expr, seeds::metric_expr),
    target("metrics_file", text::metrics_file, seeds::metrics_file),
    target("vendor_events", text::vendor_events, seeds::vendor_events),
    target("proc_text", text::proc_text, seeds::proc_text),
    target("branch_text", text::branch_text, seeds::branch_text),
    target("kallsyms", text::kallsyms, seeds::kallsyms),
    target("shell_words", command::shell_words, seeds::shell_words),
    target("arguments", command::arguments, seeds::arguments),
    target("command_line", command::command_line, seeds::command_line),
    target("documents", command::documents, seeds::documents),
    target("scan_state", command::scan_state, seeds::scan_state),
    target("verdicts", command::verdicts, seeds::verdicts),
    target("perf_data", binary::perf_data, recordings::perf_data),
    target("profile_reader", binary::profile_reader, seeds::none),
    target("elf", binary::elf, seeds::elf),
    target("code", binary::code, seeds::code),
    target("cpuid", binary::cpuid, seeds::cpuid),
    target(
        "kept_translations",
        binary::kept_translations,
        seeds::kept_translations,
    ),
    target("script_text", text::script_text, seeds::script_text),
    target("symbols", binary::symbols, seeds::none),
    target("unwind", binary::unwind, recordings::unwind),
    target(
        "recording_directory",
        binary::recording_directory,
        recordings::recording_directory,
    ),
    target("facts", machine::facts, seeds::facts),
    target(
        "trace_formats",
        machine::trace_formats,
        seeds::trace_formats,
    ),
    target("dirents", machine::dirents, seeds::dirents),
    target(
        "process_start",
        machine::process_start,
        seeds::process_start,
    ),
    target("requests", machine::requests, seeds::requests),
    target("block_specs", command::block_specs, seeds::block_specs),
    target("records", history::records, seeds::records),
    target("imports", history::imports, seeds::imports),
    target("suites", history::suites, seeds::suites),
    target("series", history::series, seeds::series),
];

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}

/// The target of this name.
///
/// # Panics
/// Where there is none.
#[must_use]
pub fn named(name: &str) -> Target {
    *TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target of this name")
}

/// Runs with a directory: the thread's own, the same for all of its inputs (making one takes longer than most parsers).
fn in_directory(look: impl FnOnce(&std::path::Path)) {
    thread_local! {
        static DIRECTORY: Option<tempfile::TempDir> = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .ok();
    }
    DIRECTORY.with(|directory| {
        if let Some(directory) = directory {
            look(directory.path());
        }
    });
}
