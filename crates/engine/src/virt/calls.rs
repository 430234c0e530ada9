//! The calling-context tree of a run, read from the shared file ([`crate::calls`]). The file was writable by the
//! program, so nothing in it is believed without a check.

use super::bytes::field;
use super::shared::Shared;
use crate::calls::{EVENTS, FACTS, FIRST, Node, Thread, kind};
use crate::layout::{Context, MAX_SLOTS, TOTALS_BASE, TOTALS_FAR, TOTALS_NEAR};
use crate::xlate::facts::Event;
use std::collections::HashMap;
use std::mem::offset_of;

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallKind {
    /// A thread, above all it executed.
    Thread,
    /// A function that was called, jumped to from another one, or where the thread began.
    Function,
    /// A signal handler that the kernel called.
    Signal,
    /// Paths beyond the bound on nodes, all of those below a node in one: [`CallNode::calls`] are all calls in them.
    Other,
    /// Above what was not collected.
    Off,
    /// Above what was executed in a later part of the profile ([`super::Mark`]): [`CallNode::function`] is how many
    /// marks were before.
    Part,
}

/// A path of functions in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallNode {
    /// Where it is: what [`super::references::Marked::Node`] says.
    pub address: u64,
    /// Index of the node above, which is lower than its own.
    pub parent: Option<u32>,
    /// What it is.
    pub kind: CallKind,
    /// Where its function was entered; 0 for threads and the like.
    pub function: u64,
    /// Where it returns to, if call sites are told apart; else 0.
    pub site: u64,
    /// The thread: [`super::ThreadTotals::slot`].
    pub slot: u32,
    /// How often the function was called on this path.
    pub calls: u64,
    /// Instructions that it executed there itself.
    pub own: u64,
    /// The same for [`Calls::events`].
    pub events: [u64; EVENTS],
    /// With [`Calls::facts`]: what its references and branches came to.
    pub facts: NodeFacts,
}

/// Facts of what a path of functions executed itself. (References of instructions that are told as a whole are their sink's to
/// count: [`super::references::Sink::noted`], [`super::references::Sink::masked`].)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeFacts {
    /// References that read, those that modify among them.
    pub loads: u64,
    /// Those that write, or modify.
    pub stores: u64,
    /// Bytes that were read.
    pub load_bytes: u64,
    /// Bytes that were written.
    pub store_bytes: u64,
    /// Branches that were taken.
    pub taken: u64,
}

/// Behind facts, where there are some, come the events that were asked for.
fn split(all: [u64; EVENTS], has_facts: bool) -> (NodeFacts, [u64; EVENTS]) {
    let (facts, rest) = all.split_at(if has_facts { FACTS.len() } else { 0 });
    let mut events = [0; EVENTS];
    for (event, &own) in events.iter_mut().zip(rest) {
        *event = own;
    }
    let facts = match *facts {
        [loads, stores, load_bytes, store_bytes, taken] => NodeFacts {
            loads,
            stores,
            load_bytes,
            store_bytes,
            taken,
        },
        _ => NodeFacts::default(),
    };
    (facts, events)
}

/// The calling-context tree of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Calls {
    /// Its nodes, parents first.
    pub nodes: Vec<CallNode>,
    /// What is counted beside instructions: see [`CallNode::events`].
    pub events: Vec<Event>,
    /// With a model ([`super::references::References::recent`]): [`CallNode::events`] are references that read, those that
    /// write only, conditional and indirect branches; not of instructions that are told as a whole
    /// ([`super::references::Sink::noted`]).
    pub modelled: bool,
    /// Nodes have facts ([`CallNode::facts`]): references are noted with [`super::references::References::filtered`].
    pub facts: bool,
    /// How often a path was met for which there was no node any more: it is in one of [`CallKind::Other`].
    pub folded: u64,
    /// Calls that were deeper than what is kept of a stack: they count to their callers.
    pub too_deep: u64,
    /// How often threads began to collect (toggled functions, addresses, requests).
    pub entered: u64,
    /// What the threads' clocks counted, by slot: what the nodes' own costs must sum to …
    counted: HashMap<u32, u64>,
    /// … and the nodes' facts and events, one behind the other.
    counted_events: HashMap<u32, [u64; EVENTS]>,
    /// Threads whose nodes do not sum to that: slot, sum, count.
    wrong: Vec<(u32, u64, u64)>,
}

impl Calls {
    /// Threads whose own costs do not sum to what was counted, of one event at least: slot, sum, count. None, unless the program wrote
    /// into the engine's memory. (Of threads that did not come to their own end the node that they were in has what is left, so
    /// that they do sum to it.)
    pub fn discrepancies(&self) -> &[(u32, u64, u64)] {
        &self.wrong
    }

    /// See there.
    fn find_discrepancies(&mut self) {
        let mut sums: HashMap<u32, (u64, [u64; EVENTS])> = HashMap::new();
        for node in &self.nodes {
            let (own, events) = sums.entry(node.slot).or_default();
            *own = own.wrapping_add(node.own);
            *events = sum(*events, node.events);
        }
        for (&slot, &counted) in &self.counted {
            let (own, events) = sums.get(&slot).copied().unwrap_or_default();
            let counted_events = self.counted_events.get(&slot);
            let counted_events = counted_events.copied().unwrap_or([0; EVENTS]);
            let pairs = events.into_iter().zip(counted_events);
            let mut pairs = std::iter::once((own, counted)).chain(pairs);
            if let Some((sum, counted)) = pairs.find(|(sum, counted)| sum != counted) {
                self.wrong.push((slot, sum, counted));
            }
        }
        self.wrong.sort_unstable();
    }

    /// What a thread's clocks counted of [`Calls::events`].
    pub fn counted_events(&self, slot: u32) -> [u64; EVENTS] {
        let counted = self.counted_events.get(&slot);
        split(counted.copied().unwrap_or([0; EVENTS]), self.facts).1
    }

    /// What threads executed without being collected, by slot.
    pub fn not_collected(&self) -> HashMap<u32, u64> {
        let mut off: Vec<bool> = Vec::with_capacity(self.nodes.len());
        let mut sums: HashMap<u32, u64> = HashMap::new();
        for node in &self.nodes {
            let above = node.parent.and_then(|parent| off.get(parent as usize));
            let is_off = node.kind == CallKind::Off || above.copied().unwrap_or(false);
            off.push(is_off);
            if is_off {
                let sum = sums.entry(node.slot).or_default();
                *sum = sum.wrapping_add(node.own);
            }
        }
        sums
    }

    /// What a thread executed, by the tree's own count.
    pub fn counted(&self, slot: u32) -> Option<u64> {
        self.counted.get(&slot).copied()
    }
}

fn sum(mut sums: [u64; EVENTS], more: [u64; EVENTS]) -> [u64; EVENTS] {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(more);
    }
    sums
}

/// Where a slot's nodes are in the program's memory.
fn address(offset: u64) -> u64 {
    match offset {
        near if near < TOTALS_NEAR => TOTALS_BASE + near + FIRST,
        far => TOTALS_FAR + far + FIRST,
    }
}

/// Costs of a node: instructions, and events.
const COSTS: usize = 1 + EVENTS;

/// Where a thread is.
struct Within {
    slot: u32,
    /// Address of the node.
    node: u64,
    counted: [u64; COSTS],
    /// It came to its own end: else it was killed, or goes on while this is read.
    ended: bool,
}

/// What the nodes of a slot have, as they are read.
#[derive(Default)]
struct Given {
    sums: [u64; COSTS],
    /// Below 0, as what was counted before they were entered is taken away: cost, index of the node.
    below: Vec<(usize, u32)>,
}

fn cost_of(node: &mut CallNode, cost: usize) -> &mut u64 {
    match cost
        .checked_sub(1)
        .and_then(|event| node.events.get_mut(event))
    {
        Some(event) => event,
        None => &mut node.own,
    }
}

/// Adds what the thread counted to the node that it is in: what its nodes have sums to 0 until then. What it counted.
fn at_its_end(nodes: &mut [CallNode], thread: &Within, node: Option<u32>) -> [u64; COSTS] {
    if let Some(node) = node.and_then(|node| nodes.get_mut(node as usize)) {
        for (cost, counted) in thread.counted.into_iter().enumerate() {
            let own = cost_of(node, cost);
            *own = own.wrapping_add(counted);
        }
    }
    thread.counted
}

/// The same for a thread that was killed, which may have been between two nodes, of which the first has its share and the
/// second not been charged yet (`call_tree::go_to`); and for one that goes on, whose nodes were not all read at one moment.
/// What others have is theirs, and the rest the node's that the thread is in; so the sum is what it counted, or what
/// nodes were given already where that is more. Of each cost for itself.
fn on_its_way(
    nodes: &mut [CallNode],
    thread: &Within,
    node: Option<u32>,
    given: &Given,
) -> [u64; COSTS] {
    let mut counted = thread.counted;
    for (cost, (counted, sum)) in counted.iter_mut().zip(given.sums).enumerate() {
        let mut others = sum;
        let mut last = None;
        for &(_, index) in given.below.iter().filter(|below| below.0 == cost) {
            if let Some(node) = nodes.get_mut(index as usize) {
                let own = std::mem::take(cost_of(node, cost));
                others = others.wrapping_sub(own);
            }
            if last.is_none() || Some(index) == node {
                last = Some(index);
            }
        }
        *counted = others.max(*counted);
        let rest = counted.wrapping_sub(others);
        let to = last.or(node).and_then(|to| nodes.get_mut(to as usize));
        match to {
            Some(to) => {
                let own = cost_of(to, cost);
                *own = own.wrapping_add(rest);
            }
            None => *counted = others,
        }
    }
    counted
}

pub(super) struct Reader {
    /// Bytes of a node.
    stride: u64,
    /// Most nodes of a slot.
    most: u32,
    calls: Calls,
    /// Index of the nodes by their addresses: first address, first index, number.
    places: Vec<(u64, u32, u32)>,
    threads: Vec<Within>,
}

impl Reader {
    pub(super) fn new(shared: &Shared) -> Self {
        let tree = &shared.header().tree;
        Self {
            stride: tree.stride(),
            most: tree.nodes_of_slot(),
            calls: Calls::default(),
            places: Vec::new(),
            threads: Vec::new(),
        }
    }

    fn number(&self, node: u64) -> Option<u32> {
        self.places.iter().find_map(|&(first, index, count)| {
            let at = node.checked_sub(first)? / self.stride;
            u32::try_from(at)
                .ok()
                .filter(|&at| at < count)
                .map(|at| index + at)
        })
    }

    /// A slot without a thread: nodes may be in it.
    pub(super) fn nodes(&mut self, shared: &Shared, slot: u32, page: &[u8]) {
        let at = offset_of!(Context, calls) + offset_of!(Thread, used);
        let used = u32::from_le_bytes(field(page, at)).min(self.most);
        let words = used as usize * (self.stride / 8) as usize;
        if used == 0 || slot >= MAX_SLOTS {
            return;
        }
        let Ok(words) = shared.words(slot, FIRST, words) else {
            return;
        };
        let first = self.calls.nodes.len() as u32;
        self.places
            .push((address(shared.offset(slot)), first, used));
        for node in words.chunks_exact((self.stride / 8) as usize) {
            let word = |at: usize| node.get(at / 8).copied().unwrap_or(0);
            let last = word(offset_of!(Node, slot));
            let kind = match (last >> 32) as u32 {
                kind::THREAD => CallKind::Thread,
                kind::SIGNAL => CallKind::Signal,
                kind::OTHER => CallKind::Other,
                kind::OFF => CallKind::Off,
                kind::PART => CallKind::Part,
                _ => CallKind::Function,
            };
            let own = self.calls.nodes.len() as u32;
            let parent = self.number(word(offset_of!(Node, parent)));
            self.calls.nodes.push(CallNode {
                address: address(shared.offset(slot)) + u64::from(own - first) * self.stride,
                parent: parent.filter(|&parent| parent < own),
                kind,
                function: word(offset_of!(Node, function)),
                site: word(offset_of!(Node, site)),
                slot: last as u32,
                calls: word(offset_of!(Node, calls)),
                own: word(offset_of!(Node, own)),
                events: std::array::from_fn(|event| word(size_of::<Node>() + 8 * event)),
                facts: NodeFacts::default(),
            });
        }
    }

    /// A thread's slot.
    pub(super) fn thread(&mut self, slot: u32, page: &[u8], ended: bool) {
        let word = |at: usize| u64::from_le_bytes(field(page, offset_of!(Context, calls) + at));
        let count = u64::from_le_bytes(field(page, offset_of!(Context, count)));
        let at = offset_of!(Context, calls) + offset_of!(Thread, lost);
        self.calls.too_deep += u64::from(u32::from_le_bytes(field(page, at)));
        let at = offset_of!(Context, region) + offset_of!(crate::regions::Region, entered);
        let entered = u64::from_le_bytes(field(page, at));
        self.calls.entered = self.calls.entered.saturating_add(entered);
        let event = |event: usize| word(offset_of!(Thread, events) + 8 * event);
        let counted = std::array::from_fn(|cost| cost.checked_sub(1).map_or(count, event));
        self.threads.push(Within {
            slot,
            node: word(offset_of!(Thread, node)),
            counted,
            ended,
        });
    }

    /// What threads have executed since they entered the nodes that they are in is still to be added.
    fn complete(&mut self) {
        let mut given: HashMap<u32, Given> = HashMap::new();
        for (index, node) in (0u32..).zip(&mut self.calls.nodes) {
            let given = given.entry(node.slot).or_default();
            for (cost, sum) in given.sums.iter_mut().enumerate() {
                let own = *cost_of(node, cost);
                *sum = sum.wrapping_add(own);
                if own.cast_signed() < 0 {
                    given.below.push((cost, index));
                }
            }
        }
        let nothing = Given::default();
        for thread in std::mem::take(&mut self.threads) {
            let given = given.get(&thread.slot).unwrap_or(&nothing);
            let node = self.number(thread.node);
            let nodes = &mut self.calls.nodes;
            let counted = match thread.ended {
                true => at_its_end(nodes, &thread, node),
                false => on_its_way(nodes, &thread, node, given),
            };
            let (own, events) = counted.split_first().unwrap_or((&0, &[]));
            self.calls.counted.insert(thread.slot, *own);
            let events = events.try_into().unwrap_or([0; EVENTS]);
            self.calls.counted_events.insert(thread.slot, events);
        }
    }

    pub(super) fn finish(mut self, shared: &Shared) -> Calls {
        self.complete();
        self.calls.find_discrepancies();
        let tree = &shared.header().tree;
        self.calls.facts = tree.has_facts();
        for node in &mut self.calls.nodes {
            (node.facts, node.events) = split(node.events, self.calls.facts);
        }
        let first = if self.calls.facts { FACTS.len() } else { 0 };
        let events = tree
            .events
            .iter()
            .skip(first)
            .filter(|&&number| number != 0);
        let events: Vec<_> = events
            .map(|&number| Event::ALL.get(usize::from(number)))
            .collect();
        // (Others are references, as a model has them.)
        self.calls.modelled = events.contains(&None);
        self.calls.events = match self.calls.modelled {
            true => Vec::new(),
            false => events.into_iter().flatten().copied().collect(),
        };
        self.calls.folded = tree.folded.load(std::sync::atomic::Ordering::Acquire);
        self.calls
    }
}
