//! The same region in C, C++, Go and Rust, by the machine's PMU: a loop of known length counts the same in all.

use std::process::Command;
use truecount::{Counter, Fence, Source, known_loop};

/// What two lengths count beyond themselves at least: an interrupt in user mode counts as an instruction on x86.
fn beyond(counter: &Counter<Fence>, length: u64) -> u64 {
    let overhead = counter.overhead(32);
    let counts = (0..20).map(|_| {
        let start = counter.read();
        let known = known_loop(std::hint::black_box(length)).unwrap();
        counter.since(start) - overhead - known
    });
    counts.min().unwrap()
}

#[test]
fn other_languages_count_the_region_that_rust_counts() {
    if !super::pmu("other_languages_count_the_region_that_rust_counts") {
        return;
    }
    let counter = Counter::<Fence>::open("instructions:u").unwrap();
    let rust = beyond(&counter, 1000);
    for length in [1000, 100_000].repeat(5) {
        assert_eq!(beyond(&counter, length), rust);
    }
    assert!(rust < 300, "{rust}");
    drop(counter);
    for variable in [
        "TRUECOUNT_C_LOOP",
        "TRUECOUNT_CPP_LOOP",
        "TRUECOUNT_GO_LOOP",
    ] {
        let Some(program) = std::env::var_os(variable) else {
            truecount_testing::skip!("compilers", "no program by {variable}: this rig has none");
            continue;
        };
        let mut counts = Vec::new();
        // The engine counts no interrupts.
        let (runs, most) = match super::source() {
            Source::Virtual => (2, 0),
            _ => (10, 4),
        };
        for _ in 0..runs {
            let output = Command::new(&program).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{variable}: {said}");
            let each = said.lines().map(|line| line.strip_prefix("beyond "));
            let each: Option<Vec<u64>> = each.map(|count| count?.parse().ok()).collect();
            counts.extend(each.unwrap_or_else(|| panic!("{variable}: {said}")));
        }
        assert_eq!(counts.len(), 4 * runs, "{variable}: {counts:?}");
        // They count once each: an interrupt in one of them is an instruction more.
        let first = counts.iter().min().copied();
        let interrupted = counts.iter().filter(|&&count| Some(count) != first);
        assert!(
            interrupted.clone().count() <= most,
            "{variable}: {counts:?}"
        );
        for &count in interrupted {
            assert!(
                first.is_some_and(|first| count <= first + 2),
                "{variable}: {counts:?}"
            );
        }
        println!("{variable}: {first:?}, Rust: {rust}");
        assert!(first.is_some_and(|beyond| beyond < 300), "{first:?}");
    }
}
