//! Everything that SciPy computes too, compared with SciPy (see `scipy_fixtures.py`).

#![allow(clippy::unwrap_used)] // helpers of tests; a failure is the test's

use truecount_stats::{Summary, mann_whitney, shift, signed_rank, walsh_median};

struct Case {
    line: usize,
    kind: String,
    expected: Vec<f64>,
    samples: Vec<Vec<f64>>,
}

fn cases() -> Vec<Case> {
    let numbers = |s: &str| {
        s.split_whitespace()
            .map(|v| v.parse::<f64>().unwrap())
            .collect()
    };
    include_str!("scipy_fixtures.txt")
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.starts_with('#'))
        .map(|(i, l)| {
            let mut parts = l.split('|');
            let (kind, expected) = parts.next().unwrap().split_once(' ').unwrap();
            Case {
                line: i + 1,
                kind: kind.to_owned(),
                expected: numbers(expected),
                samples: parts.map(numbers).collect(),
            }
        })
        .collect()
}

fn close(case: &Case, what: &str, got: f64, expected: f64) {
    let bound = 1e-10 * expected.abs().max(1e-290);
    assert!(
        got == expected || (got - expected).abs() <= bound,
        "line {}: {what} of {} is {got}, SciPy says {expected}",
        case.line,
        case.kind
    );
}

#[test]
fn every_fixture_agrees() {
    let mut seen = std::collections::BTreeMap::new();
    for case in &cases() {
        *seen.entry(case.kind.clone()).or_insert(0) += 1;
        let (e, s) = (&case.expected, &case.samples);
        match case.kind.as_str() {
            "wilcoxon" => {
                let t = signed_rank(&s[0]);
                close(case, "W+", t.w_plus, e[0]);
                close(case, "p", t.p, e[1]);
                assert!(
                    (walsh_median(&s[0]) - e[2]).abs() < 1e-12,
                    "line {}",
                    case.line
                );
                assert_eq!(t.exact, t.used <= 25);
            }
            "mannwhitney" => {
                let t = mann_whitney(&s[0], &s[1]);
                close(case, "U", t.u, e[0]);
                close(case, "p", t.p, e[1]);
                assert!(
                    (shift(&s[0], &s[1]) - e[2]).abs() < 1e-12,
                    "line {}",
                    case.line
                );
            }
            "summary" => {
                let t = Summary::of(&s[0]).unwrap();
                close(case, "median", t.median.to_f64(), e[0]);
                close(case, "mad", t.mad, e[1]);
                close(case, "q1", t.q1, e[2]);
                close(case, "q3", t.q3, e[3]);
            }
            other => panic!("line {}: unknown kind {other}", case.line),
        }
    }
    assert!(
        seen["wilcoxon"] >= 30 && seen["mannwhitney"] >= 25 && seen["summary"] == 6,
        "{seen:?}"
    );
}
