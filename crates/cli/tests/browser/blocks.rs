//! The chart and the page of `truecount blocks`, rendered by a real browser: what it draws must not be an empty
//! page, and the numbers must be in what it shows. Skipped where there is no Chromium.

use std::path::Path;
use std::process::Command;

use super::{Directory, drawn};

/// Stacks of a loop of one block: `hits` of 100 iterations take about 20 cycles, the others about 300.
fn recording(path: &Path, hits: u32) {
    let mut text = String::new();
    let mut state = 12345u32;
    for _ in 0..300 {
        text.push_str(" 401060");
        for _ in 0..31 {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
            let noise = (state >> 16) % 7;
            let cycles = if (state >> 20) % 100 < hits {
                17 + noise
            } else {
                290 + 3 * noise
            };
            text.push_str(&format!(" 0x401080/0x401050/P/-/-/{cycles}"));
        }
        text.push('\n');
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn the_prefetch_story_is_drawn() {
    let directory = Directory::new("browser");
    let file = |name: &str| directory.0.join(name);
    recording(&file("before.txt"), 40);
    recording(&file("after.txt"), 95);
    let made = Command::new(env!("CARGO_BIN_EXE_truecount"))
        .args(["blocks", "--block", "0x401050", "--compare"])
        .arg(file("after.txt"))
        .arg("--svg")
        .arg(file("chart.svg"))
        .arg("--html")
        .arg(file("page.html"))
        .arg(file("before.txt"))
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );

    // A blank page as the measure of what an empty picture weighs.
    let Some(shown) = drawn(&directory) else {
        return;
    };
    for text in [
        "before.txt: 9,000 executions",
        "after.txt: 9,000 executions",
        "prefetch window: ",
        "</svg>",
    ] {
        assert!(shown.contains(text), "{text} is not shown");
    }
    assert!(
        shown.matches("<line class=\"mode s").count() >= 4,
        "two modes of each series are marked"
    );
}

/// Reads from a table of this many words, in order.
const TIMED: &str = "
#include <stdint.h>
static volatile uint64_t table[1 << 12];
__attribute__((noinline)) uint64_t look_up(uint64_t i) { return table[i & (WORDS - 1)]; }
int main(void) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 20000; i++) sum += look_up(i);
    return sum != 0;
}
";

#[test]
fn what_was_timed_without_a_pmu_is_drawn() {
    if !cfg!(target_arch = "x86_64") {
        truecount_testing::skip!("x86-64", "latency is for x86-64");
        return;
    }
    let directory = Directory::new("browser-time");
    let file = |name: &str| directory.0.join(name);
    std::fs::write(file("timed.c"), TIMED).unwrap();
    for (name, words) in [("small", "-DWORDS=64"), ("large", "-DWORDS=4096")] {
        let built = Command::new("cc")
            .args(["-O1", words, "-o"])
            .arg(file(name))
            .arg(file("timed.c"))
            .output();
        match built {
            Ok(built) if built.status.success() => {}
            other => {
                truecount_testing::skip!("cc", "cc {other:?}");
                return;
            }
        }
    }
    let timed = |arguments: &[&str], program: &str| {
        let made = Command::new(env!("CARGO_BIN_EXE_truecount"))
            .current_dir(&directory.0)
            .args(["latency", "look_up"])
            .args(arguments)
            .args(["--", program])
            .output()
            .unwrap();
        // Stdout is the program's.
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{said}");
        said
    };
    timed(&["--json", "-o", "small.json"], "./small");
    let said = timed(
        &[
            "--compare",
            "small.json",
            "--svg",
            "chart.svg",
            "--html",
            "page.html",
        ],
        "./large",
    );
    assert!(said.contains("COMPARED"), "{said}");
    let Some(shown) = drawn(&directory) else {
        return;
    };
    for text in [
        "look_up, from one execution to the next",
        "TSC cycles",
        "small: 19,",
        "large: 19,",
        "<line class=\"mode s0\"",
        "<line class=\"mode s1\"",
        "</svg>",
    ] {
        assert!(shown.contains(text), "{text} is not shown");
    }
}
