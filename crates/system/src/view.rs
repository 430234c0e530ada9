//! Rows and cells: the amounts of CPUs summed over cores, sockets, nodes and the machine, and what they mean.
//!
//! Everything is summed first and divided last, so that a socket's IPC is its instructions over its cycles and not a
//! mean of ratios.

use std::cell::RefCell;
use std::collections::BTreeMap;

use truecount_events::metrics::Context;
use truecount_model::{Measured, Precision, SourceKind};

use crate::columns::{Column, Formula, columns};
use crate::counters::OTHER_CORE;
use crate::plan::{CYCLES, Plan, PlannedMetric};
use crate::rates::{Amount, Amounts, CAME, Interval, Key};
use crate::topology::Place;

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All CPUs.
    Machine,
    /// One package.
    Socket,
    /// One memory node.
    Node,
    /// One core with its hardware threads.
    Core,
    /// One hardware thread.
    Cpu,
}

impl Scope {
    /// The name on the command line and in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Socket => "socket",
            Self::Node => "node",
            Self::Core => "core",
            Self::Cpu => "cpu",
        }
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What it stands for.
    pub scope: Scope,
    /// Its number; a core's is that of its first CPU. 0 for the machine.
    pub id: u32,
    /// The CPUs in it.
    pub cpus: Vec<u32>,
    /// One for each column.
    pub cells: Vec<Measured<f64>>,
}

/// The table of one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Length of the interval, ns.
    pub wall_ns: u64,
    /// What is in each row.
    pub columns: Vec<Column>,
    /// The machine first, then the rows of the scope asked for.
    pub rows: Vec<Row>,
}

impl View {
    /// The rows of a scope, after the machine's.
    #[must_use]
    pub fn new(interval: &Interval, plan: &Plan, scope: Scope) -> Self {
        let columns = columns(plan);
        let everything: Vec<u32> = interval.topology.cpus.keys().copied().collect();
        let mut groups = vec![(Scope::Machine, 0, everything)];
        if scope != Scope::Machine {
            let of = groups_of(interval, scope);
            groups.extend(of.into_iter().map(|(id, cpus)| (scope, id, cpus)));
        }
        let rows = groups
            .into_iter()
            .map(|(scope, id, cpus)| {
                let summed = Summed::new(interval, plan, scope, id, &cpus);
                let cells = columns
                    .iter()
                    .map(|(column, formula)| measured(summed.cell(formula), column.source))
                    .collect();
                Row {
                    scope,
                    id,
                    cpus,
                    cells,
                }
            })
            .collect();
        Self {
            wall_ns: interval.wall_ns,
            columns: columns.into_iter().map(|(column, _)| column).collect(),
            rows,
        }
    }
}

/// The CPUs of each row. Where the machine does not tell a CPU's core, it is one by itself; without socket or node it
/// belongs to number 0.
fn groups_of(interval: &Interval, scope: Scope) -> Vec<(u32, Vec<u32>)> {
    let mut groups: BTreeMap<(u32, u32, u32), Vec<u32>> = BTreeMap::new();
    for (&cpu, place) in &interval.topology.cpus {
        let Place {
            socket, core, node, ..
        } = *place;
        let key = match scope {
            Scope::Machine => (0, 0, 0),
            Scope::Socket => (socket.unwrap_or(0), 0, 0),
            Scope::Node => (node.unwrap_or(0), 0, 0),
            Scope::Core => match core {
                Some(core) => (socket.unwrap_or(0), 1, core),
                None => (socket.unwrap_or(0), 2, cpu),
            },
            Scope::Cpu => (cpu, 0, 0),
        };
        groups.entry(key).or_default().push(cpu);
    }
    groups
        .into_iter()
        .map(|((first, _, _), cpus)| match scope {
            Scope::Core => (cpus.first().copied().unwrap_or(0), cpus),
            _ => (first, cpus),
        })
        .collect()
}

/// A value, or why there is none.
type Found = Result<Amount, String>;

fn measured(found: Found, source: SourceKind) -> Measured<f64> {
    match found {
        Ok(Amount { value, scaled }) => Measured::Value {
            value,
            source,
            precision: match scaled {
                true => Precision::Scaled,
                false => Precision::Counted,
            },
        },
        Err(reason) => Measured::Missing(reason.into()),
    }
}

/// The amounts of a row.
struct Summed<'a> {
    plan: &'a Plan,
    scope: Scope,
    wall_ns: u64,
    cpus: Amounts,
    sockets: Amounts,
    machine: &'a Amounts,
}

impl<'a> Summed<'a> {
    fn new(interval: &'a Interval, plan: &'a Plan, scope: Scope, id: u32, cpus: &[u32]) -> Self {
        let of_cpus = cpus.iter().filter_map(|cpu| interval.cpus.get(cpu));
        let of_sockets = interval.sockets.iter().filter(|(socket, _)| match scope {
            Scope::Machine => true,
            Scope::Socket => **socket == id,
            _ => false,
        });
        Self {
            plan,
            scope,
            wall_ns: interval.wall_ns,
            cpus: sum(of_cpus),
            sockets: sum(of_sockets.map(|(_, amounts)| amounts)),
            machine: &interval.machine,
        }
    }

    fn amount(&self, key: Key) -> Found {
        let missing = || Err("not counted".to_owned());
        self.cpus.get(&key).cloned().unwrap_or_else(missing)
    }

    fn per_second(&self, amount: Found) -> Found {
        match amount {
            Ok(_) if self.wall_ns == 0 => Err("the interval has no length".to_owned()),
            Ok(Amount { value, scaled }) => Ok(Amount {
                value: value * 1e9 / self.wall_ns as f64,
                scaled,
            }),
            Err(reason) => Err(reason),
        }
    }

    fn socket(&self, key: Key) -> Found {
        match self.scope {
            Scope::Machine | Scope::Socket => self
                .sockets
                .get(&key)
                .cloned()
                .unwrap_or_else(|| Err("not counted".to_owned())),
            _ => Err("counted for whole sockets (--per socket)".to_owned()),
        }
    }

    fn cell(&self, formula: &Formula) -> Found {
        match formula {
            Formula::Share(key) => match (self.amount(*key), self.amount(Key::Time)) {
                (Ok(part), Ok(all)) if all.value > 0.0 => Ok(Amount {
                    value: 100.0 * part.value / all.value,
                    scaled: false,
                }),
                (Err(reason), _) | (_, Err(reason)) => Err(reason),
                _ => Err("no time passed".to_owned()),
            },
            Formula::Rate(key) => self.per_second(self.amount(*key)),
            Formula::EventRate(name, of_machine) => {
                let kernel = self.machine.get(of_machine);
                match (self.scope, kernel) {
                    (Scope::Machine, Some(Ok(amount))) => self.per_second(Ok(*amount)),
                    _ => self.per_second(self.event(name, None)),
                }
            }
            Formula::Frequency => self.frequency(),
            Formula::Metric(at) => match self.plan.metrics.get(*at) {
                Some(metric) => self.metric(metric),
                None => Err("not counted".to_owned()),
            },
            Formula::Without(reason) => Err(reason.clone()),
            Formula::SocketRate(key, over) => {
                let mut amount = self.per_second(self.socket(*key))?;
                amount.value /= over;
                Ok(amount)
            }
            Formula::Remote => match (self.socket(Key::Total), self.socket(Key::Local)) {
                (Ok(all), Ok(local)) => {
                    // Two counters read one after the other: local may be a line ahead.
                    let remote = (all.value - local.value).max(0.0) / 1_048_576.0;
                    self.per_second(Ok(Amount {
                        value: remote,
                        scaled: false,
                    }))
                }
                (Err(reason), _) | (_, Err(reason)) => Err(reason),
            },
        }
    }

    fn event(&self, name: &str, group: Option<usize>) -> Found {
        match self.plan.event(name, group) {
            Some(index) => self.amount(Key::Event(index)),
            None => Err(format!("{name} has no name on this machine")),
        }
    }

    fn frequency(&self) -> Found {
        /// Busy time has a grain of 10 ms: with less than this a frequency would be mostly rounding.
        const MIN_NS: f64 = 50e6;
        match (self.event(CYCLES, None), self.amount(Key::Busy)) {
            (Ok(cycles), Ok(busy)) if busy.value >= MIN_NS => Ok(Amount {
                value: cycles.value / busy.value,
                scaled: cycles.scaled,
            }),
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
            _ => Err("nearly idle: its busy time is too short to divide by".to_owned()),
        }
    }

    fn metric(&self, metric: &PlannedMetric) -> Found {
        let Some(pack) = self.plan.packs.get(metric.pack) else {
            return Err("not counted".to_owned());
        };
        let context = Context {
            wall_ns: Some(self.wall_ns as f64),
            ..self.plan.context.clone()
        };
        let reason: RefCell<Option<String>> = RefCell::new(None);
        let scaled = RefCell::new(false);
        let counts = |expression: &str| {
            let mut groups = metric.groups.iter();
            let found = groups.find_map(|&group| self.plan.event(expression, Some(group)));
            let amount = match found {
                Some(index) => self.amount(Key::Event(index)),
                None => Err(format!("{expression} has no name on this machine")),
            };
            match amount {
                Ok(amount) => {
                    *scaled.borrow_mut() |= amount.scaled;
                    Some(amount.value)
                }
                Err(why) => {
                    reason.borrow_mut().get_or_insert(why);
                    None
                }
            }
        };
        let mut values = pack
            .evaluate(&[&metric.name], &counts, &context)
            .into_iter();
        let result = values.next().map(|value| value.result);
        match (result, reason.into_inner()) {
            (Some(Ok(value)), _) => Ok(Amount {
                value,
                scaled: scaled.into_inner(),
            }),
            (_, Some(why)) => Err(why),
            (Some(Err(error)), None) => Err(error.to_string()),
            (None, None) => Err("not counted".to_owned()),
        }
    }
}

/// Sums of each key. A part without a value spoils the sum, or it would be too small; but a CPU that came during the
/// interval, and a core of a kind that does not count the event, are not part of it.
fn sum<'a>(parts: impl Iterator<Item = &'a Amounts>) -> Amounts {
    let outside = |reason: &str| reason == CAME || reason == OTHER_CORE;
    let mut total = Amounts::new();
    for amounts in parts {
        for (&key, amount) in amounts {
            let merged = match (total.remove(&key), amount) {
                (None, amount) => amount.clone(),
                (Some(Ok(sum)), Ok(more)) => Ok(Amount {
                    value: sum.value + more.value,
                    scaled: sum.scaled || more.scaled,
                }),
                (Some(Err(reason)), amount) if outside(&reason) => amount.clone(),
                (Some(sum), Err(reason)) if outside(reason) => sum,
                (Some(Err(reason)), _) => Err(reason),
                (_, Err(reason)) => Err(reason.clone()),
            };
            total.insert(key, merged);
        }
    }
    total
}
