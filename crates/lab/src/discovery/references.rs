//! `--reference`: what selectors are compared with.

use truecount_events::{Cpus, Event, Kind, Machine, Special, generic, irq, resolve};
use truecount_model::SourceKind;
use truecount_perf::{EventAttr, SharedKernel};
use truecount_run::{Error, ErrorKind};

use super::{By, Reference, open};
use crate::machine::interrupts_of;

/// Tried where nothing is named. They take none of the PMU's counters.
const DEFAULT: [&str; 3] = ["page-faults:u", "interrupts", "context-switches"];

/// All references, opened once each. Of the usual ones those that cannot be counted are left out with a note.
pub(super) fn all(
    named: &[String],
    machine: &Machine,
    kernel: &SharedKernel,
    cpu: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Reference>, Error> {
    let mut references: Vec<Reference> = Vec::new();
    let mut add = |reference: Reference| {
        if references.iter().all(|other| other.name != reference.name) {
            references.push(reference);
        }
    };
    for text in named {
        add(one(text.trim(), machine, kernel, cpu)?);
    }
    if named.is_empty() {
        for text in DEFAULT {
            match one(text, machine, kernel, cpu) {
                Ok(reference) => add(reference),
                Err(failure) => notes.push(failure.to_string()),
            }
        }
    }
    Ok(references)
}

fn one(
    text: &str,
    machine: &Machine,
    kernel: &SharedKernel,
    cpu: usize,
) -> Result<Reference, Error> {
    if matches!(text, "interrupts" | "irqs") {
        if interrupts_of(cpu).is_none() {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("--reference {text}: /proc/interrupts does not tell of CPU {cpu}"),
            ));
        }
        return Ok(Reference {
            name: "interrupts".to_owned(),
            source: SourceKind::Software,
            by: By::Interrupts,
        });
    }
    let wrong =
        |reason: String| Error::new(ErrorKind::Usage, format!("--reference {text}: {reason}"));
    let resolved = resolve(text, machine).map_err(|error| wrong(error.to_string()))?;
    let events: Vec<&Event> = resolved.events().filter(|event| here(event, cpu)).collect();
    let event = match events.as_slice() {
        [event] => *event,
        [] => {
            return Err(wrong(format!(
                "it cannot be counted for a program on CPU {cpu}"
            )));
        }
        _ => {
            return Err(wrong(
                "it is several events; give --reference once for each".to_owned(),
            ));
        }
    };
    let (plus, minus, source) = match &event.kind {
        Kind::Perf(encoding) => {
            let software = matches!(
                encoding.type_,
                generic::TYPE_SOFTWARE | generic::TYPE_TRACEPOINT
            );
            let attr = truecount::perf::EventAttr::from(encoding)
                .precise_ip(0)
                .pinned(false)
                .exclusive(false);
            (
                attr,
                None,
                if software {
                    SourceKind::Software
                } else {
                    SourceKind::Hardware
                },
            )
        }
        Kind::Special(special) => {
            let (plus, minus) = difference(*special, machine).map_err(wrong)?;
            (plus, Some(minus), SourceKind::Hardware)
        }
    };
    for attr in std::iter::once(&plus).chain(&minus) {
        open::alone(kernel, attr).map_err(|why| {
            Error::new(
                ErrorKind::Unavailable,
                format!("--reference {text}: {}", why.reason),
            )
            .hint(why.hint)
        })?;
    }
    Ok(Reference {
        name: event.name.clone(),
        source,
        by: By::Events { plus, minus },
    })
}

/// Whether an event counts a program on this CPU.
fn here(event: &Event, cpu: usize) -> bool {
    match &event.cpus {
        Cpus::Any => true,
        Cpus::Core(cpus) => u32::try_from(cpu).is_ok_and(|cpu| cpus.contains(&cpu)),
        Cpus::Package(_) => false,
    }
}

fn difference(special: Special, machine: &Machine) -> Result<(EventAttr, EventAttr), String> {
    if !special.needs_pmu() {
        return Err(format!(
            "{} is a clock, not a count of events",
            special.name()
        ));
    }
    let interrupts = irq::subtracted(special, machine)?;
    let user = |type_, config| {
        EventAttr::new(type_, config)
            .exclude_kernel(true)
            .exclude_hv(true)
    };
    Ok((
        user(generic::TYPE_HARDWARE, 1),
        user(generic::TYPE_RAW, interrupts.config),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_perf::fake::FakeKernel;

    #[test]
    fn references_of_every_kind() {
        let kernel = FakeKernel::new().shared();
        let machine = Machine::unknown();
        let like = |text: &str| one(text, &machine, &kernel, 0);
        assert_eq!(like("page-faults:u").unwrap().source, SourceKind::Software);
        let raw = like("r01cb:u").unwrap();
        assert_eq!(
            (raw.name.as_str(), raw.source),
            ("r01cb:u", SourceKind::Hardware)
        );
        let By::Events { plus, .. } = raw.by else {
            panic!("an event");
        };
        assert!(plus.get_exclude_kernel() && plus.get_config() == 0x01cb);
        for bad in [
            "instrutions",
            "wall-time",
            "instructions,cycles",
            // It is not known which event counts interrupts on an unknown CPU.
            "instructions-minus-irqs:u",
        ] {
            assert_eq!(like(bad).unwrap_err().kind, ErrorKind::Usage, "{bad}");
        }
        let bare = FakeKernel::without_pmu().shared();
        let failure = one("instructions:u", &machine, &bare, 0).unwrap_err();
        assert!(failure.kind == ErrorKind::Unavailable && failure.hint.is_some());
    }
}
