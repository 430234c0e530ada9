//! The commands to measure: from words after `--` or from quoted strings, once for each
//! combination of parameters.

use std::ffi::OsString;
use std::path::PathBuf;

use super::params::{self, Parameter, combinations, substitute};
use super::result::{Command, Map, Metric};
use crate::error::{Error, ErrorKind};
use crate::runner::command_line;
use crate::runner::{resolve, split};

/// One command.
pub struct Job {
    /// How it is called in tables.
    pub name: String,
    /// What is executed.
    pub argv: Vec<OsString>,
    /// The file that is executed.
    pub program: PathBuf,
    /// Parameters with their values.
    pub values: Vec<(String, String)>,
    /// Position of the command as the user wrote it, before parameters multiplied it.
    pub written: usize,
}

/// The commands as the user wrote them.
#[derive(Default)]
pub struct Written<'a> {
    /// Each one string, to be split or given to a shell.
    pub lines: &'a [String],
    /// One more, its words untouched.
    pub words: &'a [OsString],
    /// How they are called in tables: one for each, or none.
    pub names: &'a [String],
    /// The shell that gets the strings.
    pub shell: Option<&'a str>,
    /// Names and ranges of numbers, by turns.
    pub ranges: &'a [String],
    /// Names and lists of words, by turns.
    pub lists: &'a [String],
}

/// A command as written.
enum Form<'a> {
    Line(&'a str),
    Words(&'a [OsString]),
}

impl Written<'_> {
    /// Makes the jobs: each command once for each combination of parameters.
    ///
    /// # Errors
    /// A command that is not there or cannot be split, or a parameter that cannot be read or is not used.
    pub fn jobs(&self) -> Result<Vec<Job>, Error> {
        let parameters = params::parse(self.ranges, self.lists)?;
        let words = self.words.iter().map(|word| word.to_string_lossy());
        let commands: Vec<_> = self.lines.iter().map(Into::into).chain(words).collect();
        params::check_use(&parameters, &commands)?;
        make(self, &parameters)
    }
}

/// The jobs of several lists of commands, each with parameters of its own; one list is one command to hooks.
///
/// # Errors
/// As [`Written::jobs`].
pub fn jobs_of_all(all: &[Written<'_>]) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (number, written) in all.iter().enumerate() {
        for mut job in written.jobs()? {
            job.written = number;
            jobs.push(job);
        }
    }
    distinguish(&mut jobs);
    Ok(jobs)
}

fn make(written: &Written<'_>, parameters: &[Parameter]) -> Result<Vec<Job>, Error> {
    let Written {
        lines,
        words,
        names,
        shell,
        ..
    } = *written;
    let mut written: Vec<Form<'_>> = lines.iter().map(|line| Form::Line(line)).collect();
    if !words.is_empty() {
        written.push(Form::Words(words));
    }
    if written.is_empty() {
        return Err(Error::new(ErrorKind::Usage, "no command to run").hint(
            "write commands in quotes, or one after --, as in: truecount bench -- gzip -9 -k file",
        ));
    }
    let combinations = combinations(parameters)?;
    let mut jobs = Vec::new();
    for (index, command) in written.iter().enumerate() {
        for values in &combinations {
            let (argv, shown) = match command {
                Form::Line(line) => {
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
                Form::Words(words) => {
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
                None => return Err(Error::new(ErrorKind::Usage, "the command is empty")),
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
        return Err(Error::new(
            ErrorKind::Usage,
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

impl Job {
    /// Room for what is measured of it.
    pub(super) fn command(&self, metrics: Map<Metric>) -> Command {
        let words = self.argv.iter().map(|word| word.to_string_lossy());
        Command {
            command: words.map(Into::into).collect(),
            name: self.name.clone(),
            parameters: Map(self.values.clone()),
            metrics,
            ..Command::default()
        }
    }
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
        let jobs = Written {
            words: &words,
            ..Written::default()
        }
        .jobs()
        .unwrap();
        assert_eq!(jobs[0].argv, words);
    }

    #[test]
    fn equal_commands_get_different_names() {
        let jobs = Written {
            lines: &strings(&["true", "true", "true"]),
            ..Written::default()
        }
        .jobs()
        .unwrap();
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["true", "true (2)", "true (3)"]);
    }

    #[test]
    fn parameters_multiply_and_a_shell_gets_the_line() {
        let ranges = strings(&["n", "1..2"]);
        let lines = strings(&["echo {n} | cat"]);
        let written = |shell| Written {
            lines: &lines,
            shell,
            ranges: &ranges,
            ..Written::default()
        };
        let jobs = written(Some("sh")).jobs().unwrap();
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[1].argv, ["sh", "-c", "echo 2 | cat"]);
        assert!(written(None).jobs().is_err());
        assert!(Written::default().jobs().is_err());
        let names = Written {
            lines: &strings(&["true"]),
            names: &strings(&["a", "b"]),
            ..Written::default()
        };
        assert!(names.jobs().is_err());
    }
}
