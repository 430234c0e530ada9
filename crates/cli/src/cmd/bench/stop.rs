//! When enough rounds were measured: a number, a budget of time, or a precision.

use std::time::{Duration, Instant};

use truecount_stats::walsh_interval;

use super::collect::Collected;
use crate::failure::Failure;

/// Rounds that a bench makes at least when nobody says how many: fewer cannot decide much.
const MIN_ROUNDS: usize = 10;
/// And at most.
const MAX_ROUNDS: usize = 5_000;
/// Time for each command when nobody says how long.
const DEFAULT_SHARE: Duration = Duration::from_secs(3);
/// `--until` gives up after this long for each command.
const LONGEST_SHARE: Duration = Duration::from_secs(600);

/// The rule that ends a bench.
pub(super) enum Rule {
    /// This many rounds.
    Rounds(usize),
    /// Rounds until the time is over.
    Budget(Duration),
    /// Rounds until every command's interval is narrow.
    Until(Vec<Precision>),
    /// The default: [`MIN_ROUNDS`] rounds, and more while they are cheap.
    Default,
}

/// A metric and the half width of its interval, relative to its centre.
pub(super) struct Precision {
    pub(super) metric: String,
    pub(super) share: f64,
}

impl Rule {
    /// From `-n`, `--budget` and `--until`, of which clap allows one.
    pub(super) fn from_args(
        rounds: Option<usize>,
        budget: Option<Duration>,
        until: &[String],
    ) -> Result<Self, Failure> {
        if let Some(rounds) = rounds {
            return Ok(Self::Rounds(rounds));
        }
        if let Some(budget) = budget {
            return Ok(Self::Budget(budget));
        }
        if until.is_empty() {
            return Ok(Self::Default);
        }
        let mut all = Vec::new();
        for text in until {
            let (metric, share) = match text.split_once('=') {
                Some((metric, share)) => (metric, share),
                None => ("wall-time", text.as_str()),
            };
            all.push(Precision {
                metric: metric.to_owned(),
                share: percent(share).map_err(|why| Failure::new(2, format!("--until: {why}")))?,
            });
        }
        Ok(Self::Until(all))
    }

    /// How many rounds there will be, if that is known.
    pub(super) fn rounds(&self) -> Option<usize> {
        match self {
            Self::Rounds(rounds) => Some(*rounds),
            _ => None,
        }
    }

    /// The time after which it ends, if that is known.
    pub(super) fn time(&self, commands: usize) -> Option<Duration> {
        let commands = u32::try_from(commands).unwrap_or(u32::MAX);
        match self {
            Self::Budget(budget) => Some(*budget),
            Self::Default => Some(DEFAULT_SHARE.saturating_mul(commands)),
            _ => None,
        }
    }

    /// Whether to stop after `rounds` measured ones.
    pub(super) fn done(&self, rounds: usize, start: Instant, all: &[Collected]) -> bool {
        let elapsed = start.elapsed();
        let share = u32::try_from(all.len()).unwrap_or(u32::MAX);
        // What a next round would take, so that a budget is not overdrawn by half of one.
        let one = elapsed / u32::try_from(rounds.max(1)).unwrap_or(u32::MAX);
        match self {
            Self::Rounds(wanted) => rounds >= *wanted,
            Self::Budget(budget) => rounds > 0 && elapsed + one > *budget,
            Self::Default => {
                rounds >= MAX_ROUNDS
                    || rounds >= MIN_ROUNDS && elapsed + one > DEFAULT_SHARE.saturating_mul(share)
            }
            Self::Until(precisions) => {
                rounds >= MAX_ROUNDS
                    || elapsed > LONGEST_SHARE.saturating_mul(share)
                    // Looking at every round would stop at a lucky one too often.
                    || rounds >= MIN_ROUNDS && rounds.is_multiple_of(5)
                        && all.iter().all(|one| precisions.iter().all(|p| narrow(one, p)))
            }
        }
    }
}

/// Whether the 95 % interval of the centre is as narrow as asked.
fn narrow(collected: &Collected, precision: &Precision) -> bool {
    let Some(samples) = collected.samples(&precision.metric) else {
        // Nothing to wait for: the metric is not counted here.
        return true;
    };
    let logs: Vec<f64> = samples
        .iter()
        .map(|&sample| (sample.max(1) as f64).ln())
        .collect();
    walsh_interval(&logs, 0.05)
        .is_some_and(|(low, high, _)| ((high - low) / 2.0).exp_m1() <= precision.share)
}

/// `1%` or `0.5` (percent) as a share.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value / 100.0),
        _ => Err(format!("`{text}` is not a percentage; write 1% or 0.5%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(percent("1%").unwrap(), 0.01);
        assert_eq!(percent(" 0.5 % ").unwrap(), 0.005);
        for bad in ["", "-1%", "x", "nan", "inf"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_of_rounds_is_kept() {
        let rule = Rule::from_args(Some(3), None, &[]).unwrap();
        let start = Instant::now();
        assert!(!rule.done(2, start, &[]));
        assert!(rule.done(3, start, &[]));
    }
}
