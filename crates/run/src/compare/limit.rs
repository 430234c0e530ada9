//! `--fail-above` and `--floor`: limits on metrics, and which direction of a metric is worse.

use std::collections::BTreeMap;

use truecount_events::metrics::{Metrics, Worse as Row};
use truecount_stats::{Allowed, Floors, Worse};

use crate::error::{Error, ErrorKind};
use crate::rounds::{Map, Metric, percent};

/// A metric, and by how much it may get worse.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Name of the metric, with or without its filter.
    pub metric: String,
    /// By how much.
    pub allowed: Allowed,
}

impl Limit {
    /// From `METRIC=LIMIT`, which the named option was given: a share (`0.5%`), or a whole number of counts.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(option: &str, text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::new(ErrorKind::Usage, format!("{option} `{text}`: {why}"))
                .hint("write it as instructions:u=0.5% (a share) or instructions:u=1000 (counts)")
        };
        let (metric, limit) = text.split_once('=').ok_or_else(|| wrong("no `=`"))?;
        let limit = limit.trim();
        let whole = !limit.is_empty() && limit.bytes().all(|byte| byte.is_ascii_digit());
        let allowed = match limit.parse::<u64>() {
            Ok(counts) if whole => Allowed::Counts(counts as f64),
            _ if whole => return Err(wrong("it is too large")),
            _ if !limit.ends_with('%') && percent(limit).is_ok() => {
                return Err(wrong("a share ends with %, counts are whole"));
            }
            _ => Allowed::Share(percent(limit).map_err(|why| wrong(&why))?),
        };
        Ok(Self {
            metric: metric.trim().to_owned(),
            allowed,
        })
    }

    /// All of an option's.
    pub(super) fn parse_all(option: &str, texts: &[String]) -> Result<Vec<Self>, Error> {
        let limits = texts.iter().map(|text| Self::parse(option, text));
        limits.collect()
    }

    /// Whether it is for this metric: the same name, or the name without its filter.
    #[must_use]
    pub fn covers(&self, metric: &str) -> bool {
        covers(&self.metric, metric)
    }
}

fn covers(name: &str, metric: &str) -> bool {
    metric == name || metric.split(':').next() == Some(name)
}

/// The limit of a metric of a command: its own, or that of all.
pub(super) fn limit_of<'l>(
    limits: &'l [Limit],
    own: &'l BTreeMap<String, Vec<Limit>>,
    command: &str,
    metric: &str,
) -> Option<&'l Limit> {
    let own = own.get(command).into_iter().flatten();
    own.chain(limits).find(|limit| limit.covers(metric))
}

/// A metric and a share, from the `METRIC=PCT` that the named option was given.
pub(super) fn share_of(option: &str, text: &str) -> Result<(String, f64), Error> {
    let wrong = |why: &str| {
        Error::new(ErrorKind::Usage, format!("{option} `{text}`: {why}"))
            .hint("write it as instructions:u=0.5%")
    };
    let (metric, share) = text.split_once('=').ok_or_else(|| wrong("no `=`"))?;
    let share = percent(share).map_err(|why| wrong(&why))?;
    Ok((metric.trim().to_owned(), share))
}

/// The floors: defaults, `--floor`, and a gate's share for its metric. What counts come to is another share of every
/// base: those are given to their pairs.
pub(super) fn floors(set: Vec<(String, f64)>, gates: &[Limit]) -> Floors {
    let gates = gates.iter().filter_map(|limit| match limit.allowed {
        Allowed::Share(share) => Some((limit.metric.clone(), share)),
        Allowed::Counts(_) => None,
    });
    let all = set.into_iter().chain(gates);
    all.fold(Floors::default(), |floors, (metric, share)| {
        floors.with(metric, share)
    })
}

/// Which direction of a metric is worse; `None` where neither is, or nobody says.
#[must_use]
pub fn worse(name: &str, metric: &Metric) -> Option<Worse> {
    let plain = name.split(':').next().unwrap_or(name);
    match metric.worse.or_else(|| Metrics::embedded().worse(plain)) {
        Some(Row::Higher) => Some(Worse::Higher),
        Some(Row::Lower) => Some(Worse::Lower),
        Some(Row::Neither) => None,
        None => Worse::of(name),
    }
}

/// Refuses a `METRIC=PCT` of this option whose metric is not measured.
///
/// # Errors
/// The names that are, the nearest first.
pub fn measured(option: &str, texts: &[String], metrics: &Map<Metric>) -> Result<(), Error> {
    for text in texts {
        let (wanted, _) = share_of(option, text)?;
        if !metrics.iter().any(|(name, _)| covers(&wanted, name)) {
            return Err(not_measured(option, &wanted, metrics));
        }
    }
    Ok(())
}

fn not_measured(option: &str, metric: &str, metrics: &Map<Metric>) -> Error {
    let names: Vec<&str> = metrics.iter().map(|(name, _)| name).collect();
    let near = truecount_events::did_you_mean(metric, &names);
    let near = match near.first() {
        Some(near) => format!("did you mean {near}? "),
        None => String::new(),
    };
    let cause = format!("{option} {metric}: it is not measured");
    let hint = format!(
        "{near}measured are {}; -e and -M add others",
        names.join(", ")
    );
    Error::new(ErrorKind::Usage, cause).hint(hint)
}

/// Refuses gates on metrics without a worse direction; of what is not measured nothing is said, another command may have
/// it.
///
/// # Errors
/// The first.
pub(super) fn directions(limits: &[Limit], metrics: &Map<Metric>) -> Result<(), Error> {
    for limit in limits {
        let mut covered = metrics.iter().filter(|(name, _)| limit.covers(name));
        if let Some((name, _)) = covered.find(|(name, metric)| worse(name, metric).is_none()) {
            let cause = format!("--fail-above {name}: nothing says which direction is worse");
            return Err(Error::new(ErrorKind::Usage, cause).hint(
                "gate another metric, or say `worse = \"higher\"` in its row of --metrics-file",
            ));
        }
    }
    Ok(())
}

/// Refuses gates on what is not measured, and on metrics without a worse direction.
///
/// # Errors
/// The names that can be gated.
pub(super) fn check(limits: &[Limit], metrics: &Map<Metric>) -> Result<(), Error> {
    for limit in limits {
        if !metrics.iter().any(|(name, _)| limit.covers(name)) {
            return Err(not_measured("--fail-above", &limit.metric, metrics));
        }
    }
    directions(limits, metrics)
}
