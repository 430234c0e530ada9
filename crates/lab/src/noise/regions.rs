//! Region profiles that the program itself writes (`.mm_profdata`: truecount's `Recorder`, `rustc -Zself-profile`):
//! which of them a run has written, and what each label counted in it.
//!
//! A run's files are those that are new or changed after it: by inode, size and time of change. They are the program's
//! and stay where they are; they are read right after the run, because the next one may write the same.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use truecount_profile::{Profile, ProfileError, find, summarize};

use truecount_run::{Error, ErrorKind};

/// Ending of a region profile's name.
const EXTENSION: &str = ".mm_profdata";
/// Longest time in which a file's time of change may stand still: the kernel's clock of files goes from tick to tick,
/// at least 100 a second (`current_time` in fs/inode.c, `CONFIG_HZ`).
const TICK: Duration = Duration::from_millis(11);
/// Problems that are told one by one.
const TOLD: usize = 3;

/// Self time of each label, over all threads and files of a run.
type Labels = BTreeMap<String, i64>;

/// A region of the program's own profiles in the min and in the max run of a setting: its self time.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Its label.
    pub region: String,
    /// Counted in the min run.
    pub min_run: i64,
    /// Counted in the max run.
    pub max_run: i64,
}

impl Difference {
    /// Of the max run against the min.
    #[must_use]
    pub fn difference(&self) -> i64 {
        self.max_run.saturating_sub(self.min_run)
    }
}

/// What the regions of one run counted.
#[derive(Debug)]
pub(super) struct Regions {
    /// What the program's profiler counted.
    pub(super) counter: String,
    labels: Labels,
}

impl Regions {
    /// The labels that differ, largest difference first; `None` where different things were counted.
    pub(super) fn differences(&self, most: &Self) -> Option<Vec<Difference>> {
        if self.counter != most.counter {
            return None;
        }
        let names: BTreeSet<&String> = self.labels.keys().chain(most.labels.keys()).collect();
        let of = |labels: &Labels, name: &str| labels.get(name).copied().unwrap_or(0);
        let mut found: Vec<Difference> = names
            .into_iter()
            .map(|name| Difference {
                region: name.clone(),
                min_run: of(&self.labels, name),
                max_run: of(&most.labels, name),
            })
            .filter(|each| each.min_run != each.max_run)
            .collect();
        found.sort_by_key(|each| std::cmp::Reverse(each.difference().unsigned_abs()));
        Some(found)
    }
}

/// Tells a file's content from what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    size: u64,
    changed: Option<SystemTime>,
}

/// Profiles by device and inode: the same file under two names is one.
type Files = BTreeMap<(u64, u64), (PathBuf, Identity)>;

/// Looks for the profiles of each run.
pub(super) struct Watch {
    /// What the user named; the working directory where there is nothing.
    places: Vec<PathBuf>,
    before: Files,
    /// Every profile that a run has written.
    seen: BTreeSet<PathBuf>,
    /// What was wrong, and how much more was.
    problems: Vec<String>,
    more: usize,
}

impl Watch {
    /// For `--profile`.
    pub(super) fn new(places: &[PathBuf]) -> Result<Self, Error> {
        for place in places {
            if let Ok(there) = std::fs::metadata(place)
                && !there.is_dir()
                && !there.is_file()
            {
                let cause = format!("--profile {}: neither directory nor file", place.display());
                return Err(Error::new(ErrorKind::Usage, cause)
                    .hint("name the directory in which the program writes it"));
            }
        }
        Ok(Self {
            // `-` would be standard input for whoever reads it.
            places: places
                .iter()
                .map(|place| Path::new(if place.as_os_str() == "-" { "." } else { "" }).join(place))
                .collect(),
            before: Files::new(),
            seen: BTreeSet::new(),
            problems: Vec::new(),
            more: 0,
        })
    }

    /// The user said where the profiles will be.
    pub(super) fn expects(&self) -> bool {
        !self.places.is_empty()
    }

    /// Before a run.
    pub(super) fn look(&mut self) {
        self.before = self.files();
        let changes = self.before.values().filter_map(|(_, file)| file.changed);
        // What the run writes must not bear the same time.
        if let Some(last) = changes.max()
            && let Ok(age) = SystemTime::now().duration_since(last)
            && let Some(rest) = TICK.checked_sub(age)
        {
            std::thread::sleep(rest);
        }
    }

    /// After a run: the profiles that it has written.
    pub(super) fn written(&mut self) -> Vec<PathBuf> {
        let now = self.files();
        let written: Vec<PathBuf> = now
            .iter()
            .filter(|(number, (_, file))| self.before.get(number).map(|(_, f)| f) != Some(file))
            .map(|(_, (path, _))| path.clone())
            .collect();
        self.seen.extend(written.iter().cloned());
        written
    }

    fn files(&mut self) -> Files {
        let mut paths = Vec::new();
        if self.places.is_empty() {
            // Its own files only: a working directory may be a whole disk.
            let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name());
            let profiles = names.filter(|name| name.to_string_lossy().ends_with(EXTENSION));
            paths.extend(profiles.map(PathBuf::from));
        }
        for place in self.places.clone() {
            match find(&place) {
                Ok(found) => paths.extend(found),
                // Not yet.
                Err(ProfileError::NotFound { .. } | ProfileError::EmptyDirectory { .. }) => {}
                Err(error) => self.note(format!("{error}.")),
            }
        }
        let file = |path: PathBuf| {
            // Nobody writes the other end of a pipe of that name; rustc leaves empty files when it stops early.
            let there = std::fs::metadata(&path).ok();
            let there = there.filter(|there| there.is_file() && there.len() > 0)?;
            let identity = Identity {
                size: there.len(),
                changed: there.modified().ok(),
            };
            Some(((there.dev(), there.ino()), (path, identity)))
        };
        paths.into_iter().filter_map(file).collect()
    }

    /// What the regions of a run counted, from the files that it has written. `None` where it has written none, where
    /// they do not count instructions, or one cannot be read whole: a sum without it would differ from others for that.
    pub(super) fn read(&mut self, files: &[PathBuf]) -> Option<Regions> {
        match instructions(self.sums(files)?) {
            Ok(regions) => regions,
            Err(counter) => {
                self.note(format!(
                    "The program's region profiles count {counter}, which differs from run to run by itself: they \
                     are not used. Let them count instructions:u (Recorder::with_counters, or rustc's \
                     -Zself-profile-counter=instructions:u)."
                ));
                None
            }
        }
    }

    /// Self times by counter and label.
    fn sums(&mut self, files: &[PathBuf]) -> Option<BTreeMap<String, Labels>> {
        let mut counters: BTreeMap<String, Labels> = BTreeMap::new();
        let mut whole = true;
        for path in files {
            match labels(path) {
                Ok((counter, labels)) => {
                    let sums = counters.entry(counter).or_default();
                    for (label, value) in labels {
                        let sum = sums.entry(label).or_default();
                        *sum = sum.saturating_add(value);
                    }
                }
                Err(problem) => {
                    whole = false;
                    self.note(format!("A region profile is not used: {problem}."));
                }
            }
        }
        whole.then_some(counters)
    }

    fn note(&mut self, line: String) {
        if self.problems.contains(&line) {
            return;
        }
        if self.problems.len() < TOLD {
            self.problems.push(line);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// What the reader should know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.problems.clone();
        if self.more > 0 {
            notes.push(format!(
                "{} more region profiles have such problems.",
                self.more
            ));
        }
        let seen = self.seen.len();
        if seen == 0 && self.expects() {
            notes.push("No run wrote a region profile (.mm_profdata) where --profile says.".into());
        }
        if seen > 1 {
            notes.push(format!(
                "The runs have written {seen} region profiles, which stay where they are."
            ));
        }
        notes
    }
}

/// The counter of a profile, and the self time of its labels in it.
fn labels(path: &Path) -> Result<(String, Labels), String> {
    let profile = Profile::open(path).map_err(|error| error.to_string())?;
    let summary = summarize(&profile);
    if let Some(loss) = summary.losses.first() {
        return Err(format!("{}: {loss}", path.display()));
    }
    let rows = summary.labels.into_iter();
    let labels = rows.map(|row| (row.label, row.self_time)).collect();
    Ok((summary.unit.counter, labels))
}

/// The regions that count instructions: of several such counters the first by name, which is the one without
/// interrupts. `Err` is the name of something else that alone was counted.
fn instructions(mut counters: BTreeMap<String, Labels>) -> Result<Option<Regions>, String> {
    let name = counters
        .keys()
        .find(|name| name.starts_with("instructions"));
    let Some(counter) = name.cloned() else {
        return match counters.pop_first() {
            Some((counter, _)) => Err(counter),
            None => Ok(None),
        };
    };
    let labels = counters.remove(&counter);
    Ok(labels.map(|labels| Regions { counter, labels }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(pairs: &[(&str, i64)]) -> Labels {
        pairs.iter().map(|(l, v)| ((*l).to_owned(), *v)).collect()
    }

    #[test]
    fn only_instructions_are_taken_for_instructions() {
        let counters = |names: &[&str]| -> BTreeMap<String, Labels> {
            let each = |name: &&str| ((*name).to_owned(), sums(&[(name, 1)]));
            names.iter().map(each).collect()
        };
        assert!(instructions(counters(&[])).unwrap().is_none());
        assert_eq!(
            instructions(counters(&["wall-time"])).unwrap_err(),
            "wall-time"
        );
        let of = |names: &[&str]| instructions(counters(names)).unwrap().unwrap().counter;
        assert_eq!(
            of(&["cycles:u", "instructions:u", "wall-time"]),
            "instructions:u"
        );
        let both = ["instructions:u", "instructions-minus-irqs:u"];
        assert_eq!(of(&both), "instructions-minus-irqs:u");
    }

    #[test]
    fn labels_that_differ_come_with_the_largest_difference_first() {
        let of = |counter: &str, pairs| Regions {
            counter: counter.to_owned(),
            labels: sums(pairs),
        };
        let least = of("instructions:u", &[("same", 7), ("a", 10), ("gone", 300)]);
        let most = of("instructions:u", &[("same", 7), ("a", 12), ("new", -5)]);
        let found = least.differences(&most).unwrap();
        let told: Vec<(&str, i64)> = found
            .iter()
            .map(|each| (each.region.as_str(), each.difference()))
            .collect();
        assert_eq!(told, [("gone", -300), ("new", -5), ("a", 2)]);
        assert!(least.differences(&of("cycles:u", &[])).is_none());
    }

    #[test]
    fn a_run_has_written_what_is_new_or_changed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
        write("old.mm_profdata", "old");
        write("again.mm_profdata", "same");
        let mut watch = Watch::new(&[directory.path().to_owned(), at("again")]).unwrap();
        watch.look();
        assert!(watch.written().is_empty());
        // The same bytes in the same file, as soon as can be.
        for _ in 0..20 {
            watch.look();
            write("again.mm_profdata", "same");
            assert_eq!(watch.written(), [at("again.mm_profdata")]);
        }
        watch.look();
        write("new.mm_profdata", "new");
        write("empty.mm_profdata", "");
        write("other.txt", "no profile");
        std::fs::remove_file(at("old.mm_profdata")).unwrap();
        assert_eq!(watch.written(), [at("new.mm_profdata")]);
        assert_eq!(watch.notes().len(), 1, "{:?}", watch.notes());
        // Not even half a header.
        assert!(watch.read(&[at("new.mm_profdata")]).is_none());
        let notes = watch.notes().join("\n");
        assert!(
            notes.contains("not used") && notes.contains("offset 0"),
            "{notes}"
        );
        assert!(Watch::new(&["/dev/null".into()]).is_err());
    }

    #[test]
    fn labels_are_summed_over_the_files_of_a_run() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a", "b"].map(|name| directory.path().join(name)).into();
        let mut paths = Vec::new();
        for path in &files {
            let recorder = truecount::Recorder::new(path).unwrap();
            drop(recorder.region("once"));
            drop(recorder.region("once"));
            paths.extend(recorder.files());
            recorder.finish().unwrap();
        }
        let each: Vec<i64> = paths
            .iter()
            .map(|path| labels(path).unwrap().1["once"])
            .collect();
        assert!(each.len() == 2 && each.iter().all(|&value| value > 0));
        let mut watch = Watch::new(&[]).unwrap();
        let found = watch.sums(&paths).unwrap();
        assert_eq!(found["wall-time"]["once"], each[0] + each[1]);
        // Wall time is not taken for instructions, and that is said.
        assert!(watch.read(&paths).is_none());
        assert!(watch.notes().join("").contains("count wall-time"));
    }
}
