//! `truecount history compare`: two commits against each other, and gates.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use truecount_history::decide::changes::{in_order, noise};
use truecount_history::decide::compare::{Asked, Row, compare};
use truecount_history::git::{MAX_ANCESTORS, Repository, short};
use truecount_history::record::Commit;
use truecount_history::store::{Blessing, Key, Store};
use truecount_model::number::{change as percent, quantity};
use truecount_run::compare::Limit;
use truecount_run::suite::Suite;

use super::comparison::{Document, summary, tells};
use super::{StoreArgs, benchmark, explained, junit, markdown, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, ResultFile};
use crate::render::json;
use crate::render::style::{BAD, DIM, GOOD, HEAD, WARN, paint};
use crate::render::table::{Align, Cell, Table};

const EXAMPLES: &str = "\
EXIT STATUS
  compare exits with 0 when no gate failed (or none was given), with 3 when a metric of --fail-above
  got worse by more than it may, with 4 when that is undecided, when the two are not comparable, and
  when a benchmark with a limit is gone or was not measured.

EXAMPLES
  truecount history compare                              HEAD against its merge base with main
  truecount history compare --fail-above instructions=0     any instruction more fails
  truecount history compare v1.2 v1.3 --all
  truecount history compare --accept kernel,compiler --fail-above instructions=1%

Where the base has no record, its nearest ancestor that has one is taken, and that is said.";

/// Compare two commits, with gates
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The base (default: the merge base of NEW and --branch; on that branch NEW's parent)
    #[arg(value_name = "BASE")]
    base: Option<String>,
    /// The commit that is judged
    #[arg(value_name = "NEW", default_value = "HEAD")]
    new: String,
    /// The branch on which the base is looked for (default: origin's, main, or master)
    #[arg(long, value_name = "REV")]
    branch: Option<String>,
    /// Only this suite
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Exit with 3 when METRIC is worse by more than MAX (1% or 1000), 4 when that is undecided; 0 lets no count more
    /// pass
    #[arg(long, value_name = "METRIC=MAX")]
    fail_above: Vec<String>,
    /// Gate each benchmark by the limits that FILE gives it (default: truecount.toml here or in a directory above); those of
    /// --fail-above are for the others
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = ".", require_equals = true)]
    limits: Option<PathBuf>,
    /// Compare although these facts differ: machine, environment, all, or names of facts (kernel, compiler, truecount); gone
    /// lets a benchmark with a limit be gone
    #[arg(long, value_name = "FACTS", value_delimiter = ',')]
    accept: Vec<String>,
    /// Show all rows, also those that did not change
    #[arg(long)]
    all: bool,
    /// Print one JSON document (schema truecount.history-compare/1) instead of the text; with =FILE, write it there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// Write a comment for a pull request (GitHub's Markdown, at most 60,000 characters) to FILE, or to stdout instead of
    /// the text
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, conflicts_with = "json")]
    markdown: Option<PathBuf>,
    /// A link for the comment, to where its readers find more
    #[arg(long, value_name = "URL", requires = "markdown")]
    link: Option<String>,
    /// Write JUnit XML to FILE: a test case for each metric of each benchmark
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args) -> CmdResult {
    let gates = limits(&args.fail_above)?;
    let repository = args.store.repository()?;
    let mut store = args.store.open(false)?;
    let file = limits_file(args)?;
    let gated = !gates.is_empty() || args.limits.is_some();
    let document = document(args, gates, file.as_deref(), &repository, &mut store).map_err(
        |mut failure| {
            // With a gate it is an answer too: nothing says that it may pass.
            if gated && failure.code == 1 {
                failure.code = 4;
            }
            failure
        },
    )?;
    if let Some(path) = &args.junit {
        ResultFile::open(path)?.write(junit::xml(&document).as_bytes())?;
    }
    let comment = args.markdown.as_ref();
    let comment = comment.map(|path| (path, markdown::comment(&document, args.link.as_deref())));
    let mut out = Output::shown(args.json.as_deref())?;
    match (&args.json, comment) {
        (Some(_), _) => json::write(&mut out, &document)?,
        (None, Some((path, comment))) if path.as_path() == Path::new("-") => {
            out = Output::stdout();
            out.write_all(comment.as_bytes())?;
        }
        (None, comment) => {
            if let Some((path, comment)) = comment {
                ResultFile::open(path)?.write(comment.as_bytes())?;
            }
            text(&mut out, &document, args.all)?;
        }
    }
    out.flush()?;
    Ok(Outcome(document.found.status))
}

fn limits(texts: &[String]) -> Result<Vec<Limit>, Failure> {
    let limits = texts.iter().map(|text| Limit::parse("--fail-above", text));
    Ok(limits.collect::<Result<Vec<Limit>, _>>()?)
}

/// The file that has the limits of single benchmarks.
fn limits_file(args: &Args) -> Result<Option<PathBuf>, Failure> {
    Ok(match args.limits.as_deref() {
        None => None,
        Some(path) if path.is_dir() => Some(Suite::find(path)?),
        Some(path) => Some(path.to_owned()),
    })
}

/// Limits by benchmark.
type LimitsOf = BTreeMap<String, Vec<Limit>>;

/// The limits that the file had at a commit, and what should be known of them. A file that is not in the repository, or was
/// not there yet, had none.
fn limits_at(
    repository: &Repository,
    commit: &str,
    file: &Path,
) -> Result<(LimitsOf, Option<String>), Failure> {
    let Some(text) = repository.file_at(commit, file)? else {
        return Ok((BTreeMap::new(), None));
    };
    Ok(
        match Suite::parse(&text).and_then(|suite| suite.all_limits()) {
            Ok(limits) => (limits, None),
            Err(error) => {
                let note = format!(
                    "The limits at {} are not known: {}: {error}",
                    short(commit),
                    file.display()
                );
                (BTreeMap::new(), Some(note))
            }
        },
    )
}

fn document(
    args: &Args,
    gates: Vec<Limit>,
    file: Option<&Path>,
    repository: &Repository,
    store: &mut Store,
) -> Result<Document, Failure> {
    let own_gates = match file {
        Some(file) => Suite::read(file)?.all_limits()?,
        None => BTreeMap::new(),
    };
    let new = repository.commit(&args.new)?;
    let wanted = match &args.base {
        Some(base) => repository.resolve(base)?,
        None => base(repository, &new, args.branch.as_deref())?,
    };
    let suite = args.suite.as_deref();
    let measured = store.commits(suite)?;
    if !measured.contains(&new.hash) {
        let cause = format!("{} has no record: {}", short(&new.hash), new.subject);
        return Err(Failure::new(1, cause).hint("measure it, then: truecount history add FILE"));
    }
    if wanted == new.hash {
        let cause = format!("the base and {} are the same commit", short(&new.hash));
        return Err(Failure::new(2, cause).hint("name two, the older one first"));
    }
    let ancestors = repository.first_parents(&wanted, MAX_ANCESTORS)?;
    let found = ancestors
        .iter()
        .position(|hash| measured.contains(hash) && *hash != new.hash);
    let Some((skipped, hash)) = found.and_then(|place| Some((place, ancestors.get(place)?))) else {
        let cause = format!(
            "neither {} nor an ancestor of it has a record",
            short(&wanted)
        );
        return Err(Failure::new(1, cause)
            .hint("measure it: git switch --detach there, bench --save, history add"));
    };
    let (before, after) = (
        store.records(hash, suite)?,
        store.records(&new.hash, suite)?,
    );
    let blessings = blessings(repository, store, hash, &new.hash)?;
    // Exact counts have no noise: the commits before are only read where something else is compared.
    let store = RefCell::new(store);
    let read = OnceCell::new();
    let look = |key: &Key| {
        let noises = read.get_or_init(|| noises(&mut store.borrow_mut(), &ancestors));
        noises.as_ref().ok()?.get(key).copied()
    };
    let (base_gates, note) = match file {
        Some(file) => limits_at(repository, hash, file)?,
        None => Default::default(),
    };
    let asked = Asked {
        gates,
        own_gates,
        base_gates,
        accept: args.accept.iter().cloned().collect(),
        blessings,
        noise: Some(&look),
    };
    let mut found = compare(&before, &after, &asked)?;
    found.notes.extend(note);
    if let Some(Err(failure)) = read.into_inner() {
        return Err(failure);
    }
    Ok(Document {
        schema: "truecount.history-compare/1",
        base: repository.commit(hash)?,
        new,
        skipped,
        found,
    })
}

/// The commit that a new one is compared with, where none is named.
fn base(repository: &Repository, new: &Commit, branch: Option<&str>) -> Result<String, Failure> {
    let usual = [
        "origin/HEAD",
        "origin/main",
        "origin/master",
        "main",
        "master",
    ];
    let branch = match branch {
        Some(branch) => Some(branch),
        None => usual
            .into_iter()
            .find(|name| repository.resolve(name).is_ok()),
    };
    let shared = match branch {
        Some(branch) => repository.merge_base(&new.hash, branch)?,
        None => new.hash.clone(),
    };
    if shared != new.hash {
        return Ok(shared);
    }
    new.parents.first().cloned().ok_or_else(|| {
        let name = short(&new.hash);
        if repository.is_shallow() {
            let cause = format!("{name} is the first commit of this shallow clone");
            return Failure::new(1, cause).hint("git fetch --unshallow (in CI fetch-depth: 0)");
        }
        Failure::new(1, format!("{name} is the first commit")).hint("name what it is compared with")
    })
}

/// The acceptances of commits after the base.
fn blessings(
    repository: &Repository,
    store: &mut Store,
    base: &str,
    new: &str,
) -> Result<Vec<Blessing>, Failure> {
    let all = store.blessings()?;
    if all.is_empty() {
        return Ok(all);
    }
    let between: BTreeSet<String> = repository.between(base, new, false)?.into_iter().collect();
    Ok(all
        .into_iter()
        .filter(|b| between.contains(&b.commit))
        .collect())
}

/// How far each series that is not of exact counts moved from commit to commit, among the ancestors of the base.
fn noises(store: &mut Store, ancestors: &[String]) -> Result<BTreeMap<Key, f64>, Failure> {
    let places: BTreeMap<&str, usize> = ancestors
        .iter()
        .take(100)
        .rev()
        .enumerate()
        .map(|(place, hash)| (hash.as_str(), place))
        .collect();
    let mut found = BTreeMap::new();
    for series in store.series_of(places.keys().copied())? {
        let values: Vec<f64> = in_order(&series, &places)
            .iter()
            .map(|(_, point)| point.value)
            .collect();
        if let Some(noise) = noise(&values) {
            found.insert(series.key, noise);
        }
    }
    Ok(found)
}

fn text(out: &mut dyn Write, document: &Document, all: bool) -> std::io::Result<()> {
    let (base, new) = (&document.base, &document.new);
    let line =
        |what: &str, commit: &Commit| format!("{what} {}  {}", short(&commit.hash), commit.subject);
    writeln!(out, "{}", line("base", base))?;
    if document.skipped > 0 {
        let line = format!(
            "     (the nearest ancestor with a record: {} without)",
            number_of(document.skipped, "commit")
        );
        writeln!(out, "{}", paint(DIM, &line))?;
    }
    writeln!(out, "{}", line("new ", new))?;
    writeln!(out, "{}", paint(HEAD, &summary(&document.found)))?;
    let shown: Vec<&Row> = document
        .found
        .rows
        .iter()
        .filter(|row| all || tells(row))
        .collect();
    let mut table = Table::new([
        ("benchmark", Align::Left),
        ("metric", Align::Left),
        ("base", Align::Right),
        ("new", Align::Right),
        ("change", Align::Right),
        ("gate", Align::Left),
        ("", Align::Left),
    ]);
    for row in &shown {
        let value = |value: Option<f64>| {
            value.map_or_else(String::new, |value| quantity(value, 1.0, &row.unit))
        };
        let style = match (row.regression, row.verdict.as_str()) {
            (Some(true), _) => BAD,
            (Some(false), _) => GOOD,
            (None, "incomparable" | "undecided" | "gone" | "not measured") => WARN,
            (None, _) => DIM,
        };
        let gate = match row.gate.as_deref() {
            Some("regressed") => Cell::styled(BAD, "regressed"),
            Some(other) => other.into(),
            None => "".into(),
        };
        let comparable = row.verdict != "incomparable";
        table.row(vec![
            benchmark(&row.suite, &row.benchmark, &row.parameters).into(),
            row.metric.as_str().into(),
            value(row.base).into(),
            value(row.other).into(),
            row.ratio
                .filter(|_| comparable)
                .map_or_else(String::new, percent)
                .into(),
            gate,
            Cell::styled(style, row.explanation.clone()),
        ]);
    }
    if !shown.is_empty() {
        table.write(out)?;
    }
    for row in shown {
        let lines = explained::lines(&row.moved, &row.paths);
        if lines.is_empty() {
            continue;
        }
        let name = benchmark(&row.suite, &row.benchmark, &row.parameters);
        writeln!(
            out,
            "\n{name}: functions{} by the change of their own {}",
            if row.paths.is_empty() {
                ""
            } else {
                ", then paths of calls,"
            },
            row.metric
        )?;
        for line in lines {
            writeln!(out, "  {line}")?;
        }
    }
    for note in &document.found.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}
