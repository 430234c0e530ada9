//! Panics of the libraries that read debug information: outside data may be damaged in ways that they do not expect. What
//! panicked gives no answer, and says nothing.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The result; `None` where it panicked. The caller throws away what was being changed.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_answer_and_later_ones_are_heard() {
        let nothing: Option<u32> = None;
        assert_eq!(guarded(|| nothing.iter().sum::<u32>() + 1), Some(1));
        assert_eq!(guarded(|| -> u32 { panic!("damaged") }), None);
        assert!(!QUIET.get());
    }
}
