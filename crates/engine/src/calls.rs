//! The calling-context tree as it lies in the totals file: nodes, each a path of functions, and a thread's shadow of
//! its stack. `core` only: the launcher and the runtime compile this same source.
//!
//! A thread is always in one node. What it executes goes to that node: when a node is left, the thread's count is
//! added to its own cost, when it is entered, taken away. So nothing has to be kept beside, and a thread that is killed
//! is completed from its context: the node it was in, and its count. Between two nodes the first is given its share, then
//! the context says the next one, then that one's is taken away; what the nodes sum to tells how far it came.

use crate::xlate::facts;

/// A path of functions.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Address of the node above; 0: none.
    pub parent: u64,
    /// Where the function was entered; 0: a thread.
    pub function: u64,
    /// The function's first address …
    pub start: u64,
    /// … and its length, as far as known: inside, a jump is no call.
    pub len: u64,
    /// What was executed here, but for what the thread that is in it has not added yet.
    pub own: u64,
    /// How often it was called.
    pub calls: u64,
    /// Where it returns to, if sites are told apart.
    pub site: u64,
    /// Slot of the thread.
    pub slot: u32,
    /// See [`kind`].
    pub kind: u32,
}

/// Values of [`Node::kind`].
pub mod kind {
    /// A thread: above everything it executes.
    pub const THREAD: u32 = 1;
    /// A function that was called, jumped to, or where the thread began.
    pub const CALL: u32 = 2;
    /// A signal handler.
    pub const SIGNAL: u32 = 3;
    /// Paths beyond the bound, below a node.
    pub const OTHER: u32 = 4;
    /// Above what is not collected.
    pub const OFF: u32 = 5;
    /// Above what was executed in a later part of the profile: `function` is how many marks were before.
    pub const PART: u32 = 6;
    /// An entry of a procedure linkage table: below who called it, or jumped to it.
    pub const STUB: u32 = 7;
}

/// A call that has not returned.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The stack pointer in front of the return.
    pub sp: u64,
    /// The caller's node.
    pub node: u64,
    /// Where it returns to; 0: a signal handler.
    pub back: u64,
}

/// Where a slot's nodes, or frames, begin in its region: behind the context.
pub const FIRST: u64 = 0x1_0000;
/// Bytes of the region.
pub const REGION: u64 = 64 << 20;
/// Frames of a slot, the lowest and a few for signals included.
pub const FRAMES: u64 = (REGION - FIRST) / size_of::<Frame>() as u64;
/// Nodes that a process finds at once.
pub const CALL_CACHE: u64 = 65_536;
/// Nodes of a run, unless another bound is given.
pub const MAX_NODES: u32 = 4 << 20;

/// Events that nodes can have beside instructions.
pub const EVENTS: usize = 8;
/// Those of them that most runs do with.
pub const FEW: usize = 4;
/// With facts of its references a node has these first: references that read, that write, their bytes, and branches that
/// were taken.
pub const FACTS: [u8; 5] = [
    facts::READS,
    facts::ALL_WRITES,
    facts::LOAD_BYTES,
    facts::STORE_BYTES,
    facts::TAKEN,
];

/// Fields of the header that are about the tree.
#[repr(C)]
pub struct Tree {
    /// Nodes there can be, [`Tree::most_others`] included …
    pub limit: u32,
    /// … and those made so far: paths …
    pub nodes: core::sync::atomic::AtomicU32,
    /// … and places for what is below them.
    pub others: core::sync::atomic::AtomicU32,
    /// How often there was no room for a path.
    pub folded: core::sync::atomic::AtomicU64,
    /// What is counted beside instructions, as numbers of events; 0: nothing.
    pub events: [u8; EVENTS],
}

impl Tree {
    /// Of all nodes, those kept for [`kind::OTHER`]: what is folded is then below who called it.
    pub fn most_others(&self) -> u32 {
        self.limit / 8
    }

    /// Nodes have events beside instructions.
    pub fn is_wide(&self) -> bool {
        self.events != [0; EVENTS]
    }

    /// They have facts of their references.
    pub fn has_facts(&self) -> bool {
        self.events.starts_with(&FACTS)
    }

    /// They have more than [`FEW`].
    pub fn is_widest(&self) -> bool {
        self.events.iter().skip(FEW).any(|&event| event != 0)
    }

    /// From one node to the next. Behind a wide one are its other events, in the manner of [`Node::own`].
    pub fn stride(&self) -> u64 {
        size_of::<Node>() as u64 * if self.is_wide() { 2 } else { 1 }
    }

    /// Nodes of a slot.
    pub fn nodes_of_slot(&self) -> u32 {
        ((REGION - FIRST) / self.stride()) as u32
    }
}

/// Fields of a context that are about the tree.
#[repr(C)]
pub struct Thread {
    /// The node that the thread is in; 0: there is no tree.
    pub node: u64,
    /// Behind the innermost frame.
    pub top: u64,
    /// Where the room for frames ends.
    pub end: u64,
    /// Nodes found lately: [`CALL_CACHE`] addresses.
    pub cache: u64,
    /// Registers and flags on the way.
    pub spill: [u64; 4],
    /// Where translated code goes on.
    pub resume: u64,
    /// Entries of the runtime.
    pub vector_call: u64,
    /// For returns.
    pub vector_return: u64,
    /// For jumps that may leave their function.
    pub vector_jump: u64,
    /// The thread's topmost node, or the one below it for a part of the profile: above the path that it is on.
    pub root: u64,
    /// The thread's topmost node.
    pub thread: u64,
    /// What `root` is for: 0: what is not collected, else one more than the marks before.
    pub realm: u64,
    /// The node for what is called without being collected, whatever it is; 0: there is none yet.
    pub flat: u64,
    /// The lowest frame.
    pub bottom: u64,
    /// In a slot of nodes: how many there are. Frames that found no room.
    pub used: core::sync::atomic::AtomicU32,
    /// Frames that found no room.
    pub lost: u32,
    /// What was executed so far of [`Tree::events`].
    pub events: [core::sync::atomic::AtomicU64; EVENTS],
}

const _: () = assert!(size_of::<[u64; EVENTS]>() <= size_of::<Node>());
