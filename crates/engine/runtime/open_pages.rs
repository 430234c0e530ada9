//! Watched pages that a system call is about to write.

use crate::engine::{self, Engine};
use crate::pages::watched;
use core::sync::atomic::Ordering::*;

/// The kernel is about to write where the arguments of a call point: it could not write watched pages.
pub fn before(number: u64, a: [u64; 6]) {
    if watched().load(Relaxed) != 0 {
        let mut engine = engine::lock();
        let Engine { cache, pages, .. } = &mut *engine;
        pages.open_for(cache, number, a);
    }
}
