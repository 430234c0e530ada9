//! Where a new thread or process begins.

use crate::engine::Engine;
use crate::layout::Context;
use crate::thread_context::prepare;
use crate::{
    blocks_of_heap, cache_file, call_tree, collect, counts, dispatch, engine, filtered, functions,
    known, memory_locks, references, schedule, shadow, signal_calls, slots, write_execute,
};

/// First code of a child that came back from `clone`: see `rt_clone`.
#[unsafe(no_mangle)]
extern "C" fn rt_child(context: *mut Context) {
    // SAFETY: the parent prepared it for us alone.
    let context = unsafe { &mut *context };
    let slot = slots::slot_of(context);
    if context.start[0] != 0 {
        // SAFETY: the parent held both for the fork; its guards lie on a stack that was left.
        unsafe {
            functions::free_in_child();
            call_tree::free_in_child();
            counts::free_in_child();
            engine::free_in_child();
        }
        counts::forked(slot);
        collect::forked();
        references::forked();
        known::forked();
        shadow::forked();
        blocks_of_heap::forked();
        cache_file::forked(slot);
        memory_locks::forget();
        write_execute::forked();
        filtered::forked();
        schedule::memory_begins();
    }
    prepare(context, slot);
    if context.start[0] != 0 {
        let mut engine = engine::lock();
        let Engine { cache, pages, .. } = &mut *engine;
        cache.begins(context, true);
        pages.forked(cache);
    } else {
        // (It is known since before it was made.)
        engine::lock().cache.enters(context);
    }
    call_tree::born(context, context.start[0] != 0);
    if context.start[1] != 0 {
        signal_calls::clear_handlers(context);
    }
    schedule::born(context);
    schedule::begins(context);
    dispatch::resume_at(context);
}
