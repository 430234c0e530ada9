//! `truecount profile` on files of the `Recorder`.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn truecount(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_truecount"));
    command
        .arg("profile")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn record(path: PathBuf, inner: u32) {
    let recorder = truecount::Recorder::new(path).unwrap();
    {
        let _outer = recorder.region("outer");
        for number in 0..inner {
            let _inner = recorder.region_with("inner", &[&number.to_string()]);
        }
    }
    recorder.finish().unwrap();
}

#[test]
fn an_option_after_the_dashes_of_diff_is_not_taken_for_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let output = truecount(
        &["diff", "a", "--", "b", "--fail-above", "1"],
        directory.path(),
    );
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("options before"), "{stderr}");
}

#[test]
fn every_analysis_reads_what_the_recorder_writes() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    record(here.join("foo-1.2"), 3);
    record(here.join("foo-1"), 5);
    // foo-1.2 is that file, not foo-1.
    let output = truecount(&["summarize", "foo-1.2", "--json"], here);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "truecount.profile-summary/1");
    assert_eq!(json["events"]["intervals"], 4);
    assert!(json["overhead"]["outer"].as_u64().unwrap() > 0);
    assert!(
        truecount(&["summarize", "foo-1.2", "--subtract-overhead"], here)
            .status
            .success()
    );
    let noise = truecount(&["summarize", "foo-1.2", "foo-1"], here);
    assert!(String::from_utf8_lossy(&noise.stdout).contains("over 2 runs"));
    let aggregate = truecount(&["aggregate", "foo-1.2", "foo-1"], here);
    let text = String::from_utf8_lossy(&aggregate.stdout).into_owned();
    assert!(
        text.contains("2 different sequences") && text.contains("in outer()"),
        "{text}"
    );
    let diff = truecount(
        &["diff", "--fail-above", "1", "foo-1.2", "--", "foo-1"],
        here,
    );
    assert_eq!(
        diff.status.code(),
        Some(4),
        "one run a side decides nothing"
    );
    let show = truecount(
        &["show", "foo-1.2", "--label", "inner", "--json", "-n", "1"],
        here,
    );
    assert!(String::from_utf8_lossy(&show.stdout).contains("\"arguments\":[\"0\"]"));
    for to in [
        "chrome",
        "perfetto",
        "firefox",
        "folded",
        "svg",
        "pprof",
        "callgrind",
        "json",
    ] {
        let output = truecount(&["export", "--to", to, "foo-1.2", "-o", "out"], here);
        assert!(
            output.status.success() && std::fs::metadata(here.join("out")).unwrap().len() > 50,
            "{to}"
        );
    }
}

/// An export that does not fit (here: no file may have a byte) leaves no half of itself.
#[test]
fn half_an_export_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    record(here.join("whole"), 3);
    for before in [false, true] {
        if before {
            std::fs::write(here.join("out"), "what was there before").unwrap();
        }
        let output = Command::new("sh")
            .args([
                "-c",
                "ulimit -f 0; exec \"$0\" profile export --to chrome whole -o out",
            ])
            .arg(env!("CARGO_BIN_EXE_truecount"))
            .current_dir(here)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("too large"), "{told}");
        let left = std::fs::read_to_string(here.join("out")).ok();
        let was = before.then_some("what was there before");
        assert_eq!(left.as_deref(), was, "{told}");
    }
    // What takes the place of a file has its permissions, also at the end of a symbolic link; other names keep the file.
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    let file = |name: &str| here.join(name);
    let export = |name: &str| {
        let done = truecount(&["export", "--to", "folded", "whole", "-o", name], here);
        assert!(done.status.success(), "{done:?}");
        let text = std::fs::read_to_string(file(name)).unwrap();
        assert!(text.contains("inner"), "{text}");
    };
    let narrow = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(file("out"), narrow).unwrap();
    symlink("out", file("link")).unwrap();
    export("link");
    let mode = |name: &str| std::fs::symlink_metadata(file(name)).unwrap().mode();
    assert_eq!(mode("out") & 0o777, 0o640);
    assert_eq!(mode("link") & libc::S_IFMT, libc::S_IFLNK);
    std::fs::hard_link(file("out"), file("other")).unwrap();
    let before = std::fs::metadata(file("other")).unwrap().ino();
    export("out");
    assert_eq!(std::fs::metadata(file("out")).unwrap().ino(), before);
    for name in ["out", "other"] {
        std::fs::remove_file(file(name)).unwrap();
    }
    // Where nothing was the umask decides, and nothing is left beside it.
    export("out");
    let left = std::fs::read_dir(here).unwrap().count();
    assert_eq!(left, 3, "out, link, whole.mm_profdata");
}

#[test]
fn bad_files_are_one_line_and_cut_ones_are_read_in_part() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let missing = truecount(&["summarize", "nothing"], here);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&missing.stderr).lines().count(), 1);
    record(here.join("whole"), 2000);
    let bytes = std::fs::read(here.join("whole.mm_profdata")).unwrap();
    std::fs::write(here.join("cut"), &bytes[..bytes.len() - 1000]).unwrap();
    let cut = truecount(&["summarize", "cut"], here);
    assert!(cut.status.success());
    assert!(String::from_utf8_lossy(&cut.stderr).contains("the file ends inside a page"));
    assert!(String::from_utf8_lossy(&cut.stdout).contains("inner"));
}

/// No line of a table is wider than the window, but for what has no blank.
#[test]
fn tables_fit_the_window() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (name, inner) in [("a", 3), ("b", 3), ("c", 4)] {
        record(here.join(name), inner);
    }
    for columns in ["60", "80", "200"] {
        for line in [
            "summarize a",
            "summarize a b",
            "summarize c --versus a",
            "aggregate a b c",
            "diff a -- c",
            "show a",
            "show a --metadata",
        ] {
            let output = Command::new(env!("CARGO_BIN_EXE_truecount"))
                .arg("profile")
                .args(line.split(' '))
                .env("COLUMNS", columns)
                .current_dir(here)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!text.is_empty(), "{line}: {output:?}");
            let most: usize = columns.parse().unwrap();
            for each in text.lines().filter(|each| each.trim().contains(' ')) {
                assert!(each.chars().count() <= most, "{line}, {columns}: {each:?}");
            }
        }
    }
}

/// Every document of the subcommand against its schema, and against it when it is spoilt.
#[test]
fn documents_follow_their_schema() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (name, inner) in [("a", 3), ("b", 3), ("c", 4), ("d", 5)] {
        record(here.join(name), inner);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/profile.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let commands: [(&str, &[&str]); 9] = [
        ("truecount.profile-summary/1", &["summarize", "a", "--json"]),
        (
            "truecount.profile-label/1",
            &["summarize", "a", "--json", "--only", "inner"],
        ),
        (
            "truecount.profile-noise/1",
            &["summarize", "a", "b", "--json"],
        ),
        (
            "truecount.profile-aggregate/1",
            &["aggregate", "a", "b", "c", "--durations", "--json"],
        ),
        (
            "truecount.profile-diff/1",
            &["diff", "--json", "a", "--", "b"],
        ),
        (
            "truecount.profile-diff/1",
            &[
                "diff",
                "--json",
                "--fail-above",
                "1",
                "a",
                "b",
                "--",
                "c",
                "d",
            ],
        ),
        (
            "truecount.profile-metadata/1",
            &["show", "a", "--metadata", "--json"],
        ),
        (
            "truecount.profile/1",
            &["export", "--to", "json", "a", "-o", "-"],
        ),
        ("event", &["show", "a", "--json", "-n", "1"]),
    ];
    for (name, arguments) in commands {
        let output = truecount(arguments, here);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"));
        if name == "event" {
            assert_eq!(document["label"], "inner");
        } else {
            assert_eq!(document["schema"], name);
        }
        assert!(validator.is_valid(&document), "{arguments:?}: {document:#}");
        // Each of its fields is told apart from a field that is not there or is something else.
        for key in document.as_object().unwrap().keys() {
            for spoil in [serde_json::json!({"wrong": 1}), serde_json::json!(-0.5)] {
                let mut wrong = document.clone();
                wrong[key] = spoil;
                assert!(
                    !validator.is_valid(&wrong),
                    "{key} of {name} may be anything"
                );
            }
        }
    }
}

/// What is excluded is no part of the rows, nor of the totals; a label that nobody has is a mistake.
#[test]
fn diff_leaves_out_what_is_excluded() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    record(here.join("a"), 3);
    record(here.join("b"), 5);
    let total = |arguments: &[&str]| {
        let output = truecount(arguments, here);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = document.to_string();
        (document["total"]["base"]["median"].as_f64().unwrap(), text)
    };
    let (whole, _) = total(&["diff", "--json", "a", "--", "b"]);
    let (rest, text) = total(&["diff", "--json", "--exclude", "inner", "a", "--", "b"]);
    assert!(
        rest < whole && !text.contains("\"inner\""),
        "{rest} {whole} {text}"
    );
    let output = truecount(&["diff", "--exclude", "nothing", "a", "--", "b"], here);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--exclude nothing"));
}
