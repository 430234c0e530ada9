//! Significance against a metric's own history, as rustc-perf decides it: a change is significant
//! when it is at least Q3 + 3·IQR of the past changes between neighbours (the outer fence of a box
//! plot; rust-lang/rustc-perf, docs/comparison-analysis.md).

use crate::order::{quantile_sorted, sort};

/// Without history a change of 0.2 % is significant.
pub const DEFAULT_THRESHOLD: f64 = 0.002;
/// Only this many of the newest changes count.
pub const NEWEST: usize = 30;
/// Fewer changes than this have no quartiles to speak of: taken for no history.
pub const MIN_CHANGES: usize = 4;

/// The smallest significant relative change of a metric with these past values, oldest first.
///
/// ```
/// use truecount_stats::history_threshold;
/// assert_eq!(history_threshold(&[100.0, 100.1]), 0.002); // no history to speak of
/// let noisy: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i % 2)).collect();
/// assert!(history_threshold(&noisy) > 0.0099);
/// ```
#[must_use]
pub fn history_threshold(past: &[f64]) -> f64 {
    let mut changes: Vec<f64> = past
        .windows(2)
        .rev()
        .map(|w| relative_change(w[0], w[1]).abs())
        .filter(|c| c.is_finite())
        .take(NEWEST)
        .collect();
    if changes.len() < MIN_CHANGES {
        return DEFAULT_THRESHOLD;
    }
    sort(&mut changes);
    let (q1, q3) = (
        quantile_sorted(&changes, 0.25),
        quantile_sorted(&changes, 0.75),
    );
    q3 + 3.0 * (q3 - q1)
}

/// Whether going from the last past value to `new` is significant. No change never is, not even
/// after a history without any.
#[must_use]
pub fn significant_in_history(past: &[f64], new: f64) -> bool {
    let Some(&last) = past.last() else {
        return false;
    };
    let change = relative_change(last, new).abs();
    change > 0.0 && change >= history_threshold(past)
}

/// `new / old − 1`; 0 for 0 → 0, infinite for 0 → more.
fn relative_change(old: f64, new: f64) -> f64 {
    if old == new { 0.0 } else { (new - old) / old }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_by_hand() {
        // Changes 1 %, 2 %, 3 %, 4 %, 5 %: Q1 2 %, Q3 4 %, fence 10 %.
        let mut past = vec![100.0];
        for c in [0.01, 0.02, 0.03, 0.04, 0.05] {
            past.push(past[past.len() - 1] * (1.0 + c));
        }
        assert!((history_threshold(&past) - 0.10).abs() < 1e-12);
        let last = past[past.len() - 1];
        assert!(!significant_in_history(&past, last * 1.099));
        assert!(significant_in_history(&past, last * 0.899));
    }

    #[test]
    fn only_the_newest_thirty_changes_count() {
        let mut past: Vec<f64> = (0..50)
            .map(|i| if i % 2 == 0 { 1.0 } else { 2.0 })
            .collect();
        past.extend([2.0; 31]);
        assert_eq!(history_threshold(&past[past.len() - 31..]), 0.0);
        assert_eq!(history_threshold(&past), 0.0);
    }

    #[test]
    fn a_flat_history_makes_any_change_significant_but_none_is_none() {
        assert!(significant_in_history(&[100.0; 10], 100.001));
        assert!(!significant_in_history(&[100.0; 10], 100.0));
        assert!(!significant_in_history(&[], 5.0));
        assert!(significant_in_history(&[0.0; 10], 5.0));
        assert!(!significant_in_history(&[100.0], f64::NAN));
    }
}
