//! Events of every function that ran under the virtual PMU, and the events that can be asked for.

mod addresses;
mod blocks;
mod chosen;
pub(crate) mod kept;

use serde::Serialize;
use serde_json::{Map, Value};
use truecount_engine::xlate::facts::Event;
use truecount_events::Machine;

use crate::error::{Error, ErrorKind};
use crate::references::MemoryEvent;
use crate::request::{self, EventRequest, What};
use crate::source::virtual_pmu;
pub use addresses::Addresses;
pub(crate) use blocks::is_stub;
pub use blocks::{
    Detail, Edge, FunctionCosts, LineCost, Names, Piece, TraceFrame, functions_of, line_costs,
    memory_of, merged, traces_of,
};
pub use chosen::{functions_like, matches};

/// One event that was asked for.
pub struct AskedEvent {
    /// As it was asked for.
    pub wanted: EventRequest,
    /// What the virtual PMU counts for it.
    pub event: Event,
}

/// Facts of memory, and what a model says, that were asked for.
pub type AskedMemory = Vec<(EventRequest, MemoryEvent)>;

/// The events asked for, each once; refuses what the engine does not count.
pub fn asked_events(given: &[String]) -> Result<Vec<AskedEvent>, Error> {
    Ok(asked(given)?.0)
}

/// As [`asked_events`], and the events of memory; `branch-misses` are the model's, as nobody counts them here.
pub fn asked(given: &[String]) -> Result<(Vec<AskedEvent>, AskedMemory), Error> {
    let machine = Machine::this();
    let mut groups = request::resolve(&given.join(","), &machine, false)?;
    // The name that is shown says `:u`.
    let _ = request::in_user_mode(&mut groups, &machine, |wanted| {
        virtual_pmu::event_of(wanted).is_ok()
    });
    let mut memory = AskedMemory::new();
    let mut wishes: Vec<AskedEvent> = Vec::new();
    for wanted in groups.into_iter().flat_map(|group| group.members) {
        let of_memory = match wanted.what {
            What::Memory(event) => Some(event),
            _ => is_branch_misses(&wanted).then_some(MemoryEvent::Mispredicts),
        };
        if let Some(event) = of_memory {
            let name = match wanted.name.as_str() {
                "branch-misses" => "branch-misses:u".to_owned(),
                _ => wanted.name,
            };
            let wanted = EventRequest {
                name,
                ..EventRequest::memory(event)
            };
            if memory.iter().all(|(known, _)| known.name != wanted.name) {
                memory.push((wanted, event));
            }
            continue;
        }
        let event = virtual_pmu::event_of(&wanted).map_err(|reason| {
            let cause = format!("`{}`: {}", wanted.name, reason.cause);
            let failure = Error::new(ErrorKind::Usage, cause);
            match reason.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        if wishes.iter().all(|wish| wish.wanted.name != wanted.name) {
            wishes.push(AskedEvent { wanted, event });
        }
    }
    Ok((wishes, memory))
}

/// The kernel's generic event of this name, of user mode or of both.
fn is_branch_misses(wanted: &EventRequest) -> bool {
    let name = wanted.name.strip_suffix(":u").unwrap_or(&wanted.name);
    wanted.as_event().is_some() && name == "branch-misses"
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_engine_in_user_mode() {
        let names = |text: &str| -> Result<Vec<String>, Error> {
            let wishes = asked_events(&[text.to_owned()])?;
            Ok(wishes.into_iter().map(|wish| wish.wanted.name).collect())
        };
        assert_eq!(
            names("instructions:u, instructions:u,branches:u,calls:u").unwrap(),
            ["instructions:u", "branches:u", "calls:u"]
        );
        // What only the user's part can be counted of is answered with it.
        assert_eq!(names("instructions").unwrap(), ["instructions:u"]);
        for other in [
            "instructions:k",
            "cycles:u",
            "instructions:u,task-clock",
            "",
        ] {
            assert_eq!(names(other).unwrap_err().kind, ErrorKind::Usage, "{other}");
        }
    }
}
