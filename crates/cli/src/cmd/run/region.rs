//! A part of the run alone: inside functions, or between two places of the program.

use std::path::Path;

use serde::Serialize;
use truecount_engine::virt::{Action, MAX_FUNCTIONS, Regions};
use truecount_model::number::grouped;
use truecount_run::regions::Chosen;
use truecount_run::result::RunResult;

use crate::failure::Failure;

/// Below this share of the run a region is likely not the one that is meant.
const MIN_SHARE: f64 = 0.001;

/// Which part of the run is counted.
#[derive(clap::Args)]
pub(super) struct RegionArgs {
    /// Count inside FUNCTION alone, with all it calls; * and ? stand for text, for a character. Functions of the programs
    /// themselves, not of their libraries
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["from", "to"])]
    toggle: Vec<String>,
    /// Begin to count where this is reached: a function, a place in it (f+0x1c), an address in the program's file (0x401136)
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    /// Count no more where this is reached
    #[arg(long, value_name = "PLACE")]
    to: Option<String>,
}

/// What was counted of the run.
#[derive(Serialize)]
pub(super) struct Region {
    /// How often threads came into it.
    entered: u64,
    /// Instructions in it …
    instructions: u64,
    /// … and in the whole run.
    run: u64,
}

/// The region of a run.
pub(super) struct Wanted {
    chosen: Chosen,
    /// As the user wrote it.
    words: String,
    /// Threads begin outside.
    outside: bool,
}

impl RegionArgs {
    /// The region that is wanted, if any is.
    pub(super) fn wanted(&self, program: &Path) -> Result<Option<Wanted>, Failure> {
        let all = |words: &[String], action| -> Vec<(String, Action)> {
            words.iter().map(|word| (word.clone(), action)).collect()
        };
        let mut asked = all(&self.toggle, Action::Toggle);
        asked.extend(all(self.from.as_slice(), Action::Start));
        asked.extend(all(self.to.as_slice(), Action::Stop));
        if asked.is_empty() {
            return Ok(None);
        }
        let words: Vec<String> = asked
            .iter()
            .map(|(word, action)| match action {
                Action::Toggle => format!("--toggle {word}"),
                Action::Start => format!("--from {word}"),
                _ => format!("--to {word}"),
            })
            .collect();
        let chosen = Chosen::new(asked);
        let (found, _) = chosen.look_into(program);
        if found > MAX_FUNCTIONS {
            let cause = format!(
                "{found} functions of {} are chosen, more than {MAX_FUNCTIONS}",
                program.display()
            );
            return Err(Failure::new(2, cause).hint("choose fewer, by a longer pattern"));
        }
        Ok(Some(Wanted {
            chosen,
            words: words.join(" "),
            outside: !self.toggle.is_empty() || self.from.is_some(),
        }))
    }
}

impl Wanted {
    /// What the virtual PMU is asked for.
    pub(super) fn regions(&self) -> Regions {
        Regions {
            collect_off: self.outside,
            functions: Some(self.chosen.finder()),
            ..Regions::default()
        }
    }

    /// What it was, with a sentence about it. Nothing at all is no result: it would look like one.
    pub(super) fn of(&self, ran: &RunResult) -> Result<(Region, String), Failure> {
        let Some(calls) = &ran.executed.calls else {
            return Err(Failure::new(
                123,
                "an internal check failed: the region is not known",
            ));
        };
        let off = calls.not_collected().into_values();
        let outside = off.fold(0u64, u64::wrapping_add);
        let threads = ran.executed.threads.iter();
        let counted = threads.filter_map(|thread| calls.counted(thread.slot));
        let run = counted.fold(0u64, u64::wrapping_add);
        let region = Region {
            entered: calls.entered,
            instructions: run.wrapping_sub(outside),
            run,
        };
        let words = &self.words;
        let missing = self.chosen.missing_everywhere();
        if self.outside && region.entered == 0 {
            let cause = format!("{words}: never reached, so nothing was counted");
            return Err(Failure::new(1, cause).hint(match missing.first() {
                Some(word) => format!(
                    "no program of the run has a function {word} (libraries are not looked through; \
                     truecount run --functions lists what is executed)"
                ),
                None => "where the compiler has inlined a function there is no call to be seen: keep it apart \
                         (#[inline(never)], noinline), or give places by --from and --to"
                    .to_owned(),
            }));
        }
        let share = region.instructions as f64 / run.max(1) as f64;
        let mut said = format!(
            "Counted with {words}: {} of the run's {} instructions ({:.2} %)",
            grouped(region.instructions),
            grouped(run),
            100.0 * share
        );
        if self.outside {
            said.push_str(&match region.entered {
                1 => ", reached once".to_owned(),
                times => format!(", reached {} times", grouped(times)),
            });
        }
        said.push('.');
        if share < MIN_SHARE {
            said.push_str(
                " That is less than 0.1 % of the run: is it what is to be measured? Copies that the compiler has \
                 inlined elsewhere are not in it.",
            );
        }
        if let Some(word) = missing.first() {
            said.push_str(&format!(" No program of the run has {word}."));
        }
        Ok((region, said))
    }
}
