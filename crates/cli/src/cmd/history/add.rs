//! `truecount history add`: keeps results as records of a commit.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use truecount_history::git::{Repository, short};
use truecount_history::record::{Commit, Measurements, Record, SCHEMA};
use truecount_history::store::Store;

use super::{StoreArgs, now, number_of};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use truecount_run::input;

const EXAMPLES: &str = "\
EXAMPLES
  truecount bench --save new.json -- ./prog && truecount history add new.json
  truecount run --reproducible --functions --json=run.json ./prog && truecount history add run.json
  truecount history add --commit v1.2 --fact compiler='gcc 14' --fact machine=ci old.json
  truecount history add records/*.json              records (docs/schemas/record.json)

Files are results of bench (--save, --json) and of run (--json), and records. A record is added
whole or not at all; one that is there already changes nothing.";

/// Keep results as records of a commit
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Results and records; - is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    of: OfArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// What results are of.
#[derive(clap::Args)]
pub(crate) struct OfArgs {
    /// The commit that was measured (default: HEAD, if the work tree has no other changes)
    #[arg(long, value_name = "REV")]
    commit: Option<String>,
    /// The suite that the benchmarks are of (default: what bench --suite says)
    #[arg(long, value_name = "NAME")]
    pub(super) suite: Option<String>,
    /// Name of the benchmark, where a file has one
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// What is declared of all of it: machine=NAME names the machine whatever its CPU, compiler=… and flags=… must be
    /// the same where results are compared
    #[arg(long, value_name = "NAME=VALUE")]
    fact: Vec<String>,
}

impl OfArgs {
    /// The commit that is meant.
    pub(super) fn commit(&self, repository: &Repository) -> Result<Commit, Failure> {
        if self.commit.is_none() {
            let changed = repository.changed_files()?;
            if let Some(first) = changed.first() {
                let cause = format!(
                    "{first} has changes that are in no commit ({} in all)",
                    number_of(changed.len(), "file")
                );
                return Err(Failure::new(1, cause)
                    .hint("commit them, or say by --commit which commit was measured"));
            }
        }
        let expression = self.commit.as_deref().unwrap_or("HEAD");
        let mut commit = repository.commit(expression)?;
        if self.commit.is_none() {
            commit.branch = repository.branch();
        }
        Ok(commit)
    }
}

/// What is declared, from `NAME=VALUE`.
pub(super) fn facts(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let fact = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| {
                Failure::new(2, format!("--fact `{text}`: no `=`"))
                    .hint("write it as compiler='gcc 14'")
            })?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    texts.iter().map(fact).collect()
}

/// The text of a file, or of stdin.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().take(256 << 20).read_to_string(&mut text);
        return match read {
            Ok(_) => Ok(text),
            Err(error) => Err(Failure::new(1, format!("cannot read stdin: {error}"))),
        };
    }
    let shown = path.display();
    input::text(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Failure::new(1, format!("{shown}: {error}")),
        _ => Failure::new(1, format!("cannot read {shown}: {error}")),
    })
}

pub(super) fn run(args: &Args) -> CmdResult {
    let mut records = Vec::new();
    for path in &args.files {
        let text = read(path)?;
        let told = |error: truecount_history::Error| {
            let failure = Failure::from(error);
            Failure {
                cause: format!("{}: {}", path.display(), failure.cause),
                ..failure
            }
        };
        if is_record(&text) {
            records.push(Record::parse(&text).map_err(told)?);
            continue;
        }
        let found = Measurements::parse(&text, args.of.name.as_deref()).map_err(told)?;
        let taken = modified(path);
        records.push(record(found, taken, &args.of, &args.store.repository()?)?);
    }
    let mut store = args.store.open(true)?;
    keep(&mut store, &records)
}

/// When a result was written: the same file is the same record, whenever it is added.
pub(super) fn modified(path: &Path) -> i64 {
    let file = std::fs::metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_file);
    let time = file.and_then(|file| file.modified().ok());
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or_else(now, |time| {
        i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
    })
}

/// The record of what was measured.
pub(super) fn record(
    found: Measurements,
    taken: i64,
    of: &OfArgs,
    repository: &Repository,
) -> Result<Record, Failure> {
    let mut record = found.of_commit(of.commit(repository)?, taken);
    if let Some(suite) = &of.suite {
        record.suite.clone_from(suite);
    }
    record.declared.extend(facts(&of.fact)?);
    record.check()?;
    Ok(record)
}

/// Adds records and says so.
pub(super) fn keep(store: &mut Store, records: &[Record]) -> CmdResult {
    let mut out = Output::stdout();
    for record in records {
        let added = store.add(record)?;
        let what = if added.new {
            format!(
                "added {} ({})",
                number_of(record.benchmarks.len(), "benchmark"),
                number_of(added.points, "value")
            )
        } else {
            format!("record {} was there already", short(&added.digest))
        };
        let commit = &record.commit;
        writeln!(out, "{}: {what}  {}", short(&commit.hash), commit.subject)?;
    }
    out.flush()?;
    Ok(Outcome::OK)
}

fn is_record(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let head: Result<Head, _> = serde_json::from_str(text);
    head.is_ok_and(|head| head.schema.as_deref() == Some(SCHEMA))
}
