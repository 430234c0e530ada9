//! Where files come to lie, and what becomes of them where they cannot be written.

use super::{counts, run, suite};
use std::path::Path;
use std::process::Command;

/// A benchmark that goes elsewhere takes no file along, and what it prints is in no document.
#[test]
fn files_are_where_they_were_asked_for_and_documents_are_whole() {
    if !counts() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let wander = |arguments: &[&str]| {
        let output = Command::new(suite())
            .args(["--bench", "repeated"])
            .args(arguments)
            .env("MORE", "wander")
            .current_dir(directory.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    };
    let there = ["--baseline-dir", "kept"];
    let (text, _) = wander(&[&there[..], &["--json=out.json", "--save-baseline", "b"]].concat());
    assert!(text.contains("printed\n"), "{text}");
    let (text, _) = wander(&[&there[..], &["--baseline", "b"]].concat());
    assert!(text.contains("no change"), "{text}");
    let read = |text: &str| -> serde_json::Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let file = std::fs::read_to_string(directory.path().join("out.json")).unwrap();
    for arguments in [&["--json"][..], &["--json", "--time"]] {
        let (document, said) = wander(arguments);
        assert!(said.contains("printed\n"), "{said}");
        assert_eq!(read(&document)["schema"], read(&file)["schema"]);
    }
}

/// A result that cannot be written costs no earlier one, and leaves no part.
#[test]
fn what_cannot_be_written_leaves_what_was_there() {
    use std::os::unix::ffi::OsStrExt as _;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let json = |file: &Path| format!("--json={}", file.display());
    if !counts() {
        return;
    }
    let (status, _, said) = run(
        directory.path(),
        &["empty", &json(Path::new("/dev/full"))],
        "",
    );
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(
        said,
        "error: /dev/full: No space left on device (os error 28)\n"
    );
    std::fs::write(at("kept.json"), "earlier").unwrap();
    // Where the new file is made nothing can be written.
    std::fs::create_dir(at("kept.json.new")).unwrap();
    let (status, _, said) = run(directory.path(), &["empty", &json(&at("kept.json"))], "");
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(std::fs::read_to_string(at("kept.json")).unwrap(), "earlier");
    // A link stays one.
    std::os::unix::fs::symlink("real.json", at("link.json")).unwrap();
    std::fs::write(at("real.json"), "earlier").unwrap();
    let (status, _, said) = run(directory.path(), &["empty", &json(&at("link.json"))], "");
    assert_eq!(status, Some(0), "{said}");
    assert!(at("link.json").is_symlink());
    let written = std::fs::read_to_string(at("real.json")).unwrap();
    assert!(written.contains("truecount.benches/1"), "{written}");
    // A name that is not UTF-8 would become another one.
    let output = Command::new(suite())
        .arg(std::ffi::OsStr::from_bytes(b"--json=\xff"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.ends_with(" is not UTF-8\n"), "{said}");
}
