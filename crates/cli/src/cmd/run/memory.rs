//! `run --memory`, `--model`, `--sharing`, `--locality`: what a program references, exactly, and what a model makes of it.

mod text;

use std::str::FromStr;

use truecount_memory::{Cpu, Geometry, GeometryError, Machine, Predictor, Prefetch};
use truecount_model::Reading;
use truecount_run::functions::{AskedMemory, Names, memory_of};
use truecount_run::references::{Wanted, Without};
use truecount_run::result::RunResult;

use crate::failure::Failure;

pub(super) use text::write;

/// What is wanted of a program's memory references.
#[derive(clap::Args)]
pub(super) struct MemoryArgs {
    /// Bytes loaded and stored, lines and pages touched, references across lines and pages: exactly
    #[arg(long)]
    memory: bool,
    /// What caches and branch predictors would make of it (a model, not a count), with the geometry of this CPU, or of
    /// MODEL: `this`, `cachegrind` (32 KiB, 32 KiB, 8 MiB), or a CPU: skylake, icelake-server, alderlake-p,
    /// sapphire-rapids, zen2, zen3, zen4, zen5, neoverse-n1, neoverse-v1; implies --memory
    #[arg(long, value_name = "MODEL", num_args = 0..=1, default_missing_value = "this", require_equals = true)]
    model: Option<String>,
    /// The model's instruction cache: bytes,ways,bytes of a line, and perhaps a replacement policy (lru, plru, fifo, random);
    /// implies --model
    #[arg(long = "I1", value_name = "GEOMETRY")]
    i1: Option<Geometry>,
    /// Its data cache
    #[arg(long = "D1", value_name = "GEOMETRY")]
    d1: Option<Geometry>,
    /// Its last level
    #[arg(long = "LL", value_name = "GEOMETRY")]
    ll: Option<Geometry>,
    /// A second level between, which Cachegrind's has not, or none
    #[arg(long = "L2", value_name = "GEOMETRY")]
    l2: Option<OrNone>,
    /// Translations of data pages: bytes that they cover,ways,bytes of a page (64 pages: 262144,4,4096), or none
    #[arg(long = "TLB", value_name = "GEOMETRY")]
    tlb: Option<OrNone>,
    /// Translations of pages of instructions, likewise
    #[arg(long = "ITLB", value_name = "GEOMETRY")]
    itlb: Option<OrNone>,
    /// A prefetcher of data in the model: none, next-line, stride
    #[arg(long, value_name = "WHICH")]
    prefetch: Option<Prefetch>,
    /// What predicts conditional branches in the model: cachegrind, tage
    #[arg(long, value_name = "WHICH")]
    predictor: Option<Predictor>,
    /// Lines that one thread writes and another uses, and whether they share data or only the line; implies --memory
    #[arg(long)]
    sharing: bool,
    /// After how many other lines a line is used again, strides, and lines and pages over time (exact, slower); implies
    /// --memory
    #[arg(long)]
    locality: bool,
}

/// A geometry, or the word that there is none.
#[derive(Clone, Copy)]
struct OrNone(Option<Geometry>);

impl FromStr for OrNone {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        match text {
            "none" => Ok(Self(None)),
            text => text.parse().map(|geometry| Self(Some(geometry))),
        }
    }
}

impl MemoryArgs {
    /// The events of memory that were asked for; finds out which functions and lines did it, where all is told.
    pub(super) fn readings(&self, ran: &mut RunResult, events: &AskedMemory) -> Vec<Reading> {
        if self.shown() {
            memory_of(ran, &mut Names::default());
        }
        let readings = events.iter();
        readings
            .map(|(wanted, event)| ran.memory_reading(wanted, *event))
            .collect()
    }

    /// Something of a model was said.
    fn names_model(&self) -> bool {
        let sizes = [self.i1, self.d1, self.ll].iter().any(Option::is_some);
        let beside = [self.l2, self.tlb, self.itlb].iter().any(Option::is_some);
        let how = self.prefetch.is_some() || self.predictor.is_some();
        self.model.is_some() || sizes || beside || how
    }

    /// All that is known is told, not only the events that were asked for.
    pub(super) fn shown(&self) -> bool {
        self.memory || self.sharing || self.locality || self.names_model()
    }

    /// What the sizes that were given are put into, and the name of the CPU that it is.
    fn base(&self) -> Result<(Cpu, Option<&'static str>), Failure> {
        match self.model.as_deref().unwrap_or("this") {
            "cachegrind" => Ok((Cpu::FIXED, None)),
            "this" => Cpu::this().map(|cpu| (cpu, None)).map_err(|error| {
                Failure::new(1, format!("the caches of this CPU are not known: {error}"))
                    .hint("name a model, as --model=cachegrind, or sizes by --I1, --D1 and --LL")
            }),
            other => {
                let name = Cpu::names().find(|name| *name == other);
                let found = name.and_then(|name| Some((Cpu::named(name)?, Some(name))));
                found.ok_or_else(|| {
                    let names: Vec<&str> = Cpu::names().collect();
                    let hint = format!("there are: this, cachegrind, {}", names.join(", "));
                    Failure::new(2, format!("there is no model '{other}'"))
                        .hint(format!("{hint}; with sizes by --I1, --D1 and --LL"))
                })
            }
        }
    }

    /// The model's parameters.
    fn modelled(&self, events: &AskedMemory) -> Result<(Cpu, Option<&'static str>), Failure> {
        let (mut cpu, name) = match (&self.model, self.i1, self.d1, self.ll) {
            (None, Some(i1), Some(d1), Some(ll)) => {
                let machine = Machine { i1, d1, ll };
                (
                    Cpu {
                        machine,
                        ..Cpu::FIXED
                    },
                    None,
                )
            }
            _ => self.base()?,
        };
        let Cpu { machine, beside } = &mut cpu;
        machine.i1 = self.i1.unwrap_or(machine.i1);
        machine.d1 = self.d1.unwrap_or(machine.d1);
        machine.ll = self.ll.unwrap_or(machine.ll);
        let this = matches!(self.model.as_deref(), None | Some("this"));
        for (_, event) in events.iter().filter(|_| this) {
            event.provide(beside);
        }
        for (given, place) in [
            (self.l2, &mut beside.l2),
            (self.tlb, &mut beside.tlb),
            (self.itlb, &mut beside.itlb),
        ] {
            if let Some(OrNone(given)) = given {
                *place = given;
            }
        }
        beside.prefetch = self.prefetch.unwrap_or_default();
        beside.predictor = self.predictor.unwrap_or_default();
        if let Some(itlb) = beside.itlb.filter(|itlb| itlb.line < machine.i1.line) {
            let cause = format!("--ITLB has pages of {} bytes, less than a line", itlb.line);
            return Err(Failure::new(2, cause).hint("pages are of 4096 bytes"));
        }
        if let Some((wanted, why)) = events.iter().find_map(|(wanted, event)| {
            let why = event.lacking(beside)?;
            Some((wanted, why))
        }) {
            return Err(Failure::new(2, format!("'{}': {why}", wanted.name))
                .hint("give it by --L2, --TLB or --ITLB, or take a CPU's by --model=NAME"));
        }
        Ok((cpu, name))
    }

    /// What is to be noted, if anything; `paths`: by path of functions, too.
    pub(super) fn wanted(
        &self,
        events: &AskedMemory,
        paths: bool,
    ) -> Result<Option<Wanted>, Failure> {
        if !self.shown() && events.is_empty() {
            return Ok(None);
        }
        let by_event = events.iter().any(|(_, event)| event.is_model());
        let modelled = match self.names_model() || by_event {
            true => Some(self.modelled(events)?),
            false => None,
        };
        Ok(Some(Wanted {
            facts: true,
            data: self.shown(),
            model: modelled.map(|(cpu, _)| cpu.machine),
            cpu: modelled.and_then(|(_, name)| name),
            without: match self.shown() {
                true => Without::default(),
                false => Without::all_but(events.iter().map(|(_, event)| *event)),
            },
            beside: modelled.map(|(cpu, _)| cpu.beside).unwrap_or_default(),
            sharing: self.sharing,
            locality: self.locality,
            paths,
            ..Wanted::default()
        }))
    }
}
