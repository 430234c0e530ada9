//! Events of every function of a run under the virtual PMU, by name.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod names;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use names::Names;

use serde::Serialize;
use serde_json::{Map, Value};
use truecount_engine::xlate::facts::Event as StaticEvent;
use truecount_events::Machine;

use crate::error::{Error, ErrorKind};
use crate::request::{self, EventRequest};
use crate::result::RunResult;
use crate::source::virtual_pmu;

/// One event that was asked for, and what the virtual PMU counts for it.
pub struct VirtualEvent {
    /// As it was asked for.
    pub request: EventRequest,
    /// As the virtual PMU knows it.
    pub event: StaticEvent,
}

/// The events asked for, each once.
///
/// # Errors
/// A name that is no event, or an event that the virtual PMU does not count.
pub fn virtual_events(given: &[String]) -> Result<Vec<VirtualEvent>, Error> {
    let groups = request::resolve(&given.join(","), &Machine::this(), false)?;
    let mut events: Vec<VirtualEvent> = Vec::new();
    for request in groups.into_iter().flat_map(|group| group.members) {
        let event = virtual_pmu::event_of(&request).map_err(|reason| {
            let cause = format!("`{}`: {}", request.name, reason.cause);
            let error = Error::new(ErrorKind::Usage, cause);
            match reason.hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })?;
        if events.iter().all(|each| each.request.name != request.name) {
            events.push(VirtualEvent { request, event });
        }
    }
    Ok(events)
}

/// One function of one module in one program.
#[derive(Debug, Serialize)]
pub struct Function {
    /// File name of the program.
    pub program: String,
    /// Path of the file with the code, `[vdso]` or `[jit]`.
    pub module: String,
    /// Of the module, hexadecimal; left out when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Name of the symbol; `module+0x…` where there is none.
    pub function: String,
    /// The asked events by name.
    pub events: Map<String, Value>,
    /// The first of them.
    #[serde(skip)]
    pub first: u64,
}

/// The functions of a run, the one with the largest first count first; `None` where the run did not count blocks.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn functions_of(
    ran: &RunResult,
    events: &[VirtualEvent],
    names: &mut Names,
) -> Option<Vec<Function>> {
    let blocks = ran.executed.blocks.as_ref()?;
    let threads = &ran.executed.threads;
    Some(names::functions(blocks, threads, events, names))
}

/// Where the virtual PMU does not work there is nothing to name.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[derive(Default)]
pub struct Names;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
impl Names {
    /// Names of nothing.
    pub fn below(_: &std::path::Path) -> Self {
        Self
    }
}

/// Where the virtual PMU does not work no run counts blocks.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub fn functions_of(_: &RunResult, _: &[VirtualEvent], _: &mut Names) -> Option<Vec<Function>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_engine_in_user_mode() {
        let names = |text: &str| -> Result<Vec<String>, Error> {
            let events = virtual_events(&[text.to_owned()])?;
            Ok(events.into_iter().map(|each| each.request.name).collect())
        };
        assert_eq!(
            names("instructions:u, instructions:u,branches:u,calls:u").unwrap(),
            ["instructions:u", "branches:u", "calls:u"]
        );
        for other in [
            "instructions",
            "loads",
            "cycles:u",
            "instructions:u,task-clock",
            "",
        ] {
            assert_eq!(names(other).unwrap_err().kind, ErrorKind::Usage, "{other}");
        }
    }
}
