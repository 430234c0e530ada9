//! The functions that options choose, in the programs of a run.

use std::path::Path;

use truecount_engine::virt::{Action, MAX_FUNCTIONS, Regions, RequestsTo};
use truecount_run::regions::Chosen as Places;

use super::options::{Options, Tool};
use crate::failure::Failure;

/// What the options choose.
pub(super) struct Chosen {
    places: Places,
    notes: Vec<String>,
}

impl Chosen {
    /// Looks for them in the program of the command.
    pub(super) fn new(options: &Options, program: &Path) -> Result<Self, Failure> {
        let places = Places::new(options.functions.clone());
        let (found, missing) = places.look_into(program);
        let notes = missing.into_iter().map(|(pattern, action)| {
            format!(
                "{}{pattern}: {} has no function of this name (its libraries are not looked through)",
                option(action),
                program.display()
            )
        });
        let notes = notes.collect();
        if found > MAX_FUNCTIONS {
            let cause = format!(
                "{found} functions of {} are chosen, more than {MAX_FUNCTIONS}",
                program.display()
            );
            return Err(Failure::new(1, cause).hint("choose fewer, by a longer pattern"));
        }
        Ok(Self { places, notes })
    }

    /// What the virtual PMU is asked for.
    pub(super) fn regions(&self, options: &Options) -> Regions {
        Regions {
            requests: match options.tool {
                Tool::Callgrind => RequestsTo::Callgrind,
                Tool::Cachegrind => RequestsTo::Cachegrind,
                Tool::None => RequestsTo::Core,
            },
            collect_off: !options.collect_atstart,
            count_off: !options.instr_atstart,
            functions: (!self.places.is_empty()).then(|| self.places.finder()),
            threads_apart: options.separate_threads,
        }
    }

    /// What the log is to say.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        self.notes.iter().cloned()
    }
}

fn option(action: Action) -> &'static str {
    match action {
        Action::Toggle => "--toggle-collect=",
        Action::DumpBefore => "--dump-before=",
        Action::ZeroBefore => "--zero-before=",
        Action::DumpAfter => "--dump-after=",
        // Valgrind has no such options.
        Action::Start | Action::Stop => "",
    }
}
