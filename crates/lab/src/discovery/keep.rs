//! `--resume`: the file that keeps what was found, so that an interrupted scan goes on.
//!
//! Codes and unit masks may change from one call to the next (what was tried is not tried again); whatever else would
//! make counts incomparable may not.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use truecount_run::env_record::Environment;
use truecount_run::runner::command_line;
use truecount_run::state;
use truecount_run::{Error, ErrorKind};

use super::{Plan, State};

const SCHEMA: &str = "truecount.discover-state/1";

/// A file of this size is none of ours.
const MAX_BYTES: u64 = 256 << 20;

/// The file is written at most so often.
const EVERY: Duration = Duration::from_secs(1);

/// What must be the same for counts to be of one scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Same {
    machine: String,
    runs: u32,
    filter: String,
    references: Vec<String>,
    command: String,
}

impl Same {
    fn of(command: &[OsString], plan: &Plan, environment: &Environment) -> Self {
        Self {
            machine: state::machine_key(environment),
            runs: plan.runs,
            filter: plan.filter.clone(),
            references: plan.references.iter().map(|r| r.name.clone()).collect(),
            command: command_line(command),
        }
    }

    /// In what another scan differs.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            (self.machine != other.machine, "machine"),
            (self.runs != other.runs, "number of runs (-n)"),
            (self.filter != other.filter, "choice of --kernel"),
            (
                self.references != other.references,
                "list of references (--reference)",
            ),
            (self.command != other.command, "workload"),
        ]
        .into_iter()
        .find_map(|(differs, what)| differs.then_some(what))
    }
}

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    #[serde(flatten)]
    same: &'a Same,
    state: &'a State,
}

#[derive(Deserialize)]
struct Saved {
    schema: String,
    #[serde(flatten)]
    same: Same,
    state: State,
}

/// The state file of one scan.
pub struct Keeper {
    path: PathBuf,
    same: Same,
    written: Option<Instant>,
    trouble: Option<String>,
}

impl Keeper {
    /// Reads the file if it is there, and makes sure that it can be written. An empty `command` is the built-in
    /// workload.
    ///
    /// # Errors
    /// The file cannot be read or written, or is of another scan.
    pub fn open(
        path: &Path,
        command: &[OsString],
        plan: &Plan,
        environment: &Environment,
        state: &mut State,
    ) -> Result<Self, Error> {
        let keeper = Self {
            path: path.to_owned(),
            same: Same::of(command, plan, environment),
            written: None,
            trouble: None,
        };
        match read(path) {
            Ok(Some(text)) => *state = keeper.parse(&text)?,
            Ok(None) => {}
            Err(error) => {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("cannot read {}: {error}", path.display()),
                ));
            }
        }
        keeper
            .write(state)
            .map_err(|error| Error::cannot_write(path, &error))?;
        Ok(keeper)
    }

    fn parse(&self, text: &str) -> Result<State, Error> {
        let wrong = |why: String| {
            Error::new(
                ErrorKind::Usage,
                format!("{} is {why}", self.path.display()),
            )
            .hint("name another file with --resume, or remove it")
        };
        let kept = kept(text).map_err(wrong)?;
        match self.same.difference(&kept.same) {
            Some(what) => Err(wrong(format!("of a scan with another {what}"))),
            None => Ok(kept.state),
        }
    }

    fn write(&self, state: &State) -> std::io::Result<()> {
        let written = Written {
            schema: SCHEMA,
            same: &self.same,
            state,
        };
        let text = serde_json::to_string(&written).map_err(std::io::Error::from)?;
        state::write(&self.path, &text)
    }

    /// Writes the file: not too often, but surely at the end.
    pub fn save(&mut self, state: &State, now: bool) {
        if !now && self.written.is_some_and(|then| then.elapsed() < EVERY) {
            return;
        }
        self.written = Some(Instant::now());
        self.trouble = self
            .write(state)
            .err()
            .map(|error| format!("the state was not kept: {}: {error}", self.path.display()));
    }

    /// Why the file was not written the last time.
    pub fn trouble(self) -> Option<String> {
        self.trouble
    }
}

/// What a file holds, or what it is instead.
fn kept(text: &str) -> Result<Saved, String> {
    let kept: Saved = serde_json::from_str(text)
        .map_err(|error| format!("not a state of truecount discover: {error}"))?;
    match kept.schema == SCHEMA {
        true => Ok(kept),
        false => Err(format!("of another version of truecount ({})", kept.schema)),
    }
}

/// The state of whatever scan, from the text of its file.
///
/// # Errors
/// What the text is instead.
pub fn kept_state(text: &str) -> Result<State, String> {
    kept(text).map(|kept| kept.state)
}

fn read(path: &Path) -> std::io::Result<Option<String>> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(std::io::Error::other(
            "it is not a state of truecount discover",
        ));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(path: &Path, runs: u32) -> Keeper {
        Keeper {
            path: path.to_owned(),
            same: Same {
                machine: "m".into(),
                runs,
                filter: "u".into(),
                references: vec!["page-faults:u".into()],
                command: String::new(),
            },
            written: None,
            trouble: None,
        }
    }

    #[test]
    fn what_was_kept_comes_back_and_another_scan_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scan.state");
        assert_eq!(read(&path).unwrap(), None);
        let mut kept = keeper(&path, 5);
        let state = State {
            complete: true,
            ..State::default()
        };
        kept.save(&state, true);
        let text = read(&path).unwrap().unwrap();
        assert_eq!(kept.parse(&text).unwrap(), state);
        let refused = keeper(&path, 6).parse(&text).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Usage);
        assert!(refused.cause.contains("number of runs"), "{refused}");
        for bad in ["", "{}", "[1]", &text.replace("state/1", "state/9")] {
            let refused = kept.parse(bad).unwrap_err();
            assert!(
                refused.kind == ErrorKind::Usage && refused.hint.is_some(),
                "{bad}"
            );
        }
        // A directory is not a file; a file that cannot be written is told at the end.
        assert!(read(directory.path()).is_err());
        let mut nowhere = keeper(Path::new("/proc/none/x"), 5);
        nowhere.save(&state, true);
        assert!(nowhere.trouble().unwrap().contains("/proc/none/x"));
    }
}
