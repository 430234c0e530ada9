//! What the `Recorder` writes, read by measureme's own library.

#![allow(clippy::unwrap_used)]

use analyzeme::{EventPayload, ProfilingData, Timestamp};
use std::path::{Path, PathBuf};
use std::process::Command;
use truecount::{Recorder, RecorderError};

/// Set for a child that records until it is killed; its value is the path.
const CHILD: &str = "TRUECOUNT_RECORDER_CHILD";

fn read(path: &Path) -> ProfilingData {
    ProfilingData::from_paged_buffer(std::fs::read(path).unwrap(), Some(path)).unwrap()
}

fn lines(data: &ProfilingData) -> Vec<String> {
    data.iter_full()
        .map(|event| {
            let form = match event.payload {
                EventPayload::Timestamp(Timestamp::Interval { .. }) => "interval".to_owned(),
                EventPayload::Timestamp(Timestamp::Instant(_)) => "instant".to_owned(),
                EventPayload::Integer(value) => format!("={value}"),
            };
            format!(
                "{} {} {} {:?}",
                event.event_kind, form, event.label, event.additional_data
            )
        })
        .collect()
}

#[test]
fn measureme_reads_regions_arguments_instants_and_integers() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(directory.path().join("run-1.2")).unwrap();
    {
        let _outer = recorder.region("outer");
        let _inner = recorder.region_with("inner", &["a b", "zwei\u{1}"]);
        recorder.instant("now");
        recorder.integer("bytes", 7);
    }
    let path = recorder.files().pop().unwrap();
    assert!(path.ends_with("run-1.2.mm_profdata"));
    recorder.finish().unwrap();
    let data = read(&path);
    assert_eq!(
        lines(&data),
        [
            "Instant instant now []",
            "Integer =7 bytes []",
            "GenericActivity interval inner [\"a b\", \"zwei\u{FFFD}\"]",
            "GenericActivity interval outer []",
        ]
    );
    assert_eq!(data.metadata().process_id, std::process::id());
    let results = data.perform_analysis();
    let row = |label: &str| {
        results
            .query_data
            .iter()
            .find(|row| row.label == label)
            .unwrap()
            .clone()
    };
    assert_eq!(
        row("outer").time,
        row("outer").self_time + row("inner").time
    );
    assert!(results.total_time.as_nanos() > 0);
}

#[test]
fn every_thread_records_and_finish_sees_all() {
    const EACH: usize = 5000; // more than two buffers
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(directory.path().join("threads")).unwrap();
    let path = recorder.files().pop().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let label = recorder.label("work");
                for _ in 0..EACH {
                    let _region = recorder.region(label);
                }
            });
        }
    });
    // The threads' own ends may not have run yet: the buffers are written all the same.
    recorder.finish().unwrap();
    let data = read(&path);
    let mut threads: Vec<u32> = data.iter_full().map(|event| event.thread_id).collect();
    assert_eq!(threads.len(), 4 * EACH);
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 4);
}

#[test]
fn several_counters_are_several_files_of_the_same_regions() {
    let directory = tempfile::tempdir().unwrap();
    let recorder =
        Recorder::with_counters(directory.path().join("two"), &["wall-time", "user-time"]).unwrap();
    let files = recorder.files();
    {
        let _outer = recorder.region("outer");
        let _inner = recorder.region_with("inner", &["x"]);
    }
    recorder.finish().unwrap();
    assert_eq!(files.len(), 2);
    assert_ne!(files[0], files[1]);
    assert_eq!(lines(&read(&files[0])), lines(&read(&files[1])));
    assert!(String::from_utf8_lossy(&std::fs::read(&files[1]).unwrap()).contains("user-time"));
}

#[test]
fn nonsense_is_refused() {
    assert!(matches!(
        Recorder::with_counters("x", &[]),
        Err(RecorderError::Counters { found: 0 })
    ));
    assert!(matches!(
        Recorder::with_counters("/nowhere/x", &["wall-time"]),
        Err(RecorderError::Create { .. })
    ));
    assert!(matches!(
        Recorder::with_counters("x", &["no-such-event"]),
        Err(RecorderError::Counter(_))
    ));
}

/// Not a test by itself: what the children below run.
#[test]
fn child_that_records() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let recorder = Recorder::new(PathBuf::from(path)).unwrap();
    let mut failures = 0;
    for number in 0..200_000_u64 {
        let _region = recorder.region("spin");
        if number % 1000 == 0 {
            failures += u32::from(recorder.flush().is_err());
            println!("flushed");
        }
        if std::env::var_os("TRUECOUNT_RECORDER_FOREVER").is_some() {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }
    println!("failures {failures}");
    // Without running destructors: nothing more may be written.
    std::process::exit(0);
}

fn child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child_that_records", "--nocapture"])
        .env(CHILD, path);
    command.stdout(std::process::Stdio::piped());
    command
}

#[test]
fn a_killed_process_leaves_a_valid_file() {
    use std::io::{BufRead, BufReader};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed");
    let mut child = child(&path)
        .env("TRUECOUNT_RECORDER_FOREVER", "1")
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let flushed = stdout
        .lines()
        .map_while(Result::ok)
        .filter(|line| line.contains("flushed"))
        .take(3)
        .count();
    assert_eq!(flushed, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let data = read(&directory.path().join("killed.mm_profdata"));
    // Flushed before the third line: two thousand regions have ended.
    assert!(data.num_events() >= 2000, "{}", data.num_events());
    assert!(data.iter_full().all(|event| event.label == "spin"));
}

#[test]
fn a_full_disk_loses_nothing_written_and_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full");
    // A limit on the file's size fails like a full disk, in the middle of a page.
    let script = "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"";
    let output = Command::new("bash")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_records", "--nocapture"])
        .env(CHILD, &path)
        .output();
    let Ok(output) = output else {
        truecount_testing::skip!("bash", "no bash to limit the size of files");
        return;
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("failures 1"), "{stdout}");
    let file = directory.path().join("full.mm_profdata");
    let size = std::fs::metadata(&file).unwrap().len();
    assert!((200_000..=409_600).contains(&size), "{size}");
    let data = read(&file);
    assert!(data.num_events() > 6000 && data.iter_full().all(|event| event.label == "spin"));
}

#[cfg(feature = "tracing")]
#[test]
fn spans_become_regions_and_events_instants() {
    use tracing_subscriber::layer::SubscriberExt;
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(directory.path().join("traced")).unwrap();
    let path = recorder.files().pop().unwrap();
    tracing::subscriber::with_default(
        tracing_subscriber::registry().with(recorder.layer()),
        || {
            let outer = tracing::info_span!("outer", size = 3);
            let _in_outer = outer.enter();
            tracing::info_span!("inner").in_scope(|| tracing::info!(left = 1, "half way"));
        },
    );
    recorder.finish().unwrap();
    assert_eq!(
        lines(&read(&path)),
        [
            "Instant instant half way [\"left=1\"]",
            "GenericActivity interval inner []",
            "GenericActivity interval outer [\"size=3\"]",
        ]
    );
}
