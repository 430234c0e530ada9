//! Step two: names to numbers. The order of look-ups is described at [`Catalogue`](crate::Catalogue).

mod generic_events;

use crate::ast::{EventExpr, Expression, GroupExpr, Head, Term};
use crate::encoding::{Cpus, Encoding, Event, Group, Kind, Origin, Resolved};
use crate::error::{Error, ErrorKind, Span};
use crate::generic::{self, TYPE_RAW, TYPE_TRACEPOINT};
use crate::machine::Machine;
use crate::modifiers::Modifiers;
use crate::special::Special;
use crate::suggest::did_you_mean;
use crate::sysfs::Pmu;
use crate::terms;

/// Bits 32–63 of a generic event's config name the PMU (`PERF_PMU_TYPE_SHIFT`, Linux 5.12).
const PMU_TYPE_SHIFT: u32 = 32;

/// Parses and resolves an expression.
///
/// On a hybrid machine a generic or raw event becomes one event per core PMU.
///
/// # Errors
/// Whatever does not fit the grammar or is not known, with its place and near names.
///
/// ```
/// use truecount_events::{Machine, resolve};
/// let resolved = resolve("branch-misses:u", &Machine::unknown()).unwrap();
/// let event = resolved.events().next().unwrap();
/// let encoding = event.encoding().unwrap();
/// assert_eq!((event.name.as_str(), encoding.type_, encoding.config), ("branch-misses:u", 0, 5));
/// assert!(encoding.user_only());
/// ```
pub fn resolve(expression: &str, machine: &Machine) -> Result<Resolved, Error> {
    resolve_parsed(&crate::parse(expression)?, expression, machine)
}

/// Resolves a parsed expression. `text` is what it was parsed from (for error messages).
///
/// # Errors
/// As [`resolve`].
pub fn resolve_parsed(
    expression: &Expression,
    text: &str,
    machine: &Machine,
) -> Result<Resolved, Error> {
    let mut groups = Vec::new();
    for group in &expression.groups {
        resolve_group(group, text, machine, &mut groups)?;
    }
    Ok(Resolved { groups })
}

fn resolve_group(
    group: &GroupExpr,
    text: &str,
    machine: &Machine,
    out: &mut Vec<Group>,
) -> Result<(), Error> {
    let mut events = Vec::new();
    let mut weak = group.modifiers.weak;
    for event in &group.events {
        let modifiers = event.modifiers.with_group(group.modifiers);
        weak |= modifiers.weak;
        let resolver = Resolver {
            event,
            modifiers,
            text,
            machine,
        };
        events.extend(resolver.resolve()?);
    }
    if group.braces {
        // `D` belongs to the group: only the leader of a pinned group is marked (perf_event_open(2)).
        let pinned = events
            .iter()
            .any(|e| e.encoding().is_some_and(|c| c.pinned));
        for (i, event) in events.iter_mut().enumerate() {
            if let Kind::Perf(encoding) = &mut event.kind {
                encoding.pinned = pinned && i == 0;
            }
        }
        out.push(Group {
            events,
            braces: true,
            weak,
        });
    } else {
        out.extend(events.into_iter().map(|e| Group {
            events: vec![e],
            braces: false,
            weak,
        }));
    }
    Ok(())
}

struct Resolver<'a> {
    event: &'a EventExpr,
    modifiers: Modifiers,
    text: &'a str,
    machine: &'a Machine,
}

impl Resolver<'_> {
    fn resolve(&self) -> Result<Vec<Event>, Error> {
        match &self.event.head {
            Head::Name(name) => self.name(name),
            Head::Raw(config) => Ok(self.raw(*config)),
            Head::Pmu { pmu, terms } => self.pmu(pmu, terms),
            Head::Tracepoint {
                system,
                name,
                name_span,
            } => self.tracepoint(system, name, *name_span),
        }
    }

    fn name(&self, name: &str) -> Result<Vec<Event>, Error> {
        if let Some(special) = Special::find(name) {
            return self.special(special).map(|event| vec![event]);
        }
        if let Some(generic) = generic::find(name) {
            return Ok(self.generic(&generic));
        }
        let term = [Term {
            name: name.to_owned(),
            value: None,
            span: self.event.head_span,
        }];
        let core = self.machine.core_pmus();
        let mut events = Vec::new();
        for pmu in &core {
            if pmu.event(name).map_err(|e| self.place(e))?.is_some() {
                events.push(self.with_terms(pmu, &term, Origin::Sysfs)?);
            }
        }
        if events.is_empty()
            && let Some(sysfs) = self.machine.sysfs()
        {
            for pmu in sysfs.names().iter().filter_map(|n| sysfs.pmu(n)) {
                // One PMU's unreadable files must not hide another's event.
                if !core.contains(&pmu) && matches!(pmu.event(name), Ok(Some(_))) {
                    events.push(self.with_terms(&pmu, &term, Origin::Sysfs)?);
                }
            }
        }
        if events.is_empty() {
            for catalogue in self.machine.catalogues() {
                for definition in catalogue.find(name, None) {
                    for pmu in self.machine.pmus(&definition.pmu) {
                        events.push(self.with_terms(&pmu, &term, Origin::Table)?);
                    }
                }
                if !events.is_empty() {
                    break;
                }
            }
        }
        if events.is_empty() {
            Err(self.unknown_event(name))
        } else {
            Ok(events)
        }
    }

    fn special(&self, special: Special) -> Result<Event, Error> {
        let given = self.modifiers;
        let plain = Modifiers {
            user: false,
            pinned: false,
            ..given
        }
        .is_empty();
        let allowed = if special.needs_pmu() {
            (!plain).then_some("the modifier u only: it is exact in user mode")
        } else {
            let own = self.event.modifiers;
            (!own.is_empty()).then_some("no modifiers: it is a clock or a constant")
        };
        if let Some(allowed) = allowed {
            let kind = ErrorKind::ModifierNotAllowed {
                event: special.name().to_owned(),
                allowed,
            };
            return Err(Error::new(kind, self.text, self.event.span));
        }
        Ok(Event {
            name: special.name().to_owned(),
            written: self.event.to_string(),
            kind: Kind::Special(special),
            unit: special.unit().to_owned(),
            scale: 1.0,
            cpus: Cpus::Any,
            pmu: None,
            origin: Origin::Special,
        })
    }

    fn raw(&self, config: u64) -> Vec<Event> {
        let core = self.machine.core_pmus();
        let words = [config, 0, 0, 0];
        if core.len() > 1 {
            let filter = self.modifiers.filter();
            return core
                .iter()
                .map(|pmu| {
                    let encoding = Encoding::new(pmu.type_, words, self.modifiers);
                    let name = format!("{}/r{config:04x}/{filter}", pmu.name);
                    Event {
                        cpus: self.cpus(pmu),
                        pmu: Some(pmu.name.clone()),
                        ..self.event_of(name, encoding, Origin::Raw)
                    }
                })
                .collect();
        }
        let name = self.canonical(&self.event.head.to_string());
        vec![self.event_of(
            name,
            Encoding::new(TYPE_RAW, words, self.modifiers),
            Origin::Raw,
        )]
    }

    fn pmu(&self, name: &str, terms: &[Term]) -> Result<Vec<Event>, Error> {
        let pmus = self.machine.pmus(name);
        if !pmus.is_empty() {
            return pmus
                .iter()
                .map(|pmu| self.with_terms(pmu, terms, Origin::Terms))
                .collect();
        }
        // `cycles/period=1000/`: a generic event with terms that configure it.
        if let Some(generic) = generic::find(name) {
            return self
                .generic(&generic)
                .into_iter()
                .map(|event| self.configured(event, terms))
                .collect();
        }
        let names = self
            .machine
            .sysfs()
            .map(crate::Sysfs::names)
            .unwrap_or_default();
        let end = self.event.head_span.start.saturating_add(name.len());
        let span = Span::new(self.event.head_span.start, end);
        Err(
            Error::new(ErrorKind::UnknownPmu(name.to_owned()), self.text, span)
                .near(did_you_mean(name, names)),
        )
    }

    fn configured(&self, mut event: Event, terms: &[Term]) -> Result<Event, Error> {
        let name = event.name.clone();
        let filter = self.modifiers.filter();
        if let Kind::Perf(encoding) = &mut event.kind {
            let mut settings = terms::Settings::default();
            for term in terms {
                if !settings
                    .take(term)
                    .map_err(|kind| Error::new(kind, self.text, term.span))?
                {
                    let kind = ErrorKind::UnknownTerm {
                        pmu: name,
                        term: term.name.clone(),
                    };
                    return Err(Error::new(kind, self.text, term.span)
                        .near(did_you_mean(&term.name, terms::Settings::NAMES)));
                }
            }
            (encoding.period, encoding.frequency) = (settings.period, settings.frequency);
            if let Some(own) = settings.name {
                event.name = with_filter(&own, &filter);
            }
        }
        Ok(event)
    }

    /// An event of one PMU, described by terms.
    fn with_terms(&self, pmu: &Pmu, given: &[Term], origin: Origin) -> Result<Event, Error> {
        let packed = terms::pack(pmu, given, self.machine).map_err(|e| self.place(e))?;
        let filter = self.modifiers.filter();
        let name = match (&packed.settings.name, origin) {
            (Some(own), _) => with_filter(own, &filter),
            (None, Origin::Sysfs | Origin::Table) => self.canonical(&self.event.head.to_string()),
            (None, _) => {
                let head = Head::Pmu {
                    pmu: pmu.name.clone(),
                    terms: given.to_vec(),
                };
                format!("{head}{filter}")
            }
        };
        let mut encoding = Encoding::new(
            packed.type_.unwrap_or(pmu.type_),
            packed.words,
            self.modifiers,
        );
        (encoding.period, encoding.frequency) = (packed.settings.period, packed.settings.frequency);
        // The user's own level stands.
        encoding.max_precise |= packed.precise && encoding.precise_ip == 0;
        let event = self.event_of(name, encoding, origin);
        Ok(Event {
            unit: packed.unit.unwrap_or_else(|| "count".to_owned()),
            scale: packed.scale.unwrap_or(1.0),
            cpus: self.cpus(pmu),
            pmu: Some(pmu.name.clone()),
            ..event
        })
    }

    fn tracepoint(&self, system: &str, name: &str, span: Span) -> Result<Vec<Event>, Error> {
        // `instructions:user`: a known event and letters that are no modifiers.
        let known = generic::find(system).is_some() || Special::find(system).is_some();
        if let Some((at, letter)) = name
            .char_indices()
            .find(|&(_, c)| known && !Modifiers::is_letter(c))
        {
            let start = span.start.saturating_add(at);
            let span = Span::new(start, start.saturating_add(letter.len_utf8()));
            return Err(Error::new(
                ErrorKind::UnknownModifier(letter),
                self.text,
                span,
            ));
        }
        let full = format!("{system}:{name}");
        let fail = |reason: String, near| {
            let kind = ErrorKind::Tracepoint {
                name: full.clone(),
                reason,
            };
            Err(Error::new(kind, self.text, self.event.head_span).near(near))
        };
        let Some(events) = self
            .machine
            .tracefs()
            .iter()
            .map(|t| t.join("events"))
            .find(|d| d.is_dir())
        else {
            return fail(
                "no readable tracefs (mount -t tracefs tracefs /sys/kernel/tracing; it needs root)"
                    .into(),
                vec![],
            );
        };
        let id = crate::sysfs::read(&events.join(system).join(name).join("id"))
            .map_err(|e| self.place(e))?;
        let Some(id) = id else {
            return fail(
                "the kernel has no such tracepoint".to_owned(),
                terms::near_tracepoints(&events, system, name),
            );
        };
        let Ok(config) = id.parse() else {
            return fail(format!("id {id:?} is not a number"), vec![]);
        };
        let encoding = Encoding::new(TYPE_TRACEPOINT, [config, 0, 0, 0], self.modifiers);
        Ok(vec![self.event_of(
            self.canonical(&full),
            encoding,
            Origin::Tracepoint,
        )])
    }

    fn event_of(&self, name: String, encoding: Encoding, origin: Origin) -> Event {
        Event {
            name,
            written: self.event.to_string(),
            kind: Kind::Perf(encoding),
            unit: "count".to_owned(),
            scale: 1.0,
            cpus: Cpus::Any,
            pmu: None,
            origin,
        }
    }

    fn canonical(&self, name: &str) -> String {
        with_filter(name, &self.modifiers.filter())
    }

    fn cpus(&self, pmu: &Pmu) -> Cpus {
        if let Ok(Some(mask)) = pmu.cpumask() {
            return Cpus::Package(mask);
        }
        match pmu.cpus() {
            // One core PMU that covers all CPUs (Arm) restricts nothing.
            Ok(Some(cpus)) if self.machine.core_pmus().len() > 1 => Cpus::Core(cpus),
            _ => Cpus::Any,
        }
    }

    /// Gives an error from below this expression's text and place, where it has none of its own.
    fn place(&self, mut error: Error) -> Error {
        if error.expression.is_empty() {
            self.text.clone_into(&mut error.expression);
            if error.span == Span::default() {
                error.span = self.event.head_span;
            }
        }
        error
    }

    fn unknown_event(&self, name: &str) -> Error {
        let error = |kind| Error::new(kind, self.text, self.event.head_span);
        let here = self.machine.catalogues().flat_map(|c| c.find(name, None));
        if let Some(definition) = here.into_iter().next() {
            return error(ErrorKind::NoPmuFor {
                event: definition.name,
                pmu: definition.pmu,
            });
        }
        let others = self.machine.catalogues().map(|c| c.elsewhere(name));
        let cpus = others.fold(
            Vec::new(),
            |all, more| if all.is_empty() { more } else { all },
        );
        let mut names = generic::names();
        names.extend(Special::names().into_iter().map(str::to_owned));
        if let Some(sysfs) = self.machine.sysfs() {
            for pmu in sysfs.names().iter().filter_map(|n| sysfs.pmu(n)) {
                names.extend(pmu.events());
            }
        }
        names.extend(self.machine.catalogues().flat_map(|c| c.names(None)));
        let kind = if cpus.is_empty() {
            ErrorKind::UnknownEvent(name.to_owned())
        } else {
            ErrorKind::OtherCpus {
                event: name.to_owned(),
                cpus,
            }
        };
        error(kind).near(did_you_mean(name, names))
    }
}

fn with_filter(name: &str, filter: &str) -> String {
    if filter.is_empty() {
        name.to_owned()
    } else {
        format!("{name}:{filter}")
    }
}
