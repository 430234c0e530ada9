//! What a pipeline does with truecount, from beginning to end: `tests/ci-story.sh`, by the command under test.

use std::path::Path;
use std::process::Command;

use crate::support::virtual_pmu;

#[test]
fn a_baseline_of_one_checkout_gates_another() {
    if !virtual_pmu() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/ci-story.sh");
    let output = Command::new("bash")
        .arg(&script)
        .env("TRUECOUNT", env!("CARGO_BIN_EXE_truecount"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(2) {
        truecount_testing::skip!("cc", "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{text}");
    // What it tells is what was tried: all five steps.
    let done = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert_eq!(done, 5, "{text}");
}
