//! The members of a set: from an expression to open events.

use super::MAX_MEMBERS;
use crate::error::Error;
use crate::open::Options;
use crate::parts::{self, Part};
use truecount_events::{Cpus, Event as Named, Kind, Machine};
use truecount_perf::{Event, EventAttr, OpenOptions, Target};

/// The groups of an expression, with what a set cannot count refused.
pub(super) fn resolve(expression: &str, machine: &Machine) -> Result<Vec<Vec<Named>>, Error> {
    let resolved = truecount_events::resolve(expression, machine)?;
    for event in resolved.events() {
        if matches!(event.cpus, Cpus::Package(_)) {
            return Err(Error::SystemWide {
                event: event.name.clone(),
            });
        }
        if matches!(event.kind, Kind::Special(_)) {
            let reason = "is not a plain event; open it as a Counter of its own";
            return Err(Error::Unsupported {
                event: event.name.clone(),
                reason,
            });
        }
    }
    let groups: Vec<Vec<Named>> = resolved.groups.into_iter().map(|g| g.events).collect();
    if let Some(large) = groups.iter().find(|g| g.len() > MAX_MEMBERS) {
        let reason = "has more members than a group may have (32)";
        return Err(Error::Unsupported {
            event: format!("a group of {}", large.len()),
            reason,
        });
    }
    Ok(groups)
}

pub(super) fn open_member(
    event: &Named,
    leader: Option<&Part>,
    options: &Options,
    pinned: bool,
) -> Result<Part, Error> {
    let Some(encoding) = event.encoding() else {
        return Err(Error::Unsupported {
            event: event.name.clone(),
            reason: "is not a plain event",
        });
    };
    let leads = leader.is_none();
    let mut attr = EventAttr::from(encoding)
        .read_group()
        .inherit(options.inherits())
        .disabled(leads);
    attr = attr.pinned(leads && (pinned || encoding.pinned));
    let open = |attr| {
        let open_options = OpenOptions {
            leader: leader.map(|l| &l.event),
            ..OpenOptions::default()
        };
        Event::open_with(
            options.kernel_used(),
            &attr,
            Target::CallingThread,
            open_options,
        )
    };
    let opened = options
        .user_read_requests(encoding)
        .into_iter()
        .find_map(|config1| open(attr.config1(config1)).ok())
        .map_or_else(|| open(attr), Ok)
        .map_err(|source| parts::refused(options.kernel_used(), &event.name, &attr, source))?;
    let real = options.is_real();
    Ok(Part::new(
        opened,
        leader,
        options.may_read_registers(),
        real,
    ))
}
