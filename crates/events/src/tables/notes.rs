//! What is written by hand: one-line descriptions of the events people need (`data/descriptions.tsv`, our own words),
//! and events in no public table (`data/undocumented.tsv`, each row with its source).

use super::{TableEvent, Tables};

/// One line about an event, where we have written one. Case is ignored.
///
/// ```
/// let text = truecount_events::tables::description("INST_RETIRED.ANY").unwrap();
/// assert!(text.contains("nstructions"));
/// ```
#[must_use]
pub fn description(name: &str) -> Option<&'static str> {
    rows(include_str!("../../data/descriptions.tsv")).find_map(|mut fields| {
        let names = fields.next()?;
        let text = fields.next()?;
        names
            .split(' ')
            .any(|n| n.eq_ignore_ascii_case(name))
            .then_some(text)
    })
}

fn rows(text: &'static str) -> impl Iterator<Item = std::str::Split<'static, char>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split('\t'))
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

impl Tables {
    /// Adds the rows of `data/undocumented.tsv` to the models they name that have no event of that name.
    pub(super) fn add_undocumented(&mut self) {
        let mut added: Vec<(&'static str, TableEvent)> = Vec::new();
        for mut fields in rows(include_str!("../../data/undocumented.tsv")) {
            let (Some(name), Some(models), Some(code), Some(umask), Some(provenance)) = (
                fields.next(),
                fields.next(),
                fields.next().and_then(hex),
                fields.next().and_then(hex),
                fields.next(),
            ) else {
                continue;
            };
            let having = self.having(name);
            for model in models.split(' ').filter(|model| !having.contains(model)) {
                let Some(model_of) = self.models().find(|m| m.name() == model) else {
                    continue;
                };
                // Hybrid CPUs: the performance cores descend from the models for which the event is known.
                let hybrid = model_of.events().any(|e| e.pmu == "cpu_core");
                let event = TableEvent {
                    name: name.to_owned(),
                    pmu: if hybrid { "cpu_core" } else { "cpu" }.to_owned(),
                    code,
                    umask,
                    arch: model_of.arch(),
                    provenance: provenance.to_owned(),
                    ..TableEvent::default()
                };
                added.push((model, event));
            }
        }
        for (model, event) in added {
            if let Ok(id) = u32::try_from(self.events.len())
                && let Some(data) = self.models.iter_mut().find(|m| m.name == model)
            {
                data.events.push(id);
                self.events.push(event);
            }
        }
        self.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        for fields in rows(include_str!("../../data/descriptions.tsv")) {
            let fields: Vec<_> = fields.collect();
            assert_eq!(fields.len(), 2, "{fields:?}");
            assert!(fields[1].len() <= 110, "{}", fields[1]);
            for name in fields[0].split(' ') {
                assert!(
                    !Tables::embedded().having(name).is_empty(),
                    "no CPU has {name}"
                );
            }
        }
        for fields in rows(include_str!("../../data/undocumented.tsv")) {
            let fields: Vec<_> = fields.collect();
            assert_eq!(fields.len(), 5, "{fields:?}");
            assert!(
                hex(fields[2]).is_some() && hex(fields[3]).is_some(),
                "{fields:?}"
            );
            for model in fields[1].split(' ') {
                let model = Tables::embedded().model(model).unwrap();
                assert!(!model.find(fields[0]).is_empty(), "{fields:?}");
            }
        }
    }
}
