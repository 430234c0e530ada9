//! What is wrong with a command line, in one line with a hint: clap's errors as the other failures of the command.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::{Failure, Outcome};

/// The outcome of a command line that is not one: help and version are printed, all else is a failure with status 2.
pub(crate) fn outcome(error: &clap::Error) -> Result<Outcome, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            let mut out = crate::output::Output::stdout();
            // A full disk or a closed pipe must show in the status.
            write!(out, "{}", text.ansi())?;
            out.flush()?;
            Ok(Outcome::OK)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nothing was asked for: the help says what there is.
            let _ = error.print();
            Ok(Outcome(2))
        }
        _ => Err(failure(error)),
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(all) => (!all.is_empty()).then(|| all.join(", ")),
        other => Some(other.to_string()),
    }
}

/// The command whose line it is: `truecount profile diff`.
fn command() -> String {
    let mut known = crate::Cli::command();
    let mut all = "truecount".to_owned();
    for word in std::env::args_os().skip(1) {
        let Some(next) = known.find_subcommand(&word).cloned() else {
            break;
        };
        all = format!("{all} {}", next.get_name());
        known = next;
    }
    all
}

fn failure(error: &clap::Error) -> Failure {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    let help = format!("{} --help lists the options", command());
    let near = |kind| match text(error, kind) {
        Some(near) => format!("did you mean {near}? "),
        None => String::new(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument if argument.trim_start_matches('-').parse::<f64>().is_ok() => {
            Failure::new(
                2,
                format!("`{argument}` is a negative number, and no option takes one"),
            )
            .hint(help)
        }
        ErrorKind::UnknownArgument
            if of_perf(&argument).is_some() && command().ends_with(" stat") =>
        {
            Failure::new(2, format!("unknown option `{argument}` of perf stat"))
                .hint(of_perf(&argument).unwrap_or_default())
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let near = near(ContextKind::SuggestedArg);
            Failure::new(2, format!("unknown option `{argument}`")).hint(format!(
                "{near}{help}; what belongs to a program stands behind it"
            ))
        }
        ErrorKind::UnknownArgument => {
            Failure::new(2, format!("`{argument}` is one argument too many")).hint(help)
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let near = near(ContextKind::SuggestedSubcommand);
            Failure::new(2, format!("unknown command `{word}`"))
                .hint(format!("{near}{} --help lists the commands", command()))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            Failure::new(2, format!("{argument} needs a value")).hint(choices(error, help))
        }
        ErrorKind::InvalidValue => {
            let near = near(ContextKind::SuggestedValue);
            Failure::new(2, format!("`{value}` is not a value of {argument}"))
                .hint(format!("{near}{}", choices(error, help)))
        }
        ErrorKind::ValueValidation => {
            let reason = std::error::Error::source(error).map(ToString::to_string);
            let reason = plain(reason.unwrap_or_default());
            Failure::new(2, format!("{argument}: `{value}`: {reason}")).hint(help)
        }
        ErrorKind::MissingRequiredArgument => {
            Failure::new(2, format!("{argument} is missing")).hint(help)
        }
        ErrorKind::ArgumentConflict => {
            let other = text(error, ContextKind::PriorArg).unwrap_or_default();
            let cause = if other == argument || other.is_empty() {
                format!("{argument} can be given once")
            } else {
                format!("{argument} cannot be given together with {other}")
            };
            Failure::new(2, cause).hint(help)
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            Failure::new(2, first.trim_start_matches("error: ")).hint(help)
        }
    }
}

/// What does the same as an option of perf stat that `stat` has not.
fn of_perf(argument: &str) -> Option<&'static str> {
    Some(match argument {
        "--per-die" | "--per-cache" | "--per-cluster" => {
            "there are -A, --per-core, --per-socket, --per-node"
        }
        "--per-thread" => {
            "truecount run --per-thread counts each thread by the virtual PMU; stat -t TID counts one"
        }
        "--for-each-cgroup" => "-G takes a group for each event: -e cycles,cycles -G a,b",
        "--topdown" => "use -M topdown-1",
        "--metrics" => "use -M",
        "-j" | "--json-output" => "use --json",
        "--append" | "--log-fd" => "use -o FILE",
        "-i" | "--no-inherit" => "children are always counted; stat -t TID counts one thread",
        "--pre" | "--post" => "truecount bench has --prepare and --conclude",
        _ => return None,
    })
}

/// What may stand there, where that is a short list.
fn choices(error: &clap::Error, help: String) -> String {
    match text(error, ContextKind::ValidValue) {
        Some(all) => format!("choose among {all}"),
        None => help,
    }
}

/// The parsers' words, said as a user would.
fn plain(reason: String) -> String {
    match reason.as_str() {
        "invalid digit found in string" => "not a whole number".to_owned(),
        "cannot parse integer from empty string" => "a number is missing".to_owned(),
        "number too large to fit in target type" => "too large".to_owned(),
        "invalid float literal" => "not a number".to_owned(),
        // The end of the type is no bound that a user set.
        _ => match reason.split_once(" is not in ") {
            Some((value, range)) if range.ends_with(&format!("..{}", u64::MAX)) => {
                let least = range.split("..").next().unwrap_or_default();
                format!("{value} is less than {least}")
            }
            _ => reason,
        },
    }
}
