//! Sums of samples by what rows are: one key or several.

use std::collections::HashMap;

use truecount_sample::profile::{Context, Weight};

use super::By;
use super::view::{Named, Sum, View, symbol};

/// What perf's `--sort` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SortKey {
    /// Names of processes
    Comm,
    /// Processes
    Pid,
    /// Threads
    Tid,
    /// CPUs
    Cpu,
    /// Files: programs, libraries, the kernel
    Dso,
    /// Functions
    #[value(alias = "sym")]
    Symbol,
    /// Source lines
    #[value(alias = "line")]
    Srcline,
    /// Addresses
    #[value(alias = "address")]
    Addr,
}

/// What the rows are.
#[derive(Debug, Clone)]
pub(super) enum Rows {
    By(By),
    Sort(Vec<SortKey>),
}

/// Between the parts of a key.
const SEPARATOR: char = '\t';

impl Rows {
    /// The headings of the columns that say what a row is.
    pub(super) fn headings(&self) -> Vec<&'static str> {
        match self {
            Self::By(by) => vec![heading_of(*by)],
            Self::Sort(keys) => keys.iter().map(|key| key.heading()).collect(),
        }
    }

    /// Whether a sample is in the rows of all functions of its chain.
    pub(super) fn have_callers(&self) -> bool {
        match self {
            Self::By(by) => !matches!(by, By::Process | By::Thread | By::Cpu | By::Chain),
            Self::Sort(keys) => keys.iter().any(|key| key.is_place()),
        }
    }

    fn need_names(&self) -> bool {
        match self {
            Self::By(by) => !matches!(by, By::Process | By::Thread | By::Cpu),
            Self::Sort(keys) => keys.iter().any(|key| key.is_place()),
        }
    }
}

/// A row's key in its columns.
pub(super) fn columns(key: &str) -> impl Iterator<Item = &str> {
    key.split(SEPARATOR)
}

pub(super) fn heading_of(by: By) -> &'static str {
    match by {
        By::Symbol => "function",
        By::Dso => "file",
        By::Line => "line",
        By::Address => "address",
        By::Process => "process",
        By::Thread => "thread",
        By::Cpu => "CPU",
        By::Caller => "function ← caller",
        By::Chain => "chain",
    }
}

impl SortKey {
    fn heading(self) -> &'static str {
        match self {
            Self::Comm => "comm",
            Self::Pid => "pid",
            Self::Tid => "tid",
            Self::Cpu => "CPU",
            Self::Dso => "dso",
            Self::Symbol => "symbol",
            Self::Srcline => "source line",
            Self::Addr => "address",
        }
    }

    /// It is a part of a place, not of a whole sample.
    fn is_place(self) -> bool {
        matches!(self, Self::Dso | Self::Symbol | Self::Srcline | Self::Addr)
    }

    fn of_sample(self, view: &View, context: &Context) -> String {
        match self {
            Self::Comm => comm(view, context),
            Self::Pid => context.pid.to_string(),
            Self::Tid => context.tid.to_string(),
            Self::Cpu => cpu(context),
            _ => String::new(),
        }
    }
}

fn comm(view: &View, context: &Context) -> String {
    let comm = view.profile.comms.get(context.comm as usize);
    comm.cloned().unwrap_or_default()
}

fn cpu(context: &Context) -> String {
    context
        .cpu
        .map_or_else(|| "not recorded".to_owned(), |c| format!("CPU {c}"))
}

impl View {
    /// Sums of one event by key; the largest own first, or (`inclusive`) the largest with callees.
    pub(super) fn sums(&mut self, event: u32, rows: &Rows, inclusive: bool) -> Vec<(String, Sum)> {
        if rows.need_names() || !self.selection.shows_all() {
            self.name_all();
        }
        let entries: Vec<(Context, Weight)> = self
            .profile
            .entries
            .iter()
            .filter(|(c, _)| c.event == event)
            .cloned()
            .collect();
        let mut sums: HashMap<String, Sum> = HashMap::new();
        for (context, weight) in entries {
            let keys = self.keys(&context, rows);
            if let Some(Some(own)) = keys.first() {
                sums.entry(own.clone()).or_default().own.add(weight);
            }
            // A function that calls itself counts once.
            let mut seen: Vec<&String> = Vec::new();
            for key in keys.iter().flatten() {
                if !seen.contains(&key) {
                    seen.push(key);
                    sums.entry(key.clone()).or_default().total.add(weight);
                }
            }
        }
        let mut out: Vec<_> = sums.into_iter().collect();
        let order = |sum: &Sum| match inclusive {
            true => (sum.total.events, sum.own.events),
            false => (sum.own.events, sum.total.events),
        };
        out.sort_by(|a, b| order(&b.1).cmp(&order(&a.1)).then_with(|| a.0.cmp(&b.0)));
        out
    }

    /// The keys of a sample: the first is where it fell, the others are on its call chain; `None` for what is not shown.
    fn keys(&mut self, context: &Context, rows: &Rows) -> Vec<Option<String>> {
        let by = match rows {
            Rows::Sort(keys) if keys.iter().any(|key| key.is_place()) => {
                return self.place_keys(context, |view, context, named, offset| {
                    let part = |key: &SortKey| match key {
                        SortKey::Dso => named.dso.clone(),
                        SortKey::Symbol if keys.contains(&SortKey::Dso) => named.title(),
                        SortKey::Symbol => symbol(named),
                        SortKey::Srcline => named.source_line(),
                        SortKey::Addr => format!("{}+{offset:#x}", named.dso),
                        key => key.of_sample(view, context),
                    };
                    let parts: Vec<String> = keys.iter().map(part).collect();
                    parts.join(&SEPARATOR.to_string())
                });
            }
            Rows::By(By::Symbol) => return self.place_keys(context, |_, _, n, _| symbol(n)),
            Rows::By(By::Dso) => return self.place_keys(context, |_, _, n, _| n.dso.clone()),
            Rows::By(By::Line) => return self.place_keys(context, |_, _, n, _| n.source_line()),
            Rows::By(By::Address) => {
                return self.place_keys(context, |_, _, n, at| format!("{}+{at:#x}", n.dso));
            }
            Rows::Sort(_) => None,
            Rows::By(by) => Some(*by),
        };
        if !self.shows_sample(context) {
            return Vec::new();
        }
        let name = comm(self, context);
        let keys = match (rows, by) {
            (Rows::Sort(keys), _) => {
                let parts: Vec<String> = keys.iter().map(|k| k.of_sample(self, context)).collect();
                vec![parts.join(&SEPARATOR.to_string())]
            }
            (_, Some(By::Process)) => vec![format!("{name} ({})", context.pid)],
            (_, Some(By::Thread)) => vec![format!("{name} ({}/{})", context.pid, context.tid)],
            (_, Some(By::Cpu)) => vec![cpu(context)],
            (_, Some(By::Caller)) => self.callers(context),
            _ => {
                let chain = self.chain(context).into_iter().map(|n| n.function);
                vec![chain.collect::<Vec<_>>().join(" ← ")]
            }
        };
        keys.into_iter().map(Some).collect()
    }

    /// A key for each function of the chain.
    fn place_keys(
        &mut self,
        context: &Context,
        key: impl Fn(&Self, &Context, &Named, u64) -> String,
    ) -> Vec<Option<String>> {
        let mut out = Vec::new();
        for place in &context.frames {
            let found = self.named(*place);
            let shown = found.iter().map(|named| {
                let shown = self.selection.shows(named);
                shown.then(|| key(self, context, named, place.offset))
            });
            out.extend(shown);
        }
        out
    }

    fn callers(&mut self, context: &Context) -> Vec<String> {
        let chain = self.chain(context);
        let pairs = chain.windows(2).filter_map(|w| {
            let [callee, caller] = w else { return None };
            Some(format!("{} ← {}", callee.function, caller.function))
        });
        let mut out: Vec<String> = pairs.collect();
        if out.is_empty() {
            let alone = chain.first();
            out.extend(alone.map(|n| format!("{} ← (caller not recorded)", n.function)));
        }
        out
    }
}
