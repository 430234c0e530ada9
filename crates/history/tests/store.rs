//! Stores: killed writers, many writers, a real PostgreSQL server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use truecount_history::record::{Commit, Measurements, Record, metric};
use truecount_history::store::Store;
use truecount_model::{Precision, SourceKind};
use truecount_run::rounds::{Command as Benchmark, Map};

/// Series of each record.
const SERIES: usize = 20;

/// A record of its own for each writer and number.
fn record(writer: u64, number: u64) -> Record {
    let benchmark = |index: u64| Benchmark {
        name: format!("b{index}"),
        runs: 5,
        metrics: Map(vec![(
            "instructions:u".to_owned(),
            metric(
                "count",
                1.0,
                Some(SourceKind::Virtual),
                Some(Precision::Exact),
                vec![1000 * writer + number; 5],
            ),
        )]),
        ..Benchmark::default()
    };
    let found = Measurements {
        benchmarks: (0..SERIES as u64).map(benchmark).collect(),
        ..Measurements::default()
    };
    let commit = Commit {
        hash: format!("{writer:020x}{number:020x}"),
        time: 1,
        ..Commit::default()
    };
    found.of_commit(commit, 1)
}

/// The points of every commit; each record must be whole.
fn whole(store: &mut Store) -> BTreeMap<String, usize> {
    let mut points: BTreeMap<String, usize> = BTreeMap::new();
    for series in store.series().unwrap() {
        for point in &series.points {
            *points.entry(point.commit.to_string()).or_default() += 1;
        }
    }
    let commits = store.commits(None).unwrap();
    assert_eq!(commits.len(), points.len());
    for (commit, count) in &points {
        assert_eq!(*count, SERIES, "{commit}");
    }
    points
}

const CHILD: &str = "TRUECOUNT_TEST_WRITER";

/// Adds records without end and names each that is kept; started by the test below.
#[test]
fn writer_without_end() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let (writer, path) = told.split_once(' ').unwrap();
    let mut store = Store::open(path, true).unwrap();
    for number in 0.. {
        let record = record(writer.parse().unwrap(), number);
        store.add(&record).unwrap();
        println!("kept {}", record.commit.hash);
    }
}

#[test]
fn a_killed_writer_leaves_no_half_record_and_loses_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let mut kept = Vec::new();
    for writer in 0..200u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_without_end", "--nocapture"])
            .env(CHILD, format!("{writer} {}", path.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let names = lines.map_while(Result::ok).filter_map(|line| {
            let (_, name) = line.split_once("kept ")?;
            Some(name.to_owned())
        });
        // It goes on with the next record while this reads, and is killed somewhere in it.
        kept.extend(names.take(1 + usize::try_from(writer % 3).unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(kept.len() >= 200);
    let found = whole(&mut Store::open(path.to_str().unwrap(), false).unwrap());
    for name in &kept {
        assert!(found.contains_key(name), "{name} is lost");
    }
}

/// Many writers at once, who find no tables yet.
fn many_writers(target: &str) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 25;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut store = Store::open(target, true).unwrap();
                for number in 0..EACH {
                    let added = store.add(&record(writer, number)).unwrap();
                    assert!(added.new && added.points == SERIES);
                }
                // The same again changes nothing.
                assert!(!store.add(&record(writer, 0)).unwrap().new);
            });
        }
    });
    let mut store = Store::open(target, false).unwrap();
    assert_eq!(whole(&mut store).len() as u64, WRITERS * EACH);
    assert_eq!(store.series().unwrap().len(), SERIES);
    let records = store.records(&record(3, 4).commit.hash, None).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].text().unwrap(), record(3, 4).text().unwrap());
}

#[test]
fn many_writers_lose_nothing_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    many_writers(directory.path().join("history.db").to_str().unwrap());
}

/// Directory of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").ok();
    let debian = debian.into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    all.push(PathBuf::from("/usr/bin"));
    all.push(PathBuf::from("/usr/local/bin"));
    let complete = |directory: &PathBuf| {
        ["initdb", "pg_ctl", "postgres"]
            .iter()
            .all(|name| directory.join(name).is_file())
    };
    all.into_iter().find(complete)
}

/// A server of its own, on a socket in a directory.
struct Server {
    programs: PathBuf,
    directory: tempfile::TempDir,
    user: Option<u32>,
}

impl Server {
    fn start(programs: PathBuf) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let directory = tempfile::tempdir().unwrap();
        // The server refuses to run as root.
        let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let user = root.then_some(65_534);
        if let Some(user) = user {
            std::os::unix::fs::chown(directory.path(), Some(user), None).unwrap();
        }
        let new = Self {
            programs,
            directory,
            user,
        };
        let data = new.data();
        new.run(
            "initdb",
            &["-D", &data, "-U", "tester", "-A", "trust", "--no-sync"],
        );
        let socket = new.directory.path().display().to_string();
        let log = format!("{socket}/log");
        let options = format!(
            "-c listen_addresses= -c fsync=off -k {}",
            truecount_testing::quoted(&socket)
        );
        new.run(
            "pg_ctl",
            &[
                "-D", &data, "-l", &log, "-o", &options, "-t", "300", "-w", "start",
            ],
        );
        new
    }

    fn data(&self) -> String {
        self.directory.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command
            .args(args)
            .current_dir(self.directory.path())
            .env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{program} {args:?}: {status}");
    }

    fn url(&self) -> String {
        let socket = self.directory.path().display().to_string();
        format!(
            "postgres://tester@{}/postgres",
            socket.replace('/', "%2F").replace(' ', "%20")
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run(
            "pg_ctl",
            &["-D", &self.data(), "-m", "immediate", "-w", "stop"],
        );
    }
}

#[test]
fn many_writers_lose_nothing_in_postgresql() {
    let Some(programs) = programs() else {
        truecount_testing::skip!("postgres", "no initdb, pg_ctl and postgres");
        return;
    };
    let server = Server::start(programs);
    many_writers(&server.url());
}

#[test]
fn a_server_that_is_not_there_gets_one_line_without_the_password() {
    let nowhere = Path::new("/nowhere")
        .display()
        .to_string()
        .replace('/', "%2F");
    let error = Store::open(&format!("postgres://me:secret@{nowhere}/x"), true);
    let text = error.err().unwrap().to_string();
    assert!(
        text.starts_with("cannot open the store in PostgreSQL: "),
        "{text}"
    );
    assert!(!text.contains("secret") && !text.contains('\n'), "{text}");
}
