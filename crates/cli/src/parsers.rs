//! What the command reads of outside data by parsers of its own, as functions that the fuzz targets feed. Each tells
//! whether it took the text.

use std::cell::RefCell;

use crate::cmd::{bench, latency};
use crate::help;
use crate::program_args::{parse_cpus, parse_duration};
use truecount_sample::symbols::parse_number;

/// A command line, of words as a shell would give them: what clap and the parsers of single arguments say of it.
#[must_use]
pub fn command_line(words: &[String]) -> bool {
    thread_local! {
        // Building it takes longer than parsing.
        static COMMAND: RefCell<clap::Command> = RefCell::new(help::command());
    }
    let words = std::iter::once("truecount").chain(words.iter().map(String::as_str));
    COMMAND.with_borrow_mut(|command| command.try_get_matches_from_mut(words).is_ok())
}

/// One argument: a time, CPUs, a number.
#[must_use]
pub fn argument(text: &str) -> bool {
    let cpus = parse_cpus(text);
    assert!(cpus.as_ref().is_ok_and(|cpus| cpus.len() <= 1024) || cpus.is_err());
    parse_duration(text).is_ok() | cpus.is_ok() | parse_number(text).is_some()
}

/// A result of `bench --save`, as `--baseline` and `--from` read it.
#[must_use]
pub fn baseline(text: &str) -> bool {
    bench::takes(text)
}

/// A result of `latency --json`, as `--diff` reads it.
#[must_use]
pub fn latency_result(text: &str) -> bool {
    latency::takes(text)
}
