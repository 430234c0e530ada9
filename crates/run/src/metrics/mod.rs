//! `-M`: metrics by name. The events of their formulas become groups that are counted like any other; what the groups
//! gave becomes values, with thresholds and what to look at next. Formulas and packs are data of `truecount-events`.

mod value;

use std::path::PathBuf;

use truecount_events::metrics::{Context, Metric, Metrics, Pack, names_of};
use truecount_events::{Encoding, Machine, resolve};

use crate::error::{Error, ErrorKind};
use crate::request::{self, EventRequest, RequestGroup};
use crate::source::Source;
use truecount_model::{Reading, SourceKind};

pub use value::{MetricRow, SumRow, Values};

/// The built-in metrics and those of the user's files.
///
/// # Errors
/// Status 1 with the file and the cause.
pub fn load(files: &[PathBuf]) -> Result<Metrics, Error> {
    let mut metrics = Metrics::embedded().clone();
    for file in files {
        let name = file.display().to_string();
        let text = crate::input::text(file).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("--metrics-file {name}: {error}"),
            )
        })?;
        let own = Metrics::parse(&text, &name).map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("--metrics-file {error}"))
        })?;
        metrics = metrics.with(own);
    }
    Ok(metrics)
}

/// The packs and metrics that names mean on this machine.
///
/// # Errors
/// Status 2: no such metric for this CPU, with near names and the CPUs that have it.
pub fn packs(
    names: &[String],
    files: &[PathBuf],
    machine: &Machine,
) -> Result<Vec<(Pack, Vec<String>)>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let all = load(files)?;
    let cpu = machine.cpu().map(names_of).unwrap_or_default();
    let cpu: Vec<&str> = cpu.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    for name in names.iter().flat_map(|list| list.split(',')) {
        let (pack, metrics) = all
            .find(name.trim(), &cpu)
            .map_err(|error| Error::new(ErrorKind::Usage, format!("-M: {error}")))?;
        found.push((
            pack.clone(),
            metrics.into_iter().map(str::to_owned).collect(),
        ));
    }
    Ok(found)
}

/// Whether an event is on this machine's PMU and counts nothing, by trying: `pack` says which ones cannot.
fn silent(expression: &str, machine: &Machine) -> bool {
    let Ok(resolved) = resolve(expression, machine) else {
        return false;
    };
    let kernel = truecount_perf::linux();
    let mut encodings = resolved.events().filter_map(|event| event.encoding());
    encodings.any(|encoding| {
        truecount_perf::probe::silent(&kernel, &truecount_perf::EventAttr::from(encoding))
    })
}

/// What is known without counting.
pub fn context(machine: &Machine) -> Context {
    let active = std::fs::read_to_string("/sys/devices/system/cpu/smt/active").ok();
    let core = machine.core_pmus().into_iter().next();
    Context {
        smt: active.and_then(|text| match text.trim() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }),
        wall_ns: None,
        slots: core
            .and_then(|pmu| pmu.capability("slots"))
            .map(|slots| slots as f64),
    }
}

/// One event expression of a group and where its readings stand in the group: several on a hybrid machine.
struct Member {
    expression: String,
    readings: std::ops::Range<usize>,
}

/// A group that the metrics need, as it is counted.
struct AskedGroup {
    members: Vec<Member>,
    wanted: RequestGroup,
}

/// Metrics of one pack with one filter.
struct Part {
    pack: Pack,
    metrics: Vec<String>,
    filter: String,
    /// For each metric the groups (of all parts) that it is computed from.
    from: Vec<Vec<usize>>,
}

impl Part {
    /// The metric's name with the filter of its events.
    fn named(&self, metric: &str) -> String {
        match self.filter.as_str() {
            "" => metric.to_owned(),
            filter => format!("{metric}:{filter}"),
        }
    }
}

/// Everything that `-M` asks for.
#[derive(Default)]
pub struct Asked {
    parts: Vec<Part>,
    groups: Vec<AskedGroup>,
    context: Context,
}

impl Asked {
    /// Finds the metrics and places their events in groups that `source` can count.
    ///
    /// # Errors
    /// Status 2: no such metric for this CPU, with near names and the CPUs that have it; or a formula's event that
    /// cannot be resolved.
    pub fn new(
        names: &[String],
        files: &[PathBuf],
        machine: &Machine,
        source: &dyn Source,
    ) -> Result<Self, Error> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        let all = load(files)?;
        let cpu = machine.cpu().map(names_of).unwrap_or_default();
        let cpu: Vec<&str> = cpu.iter().map(String::as_str).collect();
        let mut asked = Self {
            context: context(machine),
            ..Self::default()
        };
        let mut wished: Vec<(Pack, String, Vec<String>)> = Vec::new();
        for written in names.iter().flat_map(|list| list.split(',')) {
            let written = written.trim();
            let (name, filter) = match written.split_once(':') {
                Some((name, filter)) => (name, filter.to_owned()),
                None => (written, default_filter(source).to_owned()),
            };
            let (pack, metrics) = all
                .find(name, &cpu)
                .map_err(|error| Error::new(ErrorKind::Usage, format!("-M: {error}")))?;
            let known = wished
                .iter_mut()
                .find(|(old, its, _)| old.name == pack.name && *its == filter);
            let metrics = metrics.into_iter().map(str::to_owned);
            match known {
                Some((_, _, list)) => {
                    let new: Vec<String> = metrics.filter(|m| !list.contains(m)).collect();
                    list.extend(new);
                }
                None => wished.push((pack.clone(), filter, metrics.collect())),
            }
        }
        for (mut pack, filter, metrics) in wished {
            if source.kind() == SourceKind::Hardware {
                pack.try_witnesses(|event| silent(event, machine));
            }
            asked.add(pack, &filter, metrics, machine, source)?;
        }
        Ok(asked)
    }

    fn add(
        &mut self,
        pack: Pack,
        filter: &str,
        metrics: Vec<String>,
        machine: &Machine,
        source: &dyn Source,
    ) -> Result<(), Error> {
        let names: Vec<&str> = metrics.iter().map(String::as_str).collect();
        // What cannot be counted here at all needs no trial: the reading says why.
        let mut fits = |events: &[&str]| {
            let Ok((groups, _)) = group_of(events, filter, machine) else {
                return true;
            };
            let countable = groups
                .iter()
                .flat_map(|group| &group.members)
                .filter(|wanted| wanted.is_event())
                .all(|wanted| source.counts(wanted).is_ok());
            !countable
                || groups
                    .iter()
                    .all(|group| source.fits(std::slice::from_ref(group)))
        };
        let placed = pack.place(&names, &self.context, &mut fits);
        let mut first = Vec::new();
        for events in &placed.groups {
            let (groups, expressions) = group_of(events, filter, machine)?;
            let start = self.groups.len();
            for (wanted, members) in groups.into_iter().zip(expressions) {
                self.groups.push(AskedGroup { members, wanted });
            }
            first.push(start..self.groups.len());
        }
        let from = placed
            .metrics
            .iter()
            .map(|groups| {
                let ranges = groups.iter().filter_map(|&at| first.get(at).cloned());
                ranges.flatten().collect()
            })
            .collect();
        self.parts.push(Part {
            pack,
            metrics,
            filter: filter.to_owned(),
            from,
        });
        Ok(())
    }

    /// Whether no metric was asked for.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Each metric's name with its filter, its row, and the numbers of its groups.
    pub fn metrics(&self) -> impl Iterator<Item = (String, Option<&Metric>, &[usize])> {
        self.parts.iter().flat_map(|part| {
            let named = part.metrics.iter().zip(&part.from);
            named.map(|(name, from)| (part.named(name), part.pack.metric(name), from.as_slice()))
        })
    }

    /// The groups to be counted, each marked with its number.
    pub fn groups(&self) -> Vec<RequestGroup> {
        self.groups
            .iter()
            .enumerate()
            .map(|(number, group)| RequestGroup {
                metric: Some(number),
                ..group.wanted.clone()
            })
            .collect()
    }

    /// The values, from the readings of each group by its number; `None`: the group was not counted in this run.
    /// Metrics with such a group have no row.
    pub fn values<'r>(
        &self,
        readings: &dyn Fn(usize) -> Option<&'r [Reading]>,
        wall_ns: u64,
    ) -> Values {
        value::values(self, readings, wall_ns)
    }
}

/// The events as groups of one PMU each (one group, but on hybrid machines), with the place of each expression's
/// readings.
fn group_of(
    events: &[&str],
    filter: &str,
    machine: &Machine,
) -> Result<(Vec<RequestGroup>, Vec<Vec<Member>>), Error> {
    let colon = if filter.is_empty() { "" } else { ":" };
    // A group's leader decides which PMU an event without one (a clock) goes with.
    let mut groups: Vec<(Option<String>, Vec<EventRequest>, Vec<Member>)> = Vec::new();
    for expression in events {
        let text = format!("{{{expression}}}{colon}{filter}");
        let resolving = |text: &str| {
            resolve(text, machine)
                .map_err(|error| Error::new(ErrorKind::Usage, format!("-M: {error}")))
        };
        let mut resolved = resolving(&text)?;
        let in_kernel = resolved
            .events()
            .filter_map(|event| event.encoding())
            .any(Encoding::never_counts);
        if in_kernel {
            // The filter is not the user's word for this event.
            resolved = resolving(expression)?;
        }
        for event in resolved.groups.into_iter().flat_map(|group| group.events) {
            let at = groups
                .iter()
                .position(|(pmu, _, _)| event.pmu.is_none() || pmu.is_none() || *pmu == event.pmu);
            let wanted = request::of_event(event.clone());
            let (pmu, members, places) = match at.and_then(|at| groups.get_mut(at)) {
                Some(group) => group,
                None => {
                    groups.push((event.pmu.clone(), Vec::new(), Vec::new()));
                    match groups.last_mut() {
                        Some(group) => group,
                        None => continue,
                    }
                }
            };
            if pmu.is_none() {
                pmu.clone_from(&event.pmu);
            }
            places.push(Member {
                expression: (*expression).to_owned(),
                readings: members.len()..members.len().saturating_add(1),
            });
            members.push(wanted);
        }
    }
    Ok(groups
        .into_iter()
        .map(|(_, members, places)| {
            let group = RequestGroup {
                members,
                metric: None,
            };
            (group, places)
        })
        .unzip())
}

/// As `perf stat`: user mode and the kernel where that is allowed, else user mode.
fn default_filter(source: &dyn Source) -> &'static str {
    match source.kind() {
        SourceKind::Hardware | SourceKind::Software if crate::source::kernel_mode_allowed() => "",
        _ => "u",
    }
}

#[cfg(test)]
mod tests;
