//! Builds and measures single commits in a work tree of their own, for `backfill` and `bisect`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use truecount_history::git::{Repository, WorkTree};
use truecount_history::record::{Measurements, Record};
use truecount_run::suite::Suite;

use super::stopping::Stopping;
use super::{ignored, now};
use crate::failure::Failure;

/// What is measured of a commit.
#[derive(clap::Args)]
pub(super) struct WorkArgs {
    /// Shell command that builds a commit, in its top directory (default: `build` of the suite)
    #[arg(long, value_name = "CMD")]
    build: Option<String>,
    /// The suite that is measured, the same one at every commit (default: truecount.toml here or in a directory above)
    #[arg(long = "suite", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Of the suite only the benchmarks of this name; * stands for any text
    #[arg(long, value_name = "NAME")]
    filter: Vec<String>,
    /// Name of the benchmark, where a command is given (default: the command)
    #[arg(long, value_name = "NAME", requires = "command")]
    name: Option<String>,
    /// Remove before each build what the build before left (git clean -ffdx)
    #[arg(long)]
    clean: bool,
    /// What is declared of all of it, as in history add
    #[arg(long, value_name = "NAME=VALUE")]
    fact: Vec<String>,
    /// Measure this command instead of a suite: its instructions and its functions, reproducibly
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Commits are built and measured here.
pub(super) struct Work<'a> {
    args: &'a WorkArgs,
    repository: &'a Repository,
    stopping: &'a Stopping,
    directory: PathBuf,
    suite: Option<(PathBuf, Suite)>,
    tree: Option<WorkTree>,
    _owner: Owner,
}

/// Who may build: one process at a time, whatever it is called, until it ends, however it ends.
struct Owner {
    path: PathBuf,
    _locked: File,
}

impl Owner {
    /// `None`: another process has it.
    fn of(path: PathBuf) -> Result<Option<Self>, Failure> {
        loop {
            let mut options = File::options();
            let file = options.create(true).truncate(false).write(true).open(&path);
            let wrong = |error: io::Error| {
                Failure::new(1, format!("cannot lock {}: {error}", path.display()))
            };
            let file = file.map_err(wrong)?;
            // SAFETY: a plain call on a descriptor of ours; the lock goes with it.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(None),
                    _ => Err(wrong(error)),
                };
            }
            // Who had it before has perhaps removed it meanwhile.
            let (locked, named) = (file.metadata().map_err(wrong)?, fs::metadata(&path));
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
                let _locked = file;
                return Ok(Some(Self { path, _locked }));
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Why a commit has no record.
pub(super) struct Skipped(pub(super) String);

impl<'a> Work<'a> {
    /// Sees what is to be measured.
    pub(super) fn new(
        args: &'a WorkArgs,
        repository: &'a Repository,
        stopping: &'a Stopping,
    ) -> Result<Self, Failure> {
        let suite = if args.command.is_empty() {
            let path = match &args.file {
                Some(path) => path.clone(),
                None => Suite::find(Path::new("."))
                    .map_err(|error| Failure::from(error).hint("or name a command after --"))?,
            };
            let path = std::path::absolute(path)?;
            let suite = Suite::read(&path)?;
            suite.filtered(&args.filter)?;
            Some((path, suite))
        } else {
            None
        };
        super::add::facts(&args.fact)?;
        let own = repository.directory().join(".truecount");
        ignored(&own)?;
        let directory = own.join("work");
        let owner = Owner::of(own.join("work.lock"))?.ok_or_else(|| {
            let shown = directory.display();
            let cause = format!("{shown} is in use by another backfill or bisect");
            Failure::new(1, cause).hint("wait for its end")
        })?;
        if directory.exists() {
            // What a killed one left.
            fs::remove_dir_all(&directory)?;
        }
        Ok(Self {
            args,
            repository,
            stopping,
            directory,
            suite,
            tree: None,
            _owner: owner,
        })
    }

    /// Builds and measures a commit: its record, or why there is none.
    pub(super) fn measure(&mut self, hash: &str) -> Result<Result<Record, Skipped>, Failure> {
        self.stopping.check()?;
        let tree = match self.tree.take() {
            Some(tree) => {
                tree.check_out(hash)?;
                tree
            }
            None => self.repository.work_tree(hash, &self.directory)?,
        };
        if self.args.clean {
            tree.clean()?;
        }
        let top = tree.directory().to_owned();
        self.tree = Some(tree);
        let suite = self.suite.as_ref().map(|(_, suite)| suite);
        let build = self
            .args
            .build
            .as_ref()
            .or(suite.and_then(|s| s.build.as_ref()));
        if let Some(build) = build {
            let mut command = Command::new("sh");
            command.args(["-c", build]).current_dir(&top);
            if let Err(why) = self.stopping.quietly(&mut command)? {
                return Ok(Err(Skipped(format!("does not build: {why}"))));
            }
        }
        let result = self.directory.with_file_name("work.json");
        let mut command = self.bench(&result)?;
        let told = self.stopping.quietly(&mut command);
        let text = fs::read_to_string(&result).unwrap_or_default();
        let _ = fs::remove_file(&result);
        if let Err(why) = told? {
            return Ok(Err(Skipped(format!("cannot be measured: {why}"))));
        }
        let found = match Measurements::parse(&text, None) {
            Ok(found) => found,
            Err(error) => return Ok(Err(Skipped(format!("cannot be measured: {error}")))),
        };
        let mut record = found.of_commit(self.repository.commit(hash)?, now());
        record.declared.extend(super::add::facts(&self.args.fact)?);
        record.check()?;
        Ok(Ok(record))
    }

    /// The command that measures what is checked out.
    fn bench(&self, result: &Path) -> Result<Command, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::new(125, format!("cannot find truecount itself: {error}")))?;
        let mut command = Command::new(own);
        command.arg("bench").arg("--directory").arg(&self.directory);
        command.arg("--save").arg(result);
        match &self.suite {
            Some((path, _)) => {
                let mut option = OsString::from("--suite=");
                option.push(path);
                command.arg(option);
                for filter in &self.args.filter {
                    command.arg("--filter").arg(filter);
                }
            }
            None => {
                command.args([
                    "--reproducible",
                    "--only",
                    "-e",
                    "instructions:u",
                    "--functions",
                ]);
                command.args(["-n", "1", "--warmup", "0"]);
                if let Some(name) = &self.args.name {
                    command.arg("-N").arg(name);
                }
                command.arg("--").args(&self.args.command);
            }
        }
        Ok(command)
    }

    /// The suite's name; empty without one.
    pub(super) fn suite_name(&self) -> &str {
        self.suite.as_ref().map_or("", |(_, suite)| &suite.suite)
    }
}
