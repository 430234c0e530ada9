//! The commands to measure: from words after `--` or from quoted strings, once for each
//! combination of parameters.

use std::ffi::OsString;
use std::path::PathBuf;

use super::params::{Parameter, combinations, substitute};
use crate::failure::Failure;
use truecount_run::runner::command_line;
use truecount_run::runner::{resolve, split};

/// One command.
pub(super) struct Job {
    /// How it is called in tables.
    pub(super) name: String,
    /// What is executed.
    pub(super) argv: Vec<OsString>,
    /// The file that is executed.
    pub(super) program: PathBuf,
    /// Parameters with their values.
    pub(super) values: Vec<(String, String)>,
    /// Position of the command as the user wrote it, before parameters multiplied it.
    pub(super) written: usize,
}

/// A command as written.
enum Written<'a> {
    /// One string, to be split or given to a shell.
    Line(&'a str),
    /// Words, untouched.
    Words(&'a [OsString]),
}

/// Makes the jobs.
pub(super) fn make(
    lines: &[String],
    words: &[OsString],
    names: &[String],
    shell: Option<&str>,
    parameters: &[Parameter],
) -> Result<Vec<Job>, Failure> {
    let mut written: Vec<Written<'_>> = lines.iter().map(|line| Written::Line(line)).collect();
    if !words.is_empty() {
        written.push(Written::Words(words));
    }
    if written.is_empty() {
        return Err(Failure::new(2, "no command to run").hint(
            "write commands in quotes, or one after --, as in: truecount bench -- gzip -9 -k file",
        ));
    }
    let combinations = combinations(parameters)?;
    let mut jobs = Vec::new();
    for (index, command) in written.iter().enumerate() {
        for values in &combinations {
            let (argv, shown) = match command {
                Written::Line(line) => {
                    let line = substitute(line, values);
                    let argv = match shell {
                        Some(shell) => {
                            let mut argv = split(shell)?;
                            argv.push("-c".to_owned());
                            argv.push(line.clone());
                            argv
                        }
                        None => split(&line)?,
                    };
                    (argv.into_iter().map(OsString::from).collect(), line)
                }
                Written::Words(words) => {
                    let argv: Vec<OsString> = words
                        .iter()
                        .map(|word| match word.to_str() {
                            Some(text) if !values.is_empty() => substitute(text, values).into(),
                            _ => word.clone(),
                        })
                        .collect();
                    let shown = command_line(&argv);
                    (argv, shown)
                }
            };
            let program = match argv.first() {
                Some(program) => resolve(program)?,
                None => return Err(Failure::new(2, "the command is empty")),
            };
            jobs.push(Job {
                name: shown,
                argv,
                program,
                values: values.clone(),
                written: index,
            });
        }
    }
    if !names.is_empty() && names.len() != jobs.len() && names.len() != written.len() {
        return Err(Failure::new(
            2,
            format!("{} names for {} commands", names.len(), jobs.len()),
        )
        .hint("give --name once for each command"));
    }
    for (index, job) in jobs.iter_mut().enumerate() {
        if names.len() == combinations.len() * written.len() {
            if let Some(name) = names.get(index) {
                job.name.clone_from(name);
            }
        } else if let Some(name) = names.get(job.written) {
            job.name = substitute(name, &job.values);
        }
    }
    distinguish(&mut jobs);
    Ok(jobs)
}

/// Two commands may be written the same; their names may not be.
fn distinguish(jobs: &mut [Job]) {
    for index in 0..jobs.len() {
        let (before, rest) = jobs.split_at_mut(index);
        let Some(job) = rest.first_mut() else {
            return;
        };
        let base = job.name.clone();
        let mut number = 2;
        while before.iter().any(|other| other.name == job.name) {
            job.name = format!("{base} ({number})");
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn words_after_the_dashes_are_untouched() {
        let words: Vec<OsString> = ["/bin/echo", "ONE  TWO", "{x}"].map(Into::into).to_vec();
        let jobs = make(&[], &words, &[], None, &[]).unwrap();
        assert_eq!(jobs[0].argv, words);
    }

    #[test]
    fn equal_commands_get_different_names() {
        let jobs = make(&strings(&["true", "true", "true"]), &[], &[], None, &[]).unwrap();
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["true", "true (2)", "true (3)"]);
    }

    #[test]
    fn parameters_multiply_and_a_shell_gets_the_line() {
        let parameters = [Parameter {
            name: "n".into(),
            values: strings(&["1", "2"]),
        }];
        let jobs = make(
            &strings(&["echo {n} | cat"]),
            &[],
            &[],
            Some("sh"),
            &parameters,
        )
        .unwrap();
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[1].argv, ["sh", "-c", "echo 2 | cat"]);
        assert!(make(&strings(&["echo {n} | cat"]), &[], &[], None, &parameters).is_err());
        assert!(make(&[], &[], &[], None, &[]).is_err());
        assert!(make(&strings(&["true"]), &[], &strings(&["a", "b"]), None, &[]).is_err());
    }
}
