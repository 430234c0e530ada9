//! Opening two counters as one: instructions minus interrupts.

use super::{Mode, Options};
use crate::Source;
use crate::arch;
use crate::core::{Core, Reader};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::interrupts;
use crate::lookup::one;
use crate::parts::Part;
use crate::policy::{Fence, Policy};
use crate::verify::{scheduled, steady, verify};
use std::cell::UnsafeCell;
use truecount_events::{Event as Named, Kind, Machine, Special};
use truecount_perf::{Event, EventAttr, OpenOptions, Target, Times};

impl Options {
    pub(super) fn difference<P: Policy>(
        &self,
        special: Special,
        machine: &Machine,
    ) -> Result<Core, Error> {
        let subtracted = interrupts::event(special, machine)?;
        let instructions = one("instructions:u", machine)?;
        let raw = one(&format!("r{:04x}:u", subtracted.config), machine)?;
        let (Kind::Perf(first), Kind::Perf(second)) = (&instructions.kind, &raw.kind) else {
            return Err(Error::NotOne {
                expression: special.name().to_owned(),
                found: 0,
            });
        };
        if self.inherit {
            let reason = "two counters cannot be inherited as one; count both events and subtract";
            return Err(Error::Unsupported {
                event: special.name().to_owned(),
                reason,
            });
        }
        let fail = |name: &str| {
            let event = format!("{} (for {})", name, special.name());
            move |source| Error::Open { event, source }
        };
        let open = |attr: &EventAttr, leader: Option<&Event>| {
            let options = OpenOptions {
                leader,
                ..OpenOptions::default()
            };
            Event::open_with(&self.kernel, attr, Target::CallingThread, options)
        };
        // Both on the PMU together, always: a pinned group.
        let lead = EventAttr::from(first)
            .read_group()
            .disabled(true)
            .pinned(true);
        let leader = open(&lead, None).map_err(fail(&instructions.name))?;
        let member =
            open(&EventAttr::from(second).read_group(), Some(&leader)).map_err(fail(&raw.name))?;
        let leader = Part::new(leader, None, self.user_reads, self.user_reads);
        let member = Part::new(member, Some(&leader), self.user_reads, self.user_reads);
        let parts = vec![leader, member];
        if let Some(leader) = parts.first() {
            leader
                .event
                .enable_group()
                .map_err(fail(&instructions.name))?;
        }
        let named = Named {
            name: special.name().to_owned(),
            unit: special.unit().to_owned(),
            ..instructions
        };
        let steady: Vec<_> = parts.iter().filter_map(steady).collect();
        let (reader, geometry) = match steady.as_slice() {
            [(counter, geometry), (subtracted, _)]
                if self.mode != Mode::Syscall && geometry.is_roomy() =>
            {
                let now = parts
                    .get(1)
                    .map_or(0, |part| part.raw::<Fence>(*subtracted));
                let state = arch::Difference::new(*counter, *subtracted, now);
                (Reader::Difference(UnsafeCell::new(state)), *geometry)
            }
            _ if matches!(self.mode, Mode::Fast | Mode::Safe) => {
                let reason =
                    "its two events cannot both be kept on counters that user space may read";
                return Err(Error::NoUserRead {
                    event: special.name().to_owned(),
                    reason,
                });
            }
            _ => (Reader::GroupDifference, Geometry::PLAIN),
        };
        let mut core = self.core(&named, reader, geometry, parts);
        core.exact = true;
        if self.verify {
            scheduled(&core.name, false, || {
                let reading = core.reading().ok()?;
                Some(Times {
                    enabled: reading.enabled_ns,
                    running: reading.running_ns,
                })
            })?;
        }
        // The state learns the interrupts so far.
        core.read_any::<P>();
        if core.source == Source::Hardware && self.user_reads {
            interrupts::verify(&core, special.name(), subtracted.config)?;
        }
        if self.verify && matches!(core.reader, Reader::Difference(_)) {
            verify::<P>(&core, true)?;
        }
        Ok(core)
    }
}
