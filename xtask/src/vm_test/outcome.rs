//! Reads a test runner's output: its closing lines, and what must not be there.

use super::rig::Run;

/// Tests that passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
}

impl Tally {
    pub const fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// What a run amounts to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub tally: Tally,
    /// The test runner's closing lines.
    pub closing: Vec<String>,
    /// Why the run failed beyond its tests, and what was skipped.
    pub complaints: Vec<String>,
}

impl Verdict {
    pub const fn failed(&self) -> bool {
        self.tally.failed > 0
    }
}

/// The number before ` WORD` in `test result: ok. 3 passed; 0 failed; …`.
fn number(line: &str, word: &str) -> u64 {
    line.split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// Judges a run. `all_must_run`: a test that says it has no PMU failed, since there is one.
pub fn judge(run: &Run, all_must_run: bool) -> Verdict {
    let mut verdict = Verdict::default();
    let mut skipped = 0;
    for line in run.output.lines() {
        // A runner's line can follow a test's output without a line break.
        if let Some(at) = line.find("test result: ") {
            let closing = line.get(at..).unwrap_or(line);
            verdict.tally.passed += number(closing, " passed");
            verdict.tally.failed += number(closing, " failed");
            verdict.closing.push(closing.to_owned());
        } else if line.starts_with("skipped: ") {
            skipped += 1;
            if all_must_run && line.starts_with("skipped: no PMU") {
                verdict.tally.failed += 1;
                verdict
                    .complaints
                    .push(format!("failed: skipped on a machine with a PMU: {line}"));
            }
        }
    }
    if skipped > 0 {
        verdict
            .complaints
            .push(format!("({skipped} skipped themselves here)"));
    }
    if !verdict.closing.is_empty() && verdict.tally == Tally::default() {
        verdict
            .complaints
            .push("(no test has the filter in its name)".to_owned());
    }
    if verdict.tally.failed == 0 {
        let problem = match run.status {
            Some(0) if !verdict.closing.is_empty() => None,
            Some(0) => Some("the test runner printed no result".to_owned()),
            Some(124) => Some("the machine reached its time limit".to_owned()),
            Some(125) => Some("the rig failed (see above)".to_owned()),
            Some(126) => Some("the rig cannot run this executable".to_owned()),
            Some(status) => Some(format!("the rig ended with status {status}")),
            None => Some("the rig was ended by a signal".to_owned()),
        };
        if let Some(problem) = problem {
            verdict.tally.failed += 1;
            verdict.complaints.push(format!("failed: {problem}"));
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "running 3 tests\ntest a ... ok\nskipped: needs paranoid\ntest b ... ok\n\n\
        test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 13 filtered out; finished in 6.01s\n";

    fn run(output: &str, status: Option<i32>) -> Run {
        Run {
            output: output.to_owned(),
            status,
        }
    }

    #[test]
    fn a_good_run() {
        let verdict = judge(&run(GOOD, Some(0)), true);
        assert_eq!(
            verdict.tally,
            Tally {
                passed: 3,
                failed: 0
            }
        );
        assert_eq!(verdict.closing.len(), 1);
        assert_eq!(verdict.complaints, ["(1 skipped themselves here)"]);
        assert!(!verdict.failed());
    }

    #[test]
    fn failures_of_tests_are_counted_once() {
        let text =
            "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let verdict = judge(&run(text, Some(101)), true);
        assert_eq!(
            verdict.tally,
            Tally {
                passed: 2,
                failed: 4
            }
        );
        assert!(verdict.complaints.is_empty());
    }

    #[test]
    fn a_run_without_tests_says_so() {
        let text = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 8 filtered out\n";
        let verdict = judge(&run(text, Some(0)), true);
        assert_eq!(verdict.tally, Tally::default());
        assert_eq!(verdict.complaints, ["(no test has the filter in its name)"]);
    }

    #[test]
    fn a_machine_that_ends_early_is_a_failure() {
        for (output, status) in [
            ("", Some(0)),
            ("", Some(124)),
            (GOOD, Some(125)),
            ("", Some(126)),
            (GOOD, Some(139)),
            (GOOD, None),
        ] {
            let verdict = judge(&run(output, status), true);
            assert_eq!(verdict.tally.failed, 1, "{status:?}");
            assert!(
                verdict
                    .complaints
                    .iter()
                    .any(|line| line.starts_with("failed: "))
            );
        }
    }

    #[test]
    fn no_pmu_in_a_rig_is_a_failure_where_all_must_run() {
        let text = format!("skipped: no PMU for x: …\n{GOOD}");
        assert_eq!(
            judge(&run(&text, Some(0)), true).tally,
            Tally {
                passed: 3,
                failed: 1
            }
        );
        assert_eq!(
            judge(&run(&text, Some(0)), false).tally,
            Tally {
                passed: 3,
                failed: 0
            }
        );
    }
}
