//! What a program did out of the engine's sight: the run's count is not called exact then, and its result says what the
//! first of it was.

use crate::slots;

/// Once more; `what`: what it was.
pub fn note(what: &[u8]) {
    slots::header().note_unfollowed(what);
}
