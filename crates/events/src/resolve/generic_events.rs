//! Generic events: one, or one a core PMU where there are several.

use super::{PMU_TYPE_SHIFT, Resolver};
use crate::ast::Term;
use crate::encoding::{Encoding, Event, Origin};
use crate::generic::{self, Generic, TYPE_HARDWARE, TYPE_HW_CACHE};
use crate::sysfs::Pmu;

impl Resolver<'_> {
    pub(super) fn generic(&self, generic: &Generic) -> Vec<Event> {
        let core = self.machine.core_pmus();
        let of_core = matches!(generic.type_, TYPE_HARDWARE | TYPE_HW_CACHE);
        if of_core && core.len() > 1 {
            return core
                .iter()
                .map(|pmu| self.generic_of(generic, pmu))
                .collect();
        }
        let words = [generic.config, 0, 0, 0];
        let name = self.canonical(&generic.name);
        vec![Event {
            unit: generic.unit.to_owned(),
            ..self.event_of(
                name,
                Encoding::new(generic.type_, words, self.modifiers),
                Origin::Generic,
            )
        }]
    }

    /// A generic event of one PMU among several. The kernel takes the generic number with the PMU's in its upper half
    /// (`PERF_PMU_CAP_EXTENDED_HW_TYPE`), on Arm since 6.6 only; Arm's PMUs name their own events in sysfs on all kernels,
    /// and those are what the generic numbers mean there (`armv8_pmuv3_perf_map`).
    fn generic_of(&self, generic: &Generic, pmu: &Pmu) -> Event {
        let name = format!("{}/{}/{}", pmu.name, generic.name, self.modifiers.filter());
        if let Some(own) = self.of_arm(generic, pmu) {
            return Event {
                name,
                unit: generic.unit.to_owned(),
                origin: Origin::Generic,
                ..own
            };
        }
        let config = u64::from(pmu.type_) << PMU_TYPE_SHIFT | generic.config;
        let encoding = Encoding::new(generic.type_, [config, 0, 0, 0], self.modifiers);
        let event = self.event_of(name, encoding, Origin::Generic);
        Event {
            unit: generic.unit.to_owned(),
            cpus: self.cpus(pmu),
            pmu: Some(pmu.name.clone()),
            ..event
        }
    }

    /// The event of an Arm PMU's own that a generic one means; `None` on other CPUs, or where sysfs does not name it.
    fn of_arm(&self, generic: &Generic, pmu: &Pmu) -> Option<Event> {
        // x86 calls its core PMUs so; asking for the CPU may take milliseconds there.
        let x86 = pmu.name == "cpu" || pmu.name.starts_with("cpu_");
        let names = generic::names_on_arm(generic).filter(|_| !x86)?;
        if !matches!(self.machine.cpu()?.vendor, crate::Vendor::Arm(_)) {
            return None;
        }
        let own = names
            .iter()
            .find(|name| matches!(pmu.event(name), Ok(Some(_))))?;
        let term = [Term {
            name: (*own).to_owned(),
            value: None,
            span: self.event.head_span,
        }];
        self.with_terms(pmu, &term, Origin::Sysfs).ok()
    }
}
