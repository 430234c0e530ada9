//! Which events are listed: those of a model, or what this machine counts.

use truecount_engine::xlate::facts::Event;
use truecount_events::tables::{CodeKey, Model, Precise, TableEvent, Tables, description};
use truecount_events::{Kind, Machine, Pmu, Special, did_you_mean, generic, resolve};

use super::document::Row;
use crate::failure::Failure;
use truecount_run::source::virtual_available;

/// The events of one model, core events first.
pub(super) fn of_model(model: Model<'_>) -> Vec<Row> {
    let mut events: Vec<&TableEvent> = model.events().collect();
    events.sort_by_key(|event| !event.is_core());
    events.into_iter().map(of_table).collect()
}

fn of_table(event: &TableEvent) -> Row {
    let config = event.raw();
    Row {
        name: event.name.clone(),
        pmu: Some(event.pmu.clone()),
        raw: event.raw_name(),
        perf: event.perf(),
        code: (event.key == CodeKey::Event).then_some(event.code),
        umask: (event.key == CodeKey::Event).then_some(event.umask),
        config,
        config1: config.map(|_| event.config1()),
        origin: if event.provenance.is_empty() {
            "table"
        } else {
            "undocumented"
        },
        description: description(&event.name),
        precise: match event.precise {
            Precise::No => "no",
            Precise::Can => "can",
            Precise::Must => "must",
        },
        deprecated: event.deprecated,
        counters: (!event.counters.is_empty()).then(|| event.counters.clone()),
        scale: (!event.scale.is_empty()).then(|| event.scale.clone()),
        provenance: (!event.provenance.is_empty()).then(|| event.provenance.clone()),
    }
}

/// Generic events, what the virtual PMU counts where there is no other, special kinds, what sysfs names, and the table of
/// the CPU.
pub(super) fn of_machine(machine: &Machine, model: Option<Model<'_>>) -> Vec<Row> {
    let has_pmu = !machine.core_pmus().is_empty();
    let mut rows = Vec::new();
    let mut seen = Vec::new();
    for name in generic::names() {
        let Some(event) = generic::find(&name) else {
            continue;
        };
        if seen.contains(&event.name) || (event.type_ != generic::TYPE_SOFTWARE && !has_pmu) {
            continue;
        }
        seen.push(event.name.clone());
        rows.extend(of_expression(&event.name, machine, "generic"));
    }
    if !has_pmu && virtual_available().is_ok() {
        rows.extend(Event::ALL.map(|event| Row {
            perf: format!("{}:u", event.name()),
            ..Row::new(event.name(), "virtual")
        }));
    }
    for name in Special::names() {
        if let Some(special) = Special::find(name)
            && (has_pmu || !special.needs_pmu())
            && !seen.contains(&special.name().to_owned())
        {
            seen.push(special.name().to_owned());
            rows.push(Row {
                perf: special.name().to_owned(),
                ..Row::new(special.name(), "truecount")
            });
        }
    }
    if let Some(sysfs) = machine.sysfs() {
        let pmus: Vec<Pmu> = sysfs
            .names()
            .iter()
            .filter_map(|name| sysfs.pmu(name))
            .collect();
        for pmu in pmus {
            for event in pmu.events() {
                let expression = format!("{}/{event}/", pmu.name);
                rows.extend(
                    of_expression(&expression, machine, "sysfs")
                        .into_iter()
                        .map(|row| Row {
                            name: event.clone(),
                            pmu: Some(pmu.name.clone()),
                            ..row
                        }),
                );
            }
        }
        // Outside the cores, only what this machine's kernel shows.
        if let Some(model) = model {
            let here =
                |event: &TableEvent| event.is_core() || !sysfs.matching(&event.pmu).is_empty();
            rows.extend(model.events().filter(|event| here(event)).map(of_table));
        }
    }
    rows
}

fn of_expression(expression: &str, machine: &Machine, origin: &'static str) -> Vec<Row> {
    let Ok(resolved) = resolve(expression, machine) else {
        return Vec::new();
    };
    resolved
        .events()
        .map(|event| {
            let encoding = match &event.kind {
                Kind::Perf(encoding) => Some(encoding),
                Kind::Special(_) => None,
            };
            Row {
                pmu: event.pmu.clone(),
                perf: expression.to_owned(),
                config: encoding.map(|e| e.config),
                config1: encoding.map(|e| e.config1),
                scale: (event.unit != "count").then(|| format!("{}{}", event.scale, event.unit)),
                ..Row::new(&event.name, origin)
            }
        })
        .collect()
}

/// Keeps what the pattern means: the name itself if there is one, else names that match the glob or hold the text.
pub(super) fn filter(rows: &mut Vec<Row>, pattern: &str) {
    if rows
        .iter()
        .any(|row| row.name.eq_ignore_ascii_case(pattern))
    {
        rows.retain(|row| row.name.eq_ignore_ascii_case(pattern));
        return;
    }
    let pattern = pattern.to_ascii_lowercase();
    let glob = pattern.contains(['*', '?']);
    rows.retain(|row| {
        let name = row.name.to_ascii_lowercase();
        if glob {
            matches(pattern.as_bytes(), name.as_bytes())
        } else {
            name.contains(&pattern)
        }
    });
}

/// `*` is any text, `?` any one byte. Linear in time: on failure only the last star takes more.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0usize, 0usize);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || Some(&c) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    p = at + 1;
                    t = from + 1;
                    star = Some((at, t));
                }
                None => return false,
            },
        }
    }
    pattern
        .get(p..)
        .is_some_and(|rest| rest.iter().all(|&c| c == b'*'))
}

/// No event: near names, and the CPUs that have it.
pub(super) fn nothing(
    pattern: &str,
    tables: &Tables,
    model: Option<Model<'_>>,
    machine: &Machine,
    here: bool,
) -> Failure {
    let having = tables.having(pattern);
    let who = match (model, here) {
        (Some(model), false) => model.name().to_owned(),
        (Some(model), true) => format!("this CPU ({})", model.name()),
        (None, _) => "this machine".to_owned(),
    };
    if !having.is_empty() {
        return Failure::new(1, format!("{who} has no event {pattern}"))
            .hint(format!("these have it: {}", having.join(", ")));
    }
    let mut names: Vec<String> = Vec::new();
    if here {
        names.extend(generic::names());
        if let Some(sysfs) = machine.sysfs() {
            for pmu in sysfs.names().iter().filter_map(|name| sysfs.pmu(name)) {
                names.extend(pmu.events());
            }
        }
    }
    if let Some(model) = model {
        names.extend(model.events().map(|event| event.name.clone()));
    }
    if names.iter().any(|name| name.eq_ignore_ascii_case(pattern)) {
        return Failure::new(
            1,
            format!("{pattern} needs a PMU, and this machine has none"),
        )
        .hint("truecount check says why; truecount events lists what is counted without");
    }
    let failure = Failure::new(1, format!("{who} has no event like {pattern:?}"));
    let near = did_you_mean(pattern, &names);
    if !near.is_empty() {
        return failure.hint(format!("did you mean {}?", near.join(", ")));
    }
    let all = tables.distinct().iter().map(|event| event.name.as_str());
    let near = did_you_mean(pattern, all);
    if near.is_empty() {
        failure.hint("truecount events lists them all; * and ? stand for any text")
    } else {
        failure.hint(format!("other CPUs have {}", near.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*b*", "abab", true),
            ("**a", "bba", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn a_whole_name_is_only_that_event() {
        let tables = Tables::embedded();
        let mut rows = of_model(tables.model("skl").unwrap());
        filter(&mut rows, "inst_retired.any");
        assert_eq!(rows.len(), 1);
        let mut rows = of_model(tables.model("skl").unwrap());
        filter(&mut rows, "inst_retired");
        assert!(rows.len() > 2);
    }

    #[test]
    fn what_is_not_there_says_who_has_it() {
        let tables = Tables::embedded();
        let model = tables.model("skl");
        let machine = Machine::unknown();
        let failure = nothing("TOPDOWN.SLOTS", tables, model, &machine, false).to_string();
        assert!(
            failure.contains("skylake has no event") && failure.contains("icelake"),
            "{failure}"
        );
        let failure =
            nothing("MEM_LOAD_RETIRED.L1_HITS", tables, model, &machine, false).to_string();
        assert!(
            failure.contains("did you mean MEM_LOAD_RETIRED.L1_HIT"),
            "{failure}"
        );
    }
}
