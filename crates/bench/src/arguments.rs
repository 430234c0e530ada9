//! The command line of a suite.

use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Benchmarks that count.

usage: cargo bench [--bench NAME] -- [FLAGS] [FILTER ...]

FILTER: benchmarks whose name contains it (--exact: whose name is it).

  -e, --event EVENT       what to count (default instructions:u); several: give it again. Short names: ir,
                          branches, loads, stores (the last two by the virtual PMU alone)
      --time              the time, too: of the same machine's clock, outside the virtual PMU; the least of 30 calls
      --source SOURCE     auto (default): the PMU, else the virtual PMU; native; virtual
      --runs N            counted runs of each benchmark (default 5; by the virtual PMU three where these are equal)
      --warmup N          uncounted runs before them (default 3; by the virtual PMU 1, and what costs more than the
                          equal ones that follow)
      --limit METRIC=MAX  exit status 3 where a count grew by more than MAX over the baseline: a share (ir=0.5%) or
                          a number of counts (ir=1000). Given without a baseline of that name: an error
      --baseline NAME     compare with the baseline NAME (without --limit every growth of an exact count is a
                          regression)
      --save-baseline NAME  with filters: what the baseline has of other benchmarks stays
      --baseline-dir DIR  where baselines are kept (default: truecount/ in cargo's target directory)
      --json[=FILE]       the result as JSON (schema truecount.benches/1), to stdout instead of the text (what benchmarks print
                          goes to stderr then), or FILE
      --list              names, and no run
      --exact             filters are whole names
      --skip TEXT         not the benchmarks whose name contains it (--exact: whose name is it)
  -h, --help

Exit status: 0; 1 a benchmark cannot be counted; 2 usage; 3 a regression; 101 a benchmark panicked.";

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Source {
    #[default]
    Auto,
    Native,
    Virtual,
}

/// A largest growth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    Share(f64),
    Counts(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub filters: Vec<String>,
    pub skipped: Vec<String>,
    /// Only what is marked as ignored: libtest's, and no benchmark is.
    pub ignored: bool,
    pub exact: bool,
    pub list: bool,
    pub help: bool,
    /// Cargo says so to benchmarks; without it (`cargo test --benches`) every benchmark runs once, uncounted.
    pub bench: bool,
    pub time: bool,
    pub events: Vec<String>,
    pub source: Source,
    /// As it was asked for; else as often as is usual.
    pub runs: Option<u32>,
    /// Likewise.
    pub warmup: Option<u32>,
    pub limits: Vec<(String, Limit)>,
    pub baseline: Option<String>,
    pub save: Option<String>,
    pub directory: Option<PathBuf>,
    /// `Some(None)`: to stdout.
    pub json: Option<Option<PathBuf>>,
}

/// The metric of `--time`.
pub(crate) const TIME: &str = "wall-time";
/// Metrics of the allocator, which are there without being asked for.
pub(crate) const ALLOCATIONS: [&str; 2] = ["allocations", "allocated-bytes"];

/// The event's name behind a short one.
fn event(name: &str) -> String {
    match name {
        "ir" | "instructions" => "instructions:u".to_owned(),
        "branches" | "loads" | "stores" => format!("{name}:u"),
        "time" => TIME.to_owned(),
        other => other.to_owned(),
    }
}

impl Arguments {
    pub(crate) fn parse(given: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self::default();
        let mut given = given.into_iter();
        while let Some(argument) = given.next() {
            let (flag, attached) = match argument.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => {
                    (flag.to_owned(), Some(value.to_owned()))
                }
                _ => (argument, None),
            };
            let mut value = || {
                let value = attached.clone().or_else(|| given.next());
                value.ok_or_else(|| format!("{flag} needs a value"))
            };
            match flag.as_str() {
                "--bench" => arguments.bench = true,
                "--exact" => arguments.exact = true,
                "--time" => arguments.time = true,
                "--list" => arguments.list = true,
                "-h" | "--help" => arguments.help = true,
                "-e" | "--event" => arguments.events.push(event(&value()?)),
                "--source" => {
                    arguments.source = match value()?.as_str() {
                        "auto" => Source::Auto,
                        "native" => Source::Native,
                        "virtual" => Source::Virtual,
                        other => {
                            return Err(format!("--source {other}: auto, native or virtual"));
                        }
                    };
                }
                "--runs" => arguments.runs = Some(number(&flag, &value()?, 1)?),
                "--warmup" => arguments.warmup = Some(number(&flag, &value()?, 0)?),
                "--limit" => arguments.limits.push(limit(&value()?)?),
                "--baseline" => arguments.baseline = Some(name(&flag, value()?)?),
                "--save-baseline" => arguments.save = Some(name(&flag, value()?)?),
                "--baseline-dir" => arguments.directory = Some(value()?.into()),
                "--json" => arguments.json = Some(attached.clone().map(PathBuf::from)),
                "--skip" => arguments.skipped.push(value()?),
                // What libtest's harness knows and cargo, cargo-nextest or people pass along.
                "--ignored" => arguments.ignored = true,
                "--nocapture" | "--no-capture" | "--show-output" | "--test" | "--quiet" | "-q"
                | "--include-ignored" => {}
                "--color" | "--format" | "--test-threads" => {
                    value()?;
                }
                other if other.starts_with('-') => {
                    return Err(format!(
                        "{other} is not a flag of a suite (--help lists them)"
                    ));
                }
                filter => arguments.filters.push(filter.to_owned()),
            }
        }
        if arguments.events.is_empty() {
            arguments.events.push("instructions:u".to_owned());
        }
        for (of, _) in &arguments.limits {
            let timed = arguments.time && of == TIME;
            if !timed && !arguments.events.contains(of) && !ALLOCATIONS.contains(&of.as_str()) {
                return Err(format!("--limit {of}=…: {of} is not counted (-e {of})"));
            }
        }
        if !arguments.limits.is_empty() && arguments.baseline.is_none() {
            return Err("--limit needs --baseline NAME: growth over what?".to_owned());
        }
        Ok(arguments)
    }

    /// Paths as they are now: a benchmark may go to another directory.
    pub(crate) fn fix_paths(&mut self) {
        let json = self.json.as_mut().and_then(Option::as_mut);
        for path in json.into_iter().chain(&mut self.directory) {
            // One that is empty stays what it is: an error when it is written.
            if let Ok(whole) = std::path::absolute(&path) {
                *path = whole;
            }
        }
    }

    /// Whether not all benchmarks are asked for.
    pub(crate) fn chooses(&self) -> bool {
        !self.filters.is_empty() || !self.skipped.is_empty()
    }

    /// Whether a benchmark of this name is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let named = |texts: &[String]| {
            texts.iter().any(|text| {
                if self.exact {
                    name == text
                } else {
                    name.contains(text.as_str())
                }
            })
        };
        !self.ignored && (self.filters.is_empty() || named(&self.filters)) && !named(&self.skipped)
    }
}

fn number(flag: &str, text: &str, least: u32) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|number| (least..=1_000_000).contains(number))
        .ok_or_else(|| format!("{flag} {text}: a number from {least} to 1000000"))
}

/// A name that is a file's, too.
fn name(flag: &str, name: String) -> Result<String, String> {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(good) {
        return Err(format!(
            "{flag} {name:?}: letters, digits, `-`, `_` and `.`"
        ));
    }
    Ok(name)
}

fn limit(text: &str) -> Result<(String, Limit), String> {
    let wrong = || format!("--limit {text}: EVENT=0.5% or EVENT=1000");
    let (of, most) = text.rsplit_once('=').ok_or_else(wrong)?;
    let limit = match most.strip_suffix('%') {
        Some(share) => {
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if !(0.0..=1e6).contains(&share) {
                return Err(wrong());
            }
            Limit::Share(share / 100.0)
        }
        None => Limit::Counts(most.parse().map_err(|_| wrong())?),
    };
    Ok((event(of), limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Arguments, String> {
        Arguments::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags() {
        let all =
            parse("--bench sort --limit ir=0.5% --baseline main --json=x.json --runs 7").unwrap();
        assert_eq!(
            all.limits,
            [("instructions:u".to_owned(), Limit::Share(0.005))]
        );
        assert_eq!(
            (all.runs, all.bench, all.wants("a::sort")),
            (Some(7), true, true)
        );
        assert!(!all.wants("add"));
        let skipping = parse("sort --skip slow").unwrap();
        assert!(skipping.wants("a::sort") && !skipping.wants("a::slow_sort"));
        // As cargo-nextest asks: a list of all, and one of those that are ignored.
        assert!(parse("--list --format terse").unwrap().wants("add"));
        assert!(
            !parse("--list --format terse --ignored")
                .unwrap()
                .wants("add")
        );
        assert_eq!(all.json, Some(Some("x.json".into())));
        let several = parse("-e ir -e branches --limit branches=10 --baseline b").unwrap();
        assert_eq!(several.events, ["instructions:u", "branches:u"]);
        assert_eq!(several.limits[0].1, Limit::Counts(10));
        let memory = parse("-e loads -e stores --limit allocated-bytes=0 --baseline b").unwrap();
        assert_eq!(memory.events, ["loads:u", "stores:u"]);
        assert!(parse("--time --limit time=5% --baseline b").unwrap().time);
    }

    #[test]
    fn mistakes_are_named() {
        for (words, needle) in [
            ("--limit ir=1%", "--baseline"),
            ("--limit branches=1% --baseline x", "not counted"),
            ("--limit time=1% --baseline x", "not counted"),
            ("--limit ir --baseline x", "EVENT=0.5%"),
            ("--limit ir=-1% --baseline x", "EVENT=0.5%"),
            ("--limit ir=NaN% --baseline x", "EVENT=0.5%"),
            ("--runs 0", "from 1"),
            ("--runs", "needs a value"),
            ("--source cpu", "virtual"),
            ("--frobnicate", "--help"),
            ("--baseline ../x", "letters"),
        ] {
            let said = parse(words).unwrap_err();
            assert!(said.contains(needle), "{words}: {said}");
        }
    }
}
