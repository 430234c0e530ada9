//! What is wrong with a command line, in one line with a hint: clap's errors as the other failures of the command.

use std::ffi::OsString;
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
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    called(&words).0
}

/// The command that a line calls: its full name, what is known of it, and how many words name it.
fn called(words: &[OsString]) -> (String, clap::Command, usize) {
    let mut known = crate::Cli::command();
    let mut all = "truecount".to_owned();
    let mut used = 0;
    while let Some(next) = words.get(used).and_then(|word| known.find_subcommand(word)) {
        let next = next.clone();
        all = format!("{all} {}", next.get_name());
        known = next;
        used += 1;
    }
    (all, known, used)
}

/// A failure, with another hint where the word that it names stands behind an option whose value is optional: such an
/// option takes a value with `=` alone, so that in `run --model zen4 -- ls` the word zen4 is the program.
pub(crate) fn with_detached_value(failure: Failure) -> Failure {
    if failure.closed_pipe {
        return failure;
    }
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match detached_value(&words, &failure.cause) {
        Some((option, value)) => {
            failure.hint(format!("as the value of {option}, write {option}={value}"))
        }
        None => failure,
    }
}

/// The option, and the word behind it, that `cause` names.
fn detached_value(words: &[OsString], cause: &str) -> Option<(String, String)> {
    let (_, command, used) = called(words);
    let own = words.get(used..)?.iter().map(|word| word.to_str());
    let own: Vec<_> = own.take_while(|word| *word != Some("--")).collect();
    own.windows(2).find_map(|pair| {
        let &[Some(option), Some(value)] = pair else {
            return None;
        };
        let takes = |argument: &clap::Arg| {
            let long = argument.get_long().map(|name| format!("--{name}"));
            let short = argument.get_short().map(|letter| format!("-{letter}"));
            argument.is_require_equals_set()
                && [long, short].iter().flatten().any(|name| name == option)
        };
        let named = cause.contains(&format!("`{value}`"))
            || cause
                .split([' ', ':', ',', ';'])
                .any(|named| named == value);
        (named && !value.starts_with('-') && command.get_arguments().any(takes))
            .then(|| (option.to_owned(), value.to_owned()))
    })
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn detached(line: &str, cause: &str) -> Option<String> {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        detached_value(&words, cause).map(|(option, value)| format!("{option}={value}"))
    }

    #[test]
    fn a_value_without_its_sign_is_found() {
        for (line, cause, wanted) in [
            (
                "run --model zen4 -- ls",
                "program `zen4` not found in PATH",
                Some("--model=zen4"),
            ),
            (
                "run --model zen4 ls",
                "program `zen4` not found in PATH",
                Some("--model=zen4"),
            ),
            (
                "history show --json a b",
                "a: No such file",
                Some("--json=a"),
            ),
            (
                "bench -i 1,2 false",
                "program `1,2` not found",
                Some("-i=1,2"),
            ),
            (
                "check --json x",
                "`x` is one argument too many",
                Some("--json=x"),
            ),
            // Another word, the program's own, an option that takes a word, one that has its value.
            (
                "run --model zen4 -- ls",
                "program `ls` not found in PATH",
                None,
            ),
            (
                "run --model -- zen4",
                "program `zen4` not found in PATH",
                None,
            ),
            (
                "run -- x --model zen4",
                "program `zen4` not found in PATH",
                None,
            ),
            (
                "run --timeout 4 -- ls",
                "program `4` not found in PATH",
                None,
            ),
            (
                "run --model=this zen4",
                "program `zen4` not found in PATH",
                None,
            ),
            (
                "run --model --memory zen4",
                "program `zen4` not found in PATH",
                None,
            ),
        ] {
            assert_eq!(detached(line, cause).as_deref(), wanted, "{line}: {cause}");
        }
    }

    /// Where the next word would be taken in silence, a program or a file would be the value of an option.
    #[test]
    fn optional_values_need_their_sign() {
        let mut open = vec![crate::Cli::command()];
        let mut seen = Vec::new();
        while let Some(command) = open.pop() {
            for argument in command.get_arguments() {
                let values = argument.get_num_args();
                if values.is_some_and(|n| n.min_values() == 0 && n.max_values() == 1)
                    && argument.get_action().takes_values()
                    && !argument.is_positional()
                {
                    let known = format!("{} {}", command.get_name(), argument.get_id());
                    seen.push((known, argument.is_require_equals_set()));
                }
            }
            open.extend(command.get_subcommands().cloned());
        }
        assert!(seen.len() > 20, "{seen:?}");
        let loose = seen.iter().filter(|(_, set)| !set);
        let mut loose: Vec<_> = loose.map(|(name, _)| name.as_str()).collect();
        loose.sort_unstable();
        // -g as perf has it, with a short list of words; `system` takes no program.
        let known = [
            "record call_graph",
            "report call_graph",
            "system prometheus",
        ];
        assert_eq!(loose, known);
    }
}
