//! What becomes of references while the program runs.

use super::{Facts, Level, Memory, Missed, Model, Predicted, SharedBy, SharedLine, Size, Wanted};
use std::collections::{BTreeMap, HashMap};
use truecount_engine::virt::references::{Access, Branch, Executed, Sink, Thread, Unknown};
use truecount_memory::{Branches, Caches, Kind, Mispredicted, Misses, Reference, Sharing, Totals};

/// Shared lines that are told.
const SHARED: usize = 100;

/// What one thread met in the model: its own caches and predictors.
struct Modelled {
    caches: Caches,
    branches: Branches,
}

/// What is known of one memory.
#[derive(Default)]
struct Space {
    facts: truecount_memory::Facts,
    sharing: Sharing,
}

/// Everything so far.
pub(super) struct Gathering {
    wanted: Wanted,
    spaces: HashMap<u32, Space>,
    threads: BTreeMap<u32, Modelled>,
    taken: u64,
    unknown: BTreeMap<Unknown, u64>,
    lost: u32,
}

impl Gathering {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            spaces: HashMap::new(),
            threads: BTreeMap::new(),
            taken: 0,
            unknown: BTreeMap::new(),
            lost: 0,
        }
    }

    pub(super) fn memory(&self, tids: &dyn Fn(u32) -> u32) -> Memory {
        let mut facts = Facts {
            taken_branches: self.taken,
            ..Facts::default()
        };
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        let mut totals = Totals::default();
        for space in self.spaces.values() {
            totals.add(&space.facts.totals);
            facts.lines_touched += space.facts.lines_touched();
            facts.lines_read += space.facts.lines_read();
            facts.lines_written += space.facts.lines_written();
            facts.pages_touched += space.facts.pages_touched();
            for (bytes, references) in space.facts.sizes() {
                *sizes.entry(bytes).or_default() += references;
            }
        }
        facts.add(&totals);
        let size = |(bytes, references)| Size { bytes, references };
        facts.sizes = sizes.into_iter().map(size).collect();
        let missed = |(unknown, instructions): (&Unknown, &u64)| Missed {
            what: unknown.name().to_owned(),
            instructions: *instructions,
        };
        Memory {
            facts,
            missing: self.unknown.iter().map(missed).collect(),
            lost: self.lost,
            model: self.model(),
            sharing: self.wanted.sharing.then(|| self.shared(tids)),
        }
    }

    fn model(&self) -> Option<Model> {
        let machine = self.wanted.model?;
        let all = |of: fn(&Caches) -> Misses| {
            let sum = |sum: Misses, thread: &Modelled| sum.plus(of(&thread.caches));
            let misses = self.threads.values().fold(Misses::default(), sum);
            Level {
                references: misses.references,
                l1_misses: misses.first,
                ll_misses: misses.last,
            }
        };
        let predicted = |of: fn(&Branches) -> Mispredicted| {
            let counts = self.threads.values().map(|thread| of(&thread.branches));
            counts.fold(Predicted::default(), |sum, count| Predicted {
                branches: sum.branches + count.branches,
                mispredicted: sum.mispredicted + count.wrong,
            })
        };
        Some(Model {
            source: "model",
            rules: "Cachegrind's",
            i1: machine.i1.to_string(),
            d1: machine.d1.to_string(),
            ll: machine.ll.to_string(),
            instructions: all(|caches| caches.instructions),
            reads: all(|caches| caches.reads),
            writes: all(|caches| caches.writes),
            conditional: predicted(|branches| branches.conditional),
            indirect: predicted(|branches| branches.indirect),
        })
    }

    fn shared(&self, tids: &dyn Fn(u32) -> u32) -> Vec<SharedLine> {
        let mut lines: Vec<SharedLine> = self
            .spaces
            .values()
            .flat_map(|space| space.sharing.shared())
            .map(|line| SharedLine {
                address: line.line,
                false_sharing: line.is_false(),
                references: line.references(),
                threads: line
                    .threads
                    .iter()
                    .map(|&(slot, used)| SharedBy {
                        tid: tids(slot),
                        read: used.read,
                        written: used.written,
                        references: used.references,
                    })
                    .collect(),
            })
            .collect();
        lines.sort_by_key(|line| (std::cmp::Reverse(line.references), line.address));
        lines.truncate(SHARED);
        lines
    }
}

fn kind_of(access: Access) -> Kind {
    match access {
        Access::Load => Kind::Load,
        Access::Store => Kind::Store,
        Access::Modify => Kind::Modify,
    }
}

impl Sink for Gathering {
    fn executed(&mut self, thread: Thread, executed: &Executed<'_>) {
        let space = self.spaces.entry(thread.memory).or_default();
        let mut modelled = self.wanted.model.map(|machine| {
            self.threads.entry(thread.slot).or_insert_with(|| Modelled {
                caches: Caches::new(&machine),
                branches: Branches::new(),
            })
        });
        for (at, instruction) in executed.instructions() {
            if let Some(unknown) = instruction.unknown {
                *self.unknown.entry(unknown).or_default() += 1;
            }
            if let Some(model) = &mut modelled {
                model.caches.fetch(instruction.pc, instruction.length);
            }
            // Elements of repeated instructions come by turns: one is read, then written.
            let mut runs = [(Access::Load, 0u64, 0u32, 0u64); 4];
            let mut used = 0;
            executed.references(at, |operand, address, times| {
                let size = operand.size;
                if let Some(run) = runs.get_mut(used) {
                    *run = (operand.access, address, size, times);
                    used += 1;
                }
                let kind = kind_of(operand.access);
                if times == 1 {
                    space.facts.count(Reference {
                        address,
                        size,
                        kind,
                    });
                } else {
                    space.facts.count_run(address, size, times, kind);
                }
            });
            let runs = runs.get(..used).unwrap_or(&[]);
            let longest = runs.iter().map(|run| run.3).max().unwrap_or(0);
            let longest = if modelled.is_some() || self.wanted.sharing {
                longest
            } else {
                0
            };
            for time in 0..longest {
                for &(access, address, size, times) in runs {
                    if time >= times {
                        continue;
                    }
                    let reference = Reference {
                        address: address.wrapping_add(time.wrapping_mul(u64::from(size))),
                        size,
                        kind: kind_of(access),
                    };
                    if let Some(model) = &mut modelled {
                        model.caches.data(reference);
                    }
                    if self.wanted.sharing {
                        space.sharing.count(thread.slot, reference);
                    }
                }
            }
            let last = at + 1 == executed.done;
            match instruction.branch {
                Branch::None => {}
                Branch::Direct | Branch::Return => self.taken += 1,
                Branch::Indirect => {
                    self.taken += 1;
                    if let (Some(model), Some(next)) = (&mut modelled, executed.next) {
                        model.branches.indirect(instruction.pc, next);
                    }
                }
                Branch::Conditional { target } => {
                    let taken = last && executed.next == Some(target);
                    self.taken += u64::from(taken);
                    if let Some(model) = &mut modelled {
                        model.branches.conditional(instruction.pc, taken);
                    }
                }
            }
        }
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}
