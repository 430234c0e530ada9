//! Who calls whom, how often, and what that cost in all: the tree of calls, summed by caller, callee and place.
//!
//! An edge's cost is what its calls executed in all, but for what the caller executed in them itself, further in, with
//! all that it called there: that is in the caller's own cost and in its other edges. So a function's own cost and its
//! edges sum to its inclusive cost, whatever calls itself by whatever way.

use std::collections::{BTreeMap, HashMap};

use truecount_engine::virt::{CallKind, CallNode, Calls, Executed, Mapping};

use rustc_hash::FxHashMap;

use super::costs::{Detail, Numbers, Piece, Place, own_address};
use super::{Names, is_same};
use crate::references::{EVERY_TIME, SIMULATED, Simulated};
use crate::result::RunResult;

/// An edge's place, in order.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) caller: usize,
    pub(super) callee: usize,
    /// File, line and address of the call.
    pub(super) site: (usize, u32, u64),
    /// Line and address of the function.
    pub(super) callee_at: (u32, u64),
}

/// Most costs that a path has.
const LANES: usize = 1 + SIMULATED.len();

/// Instructions, and what was counted beside them, or modelled.
pub(super) type Costs = [u64; LANES];

/// Calls and inclusive cost of every edge.
pub(super) type Edges = BTreeMap<Key, (u64, Costs)>;

fn add(sums: &mut Costs, more: Costs, with: impl Fn(u64, u64) -> u64) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = with(*sum, more);
    }
}

/// What each path cost itself.
pub(super) struct Own<'a> {
    calls: &'a Calls,
    /// What was modelled, by the nodes' addresses; if so, it is what paths cost beside instructions.
    modelled: Option<HashMap<u64, Simulated>>,
}

impl<'a> Own<'a> {
    pub(super) fn new(calls: &'a Calls, modelled: Option<HashMap<u64, Simulated>>) -> Self {
        Self { calls, modelled }
    }

    fn of(&self, node: &CallNode) -> Costs {
        let mut costs = [0; LANES];
        let [own, beside @ ..] = &mut costs;
        *own = node.own;
        let Some(modelled) = &self.modelled else {
            for (cost, &event) in beside.iter_mut().zip(&node.events) {
                *cost = event;
            }
            return costs;
        };
        *beside = modelled.get(&node.address).copied().unwrap_or_default();
        if self.calls.modelled {
            for (&place, &event) in EVERY_TIME.iter().zip(&node.events) {
                if let Some(cost) = beside.get_mut(place) {
                    *cost = cost.wrapping_add(event);
                }
            }
        }
        costs
    }
}

/// What the tree's addresses are looked up in.
#[derive(Default)]
pub(super) struct Code {
    /// Mappings of an image by address.
    mappings: HashMap<u32, BTreeMap<u64, Mapping>>,
    /// Last instructions of blocks by where they end, where instructions are kept apart.
    last: FxHashMap<(u32, u64), u64>,
}

impl Code {
    /// Notes a block.
    pub(super) fn see(&mut self, executed: &Executed<'_>, instructions: bool) {
        if let Some(mapping) = executed.mapping {
            let known = self.mappings.entry(executed.image).or_default();
            let same = known.get(&mapping.start);
            if !same.is_some_and(|known| is_same(known, mapping)) {
                known.insert(mapping.start, mapping.clone());
            }
        }
        if let Some(last) = executed.facts.last().filter(|_| instructions) {
            let bytes: u64 = executed.facts.iter().map(|facts| facts.len()).sum();
            let end = executed.pc.wrapping_add(bytes);
            self.last
                .insert((executed.image, end), end.wrapping_sub(last.len()));
        }
    }

    fn mapping(&self, image: u32, pc: u64) -> Option<&Mapping> {
        let known = self.mappings.get(&image)?;
        let (_, mapping) = known.range(..=pc).next_back()?;
        (pc < mapping.end).then_some(mapping)
    }
}

/// A path of functions in a piece of the run.
struct Path {
    /// Its caller's; callers come first.
    parent: Option<usize>,
    /// None: a thread.
    function: Option<usize>,
    piece: Piece,
    image: u32,
    pid: u32,
    /// Where the function is.
    address: u64,
    /// Where it returns to; 0: not known.
    site: u64,
    calls: u64,
    inclusive: Costs,
}

/// What a stub in a procedure linkage table executed: it belongs to who called through it, as Callgrind has it.
pub(super) struct Stub {
    pub(super) piece: Piece,
    /// Number of the stub.
    pub(super) stub: usize,
    /// Where it was called, of the caller's.
    pub(super) place: Place,
    pub(super) address: u64,
    /// Instructions and what else paths cost.
    pub(super) costs: Costs,
}

/// Whether a name is that of a stub.
pub(crate) fn is_stub(name: &str) -> bool {
    name.ends_with("@plt") || name == "[plt]"
}

/// Everything that is looked up.
struct Finder<'a> {
    names: &'a mut Names,
    numbers: &'a mut Numbers,
    detail: Detail,
    code: &'a Code,
    own: &'a Own<'a>,
    stubs: Vec<Stub>,
}

/// The edges of every piece, and what is to be moved from stubs to their callers.
pub(super) fn edges_of(
    ran: &RunResult,
    own: &Own<'_>,
    names: &mut Names,
    numbers: &mut Numbers,
    detail: Detail,
    code: &Code,
) -> (BTreeMap<Piece, Edges>, Vec<Stub>) {
    let threads: HashMap<u32, (u32, u32)> = ran
        .executed
        .threads
        .iter()
        .map(|thread| (thread.slot, (thread.image, thread.pid)))
        .collect();
    let mut finder = Finder {
        names,
        numbers,
        detail,
        code,
        own,
        stubs: Vec::new(),
    };
    let mut paths: Vec<Path> = Vec::new();
    // Which path each of the engine's nodes is; none: it is not collected.
    let nodes = &own.calls.nodes;
    let mut places: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let above = node.parent.and_then(|parent| places.get(parent as usize));
        let place = match (node.kind, above.copied()) {
            (CallKind::Off, _) | (_, Some(None)) => None,
            (_, above) => {
                let above = above.flatten();
                let thread = threads.get(&node.slot).copied();
                finder.path(node, thread, above, &mut paths)
            }
        };
        places.push(place);
    }
    for at in (0..paths.len()).rev() {
        let Some((parent, inclusive)) = paths
            .get(at)
            .and_then(|path| Some((path.parent?, path.inclusive)))
        else {
            continue;
        };
        if let Some(parent) = paths.get_mut(parent) {
            add(&mut parent.inclusive, inclusive, u64::wrapping_add);
        }
    }
    (summed(&paths, &mut finder), finder.stubs)
}

impl Finder<'_> {
    /// The path that a node is, a new one or its caller's.
    fn path(
        &mut self,
        node: &CallNode,
        thread: Option<(u32, u32)>,
        above: Option<usize>,
        paths: &mut Vec<Path>,
    ) -> Option<usize> {
        let (image, pid) = thread?;
        let is_root = matches!(node.kind, CallKind::Thread | CallKind::Part);
        let part = match node.kind {
            CallKind::Part => u32::try_from(node.function).ok()?,
            _ => above
                .and_then(|above| paths.get(above))
                .map_or(0, |path| path.piece.part),
        };
        let function = (!is_root).then(|| match node.kind {
            // Its callers' inclusive costs stay whole by it.
            CallKind::Other => self.numbers.other(),
            _ => {
                let mapping = self.code.mapping(image, node.function);
                let place = self.numbers.place(self.names, mapping, node.function, pid);
                place.function
            }
        });
        // A stub's few instructions are its caller's.
        let stub = function.filter(|&at| is_stub(self.numbers.name(at)));
        if let (Some(stub), Some(caller)) = (stub, above) {
            let path = paths.get_mut(caller)?;
            add(&mut path.inclusive, self.own.of(node), u64::wrapping_add);
            if let Some(function) = path.function {
                // The same site as its caller's own: it was jumped to.
                let site = if node.site == path.site { 0 } else { node.site };
                let from = (path.address, site);
                let (place, address) = self.call(image, pid, function, from);
                self.stubs.push(Stub {
                    piece: path.piece,
                    stub,
                    place: Place { function, ..place },
                    address,
                    costs: self.own.of(node),
                });
            }
            return Some(caller);
        }
        let thread = if self.detail.threads { node.slot } else { 0 };
        paths.push(Path {
            parent: above.filter(|_| !is_root),
            function,
            piece: Piece {
                image,
                thread,
                part,
            },
            image,
            pid,
            address: node.function,
            site: node.site,
            calls: node.calls,
            inclusive: self.own.of(node),
        });
        Some(paths.len() - 1)
    }

    /// The edge that leads to a path.
    fn key(&mut self, caller: &Path, callee: &Path) -> Option<Key> {
        let (from, to) = (caller.function?, callee.function?);
        let image = callee.image;
        let entry = self.place(image, callee.pid, callee.address);
        let (site, address) = self.call(image, callee.pid, from, (caller.address, callee.site));
        Some(Key {
            caller: from,
            callee: to,
            site: (site.file, site.line, address),
            callee_at: (entry.0.line, entry.1),
        })
    }

    /// Place and address of a call in a function: from where that begins, and where the call returns to.
    fn call(
        &mut self,
        image: u32,
        pid: u32,
        function: usize,
        (begins, returns): (u64, u64),
    ) -> (Place, u64) {
        let (pc, found) = match returns {
            // In the place of another one: somewhere in the caller.
            0 => (begins, None),
            site => (site - 1, self.code.last.get(&(image, site)).copied()),
        };
        let (mut site, mut address) = self.place(image, pid, pc);
        if !self.detail.lines {
            site.file = self.numbers.own_file(function);
        }
        if let Some(call) = found {
            address = self.address(image, call);
        }
        (site, address)
    }

    /// Place and address of an instruction.
    fn place(&mut self, image: u32, pid: u32, pc: u64) -> (Place, u64) {
        let mapping = self.code.mapping(image, pc);
        let mut place = self.numbers.place(self.names, mapping, pc, pid);
        if !self.detail.lines {
            place.line = 0;
        }
        (place, self.address(image, pc))
    }

    fn address(&self, image: u32, pc: u64) -> u64 {
        match self.detail.instructions {
            false => 0,
            true => own_address(self.code.mapping(image, pc), pc),
        }
    }
}

/// A step through the tree.
enum Step {
    Into(usize),
    /// Back out of a function's callee: the edge that was on the path before.
    Out(usize, Option<(Piece, Key)>),
}

/// Sums the paths by edge.
fn summed(paths: &[Path], finder: &mut Finder<'_>) -> BTreeMap<Piece, Edges> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); paths.len()];
    let mut steps: Vec<Step> = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        match path.parent.and_then(|parent| children.get_mut(parent)) {
            Some(list) => list.push(at),
            None => steps.push(Step::Into(at)),
        }
    }
    let mut edges: BTreeMap<Piece, Edges> = BTreeMap::new();
    // By function: the edge by which the innermost of its calls on the path was left.
    let mut open: HashMap<usize, (Piece, Key)> = HashMap::new();
    while let Some(step) = steps.pop() {
        let at = match step {
            Step::Out(function, before) => {
                match before {
                    Some(before) => open.insert(function, before),
                    None => open.remove(&function),
                };
                continue;
            }
            Step::Into(at) => at,
        };
        let Some(path) = paths.get(at) else {
            continue;
        };
        if let Some(caller) = path.parent.and_then(|parent| paths.get(parent))
            && let Some(function) = caller.function
            && let Some(key) = finder.key(caller, path)
        {
            let sums = edges.entry(path.piece).or_default();
            let (calls, inclusive) = sums.entry(key.clone()).or_default();
            *calls = calls.wrapping_add(path.calls);
            add(inclusive, path.inclusive, u64::wrapping_add);
            let before = open.insert(function, (path.piece, key));
            steps.push(Step::Out(function, before));
        }
        // What it executes here is its own, not a cost of what it had called further out.
        if let Some((piece, key)) = path.function.and_then(|function| open.get(&function))
            && let Some((_, inclusive)) = edges.get_mut(piece).and_then(|sums| sums.get_mut(key))
        {
            add(inclusive, path.inclusive, u64::wrapping_sub);
        }
        let below = children.get(at).into_iter().flatten();
        steps.extend(below.map(|&at| Step::Into(at)));
    }
    for sums in edges.values_mut() {
        sums.retain(|_, &mut (calls, costs)| calls != 0 || costs != [0; LANES]);
    }
    edges
}
