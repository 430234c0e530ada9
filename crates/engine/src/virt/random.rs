//! The 16 random bytes that a program finds at its start (`AT_RANDOM`).

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use crate::shown::mixed;

/// Which bytes each image of a run gets instead of the kernel's.
#[derive(Default)]
pub(super) struct RandomBytes {
    of_the_run: Option<[u8; 16]>,
    /// The programs of the run begin in one order.
    ordered: bool,
    /// The process that the run began with.
    first: AtomicI32,
    /// How many images had bytes of their own.
    others: AtomicU64,
}

impl RandomBytes {
    pub fn new(of_the_run: Option<[u8; 16]>, ordered: bool) -> Self {
        Self {
            of_the_run,
            ordered,
            ..Self::default()
        }
    }

    pub fn held(&self) -> bool {
        self.of_the_run.is_some()
    }

    /// Those of the image that begins in this process now. The run's first process has the run's own ones, whatever it
    /// executes. Where the programs of a run begin in one order the others have some of their own: programs take two
    /// processes with the same bytes for one (hash seeds, names of files).
    pub fn next(&self, process: i32) -> Option<[u8; 16]> {
        let bytes = self.of_the_run?;
        let first = self.first.compare_exchange(0, process, Relaxed, Relaxed);
        if !self.ordered || first.is_ok() || first == Err(process) {
            return Some(bytes);
        }
        let number = self.others.fetch_add(1, Relaxed);
        let mask = u128::from(mixed(number)) << 64 | u128::from(mixed(!number));
        Some((u128::from_le_bytes(bytes) ^ mask).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_has_those_of_the_run_and_others_their_own() {
        let bytes = RandomBytes::new(Some([7; 16]), true);
        assert_eq!(bytes.next(10), Some([7; 16]));
        let second = bytes.next(11);
        assert_eq!(bytes.next(10), Some([7; 16]), "executes another program");
        let third = bytes.next(12);
        assert!(second != third && second != Some([7; 16]) && third != Some([7; 16]));
        // The same in the next run.
        let again = RandomBytes::new(Some([7; 16]), true);
        again.next(500);
        assert_eq!([again.next(600), again.next(601)], [second, third]);
    }

    #[test]
    fn all_have_those_of_the_run_where_the_order_may_differ() {
        let bytes = RandomBytes::new(Some([7; 16]), false);
        assert_eq!([bytes.next(10), bytes.next(11)], [Some([7; 16]); 2]);
        assert_eq!(RandomBytes::new(None, true).next(1), None);
    }
}
