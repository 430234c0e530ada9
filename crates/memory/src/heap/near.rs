//! What one operand of an instruction used last: most references are to what it used before.

use super::Heap;
use crate::{Kind, LINE, PAGE};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who uses memory, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The thread's time …
    pub time: u64,
    /// … and a number of its own.
    pub thread: u32,
}

/// A number that is new whenever blocks, or who is looked at and when, may be others: no two heaps have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    number: u64,
    when: Moment,
}

impl Stamp {
    /// Something is otherwise.
    pub(super) fn renew(&mut self) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.number = LAST.fetch_add(1, Relaxed) + 1;
    }
}

/// Bytes whose use by an operand is known already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Near {
    from: u64,
    to: u64,
    stamp: u64,
}

impl Heap {
    /// [`touch`](Self::touch) by an operand that loads, or stores, always, and remembers where it did.
    #[inline]
    pub fn touch_near(
        &mut self,
        near: &mut Near,
        (address, bytes): (u64, u64),
        kind: Kind,
        when: Moment,
    ) {
        if self.stamp.when != when {
            self.stamp.when = when;
            self.stamp.renew();
        }
        let known = near.stamp == self.stamp.number
            && near.from <= address
            && address.wrapping_add(bytes) <= near.to;
        if !known {
            self.touch(address, bytes, kind, when);
            self.remember(near, address, bytes, when);
        }
    }

    /// What else is known with a reference: in its block the rest of its line, and where there is no block its page.
    #[inline(never)]
    fn remember(&mut self, near: &mut Near, address: u64, bytes: u64, when: Moment) {
        let page = address - address % PAGE;
        let line = address - address % LINE;
        let (from, to) = match self.page(address) {
            None => (page, page.saturating_add(PAGE)),
            Some(known) => match known.find((address % PAGE) as u16, when) {
                Some(part) => (
                    line.max(page + u64::from(part.start)),
                    (line + LINE).min(page + u64::from(part.end)),
                ),
                None => (0, 0),
            },
        };
        // What goes beyond is looked at as a whole.
        let inside = from <= address && address.saturating_add(bytes) <= to;
        *near = match inside {
            true => Near {
                from,
                to,
                stamp: self.stamp.number,
            },
            false => Near::default(),
        };
    }
}
