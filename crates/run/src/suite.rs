//! The suite: `truecount.toml` names benchmarks, how they are measured, and what may not get worse.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::compare::Limit;
use crate::error::{Error, ErrorKind};

/// The file's usual name.
pub const FILE: &str = "truecount.toml";

/// So large a file is none.
const MAX_BYTES: u64 = 4 << 20;

fn usual() -> String {
    "suite".to_owned()
}

fn unavailable(cause: String) -> Error {
    Error::new(ErrorKind::Unavailable, cause)
}

fn usage(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, cause)
}

/// Benchmarks that belong together.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Suite {
    /// Its name in records.
    #[serde(default = "usual")]
    pub suite: String,
    /// Shell command that builds what is measured, in the top directory of a work tree; for `backfill` and `bisect`.
    pub build: Option<String>,
    /// The same count in every run and on every machine; the default where neither `machine` nor `source` is named.
    pub reproducible: Option<bool>,
    /// The reference machine that programs are shown.
    pub machine: Option<String>,
    /// Who counts.
    pub source: Option<String>,
    /// Variables of the clean environment: `NAME`, or `NAME=VALUE`.
    #[serde(default)]
    pub env: Vec<String>,
    /// What is declared of the results: `machine`, `compiler`, `flags`, …
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// Count every function too, so that a change is explained.
    #[serde(default)]
    pub functions: bool,
    /// Keep the tree of calls too, so that the paths that a change came by are told; counts functions as well.
    #[serde(default)]
    pub calls: bool,
    /// What benchmarks have that do not say it themselves.
    #[serde(default)]
    pub defaults: Settings,
    /// The benchmarks.
    #[serde(default, rename = "benchmark")]
    pub benchmarks: Vec<Benchmark>,
    /// The directory of the file.
    #[serde(skip)]
    pub directory: PathBuf,
}

/// How a benchmark is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// Events, as `-e` takes them.
    pub events: Option<Vec<String>>,
    /// Metrics, as `-M` takes them.
    pub metrics: Option<Vec<String>>,
    /// Measure wall time, CPU time and peak memory too.
    pub times: Option<bool>,
    /// Measured rounds.
    pub runs: Option<usize>,
    /// Ends a run: `30s`.
    pub timeout: Option<String>,
    /// Standard input: a file.
    pub input: Option<PathBuf>,
    /// Exit statuses that are no failure.
    pub ignore_failure: Option<Vec<i32>>,
    /// The shell that gets the command.
    pub shell: Option<String>,
    /// Shell command before the first run.
    pub setup: Option<String>,
    /// Shell command before each run.
    pub prepare: Option<String>,
    /// Shell command after each run.
    pub conclude: Option<String>,
    /// Shell command after the last run.
    pub cleanup: Option<String>,
    /// By how much a metric may get worse: `instructions = "0.1%"`, `instructions = 1000`.
    #[serde(default)]
    pub limits: BTreeMap<String, Most>,
}

/// A limit as it is written: a share in quotes, or counts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Most {
    /// So many counts.
    Counts(u64),
    /// A share, `"0.1%"`, or counts in quotes.
    Text(String),
}

/// A benchmark.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Written")]
pub struct Benchmark {
    /// Its name.
    pub name: String,
    /// What is executed.
    pub command: Words,
    /// Parameters, each a range `1..9:2` or a list of words, in place of `{NAME}`.
    pub parameters: BTreeMap<String, Values>,
    /// How it is measured.
    pub settings: Settings,
}

/// A benchmark as it is written: what is left are settings.
#[derive(Deserialize)]
struct Written {
    name: String,
    command: Words,
    #[serde(default)]
    parameters: BTreeMap<String, Values>,
    #[serde(flatten)]
    settings: toml::Table,
}

impl TryFrom<Written> for Benchmark {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let settings = Settings::deserialize(written.settings)
            .map_err(|error| format!("the benchmark `{}`: {}", written.name, error.message()))?;
        Ok(Self {
            name: written.name,
            command: written.command,
            parameters: written.parameters,
            settings,
        })
    }
}

/// A command.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// One string, split into words or given to a shell.
    Line(String),
    /// Its words, untouched.
    Words(Vec<String>),
}

/// Values of a parameter.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Values {
    /// `1..9:2`
    Range(String),
    /// Words.
    List(Vec<String>),
}

impl Suite {
    /// The suite that a directory or one above it has.
    ///
    /// # Errors
    /// There is none.
    pub fn find(directory: &Path) -> Result<PathBuf, Error> {
        let start = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let mut places = start.ancestors().map(|place| place.join(FILE));
        places.find(|path| path.is_file()).ok_or_else(|| {
            unavailable(format!(
                "there is no {FILE} in {} or above it",
                start.display()
            ))
            .hint("it names the benchmarks: docs/history.md has an example")
        })
    }

    /// Reads a suite.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let size = std::fs::metadata(path).map(|file| file.len());
        if size.is_ok_and(|size| size > MAX_BYTES) {
            return Err(unavailable(format!("{shown} is larger than 4 MiB")));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| unavailable(format!("cannot read {shown}: {error}")))?;
        let mut suite = Self::parse(&text).map_err(|error| Error {
            cause: format!("{shown}: {}", error.cause),
            ..error
        })?;
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        suite.directory = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(suite)
    }

    /// Reads the text of a suite.
    ///
    /// # Errors
    /// What is wrong with it, with its line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let suite: Self = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .and_then(|span| text.get(..span.start))
                .map(|before| format!("line {}: ", before.matches('\n').count() + 1));
            let message = error.message().replace('\n', " ");
            usage(format!("{}{message}", line.unwrap_or_default()))
        })?;
        suite.check()?;
        Ok(suite)
    }

    fn check(&self) -> Result<(), Error> {
        if self.benchmarks.is_empty() {
            return Err(usage("it names no benchmark")
                .hint("[[benchmark]] with a name and a command makes one"));
        }
        let mut seen = BTreeSet::new();
        for benchmark in &self.benchmarks {
            if benchmark.name.trim().is_empty() {
                return Err(usage("a benchmark has an empty name"));
            }
            if !seen.insert(benchmark.name.as_str()) {
                let cause = format!("the benchmark `{}` is in it twice", benchmark.name);
                return Err(usage(cause));
            }
            if benchmark.settings.runs == Some(0) || self.defaults.runs == Some(0) {
                return Err(usage(format!("`{}`: runs = 0", benchmark.name))
                    .hint("a number above 0 is needed"));
            }
            if let Words::Words(words) = &benchmark.command
                && words.is_empty()
            {
                return Err(usage(format!(
                    "the command of `{}` is empty",
                    benchmark.name
                )));
            }
            self.limits(benchmark)?;
        }
        if self.machine.is_some() && self.reproducible == Some(true) {
            return Err(usage("machine and reproducible = true are both given")
                .hint("reproducible names a machine itself: leave one out"));
        }
        Ok(())
    }

    /// The benchmarks whose names a filter lets through: `*` stands for any text; none lets all through.
    ///
    /// # Errors
    /// There is none.
    pub fn filtered(&self, filters: &[String]) -> Result<Vec<&Benchmark>, Error> {
        let all = self.benchmarks.iter();
        let wanted = |name: &str| filters.is_empty() || filters.iter().any(|f| matches(f, name));
        let found: Vec<&Benchmark> = all.filter(|benchmark| wanted(&benchmark.name)).collect();
        if found.is_empty() {
            let names: Vec<&str> = self.benchmarks.iter().map(|b| b.name.as_str()).collect();
            let cause = format!("no benchmark is called {}", filters.join(" or "));
            return Err(usage(cause).hint(format!("there are {}", names.join(", "))));
        }
        Ok(found)
    }

    /// How a benchmark is measured, with the defaults.
    #[must_use]
    pub fn settings(&self, benchmark: &Benchmark) -> Settings {
        let (own, usual) = (benchmark.settings.clone(), self.defaults.clone());
        let mut limits = usual.limits;
        limits.extend(own.limits);
        Settings {
            events: own.events.or(usual.events),
            metrics: own.metrics.or(usual.metrics),
            times: own.times.or(usual.times),
            runs: own.runs.or(usual.runs),
            timeout: own.timeout.or(usual.timeout),
            input: own.input.or(usual.input),
            ignore_failure: own.ignore_failure.or(usual.ignore_failure),
            shell: own.shell.or(usual.shell),
            setup: own.setup.or(usual.setup),
            prepare: own.prepare.or(usual.prepare),
            conclude: own.conclude.or(usual.conclude),
            cleanup: own.cleanup.or(usual.cleanup),
            limits,
        }
    }

    /// What may not get worse of a benchmark.
    ///
    /// # Errors
    /// A limit that cannot be read.
    pub fn limits(&self, benchmark: &Benchmark) -> Result<Vec<Limit>, Error> {
        let limits = self.settings(benchmark).limits;
        let limit = |(metric, limit): (&String, &Most)| {
            let text = match limit {
                Most::Counts(counts) => format!("{metric}={counts}"),
                Most::Text(text) => format!("{metric}={text}"),
            };
            Limit::parse("limits of", &text).map_err(|error| Error {
                cause: format!("`{}`: {}", benchmark.name, error.cause),
                ..error
            })
        };
        limits.iter().map(limit).collect()
    }

    /// The limits of every benchmark, by its name.
    ///
    /// # Errors
    /// A limit that cannot be read.
    pub fn all_limits(&self) -> Result<BTreeMap<String, Vec<Limit>>, Error> {
        let limits = |benchmark: &Benchmark| Ok((benchmark.name.clone(), self.limits(benchmark)?));
        self.benchmarks.iter().map(limits).collect()
    }

    /// Whether what makes runs differ is held constant under a reference machine.
    #[must_use]
    pub fn is_reproducible(&self) -> bool {
        self.reproducible
            .unwrap_or(self.machine.is_none() && self.source.is_none())
    }
}

/// Whether a name is what a pattern says, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part).and_then(|at| left.get(at + part.len()..)) {
            Some(after) => left = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use truecount_stats::Allowed;

    use super::*;

    const TEXT: &str = r#"
        suite = "parser"
        build = "make"
        [defaults]
        limits = { instructions = "0.1%" }
        [[benchmark]]
        name = "small"
        command = "./parse {file}"
        parameters = { file = ["a", "b"], level = "1..3" }
        [[benchmark]]
        name = "large"
        command = ["./parse", "with spaces"]
        times = true
        limits = { instructions = "1%", wall-time = "5%", branches = 20 }
    "#;

    #[test]
    fn defaults_and_own_settings() {
        let suite = Suite::parse(TEXT).unwrap();
        assert!(suite.is_reproducible());
        let limits = suite.all_limits().unwrap();
        assert_eq!(limits["small"].len(), 1);
        assert_eq!(limits["small"][0].allowed, Allowed::Share(0.001));
        let large = |metric: &str| {
            let mut found = limits["large"].iter().filter(|one| one.metric == metric);
            found.next().unwrap().allowed
        };
        assert_eq!(limits["large"].len(), 3);
        assert_eq!(large("instructions"), Allowed::Share(0.01));
        assert_eq!(large("branches"), Allowed::Counts(20.0));
        assert_eq!(suite.filtered(&["s*".to_owned()]).unwrap().len(), 1);
        assert_eq!(suite.filtered(&[]).unwrap().len(), 2);
        let none = suite.filtered(&["x".to_owned()]).unwrap_err();
        assert!(none.to_string().contains("small, large"), "{none}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, told) in [
            ("", "no benchmark"),
            ("suite = 1", "line 1"),
            ("bild = 'make'", "unknown field `bild`"),
            ("[[benchmark]]\nname = 'a'", "command"),
            ("[[benchmark]]\nname = ''\ncommand = 'x'", "empty name"),
            ("[[benchmark]]\nname = 'a'\ncommand = []", "empty"),
            (
                "[[benchmark]]\nname = 'a'\ncommand = 'x'\nlimits = { i = 'much' }",
                "much",
            ),
            (
                "[[benchmark]]\nname = 'a'\ncommand = 'x'\n[[benchmark]]\nname = 'a'\ncommand = 'y'",
                "twice",
            ),
            (
                "[[benchmark]]\nname = 'a'\ncommand = 'x'\nmetrcs = ['ipc']",
                "metrcs",
            ),
        ] {
            let error = Suite::parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*", "", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("a**b", "ab", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
