//! What becomes of references while the program runs.

mod batch;
mod filtered;
mod model;
mod sink;

use super::costs::{Costs, Simulated};
use super::lines::{Allocated, Lines};
use super::locality::{Counted, Order, together};
use super::modelled::Modelled;
use super::paths::{PathCosts, Paths};
use super::shared::shared;
use super::site::Site;
use super::{Facts, Memory, Missed, Size, Wanted};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap};
use truecount_engine::virt::references::{Code, Meaning, Run, Thread, Unknown};
use truecount_memory::{BesideMisses, Kind, Moment, Sharing, Touched};

/// Which part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// Slot of a thread of the process: the first that was met.
    pub slot: u32,
    /// How many marks of the process' profile were before.
    pub part: u32,
}

/// Blocks that are counted together.
struct Table {
    part: Part,
    memory: u32,
    /// What is done here is no part of the profile.
    dropped: bool,
    sites: Sites,
    /// By the numbers of what the engine tells.
    met: batch::Mets,
    /// The same of what is not 0, of when a thread was here before.
    left: Vec<(u32, [u64; 2])>,
    /// What the model has beside Cachegrind's caches missed here.
    beside: BesideMisses,
}

impl Table {
    /// A block, which is looked at once.
    #[inline]
    fn site(&mut self, code: &Code, wanted: &Wanted) -> Option<&mut Site> {
        let site = self.sites.place(code.number as usize)?;
        let model = wanted.model.as_ref();
        // (Those that are taken are counted there.)
        let branches = !(wanted.without.branches && wanted.without.taken);
        let kind_of = |access| wanted.kind_of(access);
        Some(site.get_or_insert_with(|| Box::new(Site::new(code, model, branches, kind_of))))
    }
}

/// Blocks by their numbers. (A process that was forked has blocks of its own, with numbers above those of all others.)
#[derive(Default)]
struct Sites(Vec<Option<Box<Together>>>);

type Together = [Option<Box<Site>>; TOGETHER];

/// Numbers that have room together.
const TOGETHER: usize = 64;

impl Sites {
    #[inline]
    fn place(&mut self, number: usize) -> Option<&mut Option<Box<Site>>> {
        let at = number / TOGETHER;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        let together = self.0.get_mut(at)?;
        let together = together.get_or_insert_with(|| Box::new([const { None }; TOGETHER]));
        together.get_mut(number % TOGETHER)
    }

    fn iter(&self) -> impl Iterator<Item = &Site> {
        let together = self.0.iter().flatten();
        together.flat_map(|together| together.iter().flatten().map(Box::as_ref))
    }
}

/// What is known of one memory.
struct Space {
    memory: u32,
    touched: Touched,
    sharing: Sharing,
    allocated: Allocated,
    /// The thread that is behind all its others; `None`: it has to be looked for.
    behind: Option<usize>,
}

impl Space {
    /// Its lines, for a thread at its time.
    #[inline]
    fn lines(&mut self, wanted: &Wanted, when: Moment) -> Lines<'_> {
        Lines {
            touched: &mut self.touched,
            heap: wanted.data.then_some(&mut self.allocated.heap),
            when,
        }
    }
}

/// A thread, and where what it does is counted.
struct Of {
    thread: Thread,
    table: usize,
    space: usize,
    /// Nothing of it is looked at.
    off: bool,
    modelled: Option<Modelled>,
    order: Option<Order>,
    /// Number of the node of the tree of calls that it is in.
    node: Option<u32>,
    /// What time it is for it, of what happens to heaps.
    time: u64,
}

/// Everything so far.
pub(super) struct Gathering {
    wanted: Wanted,
    spaces: Vec<Space>,
    tables: Vec<Table>,
    threads: Vec<Of>,
    by_slot: FxHashMap<u32, usize>,
    paths: Option<Paths>,
    /// Nothing is wanted but the caches of the first and the last level, and branches.
    is_plain: bool,
    /// The engine predicts conditional branches, and tells those that are predicted wrongly.
    is_predicted: bool,
    /// Whose turn it is.
    now: usize,
    lost: u32,
    /// Room for what one instruction references.
    runs: Vec<(usize, Kind, Run)>,
    /// What the engine tells by numbers …
    numbers: Vec<batch::Number>,
    /// … which are these: of a block, an instruction there, and of what that does.
    numbered: FxHashMap<(u32, usize, Meaning), u32>,
}

/// What takes the costs of an executed instruction: which part, its address, its costs, what is not known of it.
pub(super) type See<'a> = dyn FnMut(Part, u64, &Costs, Option<Unknown>) + 'a;

impl Gathering {
    pub(super) fn new(wanted: Wanted) -> Self {
        let mut new = Self {
            is_predicted: false,
            paths: wanted.paths.then(|| Paths::new(wanted.facts)),
            is_plain: wanted.is_plain(),
            wanted,
            spaces: Vec::new(),
            tables: Vec::new(),
            threads: Vec::new(),
            by_slot: FxHashMap::default(),
            now: 0,
            lost: 0,
            runs: Vec::new(),
            numbers: Vec::new(),
            numbered: FxHashMap::default(),
        };
        let levels = new.levels().filter(|_| new.can_be_filtered());
        new.is_predicted = levels.is_some_and(|levels| levels.branches && levels.predicted);
        new
    }

    fn space(&mut self, memory: u32) -> usize {
        let known = self.spaces.iter().position(|space| space.memory == memory);
        known.unwrap_or_else(|| {
            self.spaces.push(Space {
                memory,
                touched: Touched::new(),
                sharing: Sharing::new(),
                allocated: Allocated::new(self.wanted.sharing),
                behind: None,
            });
            self.spaces.len() - 1
        })
    }

    /// The thread's place among those that were met.
    fn number(&mut self, thread: Thread) -> usize {
        if self
            .threads
            .get(self.now)
            .is_some_and(|now| now.thread == thread)
        {
            return self.now;
        }
        if let Some(&known) = self.by_slot.get(&thread.slot) {
            return known;
        }
        let model = self.wanted.model;
        let of = Of {
            thread,
            table: self.table(thread, 0, false),
            space: self.space(thread.memory),
            off: false,
            modelled: model.map(|model| Modelled::new(&model, &self.wanted.beside)),
            order: self.wanted.locality.then(Order::default),
            node: None,
            time: 0,
        };
        if let Some(space) = self.spaces.get_mut(of.space) {
            space.behind = None;
        }
        self.threads.push(of);
        self.by_slot.insert(thread.slot, self.threads.len() - 1);
        self.threads.len() - 1
    }

    fn table(&mut self, thread: Thread, part: u32, dropped: bool) -> usize {
        let apart = self.wanted.threads;
        // (The one in question is one of the last.)
        let known = self.tables.iter().rposition(|table| {
            (table.memory, table.part.part, table.dropped) == (thread.memory, part, dropped)
                && (!apart || table.part.slot == thread.slot)
        });
        known.unwrap_or_else(|| {
            self.tables.push(Table {
                part: Part {
                    slot: thread.slot,
                    part,
                },
                memory: thread.memory,
                dropped,
                sites: Sites::default(),
                met: batch::Mets::default(),
                left: Vec::new(),
                beside: BesideMisses::default(),
            });
            self.tables.len() - 1
        })
    }

    /// What every executed instruction cost: which part, its address, its costs, what is not known of it.
    pub(super) fn each(&self, see: &mut See<'_>) {
        let mut room = Vec::new();
        for table in self.tables.iter().filter(|table| !table.dropped) {
            for site in table.sites.iter() {
                site.each(&mut room, &mut |pc, costs, unknown| {
                    see(table.part, pc, costs, unknown);
                });
            }
        }
    }

    /// See [`super::Noted::each_order`].
    pub(super) fn each_order(&self, see: &mut dyn FnMut(u32, u64, &Counted)) {
        for of in &self.threads {
            if let Some(order) = &of.order {
                order.each(&mut |pc, counted| see(of.thread.slot, pc, counted));
            }
        }
    }

    /// See [`super::Noted::each_touched`].
    pub(super) fn each_touched(&self, see: &mut dyn FnMut(u32, &Touched, &Allocated)) {
        for space in &self.spaces {
            see(space.memory, &space.touched, &space.allocated);
        }
    }

    pub(super) fn memory(&self, tids: &dyn Fn(u32) -> u32) -> Memory {
        let mut costs = Costs::default();
        let mut unknown: BTreeMap<Unknown, u64> = BTreeMap::new();
        self.each(&mut |_, _, one, why| {
            costs.add(one);
            if let Some(why) = why {
                *unknown.entry(why).or_default() += one.instructions;
            }
        });
        let mut sizes = [0; 66];
        let mut room = Vec::new();
        for site in self.tables.iter().flat_map(|table| table.sites.iter()) {
            site.sizes(&mut room, &mut sizes);
        }
        let mut facts = Facts::of(&costs);
        for Space { touched, .. } in &self.spaces {
            facts.lines_touched += touched.lines_touched();
            facts.lines_read += touched.lines_read();
            facts.lines_written += touched.lines_written();
            facts.pages_touched += touched.pages_touched();
        }
        let sizes = (0..).zip(sizes).filter(|(_, references)| *references != 0);
        let size = |(bytes, references)| Size { bytes, references };
        facts.sizes = sizes.map(size).collect();
        let missed = |(unknown, instructions): (&Unknown, &u64)| Missed {
            what: unknown.name().to_owned(),
            instructions: *instructions,
        };
        Memory {
            facts,
            missing: unknown.iter().map(missed).collect(),
            lost: self.lost,
            without: self.wanted.without,
            model: self.model(&costs),
            sharing: self.wanted.sharing.then(|| {
                shared(
                    self.spaces
                        .iter()
                        .map(|space| (space.memory, &space.sharing)),
                    tids,
                )
            }),
            locality: self.wanted.locality.then(|| {
                let threads = self.threads.iter();
                together(threads.filter_map(|of| Some((tids(of.thread.slot), of.order.as_ref()?))))
            }),
            functions: Vec::new(),
            data: Vec::new(),
            heap: None,
            lines: Vec::new(),
        }
    }

    /// See [`super::Noted::paths`].
    pub(super) fn paths(&mut self) -> Option<HashMap<u64, Simulated>> {
        let paths = self.paths.as_mut()?;
        for thread in &mut self.threads {
            thread.leave_node(paths);
        }
        Some(paths.simulated())
    }

    /// See [`super::Noted::path_costs`].
    pub(super) fn path_costs(&mut self) -> Option<HashMap<u64, PathCosts>> {
        let paths = self.paths.as_mut()?;
        for thread in &mut self.threads {
            thread.leave_node(paths);
        }
        paths.costs()
    }

    /// Calls of the allocator are wanted.
    pub(super) fn wants_data(&self) -> bool {
        self.wanted.data
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(super) fn is_modelled(&self) -> bool {
        self.wanted.model.is_some()
    }
}

impl Of {
    #[inline]
    fn moment(&self) -> Moment {
        Moment {
            time: self.time,
            thread: self.thread.slot,
        }
    }

    /// What was met since the thread is in its node goes there.
    fn leave_node(&mut self, paths: &mut Paths) {
        if let (Some(node), Some(modelled)) = (self.node, &mut self.modelled) {
            paths.take(node, &mut modelled.met);
        }
    }
}
