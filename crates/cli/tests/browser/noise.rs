//! The page of `truecount noise`, rendered by a real browser: it must not be an empty page, and what it says must be
//! shown. Skipped where there is no Chromium or no virtual PMU.

use std::process::Command;

use super::{Directory, drawn};

#[test]
fn what_makes_runs_differ_is_drawn() {
    let directory = Directory::new("noise-browser");
    let file = |name: &str| directory.0.join(name);
    let made = Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(["noise", "--source", "virtual", "-n", "3"])
        .args(["--factors", "env,getrandom", "--html"])
        .arg(file("page.html"))
        .arg("--svg")
        .arg(file("chart.svg"))
        .args(["--", "sh", "-c", "echo '<b>&amp;'"])
        .output()
        .unwrap();
    if !made.status.success() {
        truecount_testing::skip!("virtual", "{}", String::from_utf8_lossy(&made.stderr));
        return;
    }
    let Some(shown) = drawn(&directory) else {
        return;
    };
    for text in [
        "environment size",
        "hash randomisation",
        "every run the same",
        "'&lt;b&gt;&amp;amp;'",
        "</svg>",
    ] {
        assert!(shown.contains(text), "{text} is not shown: {shown}");
    }
    // Three runs each of two factors, of nothing and of everything.
    assert_eq!(shown.matches("<circle").count(), 12);
}
