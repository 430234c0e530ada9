//! From what a user asks for to a plan for this machine: the codes, the encoding of selectors, the references, and what
//! the event tables know.

use truecount_events::tables::Tables;
use truecount_events::{Machine, Pmu, generic};
use truecount_perf::{EventAttr, SharedKernel};
use truecount_run::{Error, ErrorKind, machine};

use super::{Known, Layout, Plan, Umasks, parse_codes, references};

/// What is asked for.
pub struct ScanRequest<'a> {
    /// Event codes, as in `0xc0..0xcf`; `None`: all usual ones.
    pub select: Option<&'a str>,
    /// Single bits of unit masks.
    pub umasks: Umasks,
    /// What selectors are compared with; none: the usual ones.
    pub references: &'a [String],
    /// Runs of each batch.
    pub runs: u32,
    /// Count in the kernel, too.
    pub kernel: bool,
}

/// What is told beside the plan.
#[derive(Default)]
pub struct Told {
    /// The model in the event tables.
    pub model: Option<String>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl ScanRequest<'_> {
    /// The codes.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn codes(&self, layout: Layout) -> Result<Vec<u16>, Error> {
        match self.select {
            Some(text) => parse_codes(text, layout)
                .map_err(|reason| Error::new(ErrorKind::Usage, format!("--select: {reason}"))),
            None => Ok(layout.usual().collect()),
        }
    }

    /// The plan for a CPU of this machine.
    ///
    /// # Errors
    /// Codes or references that cannot be read or counted.
    pub fn plan(&self, kernel: &SharedKernel, cpu: usize) -> Result<(Plan, Told), Error> {
        let machine = machine::this(None)?;
        let layout = Layout::of(machine.cpu());
        let codes = self.codes(layout)?;
        let (type_, pmu) = raw_type(&machine, cpu);
        let (model, known) = known(&machine, pmu.as_deref(), layout);
        let mut notes = Vec::new();
        let references = references::all(self.references, &machine, kernel, cpu, &mut notes)?;
        if self.umasks != Umasks::No && !layout.has_umasks() {
            notes.push("--umasks: events of this CPU have no unit masks".to_owned());
        }
        let plan = Plan {
            codes,
            layout,
            umasks: self.umasks,
            runs: self.runs,
            raw: EventAttr::new(type_, 0)
                .exclude_kernel(!self.kernel)
                .exclude_hv(true),
            filter: if self.kernel { "uk" } else { "u" }.to_owned(),
            references,
            known,
        };
        plan.check(kernel).map_err(|reason| {
            Error::new(ErrorKind::Unavailable, reason).hint(
                "name fewer events of the PMU with --reference; software events and tracepoints take none",
            )
        })?;
        Ok((plan, Told { model, notes }))
    }
}

/// The type of raw events on this CPU (of a hybrid machine: of this CPU's PMU), and that PMU's name.
fn raw_type(machine: &Machine, cpu: usize) -> (u32, Option<String>) {
    let core = machine.core_pmus();
    let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
    let own = |pmu: &&Pmu| matches!(pmu.cpus(), Ok(Some(cpus)) if cpus.contains(&cpu));
    match core.as_slice() {
        [_, _, ..] => core
            .iter()
            .find(own)
            .map_or((generic::TYPE_RAW, None), |pmu| {
                (pmu.type_, Some(pmu.name.clone()))
            }),
        [only] => (generic::TYPE_RAW, Some(only.name.clone())),
        [] => (generic::TYPE_RAW, None),
    }
}

/// The model of this CPU in the tables, and its events that are plain selectors of the PMU.
fn known(machine: &Machine, pmu: Option<&str>, layout: Layout) -> (Option<String>, Vec<Known>) {
    let model = machine
        .cpu()
        .and_then(|cpu| Tables::embedded().model_of(cpu));
    let Some(model) = model else {
        return (None, Vec::new());
    };
    let of_pmu = |event: &str| event == "cpu" || pmu.is_none_or(|pmu| pmu == event);
    let known = model
        .events()
        .filter(|event| event.is_core() && of_pmu(&event.pmu) && event.config1() == 0)
        .filter_map(|event| {
            Some(Known {
                selector: layout.selector(event.raw()?)?,
                name: event.name.clone(),
                provenance: (!event.provenance.is_empty()).then(|| event.provenance.clone()),
            })
        });
    (Some(model.name().to_owned()), known.collect())
}
