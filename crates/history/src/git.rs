//! Commits, by the command `git`: what a commit is, its ancestors, merge bases, and work trees of single commits.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, unavailable, usage};
use crate::record::Commit;

/// So many commits are looked at for the nearest one with a record.
pub const MAX_ANCESTORS: usize = 5000;

/// A repository.
#[derive(Debug, Clone)]
pub struct Repository {
    directory: PathBuf,
    main: PathBuf,
}

impl Repository {
    /// The repository that a directory is in.
    ///
    /// # Errors
    /// There is none, or `git` is not installed.
    pub fn at(directory: &Path) -> Result<Self, Error> {
        let here = Self {
            directory: directory.to_owned(),
            main: directory.to_owned(),
        };
        let found = here.git(["rev-parse", "--show-toplevel", "--git-common-dir"])?;
        let (top, common) = found.rsplit_once('\n').unwrap_or((&found, ""));
        let top = PathBuf::from(top);
        // Of a linked work tree the repository is elsewhere: in `.git` of the main one.
        let common = directory.join(common).canonicalize().ok();
        let main = common
            .as_deref()
            .filter(|common| common.ends_with(".git"))
            .and_then(Path::parent)
            .map_or_else(|| top.clone(), Path::to_owned);
        Ok(Self {
            directory: top,
            main,
        })
    }

    /// The directory of the main work tree: that of linked ones, too.
    #[must_use]
    pub fn main_directory(&self) -> &Path {
        &self.main
    }

    /// Whether the clone has only its last commits.
    #[must_use]
    pub fn is_shallow(&self) -> bool {
        let told = self.git(["rev-parse", "--is-shallow-repository"]);
        told.is_ok_and(|told| told == "true")
    }

    /// The directory of its work tree.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs git here and gives what it printed, without the last end of line.
    fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<String, Error> {
        let output = Command::new("git")
            .arg("-C")
            .arg(&self.directory)
            .args(args)
            .env("LC_ALL", "C")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                let cause = format!("cannot start git: {error}");
                unavailable(cause).hint("install git")
            })?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
            let first = lines.first().copied().unwrap_or("git failed");
            let first = first.strip_prefix("fatal: ").unwrap_or(first);
            let error = unavailable(format!("git: {first}"));
            return Err(if first.contains("not a git repository") {
                error.hint("run it in the repository whose commits are measured")
            } else {
                error
            });
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        while text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// The name of the commit that an expression (`HEAD~1`, `main`, `v1.2`) stands for.
    ///
    /// # Errors
    /// There is none.
    pub fn resolve(&self, expression: &str) -> Result<String, Error> {
        let asked = format!("{expression}^{{commit}}");
        self.git([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &asked,
        ])
        .map_err(|_| {
            usage(format!("`{expression}` is not a commit of this repository")).hint(
                "see git log; a shallow clone has only its last commits (git fetch --unshallow)",
            )
        })
    }

    /// A commit.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn commit(&self, expression: &str) -> Result<Commit, Error> {
        let hash = self.resolve(expression)?;
        let text = self.git(["show", "-s", "--format=%H%n%P%n%ct%n%s", &hash, "--"])?;
        let mut lines = text.lines();
        let mut next = || lines.next().unwrap_or_default().to_owned();
        let (hash, parents, time, subject) = (next(), next(), next(), next());
        Ok(Commit {
            hash,
            parents: parents.split_whitespace().map(str::to_owned).collect(),
            time: time.parse().unwrap_or_default(),
            branch: None,
            subject,
        })
    }

    /// The text of a file as a commit has it; `None` where it has none, or the file lies elsewhere.
    ///
    /// # Errors
    /// `git` cannot be asked.
    pub fn file_at(&self, commit: &str, file: &Path) -> Result<Option<String>, Error> {
        let (Ok(top), Ok(file)) = (self.directory.canonicalize(), file.canonicalize()) else {
            return Ok(None);
        };
        let Ok(inside) = file.strip_prefix(top) else {
            return Ok(None);
        };
        // A path is taken as it is, whatever is in its name.
        let listed = self.git([
            "--literal-pathspecs".as_ref(),
            "ls-tree".as_ref(),
            "--full-tree".as_ref(),
            commit.as_ref(),
            "--".as_ref(),
            inside.as_os_str(),
        ])?;
        // Mode, kind, name, path.
        let mut words = listed.split_ascii_whitespace().skip(1);
        match (words.next(), words.next()) {
            (Some("blob"), Some(name)) => self.git(["cat-file", "blob", name]).map(Some),
            _ => Ok(None),
        }
    }

    /// The branch that is checked out; `None` where it is a commit.
    #[must_use]
    pub fn branch(&self) -> Option<String> {
        self.git(["symbolic-ref", "--quiet", "--short", "HEAD"])
            .ok()
    }

    /// Files with changes that are in no commit.
    ///
    /// # Errors
    /// git's.
    pub fn changed_files(&self) -> Result<Vec<String>, Error> {
        let text = self.git(["status", "--porcelain", "--untracked-files=no"])?;
        let name = |line: &str| line.get(3..).unwrap_or_default().to_owned();
        Ok(text.lines().map(name).collect())
    }

    /// The last commit that both come from.
    ///
    /// # Errors
    /// They have none in common, or the clone does not reach back to it.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<String, Error> {
        let (one, other) = (self.resolve(one)?, self.resolve(other)?);
        self.git(["merge-base", &one, &other]).map_err(|_| {
            unavailable(format!(
                "{} and {} have no commit in common here",
                short(&one),
                short(&other)
            ))
            .hint(
                "a shallow clone does not reach back to it: git fetch --unshallow (fetch-depth: 0)",
            )
        })
    }

    /// A commit and its first parents, the newest first.
    ///
    /// # Errors
    /// There is no such commit.
    pub fn first_parents(&self, of: &str, limit: usize) -> Result<Vec<String>, Error> {
        let hash = self.resolve(of)?;
        let count = format!("--max-count={limit}");
        let text = self.git(["rev-list", "--first-parent", &count, &hash, "--"])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The commits after `base` up to `tip`, the oldest first.
    ///
    /// # Errors
    /// There is no such commit.
    pub fn between(&self, base: &str, tip: &str, first_parent: bool) -> Result<Vec<String>, Error> {
        let (base, tip) = (self.resolve(base)?, self.resolve(tip)?);
        let mut args = vec!["rev-list", "--reverse", "--topo-order"];
        if first_parent {
            args.push("--first-parent");
        }
        let range = format!("{base}..{tip}");
        args.extend([&range, "--"]);
        let text = self.git(args)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Names and subjects of the commits after `base` before `tip`, also of branches that were merged, the newest first.
    ///
    /// # Errors
    /// There is no such commit.
    pub fn subjects(&self, base: &str, tip: &str) -> Result<Vec<(String, String)>, Error> {
        let (base, tip) = (self.resolve(base)?, self.resolve(tip)?);
        let range = format!("{base}..{tip}");
        let text = self.git(["log", "--topo-order", "--format=%H %s", &range, "--"])?;
        let all = text.lines().filter_map(|line| {
            let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
            (hash != tip).then(|| (hash.to_owned(), subject.to_owned()))
        });
        Ok(all.collect())
    }

    /// Whether one commit is an ancestor of another, or the same.
    ///
    /// # Errors
    /// There is no such commit.
    pub fn is_ancestor(&self, ancestor: &str, of: &str) -> Result<bool, Error> {
        let (ancestor, of) = (self.resolve(ancestor)?, self.resolve(of)?);
        let answer = self.git(["merge-base", "--is-ancestor", &ancestor, &of]);
        Ok(answer.is_ok())
    }

    /// The address of the remote `origin`; `None` without one.
    #[must_use]
    pub fn remote(&self) -> Option<String> {
        self.git(["remote", "get-url", "origin"]).ok()
    }

    /// A work tree of one commit, in a directory that does not exist yet. It goes when the value goes.
    ///
    /// # Errors
    /// git's.
    pub fn work_tree(&self, commit: &str, directory: &Path) -> Result<WorkTree, Error> {
        let hash = self.resolve(commit)?;
        // One that a killed process left would be in the way.
        let _ = self.git(["worktree", "prune"]);
        self.git([
            OsStr::new("worktree"),
            OsStr::new("add"),
            OsStr::new("--detach"),
            OsStr::new("--force"),
            OsStr::new("--quiet"),
            directory.as_os_str(),
            OsStr::new(&hash),
        ])?;
        Ok(WorkTree {
            repository: self.clone(),
            directory: directory.to_owned(),
        })
    }
}

/// A work tree of one commit, which goes with this value.
#[derive(Debug)]
pub struct WorkTree {
    repository: Repository,
    directory: PathBuf,
}

impl WorkTree {
    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The repository as it is seen from here.
    fn here(&self) -> Repository {
        Repository {
            directory: self.directory.clone(),
            main: self.repository.main.clone(),
        }
    }

    /// Checks another commit out; what was built stays, so that only what changed is built again.
    ///
    /// # Errors
    /// git's.
    pub fn check_out(&self, commit: &str) -> Result<(), Error> {
        let here = self.here();
        here.git(["checkout", "--quiet", "--force", "--detach", commit, "--"])
            .map(|_| ())
    }

    /// Removes everything that is not in the commit.
    ///
    /// # Errors
    /// git's.
    pub fn clean(&self) -> Result<(), Error> {
        let here = self.here();
        here.git(["clean", "-ffdxq"]).map(|_| ())
    }
}

impl Drop for WorkTree {
    fn drop(&mut self) {
        let _ = self.repository.git([
            OsStr::new("worktree"),
            OsStr::new("remove"),
            OsStr::new("--force"),
            self.directory.as_os_str(),
        ]);
    }
}

/// The first twelve characters of a commit's name.
#[must_use]
pub fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
