//! When enough rounds were measured: a number, a budget of time, or a precision.

use std::time::{Duration, Instant};

use truecount_stats::{Design, Looks, SIGNIFICANCE, smallest_n, walsh_interval};

use super::result::Command;
use crate::error::{Error, ErrorKind};

/// Rounds that a bench makes at least when nobody says how many: fewer cannot decide much.
const MIN_ROUNDS: usize = 10;
/// And at most.
const MAX_ROUNDS: usize = 5_000;
/// Time for each command when nobody says how long.
const DEFAULT_SHARE: Duration = Duration::from_secs(3);
/// `--until` gives up after this long for each command.
const LONGEST_SHARE: Duration = Duration::from_secs(600);
/// `--until decided` gives up after this long for each command, and so many rounds.
const UNDECIDED_SHARE: Duration = Duration::from_secs(60);
const UNDECIDED_ROUNDS: usize = 1_000;

/// The rule that ends a bench.
pub enum Rule {
    /// This many rounds.
    Rounds(usize),
    /// Rounds until the time is over.
    Budget(Duration),
    /// Rounds until every command's interval is narrow.
    Until(Vec<Precision>),
    /// Rounds until the comparisons are decided, which is looked at now and then.
    Decided(Looks),
    /// So many rounds at least and at most, and more than the least while they are cheap.
    Default(usize, usize),
}

/// Whether what was collected in so many rounds decides the comparisons.
pub type Decided<'a> = dyn Fn(&[Command], usize) -> bool + 'a;

/// What the user says about the number of rounds.
pub struct RoundOptions<'a> {
    /// So many.
    pub rounds: Option<usize>,
    /// As many as this time allows.
    pub budget: Option<Duration>,
    /// `decided`, or precisions to reach.
    pub until: &'a [String],
    /// So many at least.
    pub min: Option<usize>,
    /// So many at most.
    pub max: Option<usize>,
}

/// A metric and the half width of its interval, relative to its centre.
pub struct Precision {
    metric: String,
    share: f64,
}

impl Rule {
    /// From the options, of which clap allows what goes together. `tests` comparisons are judged together, and events
    /// come in so many `batches`, each counted in every so-manieth round only.
    pub fn new(wish: &RoundOptions<'_>, tests: usize, batches: usize) -> Result<Self, Error> {
        if let Some(rounds) = wish.rounds {
            return Ok(Self::Rounds(rounds));
        }
        if let Some(budget) = wish.budget {
            return Ok(Self::Budget(budget));
        }
        let needed = |tests| {
            let needed = smallest_n(Design::Paired, SIGNIFICANCE, tests);
            needed.max(MIN_ROUNDS).saturating_mul(batches.max(1))
        };
        if wish.until.iter().any(|text| text == "decided") {
            if wish.until.len() > 1 {
                return Err(Error::new(ErrorKind::Usage, "--until decided stands alone")
                    .hint("give either decided or precisions"));
            }
            let least = wish.min.unwrap_or_else(|| needed(1));
            let most = wish.max.unwrap_or(UNDECIDED_ROUNDS).max(least);
            return Ok(Self::Decided(Looks::new(least, most)));
        }
        if wish.until.is_empty() {
            let least = wish.min.unwrap_or_else(|| needed(tests));
            let most = wish.max.unwrap_or(MAX_ROUNDS);
            return if wish.min.is_some() && least > most {
                Err(Error::new(
                    ErrorKind::Usage,
                    format!("--min-runs {least} is more than --max-runs {most}"),
                )
                .hint("turn them round"))
            } else {
                Ok(Self::Default(least.min(most), most))
            };
        }
        let mut all = Vec::new();
        for text in wish.until {
            let (metric, share) = match text.split_once('=') {
                Some((metric, share)) => (metric, share),
                None => ("wall-time", text.as_str()),
            };
            all.push(Precision {
                metric: metric.to_owned(),
                share: percent(share).map_err(|why| {
                    let or = match text.contains('=') {
                        true => "",
                        false => ", or decided",
                    };
                    Error::new(ErrorKind::Usage, format!("--until: {why}{or}"))
                })?,
            });
        }
        Ok(Self::Until(all))
    }

    /// How often the comparisons may be looked at before it ends.
    pub fn looks(&self) -> usize {
        match self {
            Self::Decided(looks) => looks.count(),
            _ => 1,
        }
    }

    /// The time that runs may take in which the counts of a command differ.
    pub(super) fn exact_time(&self, commands: usize) -> Duration {
        let commands = u32::try_from(commands).unwrap_or(u32::MAX);
        match self {
            Self::Budget(budget) => *budget,
            Self::Decided(_) => UNDECIDED_SHARE.saturating_mul(commands),
            _ => DEFAULT_SHARE.saturating_mul(commands),
        }
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
            Self::Default(..) => Some(DEFAULT_SHARE.saturating_mul(commands)),
            _ => None,
        }
    }

    /// Whether to stop after `rounds` measured ones; `decided` says whether the comparisons are.
    pub(super) fn done(
        &self,
        rounds: usize,
        start: Instant,
        all: &[Command],
        decided: &Decided<'_>,
    ) -> bool {
        let elapsed = start.elapsed();
        let share = u32::try_from(all.len()).unwrap_or(u32::MAX);
        // What a next round would take, so that a budget is not overdrawn by half of one.
        let one = elapsed / u32::try_from(rounds.max(1)).unwrap_or(u32::MAX);
        match self {
            Self::Rounds(wanted) => rounds >= *wanted,
            Self::Budget(budget) => rounds > 0 && elapsed + one > *budget,
            Self::Default(least, most) => {
                rounds >= *most
                    || rounds >= *least && elapsed + one > DEFAULT_SHARE.saturating_mul(share)
            }
            Self::Decided(looks) => {
                rounds >= looks.last()
                    || elapsed > UNDECIDED_SHARE.saturating_mul(share)
                    || looks.is_at(rounds) && decided(all, rounds)
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
fn narrow(command: &Command, precision: &Precision) -> bool {
    let Some(samples) = command.samples(&precision.metric) else {
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
pub fn percent(text: &str) -> Result<f64, String> {
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

    fn wish() -> RoundOptions<'static> {
        RoundOptions {
            rounds: None,
            budget: None,
            until: &[],
            min: None,
            max: None,
        }
    }

    #[test]
    fn a_number_of_rounds_is_kept() {
        let rounds = Some(3);
        let rule = Rule::new(&RoundOptions { rounds, ..wish() }, 2, 1).unwrap();
        let (start, never) = (Instant::now(), |_: &[Command], _| false);
        assert!(!rule.done(2, start, &[], &never));
        assert!(rule.done(3, start, &[], &never));
    }

    /// Ten rounds in two batches give five values each, which decide nothing.
    #[test]
    fn the_least_number_of_rounds_can_decide() {
        for (tests, batches, expected) in [(1, 1, 10), (2, 1, 10), (16, 1, 12), (2, 3, 30)] {
            match Rule::new(&wish(), tests, batches).unwrap() {
                Rule::Default(least, _) => assert_eq!(least, expected),
                _ => panic!("another rule"),
            }
        }
        let (min, max) = (Some(20), Some(10));
        assert!(Rule::new(&RoundOptions { min, max, ..wish() }, 1, 1).is_err());
    }

    #[test]
    fn decided_is_looked_at_now_and_then_and_has_a_cap() {
        let until = ["decided".to_owned()];
        let rule = Rule::new(
            &RoundOptions {
                until: &until,
                ..wish()
            },
            2,
            1,
        )
        .unwrap();
        let (start, one) = (Instant::now(), [Command::default()]);
        let done = |rounds, decided: bool| rule.done(rounds, start, &one, &move |_, _| decided);
        assert!(done(10, true) && done(16, true) && !done(17, true));
        assert!(!done(10, false) && done(UNDECIDED_ROUNDS, false));
        assert!(rule.looks() > 5 && rule.looks() < 15);
    }
}
