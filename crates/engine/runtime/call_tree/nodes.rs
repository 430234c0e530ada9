//! The nodes of a process: found by caller, function and site, or made.

use super::stacks::Stacks;
use crate::calls::{FIRST, Node, kind as node_kind};
use crate::layout::state as slot_state;
use crate::slots::{self, slot};
use crate::{functions, own_memory};
use core::sync::atomic::Ordering::*;

/// What bounds a node.
#[derive(Clone, Copy)]
pub enum Room {
    /// Paths, as many as there may be.
    Paths,
    /// Those for what is folded.
    Others,
    /// Nothing: there are few.
    Always,
}

/// Where no call returns to: tells these from functions.
const SITE_OTHER: u64 = 3;

/// How far up another one's place for what is folded is looked for.
const LEVELS: u32 = 64;

/// All nodes of the process by parent, function and site: an open hash table of their addresses, with bits of the hash
/// above them, so that of a large tree hardly any node is looked at that is not the one wanted.
pub struct Index {
    places: *mut u64,
    bits: u32,
    used: usize,
    /// The slot whose nodes are given out.
    slot: u32,
    /// What threads left behind.
    pub stacks: Stacks,
}

/// The bits of a place that are a node's address.
const ADDRESS: u64 = (1 << 48) - 1;

fn mixed(parent: u64, function: u64, site: u64) -> u64 {
    let mixture = (parent >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ function;
    let mixture = mixture.wrapping_mul(0xc2b2_ae3d_27d4_eb4f) ^ site;
    mixture.wrapping_mul(0x1656_67b1_9e37_79f9)
}

impl Index {
    pub const fn new() -> Self {
        Self {
            places: core::ptr::null_mut(),
            bits: 0,
            used: 0,
            slot: 0,
            stacks: Stacks::new(),
        }
    }

    /// In a forked child: the nodes so far are its parent's.
    pub fn start_afresh(&mut self) {
        self.slot = 0;
    }

    pub fn grow(&mut self, bits: u32) {
        let (old, old_bits) = (self.places, self.bits);
        self.places = own_memory::reserve(8 << bits) as *mut u64;
        self.bits = bits;
        if old.is_null() {
            return;
        }
        for at in 0..1usize << old_bits {
            // SAFETY: inside the old table; what is in it is a node.
            unsafe {
                let node = *old.add(at) & ADDRESS;
                if node != 0 {
                    let known = *(node as *const Node);
                    let (_, free, marked) = self.find(known.parent, known.function, known.site);
                    *free = node | marked;
                }
            }
        }
        own_memory::give_back(old as u64, 8 << old_bits);
    }

    /// The node, or 0, its place, and what stands there beside its address.
    fn find(&mut self, parent: u64, function: u64, site: u64) -> (u64, *mut u64, u64) {
        let mask = (1usize << self.bits) - 1;
        let hash = mixed(parent, function, site);
        let marked = hash << 28 & !ADDRESS;
        let mut at = (hash >> (64 - self.bits)) as usize;
        loop {
            // SAFETY: masked; the table is never full, so this ends.
            unsafe {
                let place = self.places.add(at & mask);
                if *place == 0 {
                    return (0, place, marked);
                }
                if *place & !ADDRESS == marked {
                    let node = *place & ADDRESS;
                    let known = &*(node as *const Node);
                    if (known.parent, known.function, known.site) == (parent, function, site) {
                        return (node, place, marked);
                    }
                }
            }
            at += 1;
        }
    }

    /// Memory for a node. `None`: there are as many as there may be.
    pub fn make(&mut self, node: Node, room: Room) -> Option<u64> {
        let header = slots::header();
        let tree = &header.tree;
        let (made, most) = match room {
            Room::Paths => (Some(&tree.nodes), tree.limit - tree.most_others()),
            Room::Others => (Some(&tree.others), tree.most_others()),
            Room::Always => (None, 0),
        };
        if let Some(made) = made {
            // Looked at first: refused ones without number must not wrap around.
            if made.load(Relaxed) >= most || made.fetch_add(1, Relaxed) >= most {
                return None;
            }
        }
        let most = header.tree.nodes_of_slot();
        let mut used = match self.slot {
            0 => most,
            number => slot(number).calls_used().load(Relaxed),
        };
        if used >= most {
            self.slot = slots::new_slot();
            slot(self.slot).state().store(slot_state::LOG, Release);
            used = 0;
        }
        let at = slots::context_at(self.slot) + FIRST + u64::from(used) * header.tree.stride();
        // SAFETY: inside the region of a slot that is ours; nobody knows the node yet.
        unsafe { (at as *mut Node).write(node) };
        slot(self.slot).calls_used().store(used + 1, Release);
        Some(at)
    }

    /// The node for a function below another node, made if need be. `None`: there are too many.
    pub fn child(
        &mut self,
        parent: u64,
        function: u64,
        site: u64,
        kind: u32,
        room: Room,
    ) -> Option<u64> {
        let (known, free, marked) = self.find(parent, function, site);
        if known != 0 {
            return Some(known);
        }
        // SAFETY: a node.
        let slot = unsafe { (*(parent as *const Node)).slot };
        let found = functions::find(function);
        let kind = match kind {
            node_kind::CALL if found.stub => node_kind::STUB,
            kind => kind,
        };
        let node = Node {
            parent,
            function,
            start: found.start,
            len: found.len,
            site,
            slot,
            kind,
            ..Node::default()
        };
        let made = self.make(node, room)?;
        // SAFETY: a place of the table.
        unsafe { *free = made | marked };
        self.used += 1;
        if self.used * 4 > 3 << self.bits {
            self.grow(self.bits + 1);
        }
        Some(made)
    }

    /// The node for paths below `parent` that have none: its own, that of one above it, or of the root.
    pub fn other(&mut self, parent: u64, root: u64) -> u64 {
        slots::header().tree.folded.fetch_add(1, Relaxed);
        let kind = node_kind::OTHER;
        if let Some(own) = self.child(parent, 0, SITE_OTHER, kind, Room::Others) {
            return own;
        }
        let mut at = parent;
        for _ in 0..LEVELS {
            if at == root || at == 0 {
                break;
            }
            // SAFETY: a node.
            at = unsafe { (*(at as *const Node)).parent };
            let (known, ..) = self.find(at, 0, SITE_OTHER);
            if known != 0 {
                return known;
            }
        }
        let last = self.child(root, 0, SITE_OTHER, kind, Room::Always);
        last.unwrap_or(root)
    }
}

const _: () = assert!(crate::calls::REGION == crate::layout::REGION);
