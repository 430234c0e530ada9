//! Closed runs: whether a count will repeat, known from one run under the virtual PMU.
//!
//! A run is closed when everything that entered it was the content of regular files, arguments, the environment, or held
//! constant. Otherwise what came in is listed: the kind of source, how often, and where first. The number repeats as long as
//! the inputs are the same ([`Identity`]).

use serde::{Deserialize, Serialize};
use truecount_engine::inputs::{NAMES, kind};
use truecount_engine::virt;
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{SearchPath, Symbols};

use crate::determinism::Fixed;
use crate::factor::{Factor, Missing};
use crate::functions::kept::KeptNames;
use crate::identity::Identity;
use crate::source::virtual_pmu::cache;

/// What is known of one run, or of several of the same command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Nothing came in from outside: the number repeats with the same inputs.
    pub closed: bool,
    /// Which inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// What came in.
    pub inputs: Vec<Input>,
    /// Features of the CPU that the machine shown hides and the program executed all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<Input>,
}

/// What came in from one kind of source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The kind.
    pub source: String,
    /// In words.
    pub title: String,
    /// How often; 0 where that is not counted.
    pub times: u64,
    /// Where first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Place>,
    /// The factor that holds it constant, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<Factor>,
}

/// A place in code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The function, where there is a symbol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Source file and line, where there is debug information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The file that the code is in.
    pub module: String,
    /// Offset in it.
    pub offset: u64,
}

/// With the names of its places.
#[must_use]
pub fn named(closed: Option<Closed>) -> Option<Closed> {
    closed.map(|mut closed| {
        closed.name();
        closed
    })
}

/// The factor that holds a kind of source constant.
fn factor_of(which: usize) -> Option<Factor> {
    Some(match which {
        kind::GETRANDOM => Factor::Getrandom,
        kind::RANDOM_DEVICE | kind::RDRAND => Factor::Random,
        kind::CLOCK | kind::VDSO | kind::TSC => Factor::Time,
        kind::PID => Factor::Pid,
        kind::THREADS | kind::PROCESSES | kind::TIMER => Factor::Threads,
        kind::MEMORY | kind::CPU | kind::KERNEL_FILE => Factor::Machine,
        _ => return None,
    })
}

/// In words, with what is known of the first time.
fn title_of(which: usize, detail: &str) -> String {
    let call = detail.to_lowercase();
    match which {
        kind::RANDOM_DEVICE | kind::DEVICE | kind::KERNEL_FILE => detail.to_owned(),
        kind::NAMED_PIPE => "named pipe".to_owned(),
        kind::INHERITED => detail.replace(&detail.to_uppercase(), &call).to_lowercase(),
        kind::CLOCK => format!("clock ({call})"),
        kind::VDSO => "clock (vDSO)".to_owned(),
        kind::TSC => "time stamp counter".to_owned(),
        kind::PID => format!("PIDs ({call})"),
        kind::PID_GAP => "PIDs that do not follow each other".to_owned(),
        kind::THREADS => "threads beside each other".to_owned(),
        kind::PROCESSES => "processes beside each other".to_owned(),
        kind::SOCKET => format!("socket ({call})"),
        kind::ACCEPTED => "connections from outside".to_owned(),
        kind::SIGNAL => detail.to_owned(),
        kind::TIMER => format!("timers ({call})"),
        kind::MEMORY => format!("memory size ({call})"),
        kind::CPU => "number of the CPU".to_owned(),
        kind::FREE_SPACE => "free space of a file system".to_owned(),
        kind::FILE_TIMES => {
            "times and inode numbers of files that were written meanwhile".to_owned()
        }
        kind::FILE_LOCK => format!("locks of files that others hold ({call})"),
        kind::TAKEN_NAME => format!("temporary files that others have ({call})"),
        kind::CALL => call,
        kind::HIDDEN => detail.to_owned(),
        _ => NAMES.get(which).copied().unwrap_or("other").to_owned(),
    }
}

impl Closed {
    /// Something came in that this factor would have held constant.
    pub(crate) fn asked_for(&self, factor: Factor) -> bool {
        self.inputs.iter().any(|input| input.factor == Some(factor))
    }

    /// The verdict on a run. `aslr`: addresses were randomised; `whole`: the program ran to its own end.
    pub fn of(
        totals: &virt::Totals,
        fixed: Option<&Fixed>,
        missing: &[Missing],
        aslr: bool,
        whole: bool,
    ) -> Self {
        let holds = |factor: Factor| {
            let refused = missing.iter().any(|each| each.factor == factor);
            let wanted = match factor {
                Factor::Machine => fixed.is_some_and(|fixed| fixed.machine().is_some()),
                factor => fixed.is_some_and(|fixed| fixed.has(factor)),
            };
            wanted && !refused
        };
        // What the engine answered itself it has not noted.
        let answered_elsewhere = |which| match which {
            kind::GETRANDOM => holds(Factor::Getrandom),
            kind::PID => holds(Factor::Pid),
            // Without that they vary anyway.
            kind::PID_GAP => !holds(Factor::Pid),
            _ => false,
        };
        let mut inputs: Vec<Input> = totals
            .inputs
            .iter()
            .filter(|each| !answered_elsewhere(each.kind))
            .map(|each| Input {
                source: NAMES.get(each.kind).copied().unwrap_or("other").to_owned(),
                title: title_of(each.kind, &each.detail),
                times: each.times,
                first: each
                    .caller
                    .as_ref()
                    .or(each.place.as_ref())
                    .map(|place| Place {
                        module: place.file.clone(),
                        offset: place.offset,
                        ..Place::default()
                    }),
                factor: factor_of(each.kind),
            })
            .collect();
        let hidden =
            |input: &Input| input.source == NAMES.get(kind::HIDDEN).copied().unwrap_or_default();
        let (hidden, others) = inputs.into_iter().partition(hidden);
        inputs = others;
        let mut add = |source: &str, title: String, times, factor| {
            inputs.push(Input {
                source: source.to_owned(),
                title,
                times,
                first: None,
                factor,
            });
        };
        if !holds(Factor::AtRandom) {
            let title = "the kernel's random bytes (AT_RANDOM)".to_owned();
            add("at-random", title, 1, Some(Factor::AtRandom));
        }
        if aslr {
            let title = "randomised addresses".to_owned();
            add("aslr", title, 1, Some(Factor::Aslr));
        }
        // What was asked for and is not so; what came in by the others is there already.
        let matters = |factor| matches!(factor, Factor::Threads | Factor::Time | Factor::Random);
        for each in missing.iter().filter(|each| matters(each.factor)) {
            let known = inputs.iter().any(|input| input.factor == Some(each.factor));
            if !known {
                inputs.push(Input {
                    source: each.factor.name().to_owned(),
                    title: each.reason.clone(),
                    times: 0,
                    first: None,
                    factor: None,
                });
            }
        }
        if totals.uncounted > 0 {
            inputs.push(Input {
                source: "not-counted".to_owned(),
                title: "programs that were not counted".to_owned(),
                times: totals.uncounted.into(),
                ..Input::default()
            });
        }
        if totals.unfollowed > 0 {
            inputs.push(Input {
                source: "not-followed".to_owned(),
                title: "calls that are not followed".to_owned(),
                times: totals.unfollowed.into(),
                ..Input::default()
            });
        }
        if !whole {
            inputs.push(Input {
                source: "end".to_owned(),
                title: "the end: the program was stopped".to_owned(),
                times: 1,
                ..Input::default()
            });
        }
        Self {
            closed: inputs.is_empty(),
            identity: Some(Identity::of(&totals.identity)),
            inputs,
            hidden,
        }
    }

    /// Counts of runs that were all closed differ: by their inputs, which are named, or for a reason that is not known.
    pub fn contradicted(&mut self) {
        if !self.closed {
            return;
        }
        let varied = self.identity.as_ref().and_then(Identity::varied);
        let (source, title) = match varied {
            Some(varied) => (
                "changed-inputs",
                format!("inputs that were not the same in every run: {varied}"),
            ),
            None => (
                "not-explained",
                "something that the virtual PMU did not see (please report this)".to_owned(),
            ),
        };
        self.closed = false;
        self.inputs.push(Input {
            source: source.to_owned(),
            title,
            times: 0,
            ..Input::default()
        });
    }

    /// Adds what did not come to its own end: threads that were killed, and processes that outlived the program, whose counts
    /// go as far as that.
    pub fn cut_short(&mut self, killed: usize, outlived: usize) {
        for (source, title, times) in [
            ("killed", "threads that were killed", killed),
            ("outlived", "processes that outlived the program", outlived),
        ] {
            if times > 0 {
                self.closed = false;
                self.inputs.push(Input {
                    source: source.to_owned(),
                    title: title.to_owned(),
                    times: times as u64,
                    ..Input::default()
                });
            }
        }
    }

    /// Adds what another run of the same command told.
    pub fn merge(&mut self, other: Self) {
        self.closed &= other.closed;
        if let (Some(own), Some(other)) = (&mut self.identity, &other.identity) {
            own.merge(other);
        }
        if self.hidden.is_empty() {
            self.hidden = other.hidden;
        }
        for input in other.inputs {
            match self
                .inputs
                .iter_mut()
                .find(|each| each.source == input.source)
            {
                Some(known) => known.times = known.times.max(input.times),
                None => self.inputs.push(input),
            }
        }
    }

    /// Looks up the names of the places.
    pub fn name(&mut self) {
        let mut symbols = Symbols::new(SearchPath::default());
        let mut kept = KeptNames::new(cache::directory());
        for place in self
            .inputs
            .iter_mut()
            .chain(&mut self.hidden)
            .filter_map(|input| input.first.as_mut())
        {
            let file = MappedFile {
                path: place.module.clone(),
                build_id: Vec::new(),
            };
            if !file.is_file() || place.function.is_some() {
                continue;
            }
            let location = kept.locate(&mut symbols, &file, place.offset);
            if let Some(frame) = location.frames.last() {
                place.function = Some(frame.function.clone());
                place.line = match (&frame.file, frame.line) {
                    (Some(file), Some(line)) => Some(format!("{file}:{line}")),
                    _ => None,
                };
            }
        }
    }

    /// What came in.
    #[must_use]
    pub fn what(&self) -> String {
        if self.closed {
            return "nothing came in from outside".to_owned();
        }
        let all: Vec<String> = self.inputs.iter().map(Input::in_words).collect();
        all.join(", ")
    }

    fn executed_hidden(&self) -> String {
        let all: Vec<String> = self.hidden.iter().map(Input::in_words).collect();
        match all.as_slice() {
            [] => String::new(),
            all => format!(
                " The program executed a feature that this machine hides: {}; a CPU without it cannot run it.",
                all.join(", ")
            ),
        }
    }

    /// One line for the reader.
    #[must_use]
    pub fn sentence(&self) -> String {
        if self.closed {
            return format!(
                "This count will repeat: {}.{}",
                self.what(),
                self.executed_hidden()
            );
        }
        let mut factors: Vec<Factor> = self.inputs.iter().filter_map(|each| each.factor).collect();
        factors.sort();
        factors.dedup();
        let hint = match factors.as_slice() {
            [] => String::new(),
            factors
                if factors
                    .iter()
                    .all(|factor| !factor.on_request() && factor.has_remedy()) =>
            {
                "; --deterministic holds what can be held".to_owned()
            }
            _ => "; --reproducible holds what can be held".to_owned(),
        };
        let hidden = self.executed_hidden();
        format!("This count may vary: {}{hint}.{hidden}", self.what())
    }
}

impl Input {
    fn in_words(&self) -> String {
        let mut text = self.title.clone();
        if self.times > 1 {
            text.push_str(&format!(" {} times", self.times));
        }
        if let Some(place) = &self.first {
            let module = place.module.rsplit('/').next().unwrap_or_default();
            match &place.function {
                Some(function) => text.push_str(&format!(" (first in {function}, {module})")),
                None => text.push_str(&format!(" (first in {module})")),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(source: &str, times: u64, factor: Option<Factor>) -> Input {
        Input {
            source: source.into(),
            title: source.into(),
            times,
            first: None,
            factor,
        }
    }

    #[test]
    fn a_run_is_as_open_as_the_most_open_one() {
        let mut all = Closed {
            closed: true,
            ..Closed::default()
        };
        assert!(all.sentence().starts_with("This count will repeat"));
        let open = |times| Closed {
            closed: false,
            inputs: vec![input("getrandom", times, Some(Factor::Getrandom))],
            ..Closed::default()
        };
        all.merge(open(2));
        all.merge(open(1));
        assert_eq!(all, open(2));
        assert_eq!(
            all.sentence(),
            "This count may vary: getrandom 2 times; --deterministic holds what can be held."
        );
    }

    #[test]
    fn every_kind_has_words() {
        for which in 0..NAMES.len() {
            let title = title_of(which, "/some/DETAIL");
            assert!(
                !title.is_empty() && !title.ends_with("()"),
                "{which}: {title}"
            );
        }
    }
}
