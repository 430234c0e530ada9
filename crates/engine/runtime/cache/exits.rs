//! What is known of ways out of blocks, and of entries for indirect branches. There are many: each byte counts.

use crate::block::{NONE, Near};
use crate::calls::{EVENTS, FEW};
use crate::xlate::block::{Added, Side, Way};
use crate::xlate::known::LENT;

/// An entry of a block for indirect branches of one sort.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) at: u64,
    pub(super) block: u32,
    /// Next entry of the block, of the bucket.
    pub(super) next: u32,
    pub(super) chain: u32,
    /// Where its way on to the next of its bucket is patched, counted from `at`.
    onward: i16,
    pub(super) way: u8,
    /// It is in its bucket.
    pub(super) published: bool,
}

impl Entry {
    pub(super) fn new(block: u32, way: usize, at: u64, patch: u64, next: u32) -> Self {
        Self {
            at,
            block,
            next,
            chain: NONE,
            onward: patch.wrapping_sub(at) as i16,
            way: way as u8,
            published: false,
        }
    }

    /// Where its way on to the next of its bucket is patched.
    pub(super) fn patch(&self) -> u64 {
        self.at.wrapping_add_signed(i64::from(self.onward))
    }
}

/// What an exit adds that has a side. (Others go through their cold code.)
#[derive(Clone, Copy)]
struct Short {
    offset: u32,
    value: i16,
    clock: i8,
    events: [i8; FEW],
}

impl Short {
    const NONE: Self = Self {
        offset: 0,
        value: 0,
        clock: 0,
        events: [0; FEW],
    };

    /// `None`: it adds more than there is room for.
    fn new(added: &Added) -> Option<Self> {
        Some(Self {
            offset: added.offset,
            value: added.value,
            clock: added.clock,
            events: added.few()?,
        })
    }

    fn whole(self) -> Added {
        let mut events = [0; EVENTS];
        for (event, few) in events.iter_mut().zip(self.events) {
            *event = few.into();
        }
        Added {
            offset: self.offset,
            value: self.value,
            clock: self.clock,
            events,
        }
    }
}

/// A direct exit.
#[derive(Clone, Copy)]
pub struct Exit {
    pub target: u64,
    /// 0: it cannot be linked.
    pub(super) patch: u64,
    stub: Near,
    pub block: u32,
    pub(super) next: u32,
    /// The branch to its correction of the count, if it has one …
    branch: Near,
    /// … where that is …
    cold: Near,
    /// … what that adds …
    added: Short,
    /// … which registers come back …
    lent: [u8; LENT],
    /// … and the flags alive there.
    live: u8,
    /// That branch leads straight to a copy of the correction in front of the target.
    pub(super) direct: bool,
    /// The block that it is linked to, or [`NONE`]: two threads may take it before either sees the link.
    pub(super) to: u32,
}

const _: () = assert!(size_of::<Exit>() <= 56 && size_of::<Entry>() <= 24);

impl Exit {
    pub(super) const NONE: Self = Self {
        target: 0,
        patch: 0,
        stub: Near::NONE,
        block: NONE,
        next: NONE,
        branch: Near::NONE,
        cold: Near::NONE,
        added: Short::NONE,
        lent: [0; LENT],
        live: 0,
        direct: false,
        to: NONE,
    };

    pub(super) fn new(block: u32, target: u64, patch: u64, stub: u64, side: Option<Side>) -> Self {
        let mut exit = Self {
            target,
            patch,
            stub: Near::new(patch, stub),
            block,
            ..Self::NONE
        };
        if let Some(side) = side
            && let Some(added) = Short::new(&side.way.added)
        {
            (exit.branch, exit.cold) = (Near::new(patch, side.branch), Near::new(patch, side.cold));
            (exit.lent, exit.added, exit.live) = (side.way.lent, added, side.way.live);
        }
        exit
    }

    /// Where it leads while it is not linked.
    pub(super) fn stub(&self) -> u64 {
        self.stub.from(self.patch)
    }

    /// The branch to its correction of the count, if it has one.
    pub(super) fn side(&self) -> Option<Side> {
        (self.branch != Near::NONE).then(|| Side {
            branch: self.branch.from(self.patch),
            cold: self.cold.from(self.patch),
            way: Way {
                lent: self.lent,
                added: self.added.whole(),
                live: self.live,
            },
        })
    }

    /// It is gone, and not linked any more.
    pub(super) fn lose(&mut self) {
        (self.patch, self.branch) = (0, Near::NONE);
    }
}
