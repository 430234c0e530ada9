//! Headings in the help of commands with many options: which option stands below which.

use clap::{Command, CommandFactory as _};

/// Options by their long names, below their heading, by command.
const HEADINGS: &[(&str, &str, &[&str])] = &[
    (
        "bench",
        "How often",
        &[
            "rounds",
            "runs",
            "budget",
            "until",
            "min-runs",
            "max-runs",
            "warmup",
            "seed",
            "exact-runs",
        ],
    ),
    (
        "bench",
        "What is measured",
        &[
            "event",
            "metric",
            "metrics-file",
            "event-dir",
            "detailed",
            "only",
            "source",
            "multiplex",
            "functions",
            "calls",
        ],
    ),
    (
        "bench",
        "The commands",
        &[
            "suite",
            "filter",
            "directory",
            "setup",
            "prepare",
            "conclude",
            "cleanup",
            "parameter-range",
            "parameter-list",
            "name",
            "shell",
            "ignore-failure",
            "output",
            "input",
            "timeout",
            "cpu",
        ],
    ),
    (
        "bench",
        "Comparison and gates",
        &[
            "baseline",
            "from",
            "ignore-environment",
            "ignore-machine",
            "save",
            "fail-above",
            "floor",
        ],
    ),
    (
        "bench",
        "Output",
        &[
            "json",
            "csv",
            "markdown",
            "html",
            "export-json",
            "export-csv",
            "export-markdown",
            "export-asciidoc",
            "export-orgmode",
            "sort",
            "time-unit",
        ],
    ),
    (
        "bench",
        "Determinism",
        &[
            "reproducible",
            "machine",
            "deterministic",
            "aslr",
            "clean-env",
            "keep-env",
            "env",
        ],
    ),
    ("bench", "The virtual PMU", &["no-cache", "code-cache"]),
    (
        "run",
        "What is counted",
        &["event", "functions", "per-thread", "per-process"],
    ),
    (
        "stat",
        "What is counted",
        &[
            "event",
            "metric",
            "metrics-file",
            "event-dir",
            "detailed",
            "source",
        ],
    ),
    (
        "stat",
        "Where",
        &[
            "pid",
            "tid",
            "all",
            "count-cpus",
            "no-aggr",
            "per-core",
            "per-socket",
            "per-node",
            "cgroup",
        ],
    ),
    (
        "stat",
        "When",
        &["runs", "interval", "delay", "control", "timeout"],
    ),
    ("stat", "The command", &["input", "cpu"]),
    (
        "stat",
        "Output",
        &["json", "csv", "field-separator", "output"],
    ),
    (
        "stat",
        "Determinism",
        &["aslr", "deterministic", "machine", "reproducible"],
    ),
    ("stat", "The virtual PMU", &["no-cache", "code-cache"]),
    ("run", "Output", &["json", "output", "flamegraph"]),
    (
        "run",
        "Calls",
        &[
            "calls",
            "percent-limit",
            "lines",
            "diff",
            "saved",
            "html",
            "folded",
            "pprof",
            "callgrind",
            "firefox",
        ],
    ),
    ("run", "A part of the run", &["toggle", "from", "to"]),
    (
        "run",
        "Memory",
        &[
            "memory",
            "model",
            "I1",
            "D1",
            "LL",
            "L2",
            "TLB",
            "ITLB",
            "prefetch",
            "predictor",
            "sharing",
            "locality",
        ],
    ),
    (
        "run",
        "Determinism",
        &["reproducible", "machine", "deterministic", "aslr"],
    ),
    (
        "run",
        "Translations",
        &["no-cache", "code-cache", "clear-cache"],
    ),
    ("noise", "What is varied", &["runs", "factors", "seed"]),
    (
        "noise",
        "How it is measured",
        &[
            "source",
            "profile",
            "timeout",
            "machine",
            "reproducible",
            "no-cache",
            "code-cache",
        ],
    ),
    (
        "noise",
        "Output",
        &[
            "functions",
            "calls",
            "regions",
            "html",
            "svg",
            "json",
            "output",
        ],
    ),
];

/// For options that the table forgot.
const OTHER: &str = "Other options";

/// The command line, with headings.
pub(crate) fn command() -> Command {
    crate::Cli::command().mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        if !HEADINGS.iter().any(|(with, ..)| *with == name) {
            return command;
        }
        command.mut_args(|arg| match arg.get_long() {
            None | Some("help") => arg,
            Some(long) => {
                let heading = heading(&name, long).unwrap_or(OTHER);
                arg.help_heading(heading)
            }
        })
    })
}

fn heading(command: &str, long: &str) -> Option<&'static str> {
    let mut rows = HEADINGS.iter().filter(|(name, ..)| *name == command);
    rows.find_map(|(_, heading, options)| options.contains(&long).then_some(*heading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_help_stands_below_headings() {
        for name in ["bench", "run", "noise", "stat"] {
            let command = command();
            let found = command.find_subcommand(name).unwrap();
            let headings: std::collections::BTreeSet<&str> = found
                .get_arguments()
                .filter_map(clap::Arg::get_help_heading)
                .collect();
            assert!(headings.len() >= 3, "{name}: {headings:?}");
            assert!(!headings.contains(OTHER), "{name}: {headings:?}");
            let without: Vec<&str> = found
                .get_arguments()
                .filter(|arg| arg.get_help_heading().is_none())
                .filter_map(clap::Arg::get_long)
                .collect();
            assert!(without.is_empty(), "{name}: {without:?}");
        }
    }

    /// Help that is laid out by hand ends with the exit statuses.
    #[test]
    fn help_of_long_commands_tells_exit_statuses() {
        for name in ["bench", "run", "noise", "stat"] {
            let command = command();
            let found = command.find_subcommand(name).unwrap();
            let texts = [found.get_after_help(), found.get_after_long_help()];
            let text: String = texts
                .into_iter()
                .flatten()
                .map(ToString::to_string)
                .collect();
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&format!("{name} exits with")), "{name}");
        }
    }
}
