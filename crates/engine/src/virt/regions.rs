//! Which part of a run is counted: by client requests, and inside functions of the program.

use crate::regions::{Hook, MAX_HOOKS, front, hook};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// So many functions of a program can be chosen.
pub const MAX_FUNCTIONS: usize = MAX_HOOKS;

/// Whose client requests are answered, beside those of Valgrind's core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestsTo {
    /// Nobody's.
    #[default]
    Core,
    /// Callgrind's.
    Callgrind,
    /// Cachegrind's.
    Cachegrind,
}

/// What happens at a chosen function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Collecting is switched over where it is entered, and where it is left.
    Toggle,
    /// A part of the profile ends where it is entered.
    DumpBefore,
    /// What was counted is dropped where it is entered.
    ZeroBefore,
    /// A part of the profile ends where it is left.
    DumpAfter,
    /// Collecting begins where this is reached (any instruction) …
    Start,
    /// … or ends.
    Stop,
}

/// A chosen place of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenPlace {
    /// Address, as the program's file has it.
    pub address: u64,
    /// What happens there.
    pub action: Action,
    /// The function's name: what a part that ends there is named after ([`super::Mark::name`]).
    pub name: String,
}

/// What [`FindFunctions`] asks.
pub type FindFunction = dyn Fn(&Path) -> Vec<ChosenPlace> + Send + Sync;

/// Finds the chosen functions of a program by its path.
#[derive(Clone)]
pub struct FindFunctions(pub Arc<FindFunction>);

impl std::fmt::Debug for FindFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FindFunctions")
    }
}

/// Which part of a run is counted. Needs [`super::Options::per_block`]; without it requests are answered alone.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Whose requests are answered.
    pub requests: RequestsTo,
    /// Threads begin without collecting.
    pub collect_off: bool,
    /// Processes begin without counting.
    pub count_off: bool,
    /// Chosen functions of the program (not of its libraries); at most [`MAX_FUNCTIONS`].
    pub functions: Option<FindFunctions>,
    /// Threads have profiles of their own: what ends a part ends it for the thread that comes to it, and for no other.
    pub threads_apart: bool,
}

/// The chosen places of a process, and the names of their functions.
pub(super) type Hooked = (Vec<Hook>, Vec<String>);

impl Regions {
    /// As the runtime reads it.
    pub(super) fn front(&self) -> u32 {
        let bit = |on, bit| if on { bit } else { 0 };
        bit(self.requests == RequestsTo::Callgrind, front::CALLGRIND)
            | bit(self.requests == RequestsTo::Cachegrind, front::CACHEGRIND)
            | bit(self.collect_off, front::COLLECT_OFF)
            | bit(self.count_off, front::INSTRUMENTATION_OFF)
            | bit(self.threads_apart, front::THREADS_APART)
    }

    /// The chosen functions of a process that has just loaded its program.
    pub(super) fn hooks(&self, pid: i32) -> Hooked {
        let exe = PathBuf::from(format!("/proc/{pid}/exe"));
        let entry = File::open(&exe)
            .ok()
            .and_then(|file| truecount_elf::entry(&file));
        let bias = entry.and_then(|entry| super::watched::bias(pid, entry));
        let (Some(find), Some(bias)) = (&self.functions, bias) else {
            return Hooked::default();
        };
        let path = std::fs::read_link(&exe).unwrap_or(exe);
        let found = (1u64..).zip((find.0)(&path));
        let hooked = found.map(|(number, place)| {
            let action = match place.action {
                Action::Toggle => hook::TOGGLE,
                Action::DumpBefore => hook::DUMP_BEFORE,
                Action::ZeroBefore => hook::ZERO_BEFORE,
                Action::DumpAfter => hook::DUMP_AFTER,
                Action::Start => hook::START,
                Action::Stop => hook::STOP,
            };
            let hook = Hook {
                address: place.address.wrapping_add(bias),
                actions: u64::from(action) | number << 32,
            };
            (hook, place.name)
        });
        hooked.unzip()
    }
}
