//! The functions that options choose, in the programs of a run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use truecount_engine::virt::{Action, FindFunctions, MAX_FUNCTIONS, Regions, RequestsTo};
use truecount_run::functions::functions_like;

use super::options::{Options, Tool};
use crate::failure::Failure;

/// Addresses in a program, and what happens there.
type Found = Vec<(u64, Action)>;

/// What the options choose.
pub(super) struct Chosen {
    asked: Vec<(String, Action)>,
    /// What was found, by program.
    known: Arc<Mutex<HashMap<PathBuf, Found>>>,
    notes: Vec<String>,
}

impl Chosen {
    /// Looks for them in the program of the command.
    pub(super) fn new(options: &Options, program: &Path) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let mut found = Found::new();
        let program = program
            .canonicalize()
            .unwrap_or_else(|_| program.to_owned());
        for (pattern, action) in &options.functions {
            let addresses = functions_like(&program, pattern).unwrap_or_default();
            if addresses.is_empty() {
                notes.push(format!(
                    "{}{pattern}: {} has no function of this name (its libraries are not looked through)",
                    option(*action),
                    program.display()
                ));
            }
            found.extend(addresses.into_iter().map(|address| (address, *action)));
        }
        if found.len() > MAX_FUNCTIONS {
            let cause = format!(
                "{} functions of {} are chosen, more than {MAX_FUNCTIONS}",
                found.len(),
                program.display()
            );
            return Err(Failure::new(1, cause).hint("choose fewer, by a longer pattern"));
        }
        Ok(Self {
            asked: options.functions.clone(),
            known: Arc::new(Mutex::new(HashMap::from([(program, found)]))),
            notes,
        })
    }

    /// What the virtual PMU is asked for.
    pub(super) fn regions(&self, options: &Options) -> Regions {
        let mut regions = Regions {
            requests: match options.tool {
                Tool::Callgrind => RequestsTo::Callgrind,
                Tool::Cachegrind => RequestsTo::Cachegrind,
                Tool::None => RequestsTo::Core,
            },
            collect_off: !options.collect_atstart,
            count_off: !options.instr_atstart,
            ..Regions::default()
        };
        if !self.asked.is_empty() {
            let (asked, known) = (self.asked.clone(), Arc::clone(&self.known));
            regions.functions = Some(FindFunctions(Arc::new(move |program| {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(found) = known.get(program) {
                    return found.clone();
                }
                let found: Found = asked
                    .iter()
                    .flat_map(|(pattern, action)| {
                        let addresses = functions_like(program, pattern).unwrap_or_default();
                        addresses.into_iter().map(|address| (address, *action))
                    })
                    .collect();
                known.insert(program.to_owned(), found.clone());
                found
            })));
        }
        regions
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
    }
}
