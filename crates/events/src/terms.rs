//! The terms between slashes: config words, settings, named events, and the PMU's own fields. Facts: perf-list(1),
//! "PARAMETERIZED EVENTS" and "RAW HARDWARE EVENT DESCRIPTOR"; later terms replace earlier ones, the user's replace
//! those of a named event.

use crate::ast::{Term, TermValue};
use crate::error::{Error, ErrorKind};
use crate::generic;
use crate::machine::{Definition, Machine};
use crate::suggest::did_you_mean;
use crate::sysfs::Pmu;
use std::path::Path;

/// What terms say beside the config words.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub name: Option<String>,
    pub period: Option<u64>,
    pub frequency: Option<u64>,
}

impl Settings {
    pub(crate) const NAMES: [&'static str; 3] = ["name", "period", "freq"];

    /// Takes the term if it is a setting.
    pub(crate) fn take(&mut self, term: &Term) -> Result<bool, ErrorKind> {
        match term.name.as_str() {
            "name" => match &term.value {
                Some(TermValue::Text(name)) if !name.is_empty() => self.name = Some(name.clone()),
                Some(TermValue::Number(n)) => self.name = Some(n.to_string()),
                _ => {
                    return Err(ErrorKind::MissingValue {
                        term: term.name.clone(),
                    });
                }
            },
            "period" => self.period = Some(required(term)?),
            "freq" => self.frequency = Some(required(term)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What the terms of one event come to.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// Another type than the PMU's own: a generic event between its slashes.
    pub type_: Option<u32>,
    pub words: [u64; 4],
    pub settings: Settings,
    pub unit: Option<String>,
    pub scale: Option<f64>,
    /// A catalogue says that samples of it must be precise.
    pub precise: bool,
}

/// Packs `terms` as `pmu` wants them.
pub(crate) fn pack(pmu: &Pmu, terms: &[Term], machine: &Machine) -> Result<Packed, Error> {
    let mut packed = Packed::default();
    let mut fields = Vec::new();
    // Named events first, so that the user's own terms replace theirs wherever they stand.
    for term in terms {
        if is_word(term)
            || Settings::NAMES.contains(&term.name.as_str())
            || pmu.format(&term.name)?.is_some()
        {
            fields.push(term);
        } else if term.value.is_none() && named(pmu, term, terms, machine, &mut packed)? {
            // Done: its terms are packed.
        } else if let (Some(config), None) = (crate::parse::raw(&term.name), &term.value) {
            packed.words[0] = config;
        } else {
            return Err(unknown(pmu, term, machine));
        }
    }
    for term in fields {
        field(pmu, term, &mut packed)?;
    }
    Ok(packed)
}

/// `config`, `config1`, `config2`, `config3`.
fn is_word(term: &Term) -> bool {
    word_index(&term.name).is_some()
}

fn word_index(name: &str) -> Option<usize> {
    ["config", "config1", "config2", "config3"]
        .iter()
        .position(|w| *w == name)
}

fn field(pmu: &Pmu, term: &Term, packed: &mut Packed) -> Result<(), Error> {
    let fail = |kind| Err(Error::new(kind, "", term.span));
    // A PMU's own field may be called like a setting or a word: the field wins.
    if let Some(format) = pmu.format(&term.name)? {
        let value = match &term.value {
            None => 1,
            Some(_) => match required(term) {
                Ok(value) => value,
                Err(kind) => return fail(kind),
            },
        };
        return match format.put(value, &mut packed.words) {
            Ok(()) => Ok(()),
            Err(max) => fail(ErrorKind::ValueTooLarge {
                term: term.name.clone(),
                value,
                max,
            }),
        };
    }
    if let Some(word) = word_index(&term.name).and_then(|i| packed.words.get_mut(i)) {
        match required(term) {
            Ok(value) => *word = value,
            Err(kind) => return fail(kind),
        }
        return Ok(());
    }
    packed.settings.take(term).map(|_| ()).or_else(fail)
}

/// An event's name between the slashes: from sysfs, a catalogue, or generic. `Ok(false)`: nobody knows it.
fn named(
    pmu: &Pmu,
    term: &Term,
    all: &[Term],
    machine: &Machine,
    packed: &mut Packed,
) -> Result<bool, Error> {
    let (text, unit, scale, precise) = if let Some(event) = pmu.event(&term.name)? {
        (event.terms, event.unit, event.scale, false)
    } else if let Some(d) = from_catalogues(pmu, &term.name, machine) {
        (d.terms, d.unit, d.scale, d.precise)
    } else if let Some(generic) =
        generic::find(&term.name).filter(|g| is_core(pmu, machine) && g.type_ != 1)
    {
        // Only a machine with several core PMUs has to say which (PERF_PMU_TYPE_SHIFT).
        let of = if machine.core_pmus().len() > 1 {
            u64::from(pmu.type_) << 32
        } else {
            0
        };
        packed.type_ = Some(generic.type_);
        packed.words[0] = of | generic.config;
        return Ok(true);
    } else {
        return Ok(false);
    };
    // An error in a sysfs file is at the place of the name that led there.
    let inner = crate::parse::parse_terms(&text).map_err(|e| Error::new(e.kind, "", term.span))?;
    for part in &inner {
        let open = part.value == Some(TermValue::Open);
        let given = all
            .iter()
            .any(|t| t.name == part.name && matches!(t.value, Some(TermValue::Number(_))));
        if open && given {
            continue;
        }
        let part = Term {
            span: term.span,
            ..part.clone()
        };
        let known = is_word(&part)
            || Settings::NAMES.contains(&part.name.as_str())
            || pmu.format(&part.name)?.is_some();
        if !known {
            let kind = ErrorKind::UnknownTerm {
                pmu: pmu.name.clone(),
                term: part.name,
            };
            return Err(Error::new(kind, "", term.span));
        }
        field(pmu, &part, packed)?;
    }
    packed.precise |= precise;
    packed.unit = unit.or(packed.unit.take());
    packed.scale = scale.or(packed.scale.take());
    Ok(true)
}

fn from_catalogues(pmu: &Pmu, name: &str, machine: &Machine) -> Option<Definition> {
    let ask = |pmu: &str| {
        machine
            .catalogues()
            .find_map(|c| c.find(name, Some(pmu)).into_iter().next())
    };
    ask(&pmu.name).or_else(|| {
        if is_core(pmu, machine) {
            ask("cpu")
        } else {
            None
        }
    })
}

fn is_core(pmu: &Pmu, machine: &Machine) -> bool {
    pmu.name == "cpu" || machine.core_pmus().contains(pmu)
}

fn required(term: &Term) -> Result<u64, ErrorKind> {
    match &term.value {
        Some(TermValue::Number(n)) => Ok(*n),
        Some(TermValue::Text(text)) => Err(ErrorKind::BadNumber(text.clone())),
        Some(TermValue::Open) | None => Err(ErrorKind::MissingValue {
            term: term.name.clone(),
        }),
    }
}

fn unknown(pmu: &Pmu, term: &Term, machine: &Machine) -> Error {
    let mut names = pmu.formats();
    let kind = if term.value.is_some() {
        ErrorKind::UnknownTerm {
            pmu: pmu.name.clone(),
            term: term.name.clone(),
        }
    } else {
        names.extend(pmu.events());
        names.extend(machine.catalogues().flat_map(|c| c.names(Some(&pmu.name))));
        if is_core(pmu, machine) {
            names.extend(generic::names());
        }
        ErrorKind::UnknownPmuEvent {
            pmu: pmu.name.clone(),
            event: term.name.clone(),
        }
    };
    names.extend(Settings::NAMES.map(str::to_owned));
    Error::new(kind, "", term.span).near(did_you_mean(&term.name, names))
}

/// Tracepoints of the same system, or systems, that look like the one asked for.
pub(crate) fn near_tracepoints(events: &Path, system: &str, name: &str) -> Vec<String> {
    let list = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir)
            .map(|d| d.flatten().collect::<Vec<_>>())
            .unwrap_or_default();
        entries
            .into_iter()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect()
    };
    let systems = if events.join(system).is_dir() {
        vec![system.to_owned()]
    } else {
        did_you_mean(system, list(events))
    };
    systems
        .iter()
        .flat_map(|s| {
            let known = list(&events.join(s));
            let near = if known.iter().any(|n| n == name) {
                vec![name.to_owned()]
            } else {
                did_you_mean(name, known)
            };
            near.into_iter().map(move |n| format!("{s}:{n}"))
        })
        .take(3)
        .collect()
}
